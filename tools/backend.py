"""Which backend a tool works on."""

from agentscope.tool import BackendBase

from agentic_memory.backends import Backend
from agentic_memory.backends.local import LocalBackend


def choose_backend(backend: BackendBase | None) -> Backend:
    """Return ``backend`` with this package's promises: as it is, adapted, or the local disk when there is none."""
    if backend is None:
        return LocalBackend()
    if isinstance(backend, Backend):
        return backend
    from agentic_memory.backends.adapt import adapt  # brings the shell protocol, which few tools need

    return adapt(backend)
