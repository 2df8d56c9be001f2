"""Inputs to begin from: the shapes of real files, and triples that merge."""

from text.shapes import SHAPES

from fuzz.targets import SEPARATOR

_INDEX = b"# Memory\n\n- [Tea](tea.md) \xe2\x80\x94 which tea\n- [City](team/city.md) - where\n\nFree text.\n"
_FILE = b"---\nname: Tea\ndescription: Which tea.\ntype: user\n---\n\nGreen.\nHot.\n"

SMALL_BYTES = 4096


def corpus() -> list[bytes]:
    """Return the inputs."""
    shapes = [shape.data for shape in SHAPES.values() if len(shape.data) < SMALL_BYTES]
    return [
        b"",
        *shapes,
        *(SEPARATOR.join([data, b"a: b #c", b"x"]) for data in shapes),
        SEPARATOR.join(
            [b"- [T [](a.md)x [](}a.md) - h](a.md)](y [](a.md) \xe2\x80\x94 [C](b.md)", b""]
        ),  # brackets askew
        SEPARATOR.join([_INDEX, b"Coffee: [x](y) \xe2\x80\x94"]),
        SEPARATOR.join([_INDEX, _INDEX + b"- [New](new.md)\n", _INDEX.replace(b"Free", b"Other")]),
        SEPARATOR.join([_FILE, _FILE.replace(b"Green", b"Black"), _FILE + b"Cold.\n"]),
        SEPARATOR.join([_FILE, _FILE.replace(b"Green", b"Black"), _FILE.replace(b"Green", b"White")]),
        SEPARATOR.join([b"Tea", b"Which tea", b"user", b"Green.\n---\nname: no\n---\n"]),
    ]
