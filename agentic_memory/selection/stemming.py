"""A light English stemmer: inflection goes, derivation stays.

It only has to send the forms of one word to one term, and far-off words to different ones. Stripping derivation as
well (Porter) was measured and found no more on the same questions.
"""

from typing import Final

_MIN_STEM: Final = 3
_VOWELS: Final = frozenset("aeiouy")
_IRREGULAR: Final = {
    form: base
    for base, forms in {
        "be": "been",
        "become": "became",
        "begin": "began begun beginning",
        "break": "broke broken",
        "bring": "brought",
        "build": "built",
        "buy": "bought",
        "catch": "caught",
        "child": "children",
        "choose": "chose chosen",
        "come": "came",
        "die": "dying",
        "draw": "drew drawn",
        "drink": "drank drunk",
        "drive": "drove driven",
        "eat": "ate eaten",
        "fall": "fell fallen",
        "feel": "felt",
        "find": "found",
        "fly": "flew flown",
        "foot": "feet",
        "forget": "forgot forgotten",
        "get": "got gotten",
        "give": "gave given",
        "go": "went gone",
        "grow": "grew grown",
        "hear": "heard",
        "hold": "held",
        "keep": "kept",
        "know": "knew known",
        "leave": "left",
        "lose": "lost",
        "make": "made",
        "man": "men",
        "meet": "met",
        "mouse": "mice",
        "pay": "paid",
        "ride": "rode ridden",
        "run": "ran",
        "say": "said",
        "see": "saw seen",
        "sell": "sold",
        "send": "sent",
        "sing": "sang sung",
        "sleep": "slept",
        "speak": "spoke spoken",
        "spend": "spent",
        "swim": "swam swum",
        "take": "took taken",
        "teach": "taught",
        "tell": "told",
        "think": "thought",
        "tooth": "teeth",
        "win": "won",
        "wake": "woke woken",
        "wear": "wore worn",
        "wife": "wives",
        "woman": "women",
        "write": "wrote written",
    }.items()
    for form in forms.split()
}
_UNINFLECTED: Final = frozenset(
    ["ceiling", "evening", "lens", "news", "physics", "series", "sibling", "species", "wedding"]
)


def stem(word: str) -> str:
    """Return the term for a lower-case word; other scripts and words with digits come back as they are."""
    if word in _IRREGULAR:
        return stem(_IRREGULAR[word])
    if len(word) <= _MIN_STEM or word in _UNINFLECTED or not word.isascii() or not word.isalpha():
        return word
    return _close(_strip_verb(_strip_plural(word)))


def _strip_plural(word: str) -> str:
    if not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y" if len(word) > 4 else word[:-1]
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    return word[:-1]


def _strip_verb(word: str) -> str:
    if word.endswith("eed"):
        return word
    for ending in ("ing", "ed"):
        base = word[: -len(ending)]
        if word.endswith(ending) and len(base) >= _MIN_STEM and not _VOWELS.isdisjoint(base):
            if word.endswith("ied"):
                return base[:-1] + "y"
            if base[-1] == base[-2] and base[-1] not in "aeiouls":
                return base[:-1]
            return base
    return word


def _close(word: str) -> str:
    # "hiking" leaves "hik" and "hike" keeps its e: dropping the e from both makes one term of them.
    if len(word) > _MIN_STEM and word.endswith("e"):
        return word[:-1]
    if len(word) > _MIN_STEM and word.endswith("y") and word[-2] not in _VOWELS:
        return word[:-1] + "i"
    return word
