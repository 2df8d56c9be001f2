"""Text in a memory that speaks to a model as if it had the right to: "ignore previous instructions", a forged system tag.

It is flagged and not refused. What a person wants an agent to do ("always answer in Chinese") is what memory is for, and
reads much alike; found is what changes whom the agent obeys, what it may do, what it hides, or where data goes.
"""

import re
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from agentic_memory.lines import count_breaks
from agentic_memory.prose import blank_code


@dataclass(frozen=True, slots=True)
class Order:
    """One of them: ``text[start:end]``, on the 1-based ``line``."""

    kind: str
    start: int
    end: int
    line: int


_RULES: Final = (
    r"(?:instructions?|prompts?|rules?|guidelines?|directives?|commands?|orders|system messages?|restrictions?)"
)
_EARLIER: Final = (
    r"(?:previous|prior|above|earlier|preceding|existing|original|other|system|safety|your|all|any|these|those)"
)
_DATA: Final = (
    r"(?:logs?|data|files?|conversations?|messages?|chats?|transcripts?|histor(?:y|ies)|contents?|contexts?|keys?|"
    r"secrets?|credentials?|passwords?|tokens?|environment|env|prompts?|memor(?:y|ies))"
)
_SEND: Final = r"(?:send|post|upload|forward|e-?mail|transmit|exfiltrate|copy|report|submit|leak|bcc)"
_ADDRESS: Final = (
    r"(?:https?://|ftp://|\b[\w.+-]+@[\w-]+\.\w|\b\w+\.(?:com|net|org|io|cn|ru|xyz|dev)\b|"
    r"\b(?:webhook|server|endpoint|url)\b)"
)
_ALWAYS: Final = (
    r"(?:always|every time|each time|whenever|when (?:you|the user)|before (?:you )?(?:answer|reply)\w*|"
    r"after (?:each|every))"
)
_TAGS: Final = (
    r"(?:system|assistant|developer|system-reminder|system_prompt|instructions?|tool_calls?|tool_result|function_calls?|"
    r"function_results?|antml:[a-z_]+|invoke|memory|memory-index)"
)
_TELL: Final = (
    r"(?:tell|telling|inform|informing|notify|notifying|reveal|revealing|alert|alerting|disclose|disclosing|mention|"
    r"mentioning)"
)
_ANYONE: Final = r"(?:the user|users?|anyone|anybody|them|him|her|human|person|operator)"
_CHECKS: Final = r"(?:checks?|rules?|filters?|prompts?|guards?|policy|policies|mode|systems?)"
_ZH_DATA: Final = r"(?:日志|数据|文件|密钥|密码|对话|记录|内容|服务器)"
_ZH_SEND: Final = r"(?:发送|发到|上传|转发|提交|抄送|泄露|发给)"
_ZH_EARLIER: Final = r"(?:之前|以上|前面|此前|先前|上述|所有|全部|一切|系统|原有|安全)"

_KINDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "override": (
            (
                r"\b(?:ignore|disregard|forget|override|bypass|do not follow|don't follow|stop following)\b[^.\n]{0,20}?"
                rf"\b(?:{_EARLIER}\s+)+(?:\w+\s+)?{_RULES}\b"
            ),
            r"\b(?:new|updated|real|actual|hidden)\s+(?:system\s+)?(?:instructions?|prompt)\s*[:：]",
            r"\byou are now\b(?! (?:in|on|at|able|ready|connected)\b)",
            r"\bfrom now on,? you (?:are|will be|act as)\b",
            r"\b(?:pretend|act as if) (?:that )?you (?:have no|are not bound)\b",
            r"\bdeveloper mode\b",
            r"\bjailbr(?:eak|oken)\b",
            (
                rf"(?:忽略|无视|忘记|不要遵守|不再遵守|覆盖)(?:掉)?(?:你)?{_ZH_EARLIER}[^。\n]{{0,10}}?"
                r"(?:指令|指示|提示词?|规则|要求|限制|设定)"
            ),
            r"(?:新的|真正的)(?:系统)?(?:指令|提示词)[:：]",
            r"(?:从现在起|从现在开始)[，,]?你(?:就)?(?:是|扮演)",
            r"你现在是(?:一个)?(?:不受|没有|无)",
        ),
        "forged-role": (
            r"<\|(?:im_start|im_end|system|user|assistant|end|eot_id|start_header_id)[^|\n]{0,20}\|>",
            r"\[/?INST\]",
            r"<</?SYS>>",
            rf"</?{_TAGS}(?:\s[^>\n]{{0,200}})?>",
            (
                r"^[ \t>#*_-]*(?:system|assistant|developer)(?: (?:prompt|message|override))?[*_]{0,2}[ \t]*[:：][*_]{0,2}[ \t]*"
                r"(?:you\b|ignore\b|new\b|the user\b|你|忽略)"
            ),
            r"\"(?:tool_calls?|function_call|tool_use)\"\s*:\s*[\[{]",
        ),
        "exfiltration": (
            rf"\b{_ALWAYS}\s+(?:[^\s.]+\s+){{0,12}}?{_SEND}\s+(?:\S+\s+){{0,8}}?{_DATA}\S?\s+(?:\S+\s+){{0,8}}?to\b",
            (
                rf"\b{_SEND}\s+(?:\S+\s+){{0,8}}?{_DATA}\S?\s+(?:\S+\s+){{0,8}}?to\s+(?:[^\s.]+\s+){{0,4}}?"
                rf"[^\s.]{{0,30}}?{_ADDRESS}"
            ),
            rf"(?:每次|总是|始终|务必|必须|自动)[^。\n]{{0,40}}?{_ZH_SEND}[^。\n]{{0,60}}?(?:https?://|\w@\w|{_ZH_DATA})",
            rf"(?:把|将)[^。\n]{{0,40}}?{_ZH_DATA}[^。\n]{{0,30}}?{_ZH_SEND}[^。\n]{{0,30}}?(?:https?://|\w@\w)",
            r"!\[[^\]\n]{0,80}\]\(https?://[^)\s]{0,200}[?&][\w-]{1,30}=(?:\{|\$|<|%7B)",
        ),
        "concealment": (
            rf"\b(?:do not|don't|never|must not|without)\s+(?:ever\s+)?{_TELL}\b[^.\n]{{0,50}}?\b{_ANYONE}\b",
            r"\b(?:secretly|covertly|silently)\s+(?:send|run|execute|delete|upload|change|add|write|post|forward)\b",
            r"\bkeep (?:this|it) (?:hidden|secret) from\b",
            r"(?:不要|不得|别|切勿|无需|不能)(?:向|对|让|告诉|通知|提醒)?(?:任何)?(?:用户|人|别人)(?:知道|发现|提及|透露|说明)",
            r"(?:不要|别|切勿)(?:告诉|通知|提醒)(?:任何)?(?:用户|人|别人)",
            r"(?:偷偷|悄悄|暗中)地?(?:发送|执行|运行|删除|上传|修改|转发)",
        ),
        "permission": (
            (
                r"\b(?:disable|turn off|bypass|circumvent|skip|ignore|override)\b[^.\n]{0,20}?"
                rf"\b(?:safety|security|permission|guardrails?|approval|content(?=\s*{_CHECKS}))\s*{_CHECKS}?\b"
            ),
            (
                r"\byou (?:now )?(?:have|are granted|are given)\b[^.\n]{0,20}?\b(?:full|root|admin|unrestricted|all)\b[^.\n]{0,20}?"
                r"\b(?:access|permissions?|privileges|rights)\b"
            ),
            r"(?:关闭|绕过|跳过|禁用|无视)[^。\n]{0,6}?(?:安全|权限|审批|内容)(?:检查|限制|规则|过滤|机制|校验)",
            r"你(?:现在)?(?:拥有|具有)[^。\n]{0,6}?(?:全部|所有|最高|管理员|root)[^。\n]{0,4}?权限",
        ),
    }
)
_PATTERN: Final = re.compile(
    "|".join(f"(?P<{kind.replace('-', '_')}>{'|'.join(patterns)})" for kind, patterns in _KINDS.items()),
    re.IGNORECASE | re.MULTILINE,
)
_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
# Searching for a few plain words first is ten times as fast; every pattern above has one of these in it.
_TELLTALE: Final = re.compile(
    r"instruction|prompt|guideline|directive|rules?\b|restriction|command|system message|orders\b|you are now|from now on|"
    r"pretend|act as if|developer mode|jailb|<\||inst\]|sys>>|"
    r"</?(?:system|assistant|developer|instruction|tool_|function|antml|invoke|memory)|"
    r"(?:system|assistant|developer)[ \w*]{0,12}[:：]|tool_call|function_call|tool_use|"
    r"\b(?:send|post|upload|forward|e?-?mail|transmit|exfiltrate|copy|report|submit|leak|bcc)\s|!\[|"
    r"\b(?:tell|inform|notify|reveal|alert|disclos|mention)|secret|covert|silent|keep (?:this|it)|"
    r"safety|security|permission|guardrail|approval|access|privilege|rights|[指提规要限设]|从现在|你现在|你拥有|你具有|"
    r"发送|发到|上传|转发|提交|抄送|泄露|发给|用户|别人|任何人|偷偷|悄悄|暗中|安全|权限|审批|内容"
)
_LINE: Final = re.compile(r"[^\r\n]+")
WINDOW_CHARS: Final = 500
"""Of a longer line pieces are looked at, with the overlap below, so that time grows with length and not with its square."""
OVERLAP_CHARS: Final = 250


def find_orders(text: str) -> list[Order]:
    """Find the places in ``text`` that read like orders to a model, code left out."""
    prose = blank_code(text)
    # Only ASCII is lowered: places must not move.
    lowered = prose.translate(_LOWER)
    found: list[Order] = []
    at, line = 0, 1
    for written in _LINE.finditer(lowered):
        if not _TELLTALE.search(lowered, *written.span()):
            continue
        for start, end, kind in _in_line(prose, *written.span()):
            line += count_breaks(text, at, start)
            at = start
            found.append(Order(kind, start, end, line))
    return found


def _in_line(prose: str, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    done = start
    for window in range(start, end, WINDOW_CHARS):
        # The pattern's ^ is the start of a line, which the window is only where the line begins.
        for match in _PATTERN.finditer(prose, max(done, window), min(end, window + WINDOW_CHARS + OVERLAP_CHARS)):
            done = match.end()
            yield match.start(), match.end(), (match.lastgroup or "").replace("_", "-")
