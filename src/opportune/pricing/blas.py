"""One thread for many small matrix products.

OpenBLAS splits a product of two 80 x 80 matrices over all cores and lets the threads spin; on a
machine that has other work this made a solve of 7 seconds take 80. The solvers by headcount hold
it to one thread.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import threadpoolctl


def one_thread() -> AbstractContextManager[Any]:
    """A context in which linear algebra uses one thread."""
    limited: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limited


@cache
def _controller() -> threadpoolctl.ThreadpoolController:
    """Made at the first use, when NumPy's and SciPy's libraries are both loaded."""
    return threadpoolctl.ThreadpoolController()
