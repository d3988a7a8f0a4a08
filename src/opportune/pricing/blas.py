"""One thread for many small matrix products.

OpenBLAS splits a product of two 80 x 80 matrices over all cores and lets the threads spin; on a
machine that has other work this made a solve of 7 seconds take 80. Where threadpoolctl is
installed the solvers by headcount hold it to one thread.
"""

from __future__ import annotations

import importlib
import importlib.util
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

_POOLS: Any = None
if importlib.util.find_spec("threadpoolctl") is not None:
    _POOLS = importlib.import_module("threadpoolctl")


def one_thread() -> AbstractContextManager[Any]:
    """A context in which linear algebra uses one thread; does nothing without threadpoolctl."""
    if _POOLS is None:
        return nullcontext()
    limited: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limited


@cache
def _controller() -> Any:
    """Made at the first use, when NumPy's and SciPy's libraries are both loaded."""
    return _POOLS.ThreadpoolController()
