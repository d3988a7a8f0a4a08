"""A hash of the code that computes results: kept results of other code are not taken for these."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import version
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
COMPUTED_BY = (
    "errors.py",
    "kernels/*.py",
    "learning/**/*.py",
    "model/*.py",
    "pricing/*.py",
    "policies/**/*.py",
    "simulate/*.py",
    "experiments/*.py",
    "experiments/papers/*/units.py",
)
"""Files of the package whose text decides results. Those of ``experiments`` that only report are
among them, so that no list of modules can be out of date; a paper's tables and pictures are not."""

LIBRARIES = ("highspy", "numba", "numpy", "piqp", "scipy")


@cache
def code_version() -> str:
    """A hash of the code that computes, and of the numerical packages it runs on."""
    state = hashlib.sha256(repr([(name, version(name)) for name in LIBRARIES]).encode())
    for path in sorted(path for pattern in COMPUTED_BY for path in PACKAGE.glob(pattern)):
        state.update(path.relative_to(PACKAGE).as_posix().encode() + path.read_bytes())
    return state.hexdigest()[:16]
