"""The page in docs/ is what the suite wrote, and speaks of all that it plays."""

import pytest

from faults import containers, sandboxes, table, test_docker, test_e2b, test_local
from faults.conversation import calls_to_strike

PLAYED = {
    test_local.PLACE: ([*test_local.FAULTS, test_local.DENIED], calls_to_strike(local=True)),
    test_docker.OURS: ([*containers.HAPPEN, *containers.SHELL_FAULTS], calls_to_strike()),
    test_docker.ADAPTED: ([*containers.HAPPEN, *containers.EXEC_FAULTS], calls_to_strike()),
    test_e2b.OURS: (sandboxes.FAULTS, calls_to_strike()),
    test_e2b.ADAPTED: (sandboxes.FAULTS, calls_to_strike()),
}

pytestmark = pytest.mark.skipif(not table.PAGE.exists(), reason="outside a checkout there is no page")


def test_the_page_is_as_the_suite_writes_it():
    assert table.PAGE.read_text("utf-8") == table.render_page(table.read_page())


def test_the_page_has_a_cell_for_every_call_and_fault():
    played = {
        (place, fault.name, call.name)
        for place, (faults, calls) in PLAYED.items()
        for fault in faults
        for call in calls
        if fault.strikes(call)
    }
    written = {where for where in table.read_page() if where[2] not in {table.NEXT, table.THEIRS}}
    assert written == played


@pytest.mark.parametrize("column", [table.NEXT])
def test_after_every_fault_that_passes_the_next_reply_works(column):
    cells = {where: cell for where, cell in table.read_page().items() if where[2] == column}
    assert {cell for (_, fault, _), cell in cells.items() if fault != "killed"} == {"works"}
