"""A Docker container."""

from agentic_memory.backends.docker.backend import DockerBackend

__all__ = ["DockerBackend"]
