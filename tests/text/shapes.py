"""Every shape a memory file is known to take in real stores, with what must be read from it."""

from dataclasses import dataclass, field

BODY = "# Title\n\nSome text, 一些文字.\n\n---\n\nMore text: with a colon # and a hash.\n"


@dataclass(frozen=True)
class Shape:
    """A file and its reading. ``type`` is that of the document, wherever it stood."""

    data: bytes
    fields: dict[str, str]
    type: str = ""
    body: str = BODY
    codes: list[str] = field(default_factory=list)


def _file(header: str, body: str = BODY) -> bytes:
    return f"---\n{header}---\n\n{body}".encode()


USUAL = {"name": "Deploy steps", "description": "How we ship on Fridays", "type": "project"}

SHAPES: dict[str, Shape] = {
    "usual": Shape(_file("name: Deploy steps\ndescription: How we ship on Fridays\ntype: project\n"), USUAL, "project"),
    "type under metadata": Shape(
        _file("name: a\ndescription: b\nmetadata:\n  node_type: memory\n  type: feedback\n  origin: 4f\n"),
        {"name": "a", "description": "b"},
        "feedback",
    ),
    "type under metadata, blanks after the key": Shape(
        _file("name: a\ndescription: b\nmetadata: \n    type: user\n"), {"name": "a", "description": "b"}, "user"
    ),
    "type under metadata in braces": Shape(_file("name: a\nmetadata: {type: user, n: 1}\n"), {"name": "a"}, "user"),
    "type under metadata beside a broken line": Shape(
        _file("name: a\ndescription: b: c\nmetadata:\n  type: user\n  note: x: y\n"),
        {"name": "a", "description": "b: c"},
        "user",
        codes=["frontmatter-not-yaml"],
    ),
    "type at both levels": Shape(
        _file("name: a\ntype: project\nmetadata:\n  type: user\n"), {"name": "a", "type": "project"}, "project"
    ),
    "unquoted colon": Shape(
        _file("name: a\ndescription: Note: never force-push: ever\ntype: user\n"),
        {"name": "a", "description": "Note: never force-push: ever", "type": "user"},
        "user",
        codes=["frontmatter-not-yaml"],
    ),
    "unquoted colon at the end": Shape(
        _file("name: a\ndescription: what to know:\ntype: user\n"),
        {"name": "a", "description": "what to know:", "type": "user"},
        "user",
        codes=["frontmatter-not-yaml"],
    ),
    "hash in a description": Shape(
        _file("name: a\ndescription: Fixes issue #12 and # 13\ntype: user\n"),
        {"name": "a", "description": "Fixes issue #12 and # 13", "type": "user"},
        "user",
        codes=["comment-in-value"],
    ),
    "hash opening a description": Shape(
        _file("name: a\ndescription: #5 is alive\n"),
        {"name": "a", "description": "#5 is alive"},
        codes=["comment-in-value"],
    ),
    "comment after a type": Shape(
        _file("name: a\ndescription: b\ntype: user  # user, feedback, project\n"),
        {"name": "a", "description": "b", "type": "user"},
        "user",
    ),
    "comment lines": Shape(_file("# mine\nname: a\n# theirs\ndescription: b\n"), {"name": "a", "description": "b"}),
    "double quotes": Shape(
        _file('name: "a: b"\ndescription: "c # d \\"e\\""\n'), {"name": "a: b", "description": 'c # d "e"'}
    ),
    "single quotes": Shape(_file("name: 'a: b'\ndescription: 'it''s'\n"), {"name": "a: b", "description": "it's"}),
    "comment after quotes": Shape(_file('name: "a"  # c\ndescription: b\n'), {"name": "a", "description": "b"}),
    "quotes opening a longer value": Shape(
        _file('name: "Quick" fix\ndescription: \'Tis done\ntype: user\n'),
        {"name": '"Quick" fix', "description": "'Tis done", "type": "user"},
        "user",
        codes=["frontmatter-not-yaml"],
    ),
    "quoted value beside a broken one": Shape(
        _file('name: "a"\ndescription: b: c\n'),
        {"name": "a", "description": "b: c"},
        codes=["frontmatter-not-yaml"],
    ),
    "literal block": Shape(
        _file("name: a\ndescription: |\n  first line\n\n  third: line # x\n\n# comment\ntype: user\n"),
        {"name": "a", "description": "first line\n\nthird: line # x\n", "type": "user"},
        "user",
    ),
    "folded block": Shape(
        _file("name: a\ndescription: >-\n  first\n  second\ntype: user\n"),
        {"name": "a", "description": "first second", "type": "user"},
        "user",
    ),
    "block beside a broken line": Shape(
        _file("name: a: b\ndescription: |\n  first\n  second\ntype: user\n"),
        {"name": "a: b", "description": "first\nsecond\n", "type": "user"},
        "user",
        codes=["frontmatter-not-yaml"],
    ),
    "folded plain": Shape(
        _file("name: a\ndescription: first\n  second\n   third\ntype: user\n"),
        {"name": "a", "description": "first second third", "type": "user"},
        "user",
    ),
    "wrapped without indent": Shape(
        _file("name: a\ndescription: first\nsecond half\ntype: user\n"),
        {"name": "a", "description": "first second half", "type": "user"},
        "user",
        codes=["frontmatter-not-yaml"],
    ),
    "wrapped quotes": Shape(
        _file('name: a\ndescription: "first\n  second"\n'), {"name": "a", "description": "first second"}
    ),
    "tab after the colon": Shape(_file("name:\ta\ndescription:\tb\n"), {"name": "a", "description": "b"}),
    "tab before the key": Shape(
        _file("\tname: a\n\tdescription: b\n"), {"name": "a", "description": "b"}, codes=["frontmatter-not-yaml"]
    ),
    "tab inside": Shape(_file("name: a\tb\ndescription: c\n"), {"name": "a\tb", "description": "c"}),
    "at sign, backtick, percent": Shape(
        _file("name: @alice\ndescription: `git push` fails\nextra: %s\n"),
        {"name": "@alice", "description": "`git push` fails", "extra": "%s"},
        codes=["frontmatter-not-yaml"],
    ),
    "star, ampersand, exclamation mark": Shape(
        _file("name: *important*\ndescription: &c and more\nextra: !now or never\n"),
        {"name": "*important*", "description": "&c and more", "extra": "!now or never"},
        codes=["frontmatter-not-yaml"],
    ),
    "own tag": Shape(
        _file("name: !important thing\ndescription: b\n"),
        {"name": "!important thing", "description": "b"},
        codes=["frontmatter-refused"],
    ),
    "bracket opening a longer value": Shape(
        _file("name: [urgent] call Bob\ndescription: {a} b\n"),
        {"name": "[urgent] call Bob", "description": "{a} b"},
        codes=["frontmatter-not-yaml"],
    ),
    "lists and mappings": Shape(
        _file("name: a\ntags: [x, y]\nlinks:\n- p\n- q\nmore:\n  k: v\ndescription: b\n"),
        {"name": "a", "tags": "[x, y]", "description": "b"},
    ),
    "duplicate key": Shape(
        _file("name: a\nname: b\ndescription: c\n"), {"name": "b", "description": "c"}, codes=["duplicate-key"]
    ),
    "values that are not strings to YAML": Shape(
        _file("name: no\ndescription: 2024-01-31\ntype: 1.0\nowner: ~\nlive: true\n"),
        {"name": "no", "description": "2024-01-31", "type": "1.0", "owner": "~", "live": "true"},
        "1.0",
    ),
    "empty description": Shape(
        _file("name: a\ndescription:\ntype: user\n"), {"name": "a", "description": "", "type": "user"}, "user"
    ),
    "empty header": Shape(b"---\n---\n\n" + BODY.encode(), {}),
    "empty header, closed after a blank line": Shape(b"---\n\n---\n" + BODY.encode(), {}),
    "Korean and Chinese keys": Shape(
        _file("이름: 배포\n描述: 部署: 步骤\nname: a\n"),
        {"이름": "배포", "描述": "部署: 步骤", "name": "a"},
        codes=["frontmatter-not-yaml"],
    ),
    "full-width colon": Shape(
        _file("name：部署\ndescription： 怎么上线\ntype: project\n"),
        {"name": "部署", "description": "怎么上线", "type": "project"},
        "project",
        codes=["full-width-colon", "full-width-colon"],
    ),
    "full-width colon inside a value": Shape(
        _file("name: 部署\ndescription: 步骤：上线\n"), {"name": "部署", "description": "步骤：上线"}
    ),
    "no space after the colon": Shape(
        _file("name:a\ndescription:b\n"), {"name": "a", "description": "b"}, codes=["missing-space", "missing-space"]
    ),
    "indented keys": Shape(_file("  name: a\n  description: b\n"), {"name": "a", "description": "b"}),
    "JSON": Shape(_file('{"name": "a", "description": "b"}\n'), {"name": "a", "description": "b"}),
    "quoted keys": Shape(_file("\"name\": a\n'description': b\n"), {"name": "a", "description": "b"}),
    "line separator in a value": Shape(
        _file("name: a\u2028b\ndescription: c\n"), {"name": "a\u2028b", "description": "c"}
    ),
    "control character": Shape(
        _file("name: a\x07b\ndescription: c\n"), {"name": "a\x07b", "description": "c"}, codes=["frontmatter-not-yaml"]
    ),
    "byte order mark": Shape(b"\xef\xbb\xbf" + _file("name: a\ndescription: b\n"), {"name": "a", "description": "b"}),
    "CR LF": Shape(
        _file("name: a\ndescription: b: c\ntype: user\n").replace(b"\n", b"\r\n"),
        {"name": "a", "description": "b: c", "type": "user"},
        "user",
        BODY.replace("\n", "\r\n"),
        ["frontmatter-not-yaml"],
    ),
    "CR LF, simple": Shape(
        _file("name: a\ndescription: b\n").replace(b"\n", b"\r\n"),
        {"name": "a", "description": "b"},
        body=BODY.replace("\n", "\r\n"),
    ),
    "lone CR": Shape(
        _file("name: a\ndescription: b\n").replace(b"\n", b"\r"),
        {"name": "a", "description": "b"},
        body=BODY.replace("\n", "\r"),
    ),
    "mixed line ends": Shape(
        b"---\r\nname: a\ndescription: b\r\n---\n\r\nx\ny\r\nz\r", {"name": "a", "description": "b"}, body="x\ny\r\nz\r"
    ),
    "Latin-1 byte in the header": Shape(
        b"---\nname: caf\xe9\ndescription: b\n---\n\nx\n",
        {"name": "caf\udce9", "description": "b"},
        body="x\n",
        codes=["not-utf8"],
    ),
    "Latin-1 byte in a block scalar": Shape(
        b"---\nname: a\ndescription: |\n  caf\xe9\n  b\n---\n\nx\n",
        {"name": "a", "description": "caf\udce9\nb\n"},
        body="x\n",
        codes=["not-utf8"],
    ),
    "Latin-1 byte in the body": Shape(
        b"---\nname: a\ndescription: b\n---\n\nna\xefve\n",
        {"name": "a", "description": "b"},
        body="na\udcefve\n",
        codes=["not-utf8"],
    ),
    "GBK": Shape(
        "---\nname: 部署步骤\ndescription: 周五怎么上线\n---\n\n先跑测试，再上线。\n".encode("gbk"),
        {"name": "部署步骤", "description": "周五怎么上线"},
        body="先跑测试，再上线。\n",
        codes=["other-encoding"],
    ),
    "UTF-16": Shape(
        "\ufeff---\nname: a\ndescription: 部署\n---\n\nx\n".encode("utf-16-le"),
        {"name": "a", "description": "部署"},
        body="x\n",
        codes=["other-encoding"],
    ),
    "UTF-16, big end first": Shape(
        "\ufeff---\r\nname: a\r\n---\r\n\r\nx\r\n".encode("utf-16-be"),
        {"name": "a"},
        body="x\r\n",
        codes=["other-encoding"],
    ),
    "HTML comment before the fence": Shape(
        b"<!-- generated,\ndo not edit -->\n\n" + _file("name: a\ndescription: b\n"),
        {"name": "a", "description": "b"},
        codes=["frontmatter-not-first"],
    ),
    "blank lines before the fence": Shape(
        b"\n\n" + _file("name: a\ndescription: b\n"), {"name": "a", "description": "b"}, codes=["frontmatter-not-first"]
    ),
    "long fences with blanks": Shape(b"-----  \nname: a\n----\t\nx\n", {"name": "a"}, body="x\n"),
    "closed by dots": Shape(b"---\nname: a\n...\nx\n", {"name": "a"}, body="x\n"),
    "closed at the end of the file": Shape(b"---\nname: a\n---", {"name": "a"}, body=""),
    "rule at the top": Shape(b"---\n**ACME LLC**\n---\ntext\n", {}, body="---\n**ACME LLC**\n---\ntext\n"),
    "rule at the top, a colon below": Shape(
        b"---\n**Note:** x\nmore: or less\n---\ntext\n", {}, body="---\n**Note:** x\nmore: or less\n---\ntext\n"
    ),
    "rule at the top, a sentence below": Shape(
        b"---\nMeeting with: Bob\n---\ntext\n", {}, body="---\nMeeting with: Bob\n---\ntext\n"
    ),
    "rule at the top, a list below": Shape(b"---\n- a: b\n---\ntext\n", {}, body="---\n- a: b\n---\ntext\n"),
    "rule at the top, nothing closes it": Shape(b"---\nHello.\nBye: now\n", {}, body="---\nHello.\nBye: now\n"),
    "two stacked blocks": Shape(
        b"---\nname: a\n---\n---\nname: z\ndescription: b\nodd: c\n---\nx\n",
        {"name": "a", "description": "b"},
        body="---\nname: z\ndescription: b\nodd: c\n---\nx\n",
        codes=["second-block"],
    ),
    "two stacked blocks, the first empty": Shape(
        b"---\n---\n\n---\nname: a\n---\n\nx\n", {"name": "a"}, body="x\n", codes=["second-block"]
    ),
    "unterminated": Shape(
        b"---\nname: a\ndescription: b: c\n\n# Title\n\nNote: text\n",
        {"name": "a", "description": "b: c"},
        body="# Title\n\nNote: text\n",
        codes=["frontmatter-unterminated"],
    ),
    "unterminated, text at once": Shape(
        b"---\nname: a\nJust text.\n", {"name": "a"}, body="Just text.\n", codes=["frontmatter-unterminated"]
    ),
    "unterminated, a rule further down": Shape(
        b"---\nname: a\ndescription: b\n\n# Title\n\nSome text.\n\n---\n\nMore.\n",
        {"name": "a", "description": "b"},
        body="# Title\n\nSome text.\n\n---\n\nMore.\n",
        codes=["frontmatter-not-yaml", "frontmatter-unterminated"],
    ),
    "unterminated, nothing else": Shape(
        b"---\nname: a\ntype: user", {"name": "a", "type": "user"}, "user", "", ["frontmatter-unterminated"]
    ),
    "8 kB header": Shape(
        _file(f"name: a\ndescription: {'long story ' * 750}\ntype: user\n"),
        {"name": "a", "description": ("long story " * 750).strip(), "type": "user"},
        "user",
    ),
    "100 kB header": Shape(
        _file('name: "a"\ndescription: b\n' + "".join(f"key{n}: {'x' * 90}\n" for n in range(1000)) + "last: c: d\n"),
        {"name": "a", "description": "b", "last": "c: d"} | {f"key{n}": "x" * 90 for n in range(1000)},
        codes=["frontmatter-too-long"],
    ),
    "200 levels of brackets": Shape(
        _file("name: a\ndeep: " + "[" * 200 + "]" * 200 + "\ndescription: b\n"),
        {"name": "a", "deep": "[" * 200 + "]" * 200, "description": "b"},
        codes=["frontmatter-refused"],
    ),
    "200 levels of indent": Shape(
        _file("name: a\n" + "".join(" " * n + f"k{n}:\n" for n in range(200)) + "description: b\n"),
        {"name": "a", "k0": " ".join(f"k{n}:" for n in range(1, 200)), "description": "b"},
        codes=["frontmatter-refused"],
    ),
    "alias bomb": Shape(
        _file(
            "a: &a [x, x]\n"
            + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))
            + "name: n\n"
        ),
        {"a": "&a [x, x]", "name": "n"}
        | {b: f"&{b} [*{a}, *{a}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)},
        codes=["frontmatter-refused"],
    ),
    "no frontmatter": Shape(BODY.encode(), {}),
    "empty file": Shape(b"", {}, body=""),
    "only a byte order mark": Shape(b"\xef\xbb\xbf", {}, body=""),
    "only a fence": Shape(b"---", {}, body="---"),
    "NUL bytes": Shape(b"---\nname: a\n---\nx\0y\n", {}, body="", codes=["binary"]),
    "git-crypt": Shape(b"\0GITCRYPT\0\x9a\xff\x00\x12" + bytes(range(256)), {}, body="", codes=["git-crypt"]),
    "226 kB": Shape(_file("name: a\n", "word " * 45_000 + "\n"), {"name": "a"}, body="word " * 45_000 + "\n"),
}
