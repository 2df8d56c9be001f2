"""What a description is for: to tell when to read the file. One that only names a topic does not."""

import re
from typing import Final

MAX_TOPIC_WORDS: Final = 3
MAX_TOPIC_CHARACTERS: Final = 5
"""Of a script without blanks between words."""

# A word that begins a situation, a question or a rule; with one of them even two words say something.
_SITUATION: Final = re.compile(
    r"\b(?:when|whenever|before|after|while|during|if|unless|until|since|for|to|in case|on|at|by|with|without|from"
    r"|how|what|which|who|whom|whose|where|why|whether|as|about"
    r"|in|is|are|was|were|has|have|had|do|does|did|can|must|should|may|not|no|never|always|only"
    r"|use|avoid|keep|prefer|ask|reply|answer|write|call|run|see|make|give|put|add"
    r"|\w+ing|\w+ed)\b|\d"
    r"|[时当前后若如何谁哪吗不没勿别禁要须应该能可会有是在用去来给让被把每只已将从到为因才再请先问想爱喜怎么什差一二三四五六七八九十百千万]",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")
_CJK: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_PUNCTUATION: Final = re.compile(r"[\W_]+")


def names_only_a_topic(description: str, *, name: str) -> bool:
    """Tell whether a description is no more than a title: its own name again, or a word or three without any verb.

    Meant to be right when it says so, not to find every bad one.
    """
    if not description:
        return False
    if _bare(description) == _bare(name):
        return True
    if _SITUATION.search(description) or re.search(r"[,;:，；：、。]", description):
        return False
    characters = len(_CJK.findall(description))
    if characters:
        return characters <= MAX_TOPIC_CHARACTERS
    # "Likes tea": a verb in the third person; plurals look alike, so two words of which the first ends in s pass.
    words = _WORD.findall(description)
    return len(words) <= MAX_TOPIC_WORDS and not any(word.endswith("s") for word in words[:-1])


def _bare(text: str) -> str:
    return _PUNCTUATION.sub("", text).casefold()
