"""What holds for every test: warnings are errors and a time limit (pyproject.toml), and nothing blocks the loop."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings
from loopwatch import watch

# A gate must say the same of the same code twice; on a desk, where a find is welcome, every run looks elsewhere.
settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("CI") == "true":
    settings.load_profile("ci")

# A provider key on a contributor's desk must not turn an offline test into an online one; tests that mean to use one
# take it from `provider_keys`.
_PROVIDER_KEYS = (
    "ANTHROPIC_API_KEY",
    "DASHSCOPE_API_KEY",
    "GEMINI_API_KEY",
    "OLLAMA_HOST",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "AGENTIC_MEMORY_MODEL",
)
for _key in _PROVIDER_KEYS:
    os.environ.pop(_key, None)


@pytest.fixture(scope="session", autouse=True)
def uses_apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Count what replies show in a file of this run, not in the cache of whoever runs it."""
    path = tmp_path_factory.mktemp("cache") / "uses.sqlite3"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agentic_memory.uses.uses_file", lambda: path)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test whose event loop stood still, unless the test says that it blocks it itself."""
    marker = item.get_closest_marker("may_block")
    if marker is not None:
        if not (marker.args or marker.kwargs.get("reason")):
            pytest.fail("may_block needs a reason: @pytest.mark.may_block('starts a container')", pytrace=False)
        return (yield)
    with watch() as blocks:
        result = yield
    if blocks:
        pytest.fail("\n".join(map(str, blocks)), pytrace=False)
    return result
