"""Dates that only mean something on the day they are written: found in English and Chinese, and read where they can be."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_memory.dates import RelativeDate, absolute, find_relative_dates, resolve
from agentic_memory.prose import blank_code

WEDNESDAY = date(2026, 3, 4)


def found(text: str) -> list[str]:
    return [each.text for each in find_relative_dates(text)]


@pytest.mark.parametrize(
    ("phrase", "day"),
    [
        ("yesterday", "2026-03-03"),
        ("Tomorrow", "2026-03-05"),
        ("tonight", "2026-03-04"),
        ("last night", "2026-03-03"),
        ("the day after tomorrow", "2026-03-06"),
        ("the day before yesterday", "2026-03-02"),
        ("3 days ago", "2026-03-01"),
        ("ten days from now", "2026-03-14"),
        ("next Monday", "2026-03-09"),
        ("last Friday", "2026-02-27"),
        ("this Friday", "2026-03-06"),
        ("Friday next week", "2026-03-13"),
        ("next week on Monday", "2026-03-09"),
        ("昨天", "2026-03-03"),
        ("大前天", "2026-03-01"),
        ("明晚", "2026-03-05"),
        ("大后天", "2026-03-07"),
        ("下周四", "2026-03-12"),
        ("上个星期天", "2026-03-01"),
        ("下下周一", "2026-03-16"),
        ("本周日", "2026-03-08"),
        ("三天前", "2026-03-01"),
    ],
)
def test_a_day_is_found_and_resolved(phrase, day):
    (one,) = find_relative_dates(f"Ship it {phrase}, 好的")
    assert one.text == phrase
    assert str(resolve(one, on=WEDNESDAY)) == absolute(one, on=WEDNESDAY) == day


@pytest.mark.parametrize(
    ("phrase", "period"),
    [
        ("last month", "2026-02"),
        ("next month", "2026-04"),
        ("this quarter", "2026-Q1"),
        ("next quarter", "2026-Q2"),
        ("last year", "2025"),
        ("five years ago", "2021"),
        ("14 months ago", "2025-01"),
        ("next week", "the week of 2026-03-09"),
        ("last weekend", "the weekend of 2026-02-28"),
        ("上个月", "2026-02"),
        ("本月", "2026-03"),
        ("去年", "2025"),
        ("三个月前", "2025-12"),
        ("下周", "2026-03-09 那一周"),
    ],
)
def test_a_period_is_no_day_but_can_be_written_out(phrase, period):
    (one,) = find_relative_dates(f"It was {phrase}.")
    assert resolve(one, on=WEDNESDAY) is None
    assert absolute(one, on=WEDNESDAY) == period


@pytest.mark.parametrize(
    "phrase", ["next Thursday", "last Tuesday", "this Monday", "a few weeks ago", "几天前", "last summer"]
)
def test_what_is_vague_or_means_two_days_is_found_but_not_resolved(phrase):
    (one,) = find_relative_dates(f"It is {phrase}.")
    assert (resolve(one, on=WEDNESDAY), absolute(one, on=WEDNESDAY)) == (None, None)


@pytest.mark.parametrize("day", ["next Monday", "last Sunday"])
def test_the_nearest_such_day_is_meant_never_the_day_itself(day):
    (one,) = find_relative_dates(day)
    on = date(2026, 3, 9) if "Monday" in day else date(2026, 3, 1)
    assert resolve(one, on=on) != on


@pytest.mark.parametrize(
    "text",
    [
        "Never deploy on Friday; ship in 3 days, 三天后过期, 提前三天通知",
        "Every Monday, send the report of last week.",
        "每周一发送上周的周报。",
        "Yesterday (2026-03-03) it broke; on 2026-03-01 (last Sunday) too; tomorrow, 5 March 2026; 昨天（2026年3月3日）",
        'Write the date, not "tomorrow" or “next week”; 不写“下周四”',
        "Run `today` and [today](today.md), see notes/yesterday.txt, #tomorrow, @today, next-week",
        "```\nyesterday\n```\n~~~\n昨天\n~~~\n",
        "On the last Monday of the month; the last week of May; today's date",
        "后天性；先天后天；最后天；日常；上周期；前日志",
        "midnight, weekday, yearly, birthday, todayish, overnight",
    ],
)
def test_what_is_no_relative_date_is_left_alone(text):
    assert found(text) == []


def test_a_habit_hides_nothing_in_the_next_sentence():
    assert found("Every day is a fight. Yesterday we won.\n每天都忙。昨天赢了。") == ["Yesterday", "昨天"]


def test_dates_that_no_calendar_holds_are_not_resolved():
    (one,) = find_relative_dates("999 years ago")
    assert absolute(one, on=date(900, 1, 1)) is None
    (one,) = find_relative_dates("tomorrow")
    assert absolute(one, on=date.max) is None


PIECES = [
    "yesterday",
    "last",
    "week",
    "next",
    "Friday",
    "3",
    "days",
    "ago",
    "`",
    "```\n",
    "昨天",
    "下",
    "周",
    "四",
    "每",
    "\n",
    " ",
    "2026-03-01",
    "(",
]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=20).map("".join), st.dates())
def test_any_text_can_be_searched_and_every_span_is_its_text(text, on):
    last = 0
    for one in find_relative_dates(text):
        assert text[one.start : one.end] == one.text
        assert last <= one.start < one.end
        last = one.end
        day = resolve(one, on=on)
        assert day is None or absolute(one, on=on) == day.isoformat()
        assert find_relative_dates(f"x {one.text}") == [RelativeDate(one.text, 2, 2 + len(one.text))]


@given(st.lists(st.sampled_from(["`", "```", "~~~", "\n", "\r\n", "a", "a b"])).map("".join))
def test_blanking_code_moves_nothing(text):
    blank = blank_code(text)
    assert len(blank) == len(text)
    assert all(old == new or (new == " " and old not in "\r\n") for old, new in zip(text, blank, strict=True))
