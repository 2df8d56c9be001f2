"""The rules of the repository that no linter knows: who may import whom, what is public, what may not be said."""

import ast
import importlib
import inspect
import os
import re
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from itertools import takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CODE_FOLDERS = ("agentic_memory", "backends", "tools", "prompts")
MAX_MODULE_LINES = 600  # most have under 400; this is where a module has certainly gained a second noun

if not (ROOT / "agentic_memory").is_dir():
    pytest.skip("these tests are about a checkout; here only the installed package is tested", allow_module_level=True)


# ------------------------------------------------------------------ the code on disk


@cache
def modules() -> dict[str, ast.Module]:
    """Every module by its path without suffix, relative to the root."""
    paths = sorted(path for folder in CODE_FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).with_suffix("").as_posix(): ast.parse(path.read_text("utf-8")) for path in paths}


def installed_name(module: str) -> str:
    """``backends/values`` installs as ``agentic_memory.backends.values``."""
    name = module.removesuffix("/__init__").replace("/", ".")
    return name if name.startswith("agentic_memory") else f"agentic_memory.{name}"


def imports(tree: ast.AST, *, only_on_import: bool = False) -> Iterator[str]:
    """Dotted names a module imports: all, or those it imports as soon as it is imported itself."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports do not survive the layout"
            assert node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        if only_on_import and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if only_on_import and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            todo.extend(node.orelse)
            continue
        todo.extend(ast.iter_child_nodes(node))


@cache
def by_installed_name() -> dict[str, str]:
    return {installed_name(module): module for module in modules()}


def module_of(dotted: str) -> str | None:
    """Return the module of ours that ``dotted`` lives in, or None when it is foreign."""
    parts = dotted.split(".")
    if parts[0] != "agentic_memory":
        return None
    for end in range(len(parts), 1 if len(parts) > 2 else 0, -1):  # only a name of the root itself is found there
        if (found := by_installed_name().get(".".join(parts[:end]))) is not None:
            return found
    raise AssertionError(f"{dotted} is imported, and there is no such module")


# ------------------------------------------------------------------ rooms


class Room:
    def __init__(self, row: str) -> None:
        cells = [cell.strip() for cell in row.strip().strip("|").split("|")]
        self.name = cells[0]
        self.patterns = re.findall(r"`([^`]+)`", cells[1])
        self.may_use = {word.strip() for word in cells[3].split(",") if word.strip()}


@cache
def rooms() -> dict[str, Room]:
    lines = (ROOT / "ARCHITECTURE.md").read_text("utf-8").splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("| room |"))
    rows = takewhile(lambda line: line.startswith("|"), lines[at + 2 :])
    return {room.name: room for room in map(Room, rows)}


def rooms_of(module: str) -> list[str]:
    return [room.name for room in rooms().values() if any(fnmatch(module, pattern) for pattern in room.patterns)]


INSIDE_ROOMS = [name for name in modules() if name != "agentic_memory/__init__"]


@pytest.mark.parametrize("module", INSIDE_ROOMS)
def test_every_module_stands_in_one_room_of_the_architecture(module):
    assert len(rooms_of(module)) == 1, f"ARCHITECTURE.md gives {module} the rooms {rooms_of(module)}; it needs one"


def test_the_architecture_names_no_module_that_does_not_exist():
    named = [pattern for room in rooms().values() for pattern in room.patterns]
    assert [pattern for pattern in named if not any(fnmatch(module, pattern) for module in modules())] == []


def test_arrows_only_point_down():
    above: dict[str, set[str]] = {}
    for room in rooms().values():
        unknown = room.may_use - set(above) - {"AgentScope"}
        assert not unknown, f"{room.name} may use {unknown}, which do not stand above it in the table"
        above[room.name] = room.may_use


@pytest.mark.parametrize("module", INSIDE_ROOMS)
def test_modules_import_only_what_their_room_may_use(module):
    (name,) = rooms_of(module)
    allowed = {name, *rooms()[name].may_use}
    for dotted in imports(modules()[module]):
        target = module_of(dotted)
        if target is None:
            if dotted.split(".")[0] in {"agentscope", "asyncio", "anyio"}:
                assert "AgentScope" in allowed, f"{module} imports {dotted}; the room {name} is pure"
        elif target == "agentic_memory/__init__":
            assert name == "command line", f"{module} imports {dotted} by way of the package root, which is a cycle"
        else:
            assert set(rooms_of(target)) <= allowed, f"{module} ({name}) imports {dotted} ({rooms_of(target)})"


@pytest.mark.parametrize("module", sorted(modules()))
def test_importing_a_module_needs_core_dependencies_only(module):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = {re.split(r"[^\w-]", each)[0].lower() for each in project["dependencies"]}
    named_otherwise = {"yaml": "pyyaml", "frontmatter": "python-frontmatter", "opentelemetry": "opentelemetry-api"}
    if rooms_of(module) == ["conformance"]:
        declared |= {"pytest"}  # a suite is of no use without it
    for dotted in imports(modules()[module], only_on_import=True):
        package = dotted.split(".")[0]
        if package not in sys.stdlib_module_names and package != "agentic_memory":
            assert named_otherwise.get(package, package) in declared, f"{module} imports {package} at its top"


def test_no_folder_is_imported_by_its_name_on_disk():
    tests_and_programs = (
        path for folder in ("tests", "examples", "benchmarks") for path in (ROOT / folder).rglob("*.py")
    )
    trees = [*modules().items(), *((str(path), ast.parse(path.read_text("utf-8"))) for path in tests_and_programs)]
    wrong = [
        (name, dotted) for name, tree in trees for dotted in imports(tree) if dotted.split(".")[0] in CODE_FOLDERS[1:]
    ]
    assert wrong == []


def test_every_folder_with_code_is_packaged():
    packaged = set(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["packages"])
    assert packaged == {installed_name(module).rpartition(".")[0] or "agentic_memory" for module in modules()} | {
        installed_name(module) for module in modules() if module.endswith("/__init__")
    }


@pytest.mark.parametrize("module", sorted(modules()))
def test_a_module_is_small_enough_to_read_at_once(module):
    lines = (ROOT / f"{module}.py").read_text("utf-8").count("\n")
    assert lines <= MAX_MODULE_LINES, f"{module} has {lines} lines"


# ------------------------------------------------------------------ what is public


PUBLIC_PACKAGES = (
    "agentic_memory",
    "agentic_memory.backends",
    "agentic_memory.selection",
    "agentic_memory.tools",
    "agentic_memory.writeback",
)


@pytest.mark.parametrize("package", PUBLIC_PACKAGES)
def test_public_names_are_pinned(package):
    pinned = (ROOT / "tests" / "golden" / "public_names.txt").read_text("utf-8").split()
    wanted = [name.rpartition(".")[2] for name in pinned if name.rpartition(".")[0] == package]
    assert importlib.import_module(package).__all__ == wanted


@pytest.mark.parametrize("package", PUBLIC_PACKAGES)
def test_public_names_are_sorted_importable_and_documented(package):
    loaded = importlib.import_module(package)
    assert loaded.__all__ == sorted(loaded.__all__)
    for name in loaded.__all__:
        value = getattr(loaded, name)
        if inspect.isclass(value) or inspect.isroutine(value):
            text = value.__doc__ or ""
            assert text.strip(), f"{package}.{name} has no docstring"
            # What a dataclass generates is no documentation.
            assert not text.startswith(f"{name}("), f"{package}.{name} has only a generated docstring"


# ------------------------------------------------------------------ prompts


PROMPTS = sorted(path.stem for path in (ROOT / "prompts").glob("*.md"))


@pytest.mark.parametrize("prompt", PROMPTS)
def test_every_prompt_is_loaded_by_something(prompt):
    stem = prompt.split(".")[0]  # the language is often added at run time: memory_instructions.en
    strings = (
        node.value
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    assert any(string in {prompt, stem} or string.startswith(f"{stem}.") for string in strings)


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_prompt_has_text_and_no_trailing_space(prompt):
    text = (ROOT / "prompts" / f"{prompt}.md").read_text("utf-8")
    assert text.strip()
    assert not re.search(r"[ \t]+$", text, re.MULTILINE)


# ------------------------------------------------------------------ what may not be said


def tracked_files() -> list[Path]:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return [ROOT / os.fsdecode(name) for name in names.split(b"\0") if name and (ROOT / os.fsdecode(name)).is_file()]


def unspeakable() -> list[str]:
    """Words that tie the repository to one machine, put together here so that this file does not hold them."""
    hosts = [
        ".".join(parts) for parts in (("pypi", "org"), ("files", "pythonhosted"), ("deb", "debian"), ("npmjs", "com"))
    ]
    machine = socket.gethostname()
    return [*hosts, f"{ROOT}/", *([machine] if len(machine) > 7 else [])]


def test_no_file_names_this_machine_or_a_registry():
    found = [
        (path.relative_to(ROOT).as_posix(), word)
        for path in tracked_files()
        for word in unspeakable()
        if word.encode() in path.read_bytes()
    ]
    assert found == []


# ------------------------------------------------------------------ the README


def readme_blocks(language: str) -> list[tuple[str, str]]:
    """Fenced blocks of the README: what follows the language in the fence, and the text."""
    path = ROOT / "README.md"
    text = path.read_text("utf-8") if path.is_file() else ""
    return re.findall(rf"^```{language}\b[ \t]*([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_readme_has_a_python_example():
    assert readme_blocks("python")


@pytest.mark.parametrize(("mark", "code"), readme_blocks("python"))
def test_python_in_the_readme_runs(mark, code, tmp_path):
    """A block marked ```python docker or ```python e2b needs more than Python: there its imports have to hold."""
    if mark.strip():
        tree = ast.parse(code)
        code = "\n".join(ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom))
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("mark", "code"), [*readme_blocks("bash"), *readme_blocks("sh"), *readme_blocks("console")])
def test_commands_in_the_readme_exist(mark, code):
    commands = [line.removeprefix("$ ").split("#")[0].split() for line in code.splitlines() if line.strip()]
    for command in filter(None, commands):
        for word in command:
            if re.match(r"(scripts|examples|benchmarks|docs)/\w", word):
                assert (ROOT / word).exists(), f"the README names {word}"
        if command[0].startswith("scripts/"):
            assert os.access(ROOT / command[0], os.X_OK)
        if command[0] == "agentic-memory":
            asked = [sys.executable, "-P", "-m", "agentic_memory.cli", *command[1:2], "--help"]
            done = subprocess.run(asked, capture_output=True, text=True, timeout=50, check=False)
            assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
