"""Where pieces of work may run, and what each needs to be installed."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from opportune.errors import MissingExtraError, Problem, shorten

BACKENDS = ("threads", "loky", "ray")
"""How pieces are spread: threads, processes of this machine, tasks of a Ray cluster."""

EXTRAS = {"ray": "opportune.experiments.ray_tasks"}
"""Backend -> the module that needs the package of that name, imported when it is asked for."""

MAX_WORKERS = 1024


@dataclass(frozen=True)
class Workers:
    """How many pieces run at the same time, and where.

    Attributes:
        count: Pieces at the same time; 1 runs them here, one after another.
        backend: One of ``BACKENDS``.
    """

    count: int = 1
    backend: str = "threads"


def backend_problems(backend: object) -> list[Problem]:
    """What is wrong with the name of a backend.

    Raises:
        MissingExtraError: If its package is not installed.
    """
    if backend not in BACKENDS:
        return [Problem("backend", shorten(backend), "one of " + ", ".join(BACKENDS))]
    if backend in EXTRAS and importlib.util.find_spec(str(backend)) is None:
        raise MissingExtraError(str(backend), str(backend), f"--backend {backend}")
    return []
