"""What to search memory for: what the user means now, not only what they typed last."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from agentic_memory.selection.stopwords import word_set
from agentic_memory.selection.words import content_terms, fold

MAX_QUERY_CHARS: Final = 4000
"""Of a longer text the head and the tail are kept: a paste has its question before or after it."""
MAX_TURN_CHARS: Final = 600
"""What one earlier turn may add."""
MAX_TURNS: Final = 3
ENOUGH_TERMS: Final = 3
"""A message with so many subject terms stands by itself, whatever it refers back to."""

_GAP: Final = "\n…\n"

# Said alone, these ask for nothing and refer to nothing.
_SMALL_TALK: Final = word_set(
    """
    hi hello hey hiya yo howdy greetings morning afternoon evening night good day welcome bye goodbye cheers
    thanks thank thx ty tks appreciated much lot great nice cool awesome perfect excellent wonderful lovely amazing
    ok okay k kk fine alright got understood noted lol haha hahaha wow np later see soon there dear everyone
    你好 您好 嗨 哈喽 早上好 早安 下午好 晚上好 晚安 谢谢 谢谢你 多谢 感谢 好的 好 好吧 行 嗯 嗯嗯 哦 哈哈 哈哈哈 再见 拜拜 不客气 没关系
    收到 明白 明白了 知道了 了解 辛苦了 太好了 不错 棒 赞
    こんにちは ありがとう はい 안녕하세요 감사합니다 네 hola gracias bonjour merci danke hallo ciao
    """
)
# Said alone, these go on with what was said before.
_GOING_ON: Final = word_set(
    """
    yes yeah yep yup sure no nope do go ahead on continue proceed next again more another one two three first second
    third last same else really way sounds works let lets right correct exactly agreed try retry run stop wait
    explain elaborate tell show example examples details detail summarize shorter longer redo undo change instead like
    是 是的 对 对的 不 不是 可以 继续 接着 然后 下一个 再来 做吧 开始吧 来吧 详细 具体 说说 再说 为什么 怎么 怎么办 还有 还有呢 换一个 第一个 第二个 没问题
    """
)
_FILLER: Final = word_set(
    "you so very a the for to and that it is i am m s all again please too 了 啊 呀 哦 的 吧 呢 你 您 很 非常 真"
)
_POINTS_BACK: Final = re.compile(
    r"\b(?:it|its|that|this|those|these|they|them|he|him|his|she|her|there|then|one|ones|same|too|instead|above|"
    r"former|latter)\b|它|他|她|那个|这个|那些|这些|上面|刚才|之前说|前面|第[一二三]个",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Query:
    """What to search for.

    Attributes:
        text: At most ``MAX_QUERY_CHARS`` characters or so, the newest words first.
        small_talk: Nothing is asked for ("hi", "thanks", "好的", an emoji, silence): no search is worth its time.
    """

    text: str
    small_talk: bool


def build_query(new: Sequence[str], history: Sequence[str] = ()) -> Query:
    """Build the query of one reply.

    A message that only goes on ("yes, do it") or points back ("and for her?") takes the last turns along, as far as
    it says too little by itself.

    Args:
        new: Texts of the new user messages, oldest first.
        history: Texts of the turns before, of user and assistant, oldest first.
    """
    said = [text for text in (text.strip() for text in new) if text]
    text = "\n".join(reversed([_cut(text, MAX_QUERY_CHARS) for text in said[-MAX_TURNS:]]))
    text = _cut(text, MAX_QUERY_CHARS)
    words = _plain_words(text) if len(text) <= MAX_TURN_CHARS else None
    if words is not None and all(word in _SMALL_TALK or word in _FILLER for word in words):
        return Query(text, small_talk=True)
    if words is None or not _needs_context(text, words):
        return Query(text, small_talk=False)
    context = _recent(history)
    if not context:
        return Query(text, small_talk=not _subjects(text, words))
    return Query("\n".join([text, *context]), small_talk=False)


def _needs_context(text: str, words: Sequence[str]) -> bool:
    subjects = _subjects(text, words)
    if not subjects:
        return True
    return len(subjects) < ENOUGH_TERMS and _POINTS_BACK.search(text) is not None


def _subjects(text: str, words: Sequence[str]) -> list[str]:
    """Return the terms that name something, leaving out words that only go on."""
    if all(word in _GOING_ON or word in _SMALL_TALK or word in _FILLER for word in words):
        return []
    idle = {term for word in words if word in _GOING_ON or word in _SMALL_TALK for term in content_terms(word)}
    return [term for term in content_terms(text) if term not in idle]


def _plain_words(text: str) -> list[str]:
    return re.findall(r"\w+", fold(text).casefold())


def _recent(history: Sequence[str]) -> list[str]:
    """Return the last turns, newest first, up to the one that brings enough subjects."""
    taken: list[str] = []
    found: set[str] = set()
    for turn in reversed(history):
        text = _cut(turn.strip(), MAX_TURN_CHARS)
        if not text:
            continue
        taken.append(text)
        found.update(content_terms(text))
        if len(taken) == MAX_TURNS or (len(taken) > 1 and len(found) >= ENOUGH_TERMS):
            break
    return taken


def _cut(text: str, size: int) -> str:
    """Return ``text``, or its head and tail when it is longer than ``size``, cut between words where there are any."""
    if len(text) <= size:
        return text
    half = (size - len(_GAP)) // 2
    head, tail = text[:half], text[-half:]
    return _end_at_space(head) + _GAP + _end_at_space(tail[::-1])[::-1]


def _end_at_space(text: str) -> str:
    # Only a short way back: unspaced scripts and base64 have no space to find.
    for at in range(len(text) - 1, max(len(text) - 40, 0), -1):
        if text[at].isspace():
            return text[:at]
    return text
