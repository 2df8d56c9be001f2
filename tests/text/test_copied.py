"""Text that was copied is told from text that was written."""

from hypothesis import given
from hypothesis import strategies as st

from agentic_memory.copied import is_copied

PAGE = """The billing service is deployed by the pipeline in eu-west. Rollbacks take ten minutes and need an approval of
the on-call engineer. Send all questions to the platform channel, not to single people."""
HEADER = "---\nname: Deploys\ndescription: Before deploying\ntype: reference\n---\n"


def test_a_passage_of_a_page_is_copied():
    assert is_copied("", HEADER + PAGE, [PAGE])
    assert is_copied("", PAGE.replace("\n", " ").upper(), ["other", f"<p>{PAGE}</p>"])


def test_a_summary_in_other_words_is_not():
    own = (
        "Billing goes out through the eu-west pipeline; rolling back takes about ten minutes once on-call agrees to it."
    )
    assert not is_copied("", HEADER + own, [PAGE])


def test_a_short_quotation_is_not():
    assert not is_copied("", HEADER + "Rollbacks take ten minutes.\n" + "The user prefers mornings. " * 8, [PAGE])


def test_what_stood_there_before_does_not_count():
    assert not is_copied(HEADER + PAGE, HEADER + PAGE + "\nThe user agreed to it.\n", [PAGE])


def test_chinese_is_compared_by_characters():
    page = "计费服务由欧洲西部的流水线部署，回滚需要十分钟并且要值班工程师批准，有问题请在平台频道里提出，不要私下找人，也不要直接修改生产环境的配置文件，任何变更都需要先提交评审并等待两个人同意。"
    assert is_copied("", page, [f"前言。{page}结尾。"])


@given(st.text(), st.text(), st.lists(st.text()))
def test_any_text_is_taken(before, after, sources):
    assert is_copied(before, after, sources) in {True, False}
