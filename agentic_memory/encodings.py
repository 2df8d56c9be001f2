"""Bytes to text and back, without losing one of them.

Memory files come from every editor there is: most are UTF-8, some carry a byte order mark, some are GBK or UTF-16, a
few hold one stray Latin-1 byte, and a store under git-crypt is no text at all. All of them get a text that encodes to
the same bytes again.
"""

import re
from typing import Final, Literal

from agentic_memory.errors import InvalidMemory

Encoding = Literal["utf-8", "utf-16-le", "utf-16-be", "gb18030", "surrogateescape", "binary"]
"""``surrogateescape`` is UTF-8 whose bad bytes stand as U+DC80..U+DCFF; ``binary`` is the same, and never edited."""

GIT_CRYPT_MAGIC: Final = b"\0GITCRYPT\0"

_UTF16: Final[dict[bytes, Encoding]] = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_MIN_CHINESE = 2
_MIN_CHINESE_SHARE = 0.9
# GB 2312 puts the 3,755 common characters first (lead bytes B0 to D7), the rare ones behind them.
_COMMON_LEAD = range(0xB0, 0xD8)
_GB2312_LEAD = range(0xA1, 0xF8)
_GB2312_TRAIL = range(0xA1, 0xFF)


def decode(data: bytes) -> tuple[str, Encoding]:
    """Return the text of ``data`` and the encoding that turns it into the same bytes again; never raises."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return _decode_other(data)
    return text, "binary" if "\0" in text else "utf-8"


def encode(text: str, encoding: Encoding) -> bytes:
    """Return the bytes of ``text``, or raise ``InvalidMemory`` when ``encoding`` cannot hold a character of it.

    GBK is told by its text alone. What would no longer be taken for it, since too little Chinese is left, becomes UTF-8.
    """
    try:
        if encoding in {"surrogateescape", "binary"}:
            return text.encode("utf-8", "surrogateescape")
        data = text.encode(encoding)
        return data if encoding != "gb18030" or decode(data)[0] == text else text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidMemory(
            f"{text[error.start]!r} at character {error.start} is half of a surrogate pair and cannot be stored as "
            f"{encoding}: remove it"
        ) from error


def replace_surrogates(text: str) -> str:
    """Return ``text`` with every byte that was not UTF-8 shown as U+FFFD, so that it can be printed and sent."""
    return text if text.isascii() else _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def _decode_other(data: bytes) -> tuple[str, Encoding]:
    utf16 = _UTF16.get(data[:2])
    if utf16 is not None:
        try:
            text = data.decode(utf16)
        except UnicodeDecodeError:
            pass
        else:
            if "\0" not in text:
                return text, utf16
    if b"\0" in data:
        return data.decode("utf-8", "surrogateescape"), "binary"
    if _looks_chinese(data):
        try:
            text = data.decode("gb18030")
            if text.encode("gb18030") == data:
                return text, "gb18030"
        except UnicodeError:
            pass
    return data.decode("utf-8", "surrogateescape"), "surrogateescape"


def _looks_chinese(data: bytes) -> bool:
    """Tell GBK from Latin-1, nearly all of which is valid GBK too.

    In Latin-1 a high byte stands before an ASCII letter; read as GBK that is a rare character. Real Chinese is made of
    GB 2312 characters, and for the most part of the common ones.
    """
    pairs = chinese = common = 0
    at = 0
    while at < len(data):
        lead = data[at]
        if lead < 0x80:
            at += 1
            continue
        trail = data[at + 1] if at + 1 < len(data) else 0
        if 0x30 <= trail <= 0x39:  # the four-byte form: emoji and the like, neither for nor against
            at += 4
            continue
        pairs += 1
        if lead in _GB2312_LEAD and trail in _GB2312_TRAIL:
            chinese += 1
            common += lead in _COMMON_LEAD
        at += 2
    return chinese >= _MIN_CHINESE and chinese >= pairs * _MIN_CHINESE_SHARE and common * 2 >= chinese
