"""Dates that only mean something on the day they are written: "next Thursday", "3 days ago", "下周四", "昨天".

A memory is read months later. English and Chinese are known, in one text or mixed. Found is what surely points at one
day or period; left alone are code, links and paths, what stands in quotes or brackets or beside the date it means ("yesterday
(2026-03-04)"), what is said of every week ("every Monday, send the report of last week"), and what may as well be a
length of time ("in 3 days", "三天后") or a habit ("on Thursday").
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final, Literal

from agentic_memory.prose import blank_code

Unit = Literal["day", "week", "weekend", "month", "quarter", "year"]

_DAY: Final = timedelta(days=1)
_WEEK: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class RelativeDate:
    """One of them: ``text[start:end]`` of what was searched is its own ``text``."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Period:
    """The period of that unit which begins on ``first``."""

    first: date
    unit: Unit


_Reading = Callable[[re.Match[str], date], _Period | None]

_NUMBERS: Final = {
    **dict.fromkeys(("a", "an"), 1),
    **{word: number for number, word in enumerate("one two three four five six seven eight nine ten".split(), 1)},
    **{word: number for number, word in enumerate("一二三四五六七八九十", 1)},
    "两": 2,
}
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SHORT_WEEKDAYS: Final = {name[:3]: day for day, name in enumerate(_WEEKDAYS)}
_CHINESE_WEEKDAYS: Final = {"一": 0, "二": 1, "三": 2, "四": 3, "五": 4, "六": 5, "日": 6, "天": 6}
_WORDS: Final = {
    "the day before yesterday": -2,
    "yesterday": -1,
    "last night": -1,
    "today": 0,
    "this morning": 0,
    "this afternoon": 0,
    "this evening": 0,
    "tonight": 0,
    "tomorrow": 1,
    "the day after tomorrow": 2,
    "大前天": -3,
    "前天": -2,
    "昨天": -1,
    "昨日": -1,
    "昨晚": -1,
    "今天": 0,
    "今日": 0,
    "今早": 0,
    "今晚": 0,
    "明天": 1,
    "明日": 1,
    "明早": 1,
    "明晚": 1,
    "后天": 2,
    "大后天": 3,
}
_STEPS: Final = {"last": -1, "this": 0, "next": 1, "上上": -2, "上": -1, "这": 0, "本": 0, "下": 1, "下下": 2}
_CHINESE_YEARS: Final = {"前年": -2, "去年": -1, "今年": 0, "明年": 1, "后年": 2}

# Patterns of English; case does not count.
_WEEKDAY: Final = "(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_COUNT: Final = "(?:\\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|a few|a couple of|several)"
_SEASON: Final = "(?:spring|summer|autumn|fall|winter)"
_CHINESE_COUNT: Final = "(?:\\d{1,3}|[一二三四五六七八九十两几半])"


def _read_word(found: re.Match[str], on: date) -> _Period:
    return _Period(on + _DAY * _WORDS[found[0]], "day")


def _read_weekday(found: re.Match[str], on: date) -> _Period | None:
    """Read a weekday where "of this week" and "the nearest" mean the same; elsewhere people mean either."""
    day = _SHORT_WEEKDAYS[found["day"][:3]]
    step = _STEPS[found["step"]]
    by_week = _monday(on) + _WEEK * step + _DAY * day
    nearest = on + _DAY * ((day - on.weekday()) % 7)
    if step:
        nearest = (
            on + _DAY * ((day - on.weekday()) % 7 or 7) if step > 0 else on - _DAY * ((on.weekday() - day) % 7 or 7)
        )
    return _Period(by_week, "day") if by_week == nearest else None


def _read_weekday_of_week(found: re.Match[str], on: date) -> _Period:
    day = _SHORT_WEEKDAYS[found["day"][:3]]
    return _Period(_monday(on) + _WEEK * _STEPS[found["step"]] + _DAY * day, "day")


def _read_chinese_weekday(found: re.Match[str], on: date) -> _Period:
    day = _CHINESE_WEEKDAYS[found["day"]]
    return _Period(_monday(on) + _WEEK * _STEPS[found["step"]] + _DAY * day, "day")


def _read_period(found: re.Match[str], on: date) -> _Period | None:
    return _period(found["unit"], _STEPS[found["step"]], on)


def _read_chinese_year(found: re.Match[str], on: date) -> _Period | None:
    return _period("year", _CHINESE_YEARS[found[0]], on)


def _read_count(found: re.Match[str], on: date) -> _Period | None:
    written = found["count"]
    count = int(written) if written.isdecimal() else _NUMBERS.get(written)
    if count is None:
        return None  # a few, a couple of, 几
    groups = found.groupdict()
    unit = groups["unit"] or groups["units"]
    if groups.get("way") not in {"from now", "from today"}:
        count = -count
    if unit in {"day", "天"}:
        return _Period(on + _DAY * count, "day")
    return _period(unit, count, on)


def _read_nothing(_: re.Match[str], __: date) -> None:
    return None


def _monday(on: date) -> date:
    return on - _DAY * on.weekday()


def _period(unit: str, step: int, on: date) -> _Period | None:
    """Return the week, weekend, month, quarter or year that is ``step`` of them away."""
    match unit:
        case "week" | "周" | "星期" | "礼拜":
            return _Period(_monday(on) + _WEEK * step, "week")
        case "weekend" | "周末":
            return _Period(_monday(on) + _WEEK * step + _DAY * 5, "weekend")
        case "month" | "月":
            return _Period(_month(on.year, on.month + step), "month")
        case "quarter" | "季度":
            return _Period(_month(on.year, (on.month - 1) // 3 * 3 + 1 + 3 * step), "quarter")
        case "year" | "年":
            return _Period(date(on.year + step, 1, 1), "year")
        case _:
            return None


def _month(year: int, month: int) -> date:
    return date(year + (month - 1) // 12, (month - 1) % 12 + 1, 1)


def _english(pattern: str) -> str:
    # Not a part of a path, an address or a longer word; "today.md" is a file.
    return rf"(?<![\w/.@#+-])(?:{pattern})(?![\w/@+-]|\.\w|['’]s date)"


# What each pattern matches and how it is read; of two that match at one place the first counts.
_RULES: Final[tuple[tuple[re.Pattern[str], _Reading], ...]] = tuple(
    (re.compile(pattern, re.IGNORECASE), read)
    for pattern, read in (
        (
            _english(
                "the day (?:before yesterday|after tomorrow)|yesterday|today|tomorrow|tonight|last night"
                "|this (?:morning|afternoon|evening)"
            ),
            _read_word,
        ),
        (_english(rf"(?P<step>last|this|next) week(?: on|,)? (?P<day>{_WEEKDAY})"), _read_weekday_of_week),
        (_english(rf"(?P<day>{_WEEKDAY})(?: of)? (?P<step>last|this|next) week"), _read_weekday_of_week),
        (_english(rf"(?P<step>last|this|next) (?P<day>{_WEEKDAY})(?! of\b)"), _read_weekday),
        (_english("(?P<step>last|this|next) (?P<unit>weekend|week|month|quarter|year)(?! of\\b)"), _read_period),
        (_english(f"(?:last|next) {_SEASON}"), _read_nothing),
        (
            _english(f"(?P<count>{_COUNT}) (?P<unit>day|week|month|year)s? (?P<way>ago|from (?:now|today))"),
            _read_count,
        ),
        (
            "大前天|前天|[昨今明][天日晚]|[今明]早|(?<![先前以之今最天])大?后天(?![性环培养教努形])",
            _read_word,
        ),
        (
            "(?P<step>上上|下下|上|下|这|本)个?(?:周|星期|礼拜)(?P<day>[一二三四五六日天])(?![个次])",
            _read_chinese_weekday,
        ),
        ("(?P<step>上上|下下|上|下|这|本)个?(?P<unit>周末|周(?!期|[年岁转])|星期|礼拜)", _read_period),
        ("(?P<step>(?:上上|下下|上|下|这)(?=个)|本)个?(?P<unit>月|季度)", _read_period),
        ("(?<![以之从])前年|去年|今年|明年|后年", _read_chinese_year),
        (
            f"(?<![第提每])(?P<count>{_CHINESE_COUNT})(?:(?P<unit>天|周|年)|个(?P<units>星期|礼拜|月))(?:以前|之前|前)",
            _read_count,
        ),
    )
)
_ANY: Final = re.compile(
    "|".join(re.sub(r"\(\?P<\w+>", "(?:", pattern.pattern) for pattern, _ in _RULES), re.IGNORECASE
)
# Without one of these there is nothing to find, and they are twenty times as cheap to look for.
_HINTS: Final = (
    *("yesterday", "today", "tomorrow", "tonight", " ago", "from now", "last ", "next "),
    *(f"this {word}" for word in ("morning", "afternoon", "evening", "week", "month", "quarter", "year")),
    *(f"this {day[:3]}" for day in _WEEKDAYS),
    *"天日晚早周月年",
    *("星期", "礼拜", "季度"),
)
_ABSOLUTE: Final = r"(?:\d{4}(?:[-/.]\d{1,2}|年)|\d{1,2}月\d|\d{1,2} (?:of )?(?:{m})|(?:{m})\.? \d)".replace(
    "{m}", "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
)
_DATED_AFTER: Final = re.compile(rf"[ ,，:：—–-]*[(（\[]?(?:on |the |i\.?e\.? |即|也就是)*{_ABSOLUTE}", re.IGNORECASE)
_DATED_BEFORE: Final = re.compile(rf"(?:{_ABSOLUTE})[\w ,日号-]*[,，:：—–-]?[ ]?[(（\[]\s*$", re.IGNORECASE)
_HABIT: Final = re.compile(
    r"\b(?:every|each) (?:other )?(?:day|week|month|quarter|year|morning|evening|night|time|sprint|release"
    rf"|{_WEEKDAY})s?\b|\b(?:always|usually|daily|weekly|monthly|quarterly|yearly|annually|whenever)\b"
    r"|每(?:天|日|周|个?月|年|次|逢|晚|早|个?星期|当|个?季)|总是|通常|一般|平时|经常|往往",
    re.IGNORECASE,
)
_ISO_DAY: Final = re.compile(r"(\d{4})[-/.]?(\d{1,2})[-/.]?(\d{1,2})(?![\d.])")
_SENTENCE_END: Final = re.compile(r"[.!?。！？；;]+(?:\s|$)|[。！？；\r\n]")
_QUOTES: Final = {'"': '"', "'": "'", "“": "”", "‘": "’", "「": "」", "『": "』", "《": "》", "[": "]"}


def find_relative_dates(text: str) -> list[RelativeDate]:
    """Return every relative date of ``text``, in order."""
    lower = text.lower()
    if not any(hint in lower for hint in _HINTS):
        return []
    prose = blank_code(text)
    return [
        RelativeDate(text[found.start() : found.end()], found.start(), found.end())
        for found in _ANY.finditer(prose)
        if not (_is_quoted(prose, found) or _is_dated(prose, found) or _is_habit(prose, found))
    ]


def resolve(found: RelativeDate, *, on: date) -> date | None:
    """Return the day that is meant, if it was written on that day.

    None when it is no single day ("last month"), a vague one ("a few days ago"), or people may mean either of two ("next
    Friday", said on a Monday).
    """
    period = _read(found, on)
    return period.first if period is not None and period.unit == "day" else None


def absolute(found: RelativeDate, *, on: date) -> str | None:
    """Return what to write in its place, if it was written on that day: ``2026-03-05``, ``2026-03``, ``2026``.

    None when it is vague or people may mean either of two.
    """
    period = _read(found, on)
    if period is None:
        return None
    first = period.first
    match period.unit:
        case "week" | "weekend":
            chinese = not found.text.isascii()
            name = {"week": "那一周", "weekend": "那个周末"}[period.unit] if chinese else period.unit
            return f"{first} {name}" if chinese else f"the {name} of {first}"
        case "month":
            return f"{first:%Y-%m}"
        case "quarter":
            return f"{first:%Y}-Q{(first.month + 2) // 3}"
        case "year":
            return f"{first:%Y}"
        case _:
            return first.isoformat()


def read_date(value: str) -> date | None:
    """Return the day a frontmatter value names, in ISO form, alone or before a time; None when it is something else."""
    match = _ISO_DAY.match(value.strip())
    try:
        return date(int(match[1]), int(match[2]), int(match[3])) if match else None
    except ValueError:
        return None


def _read(found: RelativeDate, on: date) -> _Period | None:
    for pattern, read in _RULES:
        match = pattern.fullmatch(found.text.lower())
        if match is not None:
            try:
                return read(match, on)
            except (OverflowError, ValueError):
                return None  # before the year 1 or after 9999
    return None


def _is_quoted(text: str, found: re.Match[str]) -> bool:
    before, after = text[found.start() - 1 : found.start()], text[found.end() : found.end() + 1]
    return before in _QUOTES and _QUOTES[before] == after


def _is_dated(text: str, found: re.Match[str]) -> bool:
    before = text[max(0, found.start() - 24) : found.start()]
    return _DATED_AFTER.match(text, found.end()) is not None or _DATED_BEFORE.search(before) is not None


def _is_habit(text: str, found: re.Match[str]) -> bool:
    start, end = max(0, found.start() - 200), min(len(text), found.end() + 200)
    for mark in _SENTENCE_END.finditer(text, start, found.start()):
        start = mark.end()
    close = _SENTENCE_END.search(text, found.end(), end)
    return _HABIT.search(text, start, close.start() if close else end) is not None
