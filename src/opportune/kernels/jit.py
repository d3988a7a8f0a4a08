"""The one jit decorator: compiled once, cached on disk, free of the interpreter lock.

numba's cache looks at the file of the compiled function only, so a change in a function
that it calls from another module would go unnoticed. Here every entry is stamped with the
text of all kernels instead: any change recompiles, nothing stale runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def _stamp() -> str:
    state = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        state.update(path.read_bytes())
    return state.hexdigest()


KERNELS_STAMP = _stamp()


def jit(function: F) -> F:
    """Compile a kernel: no Python objects, no bounds checks, IEEE arithmetic as written."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        compiled: Any = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no place to write a cache to: compile anew in every process
        return numba.njit(**options)(function)
    compiled._cache._cache_file._source_stamp = KERNELS_STAMP
    return compiled
