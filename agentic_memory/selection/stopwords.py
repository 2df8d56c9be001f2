"""Words that carry no subject: dropped from a query, never from the index."""

import re
from typing import Final


def word_set(text: str) -> frozenset[str]:
    """Return the words of a list that is written as text."""
    return frozenset(text.split())


ENGLISH: Final = word_set(
    """
    a about after again all also am an and any are aren as at be because been before being both but by can cannot could
    couldn d did didn do does doesn doing don down during each few for from further had hadn has hasn have haven having
    he her here hers herself him himself his how i if in into is isn it its itself just ll m me might more most must my
    myself no nor not of off on once only or other our ours ourselves out over own please re s same shall she should
    shouldn so some such t than that the their theirs them themselves then there these they this those through to too
    under until up us ve very was wasn we were weren what when where which while who whom whose why will with won would
    wouldn you your yours yourself yourselves
    """
)

# Longest first, so that 为什么 is not read as 为 and 什么. Only words that cannot well be part of a name or a subject.
_CHINESE: Final = word_set(
    "为什么 怎么样 是不是 有没有 能不能 可不可以 什么样 什么时候 哪一个 告诉我 什么 怎么 怎样 如何 哪些 哪个 哪里 哪儿 多少 是否 可以 "
    "请问 一下 这个 那个 这些 那些 我们 你们 他们 她们 它们 咱们 应该 时候 还是 或者 以及 并且 而且 但是 因为 所以 如果 的话 知道 "
    "的 了 吗 呢 吧 啊 呀 么 是 在 我 你 您 他 她 它 们 和 与 及 或 被 把 让 给 对 就 都 也 还 很 请 谁 哪 几 这 那 帮 有 没 不 要 会 能 该 用"
)
_JAPANESE: Final = word_set("です ます ください でした ました ですか ますか")
_FUNCTION_RUN: Final = re.compile("|".join(sorted([*_CHINESE, *_JAPANESE], key=len, reverse=True)))


def split_function_words(run: str) -> list[str]:
    """Return the parts of an unspaced run that lie between function words."""
    return [part for part in _FUNCTION_RUN.split(run) if part]
