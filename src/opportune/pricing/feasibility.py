"""Can every task be served? By arithmetic, before any solver, with remedies.

No forbidden pairs: OCC-LP(0) is feasible iff max_v k_v <= R (1 - rho) (LAG Assumption 4.1).
Forbidden pairs: each type alone, then jointly by the least shortfall (ours).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune.errors import OverloadError, Problem
from opportune.model.loss import LossInstance
from opportune.pricing.shortfall import least_shortfall

Float = NDArray[np.float64]

LOAD_TOLERANCE = 1e-8
"""Relative: a load this close above the limit counts as the limit itself."""


@dataclass(frozen=True)
class Feasibility:
    """Whether all tasks can be served.

    Attributes:
        feasible: Whether OCC-LP(0) has a solution.
        at_limit: Whether the load is the last feasible one, within ``LOAD_TOLERANCE``.
        max_load: Largest feasible load when all rates change by one factor.
        problems: What to change if not feasible.
    """

    feasible: bool
    at_limit: bool
    max_load: float
    problems: tuple[Problem, ...] = ()

    def require(self) -> None:
        """Raise :class:`OverloadError` with the remedies unless feasible."""
        if not self.feasible:
            raise OverloadError(self.problems, self.max_load)


def feasibility(instance: LossInstance) -> Feasibility:
    """Check whether OCC-LP(0) is feasible, and how far the load may grow."""
    used = instance.arrival_rate > 0
    if not used.any():
        return Feasibility(True, False, max_load(instance))
    limit = max_load(instance)
    load = instance.load
    at_limit = abs(load - limit) <= LOAD_TOLERANCE * max(limit, load)
    if load <= limit or (at_limit and limit > 0):
        return Feasibility(True, at_limit, limit)
    if needs_solving(instance):
        problems = _type_problems(instance) or (_joint_problem(instance, limit),)
    else:
        problems = (_load_problem(instance, limit),)
    return Feasibility(False, False, limit, problems)


def max_load(instance: LossInstance, precision: float = 0.0) -> float:
    """Largest load at which OCC-LP(0) is feasible when all rates change by one factor.

    No forbidden pairs: 1 - max_v k_v / R, with A = sum a_r servers on duty at a time
    1 - max_v k_v / A. Otherwise by Newton's method on the least
    shortfall (see :func:`_joint_limit`).

    Args:
        instance: The instance.
        precision: Relative precision that will do; what is found is then feasible within it.
    """
    used = instance.arrival_rate > 0
    if not needs_solving(instance) or not used.any():
        k = instance.servers_per_task
        most = int(k[used].max()) if used.any() else int(k.max())
        return 1.0 - most / instance.servers_on_duty
    return _joint_limit(instance, precision) * instance.load


def needs_solving(instance: LossInstance) -> bool:
    """Whether there is no arithmetic for the limit: forbidden pairs, durations by server."""
    return instance.has_forbidden_pairs or instance.server_duration is not None


def _type_limit(instance: LossInstance, v: int) -> float:
    """Largest arrival rate that type v alone can have: permitted lam/(1+lam ED) >= k lam.

    An upper bound of it where durations depend on the server: all as fast as the fastest.
    """
    k, permitted = int(instance.servers_per_task[v]), _permitted(instance, v)
    return (permitted / k - 1.0) / float(_permitted_means(instance, v).min())


def _permitted_means(instance: LossInstance, v: int) -> Float:
    """E[D_vr] of the permitted servers of a type."""
    mean = np.broadcast_to(instance.pair_mean, instance.allowed.shape)
    return np.asarray(mean[v, instance.allowed[v]])


def _permitted(instance: LossInstance, v: int) -> float:
    """Permitted servers on duty at a time, on average."""
    return float(instance.allowed[v] @ instance.on_duty)


def _joint_limit(instance: LossInstance, precision: float = 0.0) -> float:
    """The largest factor c on all rates for which every task can be served.

    For fixed dual prices p >= 0 of the least shortfall, h_p(c) = sum_v k_v p_v - sum_r
    max_A sum_A p_v / (1 + c sum_A lambda_v E[D_v]) is increasing in c and c is infeasible
    where it is positive. So starting from a c that is too large, the root of h_p for the
    present optimal p lies between the limit and c; the iteration falls to the limit, usually
    in a few solves (Dinkelbach's method; ours).
    """
    used = np.flatnonzero(instance.arrival_rate > 0)
    factor = min(_type_limit(instance, int(v)) / float(instance.arrival_rate[v]) for v in used)
    factor = min(factor, _limit_without_conflicts(instance) / instance.load)
    for _ in range(60):
        if factor <= 0:
            return 0.0
        short = least_shortfall(instance, factor, precision / 100.0)
        if short.none:
            return factor
        priced = short.price > 0
        root = _shortfall_root(instance, short.types[priced], short.price[priced], factor)
        if root >= factor * (1 - max(1e-13, precision)):
            return root if precision > 0 else factor
        factor = root
    return factor


def _limit_without_conflicts(instance: LossInstance) -> float:
    """What the load is at most: that of the fastest servers of each type, nothing forbidden."""
    used = instance.arrival_rate > 0
    mean = np.where(instance.allowed, instance.pair_mean, np.inf).min(axis=1)
    work = float((instance.arrival_rate * instance.servers_per_task) @ mean)
    most = instance.servers_on_duty - float(instance.servers_per_task[used].max())
    return max(most, 0.0) * instance.load / work


def _shortfall_root(
    instance: LossInstance, types: NDArray[np.int64], price: Float, factor: float
) -> float:
    """The c in [0, factor] at which h_p(c) = 0, by bisection on the closed form."""
    k = instance.servers_per_task[types]
    work, on_duty = instance.arrival_rate[types, None] * instance.pair_mean[types], instance.on_duty
    order = np.argsort(-price[:, None] / work, axis=0, kind="stable")
    permitted = np.take_along_axis(instance.allowed[types], order, axis=0)
    earned = np.cumsum(permitted * price[order], axis=0)
    busy = np.cumsum(permitted * np.take_along_axis(work, order, axis=0), axis=0)

    def excess(c: float) -> float:
        return float(k @ price - np.max(earned / (1.0 + c * busy), axis=0) @ on_duty)

    low, high = 0.0, factor
    if excess(low) > 0:
        return 0.0
    while high - low > 1e-15 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if excess(middle) > 0 else (middle, high)
    return high


def _load_problem(instance: LossInstance, limit: float) -> Problem:
    n, load = instance.n_servers, instance.load
    k = int(instance.servers_per_task[instance.arrival_rate > 0].max())
    percent = np.ceil(1000 * (1 - limit / load) - 1e-9) / 10
    there = instance.servers_on_duty
    more = max(1, int(np.ceil(load * there + k - there - 1e-9)))
    terms = f"1 - k/R = {_short(limit)} (R={n}, k={k})"
    if instance.is_part_time:
        terms = f"1 - k/A = {_short(limit)} (A={there:.4g} of R={n} servers on duty, k={k})"
    lower = f"lower the arrival rate by {percent:g} % (rounded up), or " if limit > 0 else ""
    return Problem(
        "load",
        f"load {load:.6g} is above {terms}",
        f"a load of at most {limit:.6g}",
        f"{lower}add {more} server{'s' if more > 1 else ''}",
    )


def _short(limit: float) -> str:
    """0.90 where two decimals say it all, else four digits: 0.8571."""
    return f"{limit:.2f}" if abs(limit - round(limit, 2)) < 1e-9 else f"{limit:.4g}"


def _type_problems(instance: LossInstance) -> tuple[Problem, ...]:
    """Types that fall short even if all their permitted servers worked for them alone."""
    problems = []
    for v in np.flatnonzero(instance.arrival_rate > 0):
        rate, k = float(instance.arrival_rate[v]), int(instance.servers_per_task[v])
        permitted, means = _permitted(instance, int(v)), _permitted_means(instance, int(v))
        there = instance.on_duty[instance.allowed[v]]
        most = float(np.sum(there * rate / (1.0 + rate * means)))
        if most >= k * rate * (1 - LOAD_TOLERANCE):
            continue
        more = int(np.ceil((k * rate - most) * (1.0 / rate + means.mean()) - 1e-9))
        name, limit = instance.task_types[v], max(0.0, _type_limit(instance, int(v)))
        plural = "s" if permitted > 1 else ""
        problems.append(
            Problem(
                f"type {name}",
                f"type {name} needs {k * rate:.4g} assignments per step, its {permitted:.4g} "
                f"permitted server{plural} can give at most {most:.4g}",
                "enough permitted servers",
                f"largest feasible rate of {name}: {limit:.4g}, or permit {more} more "
                f"server{'s' if more > 1 else ''}",
            )
        )
    return tuple(problems)


def _joint_problem(instance: LossInstance, limit: float) -> Problem:
    """Types that fall short only together: what each can get beside what it needs."""
    short = least_shortfall(instance)
    told = []
    for v, z in zip(short.types, short.missing, strict=True):
        if z > 1e-9:
            rate, k = instance.arrival_rate[v], instance.servers_per_task[v]
            told.append(
                f"type {instance.task_types[v]} needs {k * rate:.4g} assignments per step and "
                f"can get {(k - z) * rate:.4g} beside the others"
            )
    factor = limit / instance.load
    percent = np.ceil(1000 * (1 - factor) - 1e-9) / 10
    return Problem(
        "allowed",
        "; ".join(told) or f"load {instance.load:.6g} is above the limit {limit:.6g}",
        "enough permitted servers for all types together",
        f"largest feasible load {limit:.6g}: lower all arrival rates by {percent:g} % (rounded "
        "up), or permit more servers for these types",
    )
