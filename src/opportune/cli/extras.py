"""Optional packages of commands: what to say where one is not installed."""

from __future__ import annotations

from opportune.errors import MissingExtraError

SERVICE = "service"
"""The extra with the packages of the live service."""


def missing_package(error: ModuleNotFoundError, command: str) -> Exception:
    """The error to raise where a module of the service cannot be imported.

    Args:
        error: What the import raised; a module of ours that is missing is a fault and stays.
        command: Which command wanted it.
    """
    name = (error.name or "").partition(".")[0]
    return error if name in ("", "opportune") else MissingExtraError(name, SERVICE, command)
