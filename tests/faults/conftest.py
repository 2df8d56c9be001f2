"""Write the page when that was asked for, once every case was played."""

import pytest

from faults import table

collect_ignore = ["test_page.py"] if table.MODE == "write" else []


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write ``docs/faults.md``; a run that failed, or left something out, writes nothing."""
    if table.MODE != "write" or exitstatus != pytest.ExitCode.OK:
        return
    if session.config.getoption("numprocesses", None) or hasattr(session.config, "workerinput"):
        raise pytest.UsageError("docs/faults.md was not written: the cells come from one process; add -n 0")
    skipped = session.config.pluginmanager.get_plugin("terminalreporter").stats.get("skipped", [])
    if skipped:
        raise pytest.UsageError("docs/faults.md was not written: some cases were skipped")
    table.PAGE.parent.mkdir(exist_ok=True)
    table.PAGE.write_text(table.render_page(table.found), "utf-8")
