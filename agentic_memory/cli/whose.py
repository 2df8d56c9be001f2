"""Whose memory a command is about: ``--user`` and ``--scope`` on every command."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, Final

import typer

from agentic_memory.errors import MissingIdentity
from agentic_memory.scopes import TEMPLATES, Identity, PathTemplate

DEFAULT_SCOPE: Final = "user"

User = Annotated[
    str | None, typer.Option("--user", metavar="ID", help="The memory of this user: users/ID below the workdir.")
]
Scope = Annotated[
    str | None, typer.Option("--scope", metavar="TEMPLATE", help="Where that is, as the middleware's scope says it.")
]


def with_whose(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command with ``--user`` and ``--scope``, which put its memory directory where the middleware has it."""

    @wraps(command)
    def run(*, user: str | None = None, scope: str | None = None, memory_dir: str, **others: Any) -> Any:
        if user is not None or scope is not None:
            memory_dir = _directory_of(user, scope or DEFAULT_SCOPE, memory_dir)
        return command(memory_dir=memory_dir, **others)

    signature = inspect.signature(command)
    parameters = [*signature.parameters.values()]
    at = next(at for at, parameter in enumerate(parameters, 1) if parameter.name == "memory_dir")
    parameters[at:at] = [
        inspect.Parameter(name, parameters[at - 1].kind, default=None, annotation=annotation)
        for name, annotation in (("user", User), ("scope", Scope))
    ]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined] # what Typer goes by
    run.__annotations__ = {**command.__annotations__, "user": User, "scope": Scope}
    return run


def _directory_of(user: str | None, scope: str, memory_dir: str) -> str:
    template = PathTemplate(f"{TEMPLATES.get(scope, scope)}/{memory_dir}")
    if user is not None and "user_id" not in template.fields:
        raise typer.BadParameter(f"{scope!r} has no {{user_id}} in it, so --user says nothing", param_hint="--scope")
    try:
        return template.fill(Identity(user_id=user))
    except MissingIdentity as error:
        missing = [name for name in template.fields if name != "user_id" or not user]
        hint = "give --user" if missing == ["user_id"] else "give the path without fields, as it is on the disk"
        raise typer.BadParameter(f"{scope!r} needs {' and '.join(missing)}: {hint}", param_hint="--scope") from error
