"""Secrets in text: keys, tokens, passwords, private keys, and addresses with credentials in them.

A secret is told by its own shape (``agentic_memory.keyshapes``) or by a label beside it, in English or Chinese. Nothing is
looked up anywhere. A random-looking string alone is no secret: hashes, UUIDs, versions and base64 images are that too.
"""

import math
import re
import string
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from agentic_memory.keyshapes import KEY_SHAPES

MIN_TOKEN_CHARS: Final = 8
MIN_PASSWORD_CHARS: Final = 4
MIN_ENTROPY_BITS: Final = 3.0
"""Shannon entropy per character; 32 hex digits drawn at random have about 3.6, English words under 3 as a rule."""
MAX_LABEL_CHARS: Final = 40
"""How much before and after the telling word may belong to a label."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A secret at ``text[start:end]``. Its text is not kept: a finding can be printed and logged."""

    kind: str
    start: int
    end: int


REDACTED: Final = re.compile(r"\[redacted [a-z0-9-]{2,30}\]")
"""What ``redact`` puts in the place of a secret."""


def find_secrets(text: str) -> list[Finding]:
    """Find the secrets in ``text``, in order and without overlaps."""
    found: list[Finding] = []
    for shape in KEY_SHAPES:
        if shape.anchor in text:
            for match in shape.pattern.finditer(text):
                span = match.span("secret") if "secret" in shape.pattern.groupindex else match.span()
                if not _is_placeholder(text[slice(*span)]):
                    found.append(Finding(shape.kind, *span))
    found += _in_addresses(text)
    found += _in_headers(text)
    found += _labelled(text)
    return _without_overlaps(found)


def secrets_in(text: str) -> frozenset[str]:
    """Return the secrets themselves, for telling those that are new from those that are there already."""
    return frozenset(text[finding.start : finding.end] for finding in find_secrets(text))


def redact(text: str, *, keep: frozenset[str] = frozenset()) -> str:
    """Return ``text`` with a note in the place of each secret that is not in ``keep``."""
    parts: list[str] = []
    done = 0
    for finding in find_secrets(text):
        if text[finding.start : finding.end] not in keep:
            parts += text[done : finding.start], f"[redacted {finding.kind}]"
            done = finding.end
    return "".join((*parts, text[done:])) if parts else text


def _without_overlaps(found: list[Finding]) -> list[Finding]:
    kept: list[Finding] = []
    # Of two that overlap the one that begins first and reaches furthest is the whole of it.
    for finding in sorted(found, key=lambda one: (one.start, -one.end)):
        if not kept or finding.start >= kept[-1].end:
            kept.append(finding)
        elif finding.end > kept[-1].end:
            kept[-1] = Finding(kept[-1].kind, kept[-1].start, finding.end)
    return kept


# --------------------------------------------------------------------------- addresses and headers

_ADDRESS: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s:/@\"'<>`]{0,80}:(?P<secret>[^\s@/\"'<>`]{3,200})@[\w\[]"
)
_QUERY: Final = re.compile(
    r"[?&;](?:access_?token|api_?key|apikey|key|token|auth|sig|signature|secret|password|pwd)=(?P<secret>[^\s&#\"'<>`;)]{8,500})",
    re.IGNORECASE,
)
_AUTHORIZATION: Final = re.compile(r"\b(?:bearer|basic)[ \t]+(?P<secret>[A-Za-z0-9._~+/-]{12,}={0,2})", re.IGNORECASE)
_COOKIE: Final = re.compile(r"\bcookie:[ \t]*[\w.-]{1,60}=(?P<secret>[\w.%+/=-]{16,4000})", re.IGNORECASE)
_CURL_USER: Final = re.compile(
    r"(?:^|[\s`])(?:curl|wget)\b[^\n]{0,200}?\s(?:-u|--user)[ =]['\"]?[\w.@-]{1,60}:(?P<secret>[^\s'\"`]{3,100})"
)
_PASSWORD_OPTION: Final = re.compile(
    r"\bsshpass[ \t]+-p[ \t]*['\"]?(?P<sshpass>[^\s'\"`]{3,100})|\b(?:mysql|mysqldump|mariadb)\b[^\n]{0,100}?\s-p(?P<mysql>[^\s'\"`-][^\s'\"`]{2,100})"
    r"|\b(?:docker|podman|oc|az)[ \t]+login\b[^\n]{0,100}?\s-p[ \t]*['\"]?(?P<login>[^\s'\"`]{4,200})"
    r"|\bredis-cli\b[^\n]{0,100}?\s-a[ \t]*['\"]?(?P<redis>[^\s'\"`]{4,200})"
    r"|\s--(?:password|passwd|token|api-key|secret)[ =]['\"]?(?P<option>[^\s'\"`]{4,200})"
)  # fmt: skip


def _in_addresses(text: str) -> Iterator[Finding]:
    if "://" in text:
        for match in _ADDRESS.finditer(text):
            if not _is_placeholder(match["secret"]):
                yield Finding("url-credentials", *match.span("secret"))
    if "=" in text and ("?" in text or "&" in text):
        for match in _QUERY.finditer(text):
            value = match["secret"]
            if not _is_placeholder(value) and _is_mixed(value) and not _is_wordy(value):
                yield Finding("url-token", *match.span("secret"))


def _in_headers(text: str) -> Iterator[Finding]:
    lowered = text.lower()
    if "cookie:" in lowered:
        for match in _COOKIE.finditer(text):
            if _is_key_like(match["secret"]):
                yield Finding("cookie", *match.span("secret"))
    if "bearer" in lowered or "basic" in lowered:
        for match in _AUTHORIZATION.finditer(text):
            value = match["secret"]
            if not _is_placeholder(value) and _is_mixed(value) and _looks_random(value):
                yield Finding("authorization", *match.span("secret"))
    if "-u" in text and ("curl" in text or "wget" in text):
        for match in _CURL_USER.finditer(text):
            if not _is_placeholder(match["secret"]):
                yield Finding("password", *match.span("secret"))
    if "-p" in text or "--" in text or "redis-cli" in text:
        for match in _PASSWORD_OPTION.finditer(text):
            group = match.lastgroup or "option"
            value = match[group]
            if not _is_placeholder(value) and (group != "option" or _is_mixed(value)):
                yield Finding("password", *match.span(group))


# --------------------------------------------------------------------------- labels

# The word that makes a label one; what is around it belongs to the label too (DB_PASSWORD_2, spring.mail.password).
_WORD: Final = re.compile(
    r"(?P<password>pass(?:word|wd|phrase|code|wort)|(?<![A-Za-z])(?:pwd|pw|pass)(?![A-Za-z])|contrase[nñ]a|mot de passe|"
    r"密码|口令|密碼|パスワード)"
    r"|(?P<token>(?:api|access|secret|private|auth|account|storage|encryption|signing|master|service|app|license|subscription)"
    r"[ _-]?(?:access[ _-]?)?key(?:[ _-]?secret)?|(?<![A-Za-z])secret(?![a-z])|"
    r"(?:client|app|consumer|shared|webhook|signing)[ _-]?secret|"
    r"(?:access|auth|api|bearer|refresh|session|bot|deploy|personal|id|service)[ _-]?token|(?<![A-Za-z])token(?![a-z])|"
    r"credentials?|密钥|令牌|私钥|凭证)"
    r"|(?P<pin>(?<![A-Za-z])pin(?:[ _-]?code)?(?![A-Za-z])|(?:门禁|支付|取款|开机|解锁)密码)"
    r"|(?P<words>(?:seed|recovery|mnemonic)[ _-]?(?:phrase|words)|mnemonic|助记词)"
    r"|(?P<key>(?<![A-Za-z])key(?![A-Za-z]))",
    re.IGNORECASE,
)
# Every word above has one of these in it.
_WORD_ANCHORS: Final = (
    *("pass", "pwd", "pw", "contrase", "key", "secret", "token", "credential", "pin", "phrase", "words", "mnemonic"),
    *("密码", "密碼", "口令", "密钥", "令牌", "私钥", "凭证", "助记词", "パスワード"),
)
_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_REST_OF_LABEL: Final = re.compile(r"[A-Za-z0-9_-]{0,30}")
# What such a suffix names is about the secret and not the secret.
_ABOUT: Final = re.compile(
    r"(?:file|path|dir|url|uri|endpoint|name|names|id|ids|hash|hashed|salt|min|max|length|len|size|limit|limits|count|type|"
    r"policy|field|input|expiry|expires|expiration|ttl|age|prompt|reset|hint|manager|budget|usage|env|var|ref|version|bucket|"
    r"class|required|enabled|regex|pattern|cost|price|s)(?![a-z])",
    re.IGNORECASE,
)
_ABOUT_WORD: Final = re.compile(r"(?<![A-Za-z])" + _ABOUT.pattern, re.IGNORECASE)
_NOT_BEFORE: Final = re.compile(
    r"(?<![A-Za-z])(?:next|page|cache|csrf|pagination|continuation|max|min|no|num|per|public|sync)[ _-]?$",
    re.IGNORECASE,
)
# Between label and value: what it is for, then a sign or a verb; or nothing at all, if the value looks like one.
_SEPARATOR: Final = re.compile(
    r"""[\]"'`*_)]{0,4}
        (?:[ \t]*[(（][^()（）\r\n]{1,30}[)）])?
        (?:[ \t]+[\w./@'-]+){0,5}?
        [*`]{0,2}
        (?:(?P<sign>[ \t]*(?::=|=>|->|→|[:=：＝]|\|)[ \t]*)
          |(?P<verb>[ \t]+(?:(?:is|was|are)(?:[ \t]+now)?|(?:changed|set|reset|rotated)?[ \t]?to|value=)[ \t:]*
                   |[ \t]*(?:是|为|為|改为|改成了?|换成了?|设为|設為)[ \t:：]*))
        [*]{0,2}[ \t]*(?:[brfu](?=["']))?(?P<quote>["'`]?)""",
    re.VERBOSE | re.IGNORECASE,
)
_NEARBY: Final = re.compile(r"""[\]"'`*)]{0,3}[ \t]{1,8}(?P<quote>["'`]?)""")
_VALUE: Final = re.compile(r"[^\s\"'`<>，。；、）】》|]+")
_QUOTED: Final = re.compile(r"[^\"'`\r\n]{1,200}")
_TRAILING: Final = re.compile(r"(?:[,;:.)\]}]|\*\*)+$")
_SAID_AFTER: Final = re.compile(
    r"[`'\"](?P<secret>[^\s`'\"]{6,100})[`'\"][ \t]+(?:is|was)[ \t]+(?:the|my|our|your)[ \t]+(?:[\w-]+[ \t]+){0,3}?"
    r"(?:pass(?:word|phrase)|token|secret|api[ _-]?key)\b",
    re.IGNORECASE,
)
_USER_AND: Final = re.compile(
    r"\b(?:log(?:in|ged in| in)?|sign in)[ \t]+(?:with|as|using)[ \t]+[`'\"]?[\w.@-]{2,40}[ \t]?[:/][ \t]?(?P<secret>[^\s`'\"]{6,100})",
    re.IGNORECASE,
)
_EXPORT: Final = re.compile(r"(?:^|[\s;`])export[ \t]+\w+=[\"']?(?P<secret>[A-Za-z0-9_+/.=-]{16,200})", re.MULTILINE)
_ENVIRONMENT_KEY: Final = re.compile(
    r"(?<![A-Za-z0-9])[A-Z][A-Z0-9_]{1,40}_KEY[ \t]*[=:][ \t]*[\"']?(?P<secret>[A-Za-z0-9_+/.=-]{16,200})"
)
_MNEMONIC: Final = re.compile(r"[ \t]*[:：=]?[ \t]*[\"'`]?(?P<secret>[a-z]{3,8}(?:[ ,]+[a-z]{3,8}){11,23})")


def _labelled(text: str) -> Iterator[Finding]:
    for word in _words(text):
        kind = word.lastgroup or ""
        if kind == "words":
            mnemonic = _MNEMONIC.match(text, word.end())
            if mnemonic:
                yield Finding("seed-phrase", *mnemonic.span("secret"))
            continue
        span = _value_of(text, word, kind)
        if span is not None:
            yield Finding({"key": "token"}.get(kind, kind), *span)
    for anchor, kind, pattern in (
        ("export", "environment", _EXPORT),
        ("_KEY", "environment", _ENVIRONMENT_KEY),
        ("s the ", "password", _SAID_AFTER),
        ("s my ", "password", _SAID_AFTER),
        ("og", "password", _USER_AND),
        ("ign in", "password", _USER_AND),
    ):
        if anchor in text:
            for match in pattern.finditer(text):
                value = match["secret"]
                likely = _is_strong(value) if kind == "password" else _is_key_like(value)
                if likely and not _is_placeholder(value) and not _is_path(value):
                    yield Finding(kind, *match.span("secret"))


def _words(text: str) -> Iterator[re.Match[str]]:
    # Looking for a few plain strings first is ten times as fast. Only ASCII is lowered: places must not move.
    lowered = text.translate(_LOWER)
    lines: dict[int, int] = {}
    for anchor in _WORD_ANCHORS:
        at = lowered.find(anchor)
        while at >= 0:
            end = _end_of_line(text, at)
            lines[text.rfind("\n", 0, at) + 1] = end
            at = lowered.find(anchor, end)
    for start in sorted(lines):
        yield from _WORD.finditer(text, start, lines[start])


def _value_of(text: str, word: re.Match[str], kind: str) -> tuple[int, int] | None:
    before = text[max(0, word.start() - MAX_LABEL_CHARS) : word.start()]
    if _NOT_BEFORE.search(before):
        return None
    rest = _REST_OF_LABEL.match(text, word.end())
    end = rest.end() if rest else word.end()
    suffix = text[word.end() : end]
    if suffix and (_ABOUT.search(suffix.lstrip("_-")) or (suffix[0].isalpha() and kind != "pin" and suffix.islower())):
        return None
    nearby = _NEARBY.match(text, end)
    if nearby and kind not in {"pin", "key"}:
        span = _read_value(text, nearby)
        if span is not None and _is_strong(text[slice(*span)]) and _is_secret(text[slice(*span)], kind, sure=False):
            return span
    separator = _SEPARATOR.match(text, end, _end_of_line(text, end))
    if separator is None:
        return None
    span = _read_value(text, separator)
    if span is None:
        return None
    alone = not text[span[1] : _end_of_line(text, span[1])].strip(" \t.,;|)}*\"'`。，；")
    # Words between the label and the sign: only a value that cannot be prose counts.
    gap = text[end : separator.start("sign")] if separator["sign"] is not None else " "
    sure = separator["sign"] is not None and not gap.strip("\"'`*_)] \t")
    if not sure and _ABOUT_WORD.search(gap):
        return None
    value = text[slice(*span)]
    return span if _is_secret(value, kind, sure=sure, alone=alone or bool(separator["quote"])) else None


def _read_value(text: str, before: re.Match[str]) -> tuple[int, int] | None:
    quoted = bool(before["quote"])
    value = (_QUOTED if quoted else _VALUE).match(text, before.end())
    if value is None:
        return None
    # Only what ends a sentence or a list; signs inside a password are part of it.
    shown = value[0] if quoted or "(" in value[0] else _TRAILING.sub("", value[0])
    return value.start(), value.start() + len(shown)


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


# --------------------------------------------------------------------------- values


def _is_secret(value: str, kind: str, *, sure: bool, alone: bool = False) -> bool:
    """Tell whether a labelled value is one.

    Args:
        value: What stands there.
        kind: What the label says.
        sure: Whether a sign stands right behind the label; a verb may go on to say anything.
        alone: Whether nothing else follows on the line.
    """
    if kind == "pin":
        return value.isdigit() and 4 <= len(value) <= 8
    if _is_placeholder(value) or _is_expression(value) or not value.isascii():
        return False
    if kind == "key":
        return _is_key_like(value) and not value.islower() and not value.isupper() and not _is_path(value)
    if kind == "token":
        likely = (_is_mixed(value) and not _is_wordy(value)) or _is_strong(value)
        return (
            likely
            and not _is_path(value)
            and " " not in value
            and len(value) >= (MIN_TOKEN_CHARS if sure else 2 * MIN_TOKEN_CHARS)
        )
    if len(value) < MIN_PASSWORD_CHARS or " " in value.strip() or _is_date(value) or "://" in value or value[0] == "/":
        return False
    if value.isalpha():
        # A single word may be a password or the beginning of a sentence.
        mixed = not value.islower() and not value.istitle() and not value.isupper()
        return sure and (mixed or (alone and len(value) >= 6 and value.lower() not in _PLAIN_WORDS))
    return any(char.isalpha() for char in value) if sure and alone else _is_mixed(value) or _is_strong(value)


_PLACEHOLDER: Final = re.compile(
    r"^[<\[{(]|^\$[A-Za-z_{(]|^%[A-Z_]+%|^\W+$|(?:ctrl|alt|shift|cmd|option)\+|\.\.\.|…|x{4,}|\*{3,}|•|your[-_ ]|[-_]here\b|example|placeholder|redacted|changeme|change[-_]me|dummy|"
    r"^(?:my|the|some|a|test)?[-_]?(?:api[-_]?key|secret|token|password|passwd|pass|pwd|key|auth)s?[-_]?\d*$|"
    r"\$\{|\{\{|\$\(|%\(|^process\.env|^os\.|<[a-z _-]+>",
    re.IGNORECASE,
)
_EXPRESSION: Final = re.compile(
    r"[\w.]+[(\[].*|(?:self|settings|config|cfg|os|process|env|this|args|options|params|req|request|user|data)\.\w.*|"
    r"[a-z_]+(?:\.[a-z_]+)+",
    re.IGNORECASE,
)
_DATE: Final = re.compile(r"\d{4}[-/年.]\d{1,2}[-/月.]\d{1,2}日?")
_WORDY_PART: Final = re.compile(
    r"(?:[a-z]+|[A-Z]+)?(?:[A-Z][a-z]{2,})*\d{0,4}|\d+[A-Za-z]{0,3}|[A-Z]?[a-z]+\d{1,2}[a-z]+"
)
_PARTS: Final = re.compile(r"[^A-Za-z0-9]+")
_PLAIN_WORDS: Final = frozenset(
    "string integer number boolean object required optional nullable unknown unset hidden secret password passwd token "
    "changed changeme rotated expired stored encrypted hashed vault keychain bitwarden lastpass onepassword default disabled "
    "enabled please contact managed generated random nothing missing invalid incorrect forgotten private public shared below "
    "above varies somewhere environment undefined strong medium removed deleted needed manual kerberos oauth unchanged".split()
)


def _is_placeholder(value: str) -> bool:
    return _PLACEHOLDER.search(value) is not None or len(set(value)) <= 2


def _is_expression(value: str) -> bool:
    return _EXPRESSION.fullmatch(value) is not None


def _is_path(value: str) -> bool:
    return value.startswith(("/", "./", "~", "../", "http")) or (value.count("/") > 1 and not _looks_random(value))


def _is_date(value: str) -> bool:
    return _DATE.match(value) is not None


def _is_mixed(value: str) -> bool:
    """Tell whether a value is made of letters and digits, as keys are and words are not."""
    return any(char.isdigit() for char in value) and any(char.isalpha() for char in value)


def _is_wordy(value: str) -> bool:
    """Tell whether a value is put together of words and numbers, as names, models and versions are."""
    return all(_WORDY_PART.fullmatch(part) for part in _PARTS.split(value))


def _looks_random(value: str) -> bool:
    counts = Counter(value)
    entropy = -sum(count / len(value) * math.log2(count / len(value)) for count in counts.values())
    return entropy >= MIN_ENTROPY_BITS


def _is_key_like(value: str) -> bool:
    return len(value) >= 2 * MIN_TOKEN_CHARS and _is_mixed(value) and not _is_wordy(value) and _looks_random(value)


def _is_strong(value: str) -> bool:
    """Tell whether a value looks like a password or a key even where no sign says that it is one."""
    if len(value) < 8 or _EXPRESSION.fullmatch(value):
        return False
    signs = sum(char in "!@#$%^&*?~+" for char in value)
    if not _is_mixed(value):
        return signs > 1 and not value.islower() and not value.isupper()
    return signs > 0 or (len(value) >= 10 and not _is_wordy(value))
