"""Checks of the arrays of an instance, once, at the edge.

Every check is written as "not (x >= 0)", so that NaN fails it. Each returns problems
instead of raising, so that a user sees all of them at once.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.errors import Problem, shorten
from opportune.model.names import name_problem

MAX_REWARD = 1e100
"""Largest match reward: beyond it products and sums leave the range of numbers."""

RATE_TOLERANCE = 1e-6
"""How far above one the arrival rates may sum (single precision); then they are divided by it."""

ROUNDING = 1e-15
"""How far the sum of numbers that were divided by their sum may be from one.

Correctly rounded (``math.fsum``) it is within 3.4e-16; numbers within this are not divided again,
so that a value written to a file and read again is the same to the last bit.
"""


def plain_array(values: Any) -> NDArray[Any]:
    """``values`` as an array that is safe to look at; never raises.

    Floats become 64-bit, masked entries NaN, objects that are all numbers floats. What is not
    a regular array of numbers (ragged lists, text, None) stays an object or text array, for
    :func:`number_problem` to refuse.
    """
    if isinstance(values, np.ma.MaskedArray):
        numeric = values.dtype.kind in "iuf"
        return np.asarray(
            np.ma.filled(values.astype(np.float64), np.nan) if numeric else values.tolist()
        )
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError):  # rows of different lengths
        return np.array([str(row) for row in values], dtype=object)
    if array.dtype.kind == "O" and all(_is_number(item) for item in array.flat):
        try:
            return array.astype(np.float64)
        except OverflowError:  # a whole number beyond the floats
            return array
    if array.dtype.kind == "f" and array.dtype != np.float64:
        with np.errstate(over="ignore"):
            return array.astype(np.float64)
    return array


def number_problem(field: str, values: Any) -> Problem | None:
    """A problem if ``values`` are not a regular array of numbers; it names the first bad one."""
    for place, item in _items(values):
        if not _is_number(item):
            item = item.item() if isinstance(item, np.generic) else item
            return Problem(
                field + (f"[{','.join(map(str, place))}]" if place else ""),
                shorten(item),
                "a number",
                _number_remedy(item),
            )
    if plain_array(values).dtype.kind in "iuf":
        return None
    lengths = sorted({np.size(row) for row in values}) if isinstance(values, (list, tuple)) else []
    if len(lengths) > 1:
        return Problem(field, f"rows of {lengths[0]} and of {lengths[-1]} numbers", "equal rows")
    return Problem(field, shorten(values), "numbers in a regular array")


def _is_number(item: Any) -> bool:
    return isinstance(item, (int, float, np.integer, np.floating)) and not isinstance(item, bool)


def _items(values: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    """The entries that may not be numbers, with their place: numeric arrays have none."""
    if isinstance(values, (list, tuple)):
        for i, item in enumerate(values):
            for place, inner in _items(item):
                yield (i, *place), inner
    elif isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
        return
    elif isinstance(values, np.ndarray) and values.ndim:
        for index in np.ndindex(values.shape):
            yield index, values[index]
    elif hasattr(values, "__array__") and np.ndim(values):  # a data frame
        yield from _items(np.asarray(values))
    else:
        yield (), values


def _number_remedy(item: Any) -> str:
    if isinstance(item, (bool, np.bool_)):
        return "true and false are not numbers here; write 1 and 0"
    if isinstance(item, str):
        return "text is not read as a number: write 0.1, not '0,1' or '0.1' in quotes"
    return "fill in the missing number" if item is None else ""


def reward_problems(reward: Any, allowed: Any) -> list[Problem]:
    """What is wrong with a (V, R) matrix of match rewards; forbidden pairs are not read."""
    problem = number_problem("match_reward", reward)
    if problem:
        return [problem]
    array = plain_array(reward)
    if array.ndim != 2 or 0 in array.shape:
        return [Problem("match_reward", f"shape {array.shape}", "a matrix, types by servers")]
    if allowed is not None and not allowed_problems(allowed, array.shape):
        array = np.where(plain_array(allowed).astype(np.bool_), array, 0.0)
    missing = np.argwhere(np.isnan(array))
    if len(missing):
        return [_missing_problem(missing)]
    infinite = np.argwhere(np.isinf(array))
    if len(infinite):
        v, r = (int(i) for i in infinite[0])
        return [
            Problem(
                "match_reward",
                f"{array[v, r]} at type {v}, server {r} ({len(infinite)} infinite in all)",
                "finite numbers",
                "mark conflicts in `allowed` (false = forbidden pair), not by infinity",
            )
        ]
    huge = np.argwhere(array > MAX_REWARD)
    if len(huge):
        v, r = (int(i) for i in huge[0])
        return [
            Problem(
                "match_reward",
                f"{array[v, r]:g} at type {v}, server {r}",
                f"at most {MAX_REWARD:g}: sums of larger ones overflow",
                "choose a larger unit of reward",
            )
        ]
    negative = np.argwhere(~(array >= 0))
    if len(negative):
        v, r = (int(i) for i in negative[0])
        return [
            Problem(
                "match_reward",
                f"{array[v, r]:g} at type {v}, server {r} is negative "
                f"({len(negative)} negative in all)",
                "rewards of at least 0",
                "if negative means conflict, mark the pair in `allowed`; otherwise shift the "
                "scores; they are never clipped silently",
            )
        ]
    return []


def _missing_problem(missing: NDArray[np.int64]) -> Problem:
    v, r = (int(i) for i in missing[0])
    return Problem(
        "match_reward",
        f"missing (NaN) at type {v}, server {r} ({len(missing)} missing in all)",
        "a number for every pair",
        "fill in the score, or forbid the pair in `allowed`",
    )


def rate_problems(rate: Any) -> list[Problem]:
    """What is wrong with (V,) arrival rates."""
    problem = number_problem("arrival_rate", rate)
    if problem:
        return [problem]
    array = plain_array(rate)
    if array.ndim != 1 or array.size == 0:
        return [Problem("arrival_rate", f"shape {array.shape}", "one number per task type")]
    bad = np.flatnonzero(~((array >= 0) & (array <= 1 + RATE_TOLERANCE)))
    if bad.size:
        return [
            Problem(
                f"arrival_rate[{bad[0]}]",
                f"{array[bad[0]]}",
                "a probability per step, from 0 to 1",
                "rates per hour or day: divide by the steps in it",
            )
        ]
    total = math.fsum(array)
    if total > 1 + RATE_TOLERANCE:
        return [
            Problem(
                "arrival_rate",
                f"sums to {total:.6g} per step",
                "at most 1: one task arrives per step at most",
                f"shorten the step by a factor of {math.ceil(total * 100) / 100:g}",
            )
        ]
    return []


def share_problems(share: Any) -> list[Problem]:
    """What is wrong with (V,) shares of the task types (any positive scale, counts as well)."""
    problem = number_problem("type_share", share)
    if problem:
        return [problem]
    array = plain_array(share)
    if array.ndim != 1 or array.size == 0:
        return [Problem("type_share", f"shape {array.shape}", "one number per task type")]
    bad = np.flatnonzero(~((array >= 0) & np.isfinite(array)))
    if bad.size:
        return [Problem(f"type_share[{bad[0]}]", f"{array[bad[0]]}", "a finite number, at least 0")]
    if not array.max() > 0:
        return [Problem("type_share", "all zero", "a positive share for some type")]
    return []


def allowed_problems(allowed: Any, shape: tuple[int, ...]) -> list[Problem]:
    """What is wrong with a (V, R) matrix of allowed pairs."""
    array = plain_array(allowed)
    if array.shape != shape:
        return [Problem("allowed", f"shape {array.shape}", f"the shape of match_reward, {shape}")]
    if array.dtype == np.bool_:
        return []
    if array.dtype.kind not in "iuf":
        bad = [item for item in array.ravel().tolist() if not isinstance(item, bool)]
        odd = shorten(bad[0] if bad else array)
    else:
        wrong = np.argwhere(~((array == 0) | (array == 1)))
        if not len(wrong):
            return []
        odd = shorten(array[tuple(wrong[0])].item())
    return [
        Problem(
            "allowed",
            f"entries such as {odd}",
            "true or false for every pair",
            "a file with -1, 0, 1 (conflict, neutral, pin) is a constraints file: "
            "allowed = {file = ...}",
        )
    ]


def demand_problems(servers_per_task: Any, shape: tuple[int, ...]) -> list[Problem]:
    """What is wrong with (V,) servers per task."""
    problem = number_problem("servers_per_task", servers_per_task)
    if problem:
        return [problem]
    array = plain_array(servers_per_task)
    if array.shape != shape[:1]:
        return [
            Problem(
                "servers_per_task", f"shape {array.shape}", f"one, or one per type ({shape[0]})"
            )
        ]
    bad = np.flatnonzero(~((array >= 1) & (array == np.floor(array))))
    if bad.size:
        return [Problem("servers_per_task", f"{array[bad[0]]:g}", "a whole number, at least 1")]
    big = np.flatnonzero(array > shape[1])
    if big.size:
        return [
            Problem(
                "servers_per_task",
                f"{array[big[0]]:g}",
                f"at most the number of servers, {shape[1]}",
                "a task could never start; add servers or lower servers_per_task",
            )
        ]
    return []


def eligibility_problems(allowed: Any, servers_per_task: Any, task_types: Any) -> list[Problem]:
    """Types that can never be served: fewer permitted servers than they need."""
    permitted = plain_array(allowed).astype(np.bool_).sum(axis=1)
    problems = []
    for v, (have, need) in enumerate(zip(permitted, plain_array(servers_per_task), strict=True)):
        if have < need:
            only = f"only {have} permitted server" + ("" if have == 1 else "s")
            problems.append(
                Problem(
                    "allowed",
                    f"type {v} ({task_types[v]}) has "
                    + ("no permitted server" if have == 0 else only),
                    f"at least {need}, the servers one task needs",
                    "permit more servers for it or leave the type out",
                )
            )
    return problems


def availability_problems(availability: Any, n_servers: int) -> list[Problem]:
    """What is wrong with (R,) shares of time on duty."""
    problem = number_problem("availability", availability)
    if problem:
        return [problem]
    array = plain_array(availability)
    if array.shape != (n_servers,):
        told = f"{array.size} shares" if array.ndim == 1 else f"shape {array.shape}"
        return [Problem("availability", told, f"one per server, {n_servers}")]
    bad = np.flatnonzero(~((array >= 0) & (array <= 1)))
    if bad.size:
        return [
            Problem(
                f"availability[{bad[0]}]",
                f"{array[bad[0]]:g}",
                "a share of time, from 0 to 1",
                "divide percent by 100" if 1 < array[bad[0]] <= 100 else "",
            )
        ]
    if not array.max() > 0:
        return [Problem("availability", "all zero", "a server that is on duty at times")]
    return []


def name_problems(field: str, names: Any, n: int) -> list[Problem]:
    """What is wrong with the names of task types or servers."""
    if not isinstance(names, tuple):
        return [Problem(field, shorten(names), f"a list of {n} names")]
    if len(names) != n:
        return [Problem(field, f"{len(names)} names", f"{n}, one per row or column")]
    for i, name in enumerate(names):
        if not isinstance(name, str):
            return [
                Problem(
                    f"{field}[{i}]", shorten(name), "text", f'write "{name}": 1 and "1" would mix'
                )
            ]
        wrong = name_problem(f"{field}[{i}]", name)
        if wrong is not None:
            return [wrong]
    if len(set(names)) < n:
        double = sorted(name for name, count in Counter(names).items() if count > 1)
        return [Problem(field, ", ".join(double[:5]), "every name once", "rename the duplicates")]
    if not all(name.isascii() for name in names):
        return _twin_problems(field, names)
    return []


def _twin_problems(field: str, names: tuple[str, ...]) -> list[Problem]:
    """Two names that look alike, since an accent is written in two ways: one name, misspelled."""
    first: dict[str, str] = {}
    for name in names:
        twin = first.setdefault(unicodedata.normalize("NFC", name), name)
        if twin != name:
            told = f"{twin!a} and {name!a} look alike"
            remedy = "write both with the same characters (Unicode NFC), or rename one"
            return [Problem(field, told, "names that can be told apart", remedy)]
    return []
