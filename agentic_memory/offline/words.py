"""Words for the offline model: which terms a text holds, and which everyday subject it is about.

Everything here is lexical and small on purpose. English words are stemmed lightly; scripts without spaces become
pairs of neighbouring characters. A dozen everyday subjects carry words of both languages, so that a Chinese
question finds an English note.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import log
from typing import Final, Literal

Language = Literal["en", "zh"]

_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_UNSPACED = f"{_HAN}\u3040-\u30ff\uac00-\ud7af"
_TOKEN = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+(?:['’][^\W_{_UNSPACED}]+)*")
_HAN_CHARACTER = re.compile(rf"[{_HAN}]")
_UNSPACED_RUN = re.compile(rf"[{_UNSPACED}]")
_SPACED_WORD = re.compile(rf"[^\W\d_{_UNSPACED}]+")

_STOPWORD_LIST: Final = (
    "a about after again all also am an and any anything are as at be been before being but by can could did do does "
    "doing done down every everything for from had has have he her here him his how i if in into is it its just know "
    "known let like likes make me memory memories mention mentioned mine more most my myself no nor not now of off on "
    "one only or other our ours out over own please recall remember remind said say saying she should so some "
    "something still such tell than that the their them then there these they thing things this those to told too "
    "under until up us user very was we were what when where which while who whom whose why will with would yes you "
    "your yours yourself i'm i've i'd i'll it's that's what's who's where's don't didn't doesn't"
)
_STOPWORDS: Final = frozenset(_STOPWORD_LIST.split())
_EMPTY_PAIR_LIST: Final = (
    "我的 你的 他的 我是 你是 是什 什么 么吗 么样 怎么 怎样 还记 记得 得我 你还 知道 道我 关于 记住 请记 请问 一下 哪里 在哪 "
    "多少 为什 是否 有没 没有 我在 我们 你们 的是 了吗 的吗 告诉 诉我 忘记 忘掉 忘了 记忆 你知 哪些 些什 我有 我喜 用户"
)
_EMPTY_PAIRS: Final = frozenset(_EMPTY_PAIR_LIST.split())
_SUFFIXES: Final = ("ences", "ence", "ations", "ation", "ings", "ing", "ies", "ied", "ed", "es", "ly", "s", "e")


@dataclass(frozen=True, slots=True)
class Subject:
    """An everyday subject people tell an assistant about.

    Attributes:
        slug: What files about it are called.
        english, chinese: Its label in either language.
        terms: The stemmed words and character pairs that speak of it.
    """

    slug: str
    english: str
    chinese: str
    terms: frozenset[str]


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """Return ``word`` in lower case without its commonest English ending; what is left keeps three letters or more."""
    word = word.lower().replace("’", "'").removesuffix("'s")
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3 and not word.endswith("ss"):
            return word.removesuffix(suffix) + ("y" if suffix in {"ies", "ied"} else "")
    return word


def terms_of(text: str) -> frozenset[str]:
    """Return the terms of ``text``: stems of its words, and character pairs where words are not spaced."""
    found: set[str] = set()
    for match in _TOKEN.finditer(text):
        token = match.group()
        if not _UNSPACED_RUN.match(token):
            if token.lower().replace("’", "'") not in _STOPWORDS:
                found.add(stem(token))
        elif len(token) > 1:
            found.update(pair for pair in map("".join, pairwise(token)) if pair not in _EMPTY_PAIRS)
    return frozenset(found)


def language_of(text: str) -> Language:
    """Return the language to answer in: Chinese when Han characters outnumber the words of spaced scripts."""
    return "zh" if len(_HAN_CHARACTER.findall(text)) > len(_SPACED_WORD.findall(text)) else "en"


def _subject(slug: str, english: str, chinese: str, words: str) -> Subject:
    return Subject(slug, english, chinese, terms_of(f"{english} {words}") | terms_of(chinese))


# Order decides between subjects that match equally well. A Chinese word of two characters is exactly one term.
SUBJECTS: Final = (
    _subject(
        "answer_style",
        "Answer style",
        "回答风格",
        "answers answer reply replies respond response style concise brief short verbose tone format "
        "回答 回复 答复 风格 简洁 简短 语气 格式",
    ),
    _subject(
        "location",
        "Location",
        "所在地",
        "live lives living location located city town home address moved country based reside "
        "住在 住址 地址 城市 位置 居住 老家 家在 哪儿 我住",
    ),
    _subject("birthday", "Birthday", "生日", "birthday born birth age 生日 出生 年龄"),
    _subject(
        "work",
        "Work",
        "工作",
        "job work works working profession role engineer developer employer company career scientist teacher doctor "
        "工作 职业 公司 职位 工程 上班 岗位",
    ),
    _subject(
        "food",
        "Food",
        "饮食",
        "food eat eats eating diet vegetarian vegan allergic allergy drink drinks coffee tea dish restaurant cuisine "
        "饮食 食物 喜欢吃 过敏 素食 咖啡 喝茶 口味 吃辣",
    ),
    _subject(
        "family",
        "Family",
        "家人",
        "family wife husband partner son daughter child children kids parents mother father brother sister "
        "家人 妻子 丈夫 儿子 女儿 孩子 父母 妈妈 爸爸 老婆 老公",
    ),
    _subject(
        "pets",
        "Pets",
        "宠物",
        "pet pets dog cat puppy kitten 宠物 小狗 小猫 养狗 养猫 的狗 的猫 只狗 条狗 只猫 我狗 我猫",
    ),
    _subject("name", "Name", "名字", "name named called nickname 名字 姓名 我叫 叫我 称呼"),
    _subject("language", "Language", "语言", "language languages speak speaks bilingual 语言 母语 会说"),
    _subject(
        "schedule", "Schedule", "日程", "deadline schedule meeting calendar due milestone 截止 日程 会议 期限 日期"
    ),
    _subject("contact", "Contact", "联系方式", "email phone telephone contact 邮箱 电话 手机 联系"),
    _subject(
        "tools", "Tools", "工具", "editor ide tool tools keyboard laptop vim emacs vscode linux macos 工具 编辑器 电脑"
    ),
    _subject(
        "preferences",
        "Preferences",
        "偏好",
        "prefer prefers preference favourite favorite love loves hate hates enjoy dislike 偏好 喜欢 讨厌 最爱 爱好",
    ),
)


def subject_of(text: str) -> Subject | None:
    """Return the subject that shares most terms with ``text``; the earlier one on a tie, None when none does."""
    terms = terms_of(text)
    best = max(SUBJECTS, key=lambda subject: len(subject.terms & terms))
    return best if best.terms & terms else None


def widen(terms: Collection[str]) -> frozenset[str]:
    """Return ``terms`` with all terms of every subject that one of them belongs to."""
    wide = set(terms)
    for subject in SUBJECTS:
        if not subject.terms.isdisjoint(terms):
            wide |= subject.terms
    return frozenset(wide)


def rank(query: str, texts: Mapping[str, str]) -> list[str]:
    """Return the keys of ``texts`` that share terms with ``query``, best first.

    A term counts more the fewer texts hold it; a term that only belongs to the subject of a query term counts a third.
    """
    exact = terms_of(query)
    wide = widen(exact)
    held = {key: terms_of(text) for key, text in texts.items()}
    scores = {key: _score(exact, wide, terms, held.values()) for key, terms in held.items()}
    best = max(scores.values(), default=0.0)
    return sorted(
        (key for key, score in scores.items() if score > 0 and score >= best / 4), key=lambda key: (-scores[key], key)
    )


def _score(
    exact: frozenset[str], wide: frozenset[str], terms: frozenset[str], everything: Iterable[frozenset[str]]
) -> float:
    shared = wide & terms
    if not shared:
        return 0.0
    corpus = list(everything)
    return sum(
        (1.0 if term in exact else 1 / 3) * log(1 + len(corpus) / sum(term in other for other in corpus))
        for term in sorted(shared)
    )
