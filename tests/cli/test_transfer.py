"""import and export at the command line."""

import json

import pytest


@pytest.fixture
def mem0(tmp_path):
    file = tmp_path / "mem0.json"
    records = [{"id": "1", "memory": "Likes tea.", "user_id": "alice"}, {"id": "2", "memory": "Has a dog."}]
    file.write_text(json.dumps({"results": records}))
    return file


def test_import_shows_first_and_writes_with_apply(run, tmp_path, mem0):
    ran = run("import", "mem0.json")
    assert ran.code == 0
    assert ran.out == "+\tnew\tlikes_tea.md\tLikes tea\n+\tnew\thas_a_dog.md\tHas a dog\n"
    assert ran.err == "Would import 2 memories from mem0; nothing was written. Do it with --apply.\n"
    assert not (tmp_path / "Memory").exists()
    assert run("import", "mem0.json", "--apply").err == "Imported 2 memories from mem0.\n"
    assert (tmp_path / "Memory" / "MEMORY.md").read_text().count("\n") == 2
    ran = run("import", "mem0.json", "--apply")
    assert ran.out == "=\timported before\tlikes_tea.md\tLikes tea\n=\timported before\thas_a_dog.md\tHas a dog\n"
    assert ran.err == "Nothing to import from this mem0 source.\n"


def test_a_broken_part_is_listed_and_ends_with_one_after_the_rest_went_in(run, tmp_path):
    (tmp_path / "m.jsonl").write_text('{"memory": "Likes tea."}\n{broken\n')
    ran = run("import", "m.jsonl", "--apply", "--json")
    assert ran.code == 1
    report = json.loads(ran.out)
    assert (report["format"], report["applied"], report["memories"][0]["status"]) == ("mem0", True, "new")
    assert (report["problems"][0]["file"], report["problems"][0]["line"]) == ("m.jsonl", 2)
    assert (tmp_path / "Memory" / "likes_tea.md").exists()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nowhere"], "cannot be read"),
        (["mem0.json", "--from", "word"], "there is no format 'word'; there are mem0"),
        (["mem0.json", "--source-user", "bob"], "no memories of 'bob'"),
        (["plain.txt"], "name the format with --from"),
    ],
)
def test_wrong_use_ends_with_two_and_says_what_to_do(run, tmp_path, mem0, arguments, reason):
    (tmp_path / "plain.txt").write_text("hello")
    ran = run("import", *arguments)
    assert ran.code == 2
    assert reason in ran.err


def test_export_to_standard_output_and_to_a_file_that_is_not_there(run, tmp_path, memory):
    exported = json.loads(run("export").out)
    assert [one["filename"] for one in exported["memories"]] == ["team/deploy.md", "user_profile.md", "饮食.md"]
    assert run("export", "all.zip").err == "Exported 3 memories to all.zip.\n"
    assert run("export", "all.zip").code == 2, "nothing is overwritten"
    assert run("export", "all.txt", "--format", "tar").code == 2
    ran = run("import", "all.zip", "-C", "elsewhere", "--apply")
    assert ran.err == "Imported 3 memories from claude-code.\n", ran.out
    profile = (tmp_path / "elsewhere" / "Memory" / "user_profile.md").read_text()
    assert "mood: calm\n" in profile
    assert profile.endswith("Lives in Hangzhou.\n")


def test_memories_of_one_user_go_into_the_memory_of_that_user(run, tmp_path):
    records = [{"memory": f"Secret of {user}.", "user_id": user} for user in ("alice", "bob")]
    (tmp_path / "all.json").write_text(json.dumps(records))
    ran = run("import", "all.json", "--user", "alice", "--apply")
    assert ran.code == 2
    assert "2 users (alice, bob): choose one with --source-user" in ran.err
    assert run("import", "all.json", "--source-user", "alice", "--user", "alice", "--apply").code == 0
    assert [path.name for path in tmp_path.glob("users/alice/Memory/s*.md")] == ["secret_of_alice.md"]
    assert not (tmp_path / "Memory").exists()


def test_a_secret_in_the_source_is_refused_by_the_guards_and_the_rest_goes_in(run, tmp_path):
    secret = "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYzT4pQeLwNm"
    (tmp_path / "m.json").write_text(json.dumps([{"memory": secret}, {"memory": "Likes tea."}]))
    listed = run("import", "m.json").out
    ran = run("import", "m.json", "--apply")
    assert ran.code == 1
    assert ran.out == listed, "what is shown first is what is done"
    assert ran.out.splitlines()[0].startswith("!\trefused\t-\t")
    assert ran.err == "Imported 1 memory from mem0.\n"
    assert not any(b"wJalr" in path.read_bytes() for path in tmp_path.rglob("Memory/**/*") if path.is_file())
