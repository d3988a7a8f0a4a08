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
from numba.extending import overload

F = TypeVar("F", bound=Callable[..., Any])


def _stamp() -> str:
    state = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        state.update(path.read_bytes())
    return state.hexdigest()


KERNELS_STAMP = _stamp()


def jit(function: F) -> F:
    """Compile a kernel: no Python objects, no bounds checks, IEEE arithmetic as written."""
    return _compile(function, {"nogil": True, "error_model": "numpy"})


def jit_in_place(function: F) -> F:
    """Compile a kernel that allocates nothing: as :func:`jit`, without counting references.

    A kernel that hands many arrays from call to call otherwise spends most of its time counting
    who holds them. The caller in Python holds them all.
    """
    return _compile(function, {"nogil": True, "error_model": "numpy", "_nrt": False})


def inline_by_type(choose: Callable[..., Any]) -> Callable[[F], F]:
    """Write one of several functions into compiled code, by the types of its arguments.

    ``choose`` takes the types and returns the function; the decorated one is what Python runs.
    Nothing is called: what is chosen costs what it says (a call would count references).
    """

    def decorate(function: F) -> F:
        choose.__annotations__ = {}  # numba compares signatures, annotations included
        overload(function, inline="always")(choose)
        return function

    return decorate


def _compile(function: F, options: dict[str, Any]) -> F:
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]  # to see plain Python run
        return function
    try:
        compiled: Any = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no place to write a cache to: compile anew in every process
        return numba.njit(**options)(function)
    compiled._cache._cache_file._source_stamp = KERNELS_STAMP
    return compiled
