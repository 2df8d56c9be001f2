"""What the offline model says, in English and Chinese. None of it claims to understand anything."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from agentic_memory.offline.words import Language


@dataclass(frozen=True, slots=True)
class Phrases:
    """Sentences of one language."""

    saved: str
    present: str
    not_saved: str
    save_what: str
    forgot: str
    not_forgotten: str
    forget_what: str
    forget_one: str
    nothing_to_forget: str
    unclear_what: str
    recalled: str
    mentioned: str
    unknown: str
    unreadable: str
    known: str
    empty: str
    who: str
    commands: str
    no_tool: str
    no_directory: str
    separator: str


PHRASES: Final[dict[Language, Phrases]] = {
    "en": Phrases(
        saved="Saved to memory:",
        present="Already in memory:",
        not_saved="Not saved:",
        save_what="What should I remember? Say it in one sentence, like: remember that I live in Hangzhou.",
        forgot="Removed from memory:",
        not_forgotten="Not removed:",
        forget_what="What should I forget? Name it, like: forget where I live.",
        forget_one="I do not empty the whole memory at once. Name one thing to forget, or remove files yourself.",
        nothing_to_forget="Nothing in memory matches that, so nothing was removed.",
        unclear_what="{file} looks related, but none of its lines names that; it is left as it is. Edit it by hand.",
        recalled="From memory:",
        mentioned="The index of memory says:",
        unknown="Memory holds nothing about that.",
        unreadable="Could not be read:",
        known="Files in memory:",
        empty="Memory is empty.",
        who="I am the offline stand-in for a language model: I follow fixed rules and do not reason.",
        commands='I understand "remember that ...", "forget ..." and "what do you know about ...?"',
        no_tool="none of the tools I was given can write files",
        no_directory="the system prompt names no memory directory",
        separator=": ",
    ),
    "zh": Phrases(
        saved="已存入记忆：",
        present="记忆中已有：",
        not_saved="未能保存：",
        save_what="要我记住什么？请用一句话说明，例如：记住我住在杭州。",
        forgot="已从记忆中删除：",
        not_forgotten="未能删除：",
        forget_what="要我忘记什么？请说明，例如：忘记我的住址。",
        forget_one="我不会一次清空全部记忆。请说明要忘记哪一件事，或自行删除文件。",
        nothing_to_forget="记忆中没有与此相符的内容，什么都没有删除。",
        unclear_what="{file} 看起来相关，但没有哪一行提到这件事，已保持原样。请手动修改。",
        recalled="记忆中的内容：",
        mentioned="记忆索引中写着：",
        unknown="记忆中没有这方面的内容。",
        unreadable="无法读取：",
        known="记忆中的文件：",
        empty="记忆是空的。",
        who="我是语言模型的离线替身：只按固定规则行事，不会推理。",
        commands="我听得懂“记住……”、“忘记……”和“你还记得……吗？”。",
        no_tool="给我的工具都不能写文件",
        no_directory="系统提示中没有写明记忆目录",
        separator="：",
    ),
}


def bullet(lines: Sequence[str]) -> str:
    """Return ``lines`` as a Markdown list."""
    return "\n".join(f"- {line}" for line in lines)
