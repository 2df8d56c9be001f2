"""What a person asks of the offline model, told apart by rule: remember, forget, recall, or something else."""

import re
from dataclasses import dataclass
from typing import Final, Literal

from agentic_memory.offline.words import Language, language_of, subject_of, terms_of

MemoryType = Literal["user", "feedback", "project", "reference"]

MAX_SLUG_WORDS: Final = 4
MAX_SLUG_CHARACTERS: Final = 40
MAX_HOOK_CHARACTERS: Final = 110


@dataclass(frozen=True, slots=True)
class Fact:
    """One statement to remember, in the words of the person who made it."""

    text: str
    type: MemoryType
    title: str
    filename: str

    @property
    def hook(self) -> str:
        """The statement, short enough for one line of an index."""
        if len(self.text) <= MAX_HOOK_CHARACTERS:
            return self.text
        return self.text[: MAX_HOOK_CHARACTERS - 1].rstrip() + "…"


@dataclass(frozen=True, slots=True)
class Remember:
    """Store these statements; none when it was not said what."""

    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Forget:
    """Remove what is known about ``topic``; empty when it was not named."""

    topic: str
    everything: bool = False


@dataclass(frozen=True, slots=True)
class Recall:
    """Tell what is known about ``topic``."""

    topic: str
    everything: bool = False


@dataclass(frozen=True, slots=True)
class Other:
    """Nothing the rules cover."""


Intent = Remember | Forget | Recall | Other

_FLAGS = re.IGNORECASE | re.DOTALL

_OPENING = re.compile(
    r"""^(?:\s|[,，。!！:：]|(?:hey|hi|hello|ok|okay|well|so|also|and|now|great|thanks|thank\s+you|by\s+the\s+way|btw|fyi
    |please|pls|kindly)\b(?!\s*['’])|你好|您好|好的|对了|另外|还有|顺便|那么|嗨)+""",
    _FLAGS | re.VERBOSE,
)
_REQUEST = (
    r"(?:(?:please|pls|kindly|just|also|always|you\s+(?:should|must|can|need\s+to|have\s+to)"
    r"|(?:can|could|would|will)\s+you(?:\s+please)?|would\s+you\s+mind"
    r"|i(?:['’]d|\s+would)?\s+(?:like|want|need)\s+you\s+to|make\s+sure\s+(?:to|you|that\s+you)|try\s+to)\s+)*"
)
_ASKS_MEMORY = re.compile(
    r"^(?:do|did|can|could|will|would)\s+you\s+(?:still\s+|even\s+|happen\s+to\s+)?"
    r"(?:remember|recall|know)(?!\s+(?:that\s+(?:i|my|we|our|the)\b|to\b|this\b|the\s+following\b))\s*(?P<topic>.*)$",
    _FLAGS,
)
_TELLS = re.compile(
    r"^(?:please\s+|can\s+you\s+|could\s+you\s+)*(?:remind\s+me(?:\s+(?:of|about))?|(?:tell|show)\s+me(?:\s+(?:what|everything|all|anything)"
    r"\s+you\s+(?:know|remember)(?:\s+(?:about|of))?|(?=\s+(?:my|our|about|what|where|who|when|which)\b))"
    r"|what\s+(?:do|did)\s+you\s+(?:know|remember|recall)(?:\s+(?:about|of))?|list\s+what\s+you\s+know(?:\s+about)?)"
    r"\b\s*(?P<topic>.*)$",
    _FLAGS,
)
_REMEMBER = re.compile(
    rf"^{_REQUEST}(?:remember(?:ing)?|memori[sz]e|(?:don['’]?t|do\s+not|never)\s+forget|(?:keep|bear)\s+in\s+mind"
    r"|(?:make|take)\s+(?:a\s+)?note(?:\s+of)?|note\s+down|write\s+(?:this\s+|it\s+)?down|jot\s+down"
    r"|(?:save|store|add|put)\s+(?:this\s+|it\s+|the\s+following\s+)?(?:to|in|into)\s+(?:your\s+|the\s+|my\s+)?"
    r"(?:long[- ]term\s+)?memory|(?:note|save|store)(?=\s*[:,]|\s+(?:that|this|the\s+following|for\s+(?:me|later))\b)|for\s+(?:future|later)\s+reference)\b"
    r"(?:\s*[:,;-])?(?:\s+(?:that|the\s+following|this|for\s+me|for\s+later|about\s+me)\b)*\s*[:,-]?\s*(?P<what>.*)$",
    _FLAGS,
)
_STANDING_ORDER = re.compile(
    r"^(?:from\s+now\s+on|going\s+forward|in\s+(?:the\s+)?future)\b[,:]?\s*(?P<what>.+)$", _FLAGS
)
_FORGET = re.compile(
    rf"^{_REQUEST}(?:forget(?:ting)?|(?:delete|remove|erase|drop|clear)(?=.*\bmemor(?:y|ies)\b))\b\s*(?P<what>.*)$",
    _FLAGS,
)
_FORGET_LEAD = re.compile(
    r"^(?:(?:that|about|what\s+(?:i|you)\s+(?:said|told\s+you|know|remember)(?:\s+about)?|(?:everything|anything|all)"
    r"(?:\s+(?:you\s+know|that\s+you\s+know))?\s+(?:about|of)|(?:the|your|my|all|any)?\s*(?:memory|memories|entry|note|fact)"
    r"s?\s+(?:of|about|that|on)|the\s+fact\s+that)\s+)+",
    _FLAGS,
)
_FORGET_TAIL = re.compile(
    r"\s+(?:from|in|out\s+of)\s+(?:your\s+|the\s+|my\s+)?(?:long[- ]term\s+)?memor(?:y|ies)$", _FLAGS
)
_VAGUE = re.compile(r"^(?:it|that|this|about\s+(?:it|that|this)|那个|这个|它|这件事|那件事)?$", _FLAGS)
_ALL = re.compile(
    r"^(?:everything|all|all\s+(?:of\s+)?(?:it|that|memories)|the\s+memory|memory|全部|所有|一切|所有记忆)$", _FLAGS
)
_ABOUT_ALL = re.compile(
    r"^(?:(?:everything|anything|all)?\s*(?:about|of)?\s*(?:me|us|myself|everything|anything)?)\s*$|^(?:关于)?我(?:的一切|什么|些什么)?$",
    _FLAGS,
)

_ZH_POLITE = r"(?:请|麻烦|拜托|劳烦|帮我|给我|替我|你|您|要|需要|能不能|可不可以|可以|能否|能|以后|一定|务必|千万|都|先|也|还|再)*"
_ZH_ASKS = re.compile(
    r"^(?:请问)?(?:你|您)?(?:现在)?(?:还|是否|还能)?(?:记不记得|记得|知不知道|知道|了解)(?P<topic>.+?)(?:吗|么|嘛|不|没有)?$"
)
_ZH_REMEMBER = re.compile(
    rf"^{_ZH_POLITE}(?:记住|记下来?|记一下|记录(?:下来?|一下)?|记得|记好|牢记|别忘(?:记|了)?|不要忘(?:记|了|掉)?|勿忘|保存(?:到记忆里?)?|存一下)"
    r"(?:一下|这一点|这点|这件事|这个|以下(?:内容|信息)?|下面(?:内容|信息)?|哦|了)*[：:，,\s]*(?P<what>.*)$",
    _FLAGS,
)
_ZH_PUT = re.compile(
    rf"^{_ZH_POLITE}[把将](?P<what>.+?)(?P<verb>记住|记下来?|记录下来|存下来|存起来|保存(?:下来)?|忘掉|忘了|忘记|删掉|删除|清除|去掉)(?:吧|了|啊|哦)*$",
    _FLAGS,
)
_ZH_FORGET = re.compile(rf"^{_ZH_POLITE}(?:忘记|忘掉|忘了|删除|删掉|清除|移除|去掉)(?:掉)?(?P<what>.*)$", _FLAGS)
_ZH_FORGET_EDGES = re.compile(
    r"^(?:关于|有关|掉|我说的|我说过的|你知道的)+|(?:的)?(?:记忆|事情|事|内容|信息|记录|一切)?(?:吧|了|啊|哦)?$"
)
_ZH_QUESTION = re.compile(r"什么|哪[里儿个些]?|谁|几[个点岁]|多少|怎么|怎样|如何|为什么|为何|[吗么呢]$|是否|有没有")

_QUESTION_WORD = re.compile(
    r"^(?:what|who|whom|whose|where|when|why|which|how|do|does|did|is|are|am|was|were|have|has|had|can|could|should|would"
    r"|will)\b(?!['’]t)",
    _FLAGS,
)
_CLOSING = re.compile(
    r"(?:[\s.!?。！？~～,，;；]|\b(?:please|pls|thanks|thank\s+you|thx|ok|okay)\b|谢谢|好吗|可以吗|行吗|拜托了?)+$",
    _FLAGS,
)

_BULLET = re.compile(r"^\s*(?:[-*+•·]|\(?\d{1,2}[.)、])\s+")
# A stop ends a sentence only where a capital, a digit or nothing follows: "e.g. this" and "v1.2" stay whole.
_SENTENCE = re.compile(
    r"[。；;！!]\s*|(?<!\b[A-Za-z])(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bvs)(?<!\bMr)(?<!\bDr)(?<!\bMs)\.\s+(?=[A-Z0-9\"'])"
)
_LEAD = re.compile(
    r"^(?:(?:also|and|but|plus)\b[,\s]*)*(?:(?:that|to)\s+(?=\w))?|^(?:另外|还有|而且|并且)[，,\s]*", re.IGNORECASE
)
_VERBS = (
    "live|lives|work|works|prefer|prefers|like|likes|love|loves|hate|hates|dislike|dislikes|want|wants|need|needs|use|uses"
    "|speak|speaks|have|has|am|is|own|owns|study|studies|drive|drives|eat|drink|enjoy|play|plays|run|always|never|usually"
    "|do\\s+not|don['’]t|can|cannot|can['’]t|would|was|were|moved|grew|started"
)
_EN_JOINT = re.compile(
    rf"(?:,\s*(?:and|but)\s+|\s+(?:and|but)\s+|,\s+)(?:also\s+)?(?:that\s+)?(?=(?:(?P<same>{_VERBS})\b)|(?:i|my|we|our|i['’]m|i['’]ve)\b)",
    re.IGNORECASE,
)
_EN_SUBJECT = re.compile(r"^(?:i|we)\b", re.IGNORECASE)
_ZH_JOINT = re.compile(
    r"[，,、]?(?:而且|并且|同时|另外|还有|也|且)?[，,]?(?=(?P<same>不?喜欢|偏好|更?喜爱|住在|讨厌|习惯|希望|想要|使用|在.{1,8}工作|叫|养))"
    r"|[，,](?:而且|并且|同时|另外|还有|以及|也)?(?=我|我们|我的)"
)


def parse_intent(text: str) -> Intent:
    """Tell what ``text`` asks for. Never raises; text that no rule covers is ``Other``."""
    body = _OPENING.sub("", text.strip())
    asked = body.rstrip().endswith(("?", "？"))
    plain = _CLOSING.sub("", body.rstrip().rstrip("?？")).strip()
    if not plain:
        return Other()
    return _parse_chinese(plain, asked=asked) if language_of(plain) == "zh" else _parse_english(plain, asked=asked)


def _parse_english(plain: str, *, asked: bool) -> Intent:
    if (match := _ASKS_MEMORY.match(plain)) and (
        asked or not plain.lower().startswith(("can", "could", "will", "would"))
    ):
        return _recall(match["topic"])
    if match := _REMEMBER.match(plain):
        # "Remember my name?" asks, "Can you remember that I live here?" tells.
        if asked and re.match(r"remember\s+(?!that\b)", plain, _FLAGS):
            return _recall(match["what"])
        return _remember(match["what"])
    if match := _FORGET.match(plain):
        return _forget(_FORGET_TAIL.sub("", _FORGET_LEAD.sub("", match["what"])))
    if match := _TELLS.match(plain):
        return _recall(match["topic"])
    if match := _STANDING_ORDER.match(plain):
        return _remember(plain)
    return _recall(plain) if asked or _QUESTION_WORD.match(plain) else Other()


def _parse_chinese(plain: str, *, asked: bool) -> Intent:
    question = asked or bool(_ZH_QUESTION.search(plain))
    if question and (match := _ZH_ASKS.match(plain)):
        return _recall(match["topic"])
    if match := _ZH_PUT.match(plain):
        if match["verb"].startswith(("忘", "删", "清", "去")):
            return _forget(_ZH_FORGET_EDGES.sub("", match["what"]))
        return _remember(match["what"])
    if (match := _ZH_REMEMBER.match(plain)) and not (question and "记得" in plain):
        return _remember(match["what"])
    if match := _ZH_FORGET.match(plain):
        return _forget(_ZH_FORGET_EDGES.sub("", match["what"]))
    return _recall(plain) if question else Other()


def _recall(topic: str) -> Recall:
    topic = topic.strip()
    return Recall(topic, everything=bool(_ABOUT_ALL.match(topic)))


def _forget(topic: str) -> Forget:
    topic = topic.strip()
    return Forget("" if _VAGUE.match(topic) else topic, everything=bool(_ALL.match(topic)))


def _remember(what: str) -> Remember:
    return Remember(tuple(dict.fromkeys(describe_fact(statement) for statement in split_statements(what))))


def split_statements(text: str) -> list[str]:
    """Split ``text`` into statements that stand alone; a subject that was left out is repeated."""
    found: list[str] = []
    for line in text.splitlines():
        for sentence in _SENTENCE.split(_BULLET.sub("", line)):
            told = _LEAD.sub("", sentence.strip())
            again = _REMEMBER.match(told) or _ZH_REMEMBER.match(told)
            found += _split_clauses(again["what"] if again else told)
    statements = (_CLOSING.sub("", _LEAD.sub("", clause.strip(" ,，、"))) for clause in found)
    return [statement for statement in statements if terms_of(statement)]


def _split_clauses(sentence: str) -> list[str]:
    if language_of(sentence) == "zh":
        joint, subject = _ZH_JOINT, "我" if sentence.startswith("我") and not sentence.startswith("我们") else ""
        missing = f"{subject}"
    else:
        joint, match = _EN_JOINT, _EN_SUBJECT.match(sentence)
        subject = match.group() if match else ""
        missing = f"{subject} "
    if not subject:
        return [sentence]
    clauses: list[str] = []
    start, prefix = 0, ""
    for found in joint.finditer(sentence):
        # The match at the very start, or right after the subject, is this clause's own verb.
        if len(sentence[start : found.start()].strip()) <= len(subject):
            continue
        clauses.append(prefix + sentence[start : found.start()])
        start, prefix = found.end(), missing if found["same"] else ""
    return [*clauses, prefix + sentence[start:]]


_FEEDBACK = re.compile(
    r"\b(?:from\s+now\s+on|going\s+forward|always|never|don['’]?t\s+(?:use|add|write|mock|ask|include)|do\s+not|stop\s+\w+ing"
    r"|avoid|answers?|answering|repl(?:y|ies)|respond|responses?|when\s+you\b|you\s+should)\b|以后|今后|总是|不要|别再|请用|回答|回复|答复",
    re.IGNORECASE,
)
_ORDER = re.compile(
    r"^(?:use|write|keep|run|ask|call|start|end|add|put|speak|be|avoid|check|test|include|format)\b", re.IGNORECASE
)
_REFERENCE = re.compile(
    r"https?://|\b(?:dashboard|wiki|docs?\s+(?:is|are|live)|tracked\s+in|channel|runbook|repository|repo\s+is)\b|网址|链接|文档在|仓库在|看板",
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(r"^(?:i|my|i['’]m|i['’]ve|i['’]d|me|mine)\b|^我(?!们)", re.IGNORECASE)
_PROJECT = re.compile(
    r"\b(?:we|our|project|deadline|release|deploy|merge|sprint|team|staging|production|server|database|api|build|launch)\b"
    r"|我们|项目|上线|截止|发布|部署|团队|服务器|数据库|版本",
    re.IGNORECASE,
)


def describe_fact(text: str) -> Fact:
    """Return the statement with the type, title and file name it is kept under."""
    kind = _type_of(text)
    subject = subject_of(text)
    if subject is not None:
        title = subject.chinese if language_of(text) == "zh" else subject.english
        return Fact(text, kind, title, f"{kind}_{subject.slug}.md")
    words = [word for word in re.findall(r"[^\W_]+", text) if terms_of(word)] or [text]
    title = " ".join(words[:MAX_SLUG_WORDS])[:MAX_SLUG_CHARACTERS].strip()
    slug = re.sub(r"[\W_]+", "_", title.lower()).strip("_") or "note"
    return Fact(text, kind, title[:1].upper() + title[1:], f"{kind}_{slug}.md")


def _type_of(text: str) -> MemoryType:
    if _REFERENCE.search(text):
        return "reference"
    if _FEEDBACK.search(text):
        return "feedback"
    if _PROJECT.search(text) and not _FIRST_PERSON.match(text):
        return "project"
    if _ORDER.match(text):
        return "feedback"
    return "user" if _FIRST_PERSON.match(text) or language_of(text) == "zh" else "project"


__all__ = [
    "Fact",
    "Forget",
    "Intent",
    "Language",
    "Other",
    "Recall",
    "Remember",
    "describe_fact",
    "parse_intent",
    "split_statements",
]
