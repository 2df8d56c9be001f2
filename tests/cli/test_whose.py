"""``--user`` and ``--scope``: the same memory that the middleware keeps for that user."""

import pytest

from agentic_memory import AgenticMemoryMiddleware, Identity


def add(run, *options: str):
    return run("add", "--name", "Tea", "--description", "When tea is served", "Green.", *options)


@pytest.mark.parametrize("scope", [None, "user", "tenants/{user_id}", "tenants/{user_id}/notes"])
def test_a_users_memory_is_where_the_middleware_has_it(run, tmp_path, scope) -> None:
    options = ["-C", str(tmp_path), "--user", "Ann", *(["--scope", scope] if scope else [])]
    assert add(run, *options).code == 0
    memory = AgenticMemoryMiddleware(workdir=str(tmp_path), scope=scope or "user", identity=Identity(user_id="Ann"))
    (file,) = tmp_path.rglob("tea.md")
    assert str(file.parent) == memory.store.named_root
    assert "Tea" in run("list", *options).out
    assert "Tea" not in run("list", "-C", str(tmp_path), "--user", "ann").out


def test_a_scope_without_ids_is_a_directory(run, tmp_path) -> None:
    assert add(run, "-C", str(tmp_path), "--scope", "projects/billing").code == 0
    assert (tmp_path / "projects/billing/Memory/tea.md").exists()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--user", ""], "give --user"),
        (["--scope", "user"], "give --user"),
        (["--scope", "project"], "needs project_id"),
        (["--scope", "agent", "--user", "ann"], "needs agent_id"),
        (["--scope", "users/{name}"], "there is no {name}"),
        (["--scope", "../x"], "relative"),
        (["--scope", "projects/p", "--user", "ann"], "has no {user_id}"),
    ],
)
def test_a_memory_of_nobody_is_wrong_use(run, tmp_path, options, reason) -> None:
    ran = run("list", "-C", str(tmp_path), *options)
    assert ran.code == 2
    assert reason in " ".join((ran.out + ran.err).replace("\u2502", " ").split())
