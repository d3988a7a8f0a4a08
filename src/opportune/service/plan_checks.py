"""Is a plan document one that the kernels, which look at no bounds, can trust?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opportune.errors import Problem
from opportune.kernels.allocate import SAMPLE
from opportune.service.resources import Array, PlanDocument


def plan_problem(plan: PlanDocument) -> Problem | None:
    """The first thing that is wrong with a plan, None if nothing is."""
    n_types, n_servers = len(plan.task_types), len(plan.servers)
    for field, names in (("task_types", plan.task_types), ("servers", plan.servers)):
        if not names or len(set(names)) != len(names):
            return Problem(field, f"{len(names)} names", "at least one name, each once")
    shapes = {
        "order": ("uint32", (n_types, -1, n_servers)),
        "level": ("int32", (n_types, -1, n_servers)),
        "n_allowed": ("int32", (n_types,)),
        "weight": ("float64", (n_types, n_servers if plan.rule == SAMPLE else 0)),
        "index": ("float64", (n_types, n_servers)),
    }
    arrays: dict[str, NDArray[np.generic]] = {}
    if plan.pair_mean is not None:
        shapes["pair_mean"] = ("float64", (n_types, n_servers))
    for field, (dtype, shape) in shapes.items():
        packed: Array = getattr(plan, field)
        problem = _array_problem(field, packed, dtype, shape)
        if problem is not None:
            return problem
        arrays[field] = packed.numpy()
    if arrays["order"].shape != arrays["level"].shape:
        return Problem("level", f"shape {arrays['level'].shape}", "the shape of order")
    return _price_problem(plan) or _order_problem(arrays)


def _array_problem(field: str, packed: Array, dtype: str, shape: tuple[int, ...]) -> Problem | None:
    if packed.dtype != dtype:
        return Problem(field, packed.dtype, dtype)
    given = tuple(packed.shape)
    fits = len(given) == len(shape) and all(
        n >= 1 if wanted < 0 else n == wanted for n, wanted in zip(given, shape, strict=True)
    )
    if not fits:
        return Problem(field, f"shape {given}", f"shape {shape}, -1 for any")
    size = int(np.prod(given, dtype=np.int64)) * np.dtype(dtype).itemsize
    if len(packed.data) != size:
        return Problem(field, f"{len(packed.data)} bytes", f"{size} bytes")
    return None


def _price_problem(plan: PlanDocument) -> Problem | None:
    n_types, n_servers = len(plan.task_types), len(plan.servers)
    lengths = {
        "demand_price": (plan.demand_price, n_types),
        "capacity_price": (plan.capacity_price, n_servers),
        "mean_duration": (plan.mean_duration, n_types),
    }
    priced = any(values for values, _ in lengths.values())
    for field, (values, n) in lengths.items():
        if priced and len(values) != n:
            return Problem(field, f"{len(values)} numbers", f"{n}, or no prices at all")
        if not np.all(np.isfinite(np.array(values, dtype=np.float64))):
            return Problem(field, "not finite", "finite numbers")
    return None


def _order_problem(arrays: dict[str, NDArray[np.generic]]) -> Problem | None:
    order, level = arrays["order"].astype(np.int64), arrays["level"].astype(np.int64)
    n_allowed, weight = arrays["n_allowed"].astype(np.int64), arrays["weight"]
    n_servers = order.shape[2]
    if np.any((n_allowed < 0) | (n_allowed > n_servers)):
        return Problem("n_allowed", str(n_allowed.max()), f"from 0 to {n_servers}")
    if not np.all(np.isfinite(weight.astype(np.float64)) & (weight.astype(np.float64) >= 0)):
        return Problem("weight", "negative or not finite", "at least 0")
    mean = arrays.get("pair_mean", np.zeros(0)).astype(np.float64)
    if not np.all(np.isfinite(mean) & (mean >= 0)):
        return Problem("pair_mean", "negative or not finite", "seconds of at least 0")
    if np.any(np.isnan(arrays["index"].astype(np.float64))):
        return Problem("index", "NaN", "numbers, -inf for a forbidden pair")
    for v, n in enumerate(n_allowed.tolist()):
        rows = np.sort(order[v, :, :n], axis=1)
        if np.any(rows < 0) or np.any(rows >= n_servers) or np.any(np.diff(rows, axis=1) == 0):
            return Problem(f"order[{v}]", "a server twice or unknown", "servers, each once")
        if np.any(rows != rows[:1]):
            return Problem(f"order[{v}]", "other servers by headcount", "the same at all of them")
        if np.any(np.diff(level[v, :, :n], axis=1) < 0):
            return Problem(f"level[{v}]", "falls", "a rising level")
    return None
