"""Price an instance: solve the occupancy LP and make everything that is chosen in it unique.

The steps: feasibility by arithmetic; demand prices from the gear that suits the size, on HiGHS
equal for equal types and repaired for rare types; capacity prices and the dual value in closed
form; the index, snapped to 0 within ``SNAP``; rates by least squares among the
optimal ones; the Lemma B.1 residuals of the result.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, SolverError
from opportune.model.loss import LossInstance
from opportune.pricing import certificate
from opportune.pricing.demand import FULL, Demand
from opportune.pricing.feasibility import feasibility, needs_solving
from opportune.pricing.gears import AUTO, FULL_LP, SMALL, Certified, certified_prices
from opportune.pricing.limit import limit_prices
from opportune.pricing.program import mean_at
from opportune.pricing.relaxation import Relaxation
from opportune.pricing.search import Stop
from opportune.pricing.ties import least_squares_rates

Float = NDArray[np.float64]

SNAP = (1e-9, 1e-8, 1e-7)
"""|L| up to this share of the largest reward counts as 0; the later ones only if rates fail."""

RARE = 1e-4
"""Types this much rarer than the commonest get their price from their own optimality condition."""

NOTHING = 1e-12
"""A price of "at most" up to this share of the largest reward is 0."""

SOLVED = 1e-7
"""Up to this gap the signs of the index are known, and rates are chosen by least squares."""

EARLY = {"time": "the time limit", "interrupt": "an interrupt"}
"""What ends a solve before its gap is closed, in words."""

FAR_BEYOND = 1e4
"""Prices that exceed the largest reward this often mean a load close to the limit."""

BELOW_LIMIT = (1e-9, 1e-8, 1e-7)
"""At the last feasible load with forbidden pairs or several k, prices are those of a load
smaller by this share: the largest l, nearly (closed form otherwise, see ``limit``). The gap is
some twenty times as large; the later ones only if a solver finds no solution so close."""


def price(
    instance: LossInstance,
    demand: Demand = FULL,
    *,
    stop: Stop | None = None,
    gear: str = AUTO,
    start: Float | None = None,
) -> Relaxation:
    """Prices, rates and a certified bound: OCC-LP(0), OCC-LP(B) or OCC-LP(<=).

    Implements: LAG section 3.1 and 3.2 (quoted); choice of u and of l at the last feasible
    load: ours.

    Args:
        instance: What to price.
        demand: ``FULL`` (the fluid limit that LAG uses), ``Demand(blocking=B)``, ``AT_MOST``.
        stop: When to end; by default at a gap of 1e-9, and an interrupt is an interrupt. Where
            it ends earlier, the rates are those that were found, not the least squares.
        gear: Which solver (``pricing.gears``); by default chosen by size.
        start: (V,) prices to start from, NaN where none is known.

    Raises:
        InputError: If there is no such gear, or the instance is none.
        OverloadError: With remedies, if every task must be served and cannot be.
        SolverError: If the solver ends without an optimal solution, or the time without rates.
    """
    began = time.perf_counter()
    _require_instance(instance)
    notices = []
    used = instance.arrival_rate > 0
    if not used.all():
        unused = [instance.task_types[v] for v in np.flatnonzero(~used)]
        notices.append(f"arrival rate 0, left out of the LP: {', '.join(unused)}")
    if not used.any():
        return _nothing_arrives(instance, demand, tuple(notices), began)
    how = (Stop(catch_interrupt=False) if stop is None else stop, gear, start)
    found: Certified | None = None
    near: tuple[LossInstance, ...] = (instance,)
    if demand == FULL and _feasible_by_solving(instance):
        found = _solve_or_explain(instance, how)
    if demand == FULL and found is None:
        checked = feasibility(instance)
        checked.require()
        if checked.at_limit:
            instance, near = _scaled_to(instance, checked.max_load)
            notices.append(f"load {instance.load:.6g} is the last feasible one: the largest prices")
            one_k = np.ptp(instance.servers_per_task[used]) == 0
            if one_k and not needs_solving(instance):
                return _at_limit(instance, tuple(notices), began)
    if found is None:
        near, found = _first_solved(near, demand, how)
    if found.ended in EARLY and np.isfinite(found.gap):
        notices.append(f"ended by {EARLY[found.ended]} at a gap of {found.gap:.1e}: best so far")
    if not np.isfinite(found.value):
        raise SolverError(found.ended, f"OCC-LP of {instance.name}: no feasible rates yet")
    prices = _demand_price(near[0], demand, found)
    rates, free, index = _rates(instance, demand, prices, found)
    capacity = certificate.capacity_price(instance, prices)
    parts = (prices, capacity, index, rates, free)
    return _relaxation(instance, demand, parts, tuple(notices), (found.solver, began))


def _require_instance(instance: object) -> None:
    if not isinstance(instance, LossInstance):
        told, remedy = f"a {type(instance).__name__}", 'load it: load_instance("priority-v1", 0.7)'
        raise InputError(Problem("instance", told, "an instance, not its name or scores", remedy))


def _scaled_to(
    instance: LossInstance, limit: float
) -> tuple[LossInstance, tuple[LossInstance, ...]]:
    """The instance at the last feasible load, and those just below it."""
    rate = instance.arrival_rate * (limit / instance.load)
    below = (rate * (1 - share) for share in BELOW_LIMIT)
    near = tuple(replace(instance, arrival_rate=one) for one in below)
    return replace(instance, arrival_rate=rate), near


def _feasible_by_solving(instance: LossInstance) -> bool:
    """Whether the LP itself is the cheapest feasibility check: forbidden pairs, and many."""
    return needs_solving(instance) and int(instance.allowed.sum()) > SMALL


def _first_solved(
    instances: tuple[LossInstance, ...], demand: Demand, how: tuple[Stop, str, Float | None]
) -> tuple[tuple[LossInstance, ...], Certified]:
    """The first of these that can be solved, and its solution.

    Raises:
        SolverError: If none can.
    """
    for place, one in enumerate(instances):
        try:
            return (one,), certified_prices(one, demand, *how)
        except SolverError:
            if place == len(instances) - 1:
                raise
    raise AssertionError("there is always one")


def _solve_or_explain(
    instance: LossInstance, how: tuple[Stop, str, Float | None]
) -> Certified | None:
    """Prices of OCC-LP(0); None where the load may be the last feasible one or above it.

    Feasible rates prove that every task can be served, a dual value below 0 that it cannot.
    Prices far beyond the rewards, or no end, mean a load at the limit. What was ended early
    stays as it is.
    """
    try:
        found = certified_prices(instance, FULL, *how)
    except SolverError:
        return None
    top = float(instance.match_reward.max()) or 1.0
    tame = float(np.nanmax(np.abs(found.demand_price))) <= FAR_BEYOND * top
    return found if found.ended in EARLY or (tame and np.isfinite(found.gap)) else None


def _at_limit(instance: LossInstance, notices: tuple[str, ...], start: float) -> Relaxation:
    """Prices at the last feasible load, by arithmetic."""
    prices, rates, free = limit_prices(instance)
    capacity = certificate.capacity_price(instance, prices)
    scale = float(instance.match_reward.max()) or 1.0
    index = _snapped_index(instance, prices, capacity, SNAP[0] * scale)
    parts = (prices, capacity, index, rates, free)
    return _relaxation(instance, FULL, parts, notices, ("arithmetic", start))


def _demand_price(instance: LossInstance, demand: Demand, found: Certified) -> Float:
    """(V,) demand prices: equal types equal, rare types repaired, unused ones filled in.

    All gears but the full LP treat equal types alike and rare types precisely.
    """
    price = found.demand_price.copy()
    vertex = found.gear == FULL_LP
    if vertex:
        price = _equal_for_equal_types(instance, demand, price)
    free, top = _free_fraction(instance, found), float(instance.match_reward.max())
    if demand.at_most:
        price = np.where(price <= NOTHING * top, 0.0, price)
    unknown = np.flatnonzero(np.isnan(price))
    if len(unknown) > 0:  # nothing is gained at the top reward, so they do not bear on the others
        capacity = certificate.capacity_price(instance, np.where(np.isnan(price), top, price))
        for v in unknown:
            price[v] = marginal_price(instance, demand, int(v), capacity, free)
    rare = instance.arrival_rate <= RARE * instance.arrival_rate.max()
    for v in np.flatnonzero(rare & (instance.arrival_rate > 0)) if vertex else ():
        trial = price.copy()
        capacity = certificate.capacity_price(instance, price)
        trial[v] = marginal_price(instance, demand, int(v), capacity, free)
        if certificate.dual_value(instance, demand, trial) <= certificate.dual_value(
            instance, demand, price
        ):
            price = trial
    return price


def _free_fraction(instance: LossInstance, found: Certified) -> Float:
    """(R,) phi of the rates that were found."""
    mean = mean_at(instance, found.pair_type, found.pair_server)
    work = instance.arrival_rate[found.pair_type] * mean * found.weight
    busy = np.bincount(found.pair_server, weights=work, minlength=instance.n_servers)
    return np.asarray(instance.on_duty - busy)


def marginal_price(
    instance: LossInstance, demand: Demand, v: int, capacity: Float, free: Float
) -> float:
    """The l_v at which the servers with L > 0 are free just often enough for type v.

    The optimality condition of the dual in l_v alone: sum of phi_r over L(v,r) > 0 is at
    most k (1 - B), and over L(v,r) >= 0 at least.
    """
    permitted = np.flatnonzero(instance.allowed[v])
    mean = mean_at(instance, np.full(len(permitted), v), permitted)
    worth = instance.match_reward[v, permitted] - mean * capacity[permitted]
    order = np.argsort(-worth, kind="stable")
    reached = np.cumsum(free[permitted][order])
    want = float(demand.servers_per_arrival(instance)[v])
    place = min(int(np.searchsorted(reached, want - 1e-9)), len(order) - 1)
    value = float(worth[order][place])
    return max(value, 0.0) if demand.at_most else value


def _equal_for_equal_types(instance: LossInstance, demand: Demand, price: Float) -> Float:
    """Types alike in reward, permission, duration, k and B get their rate-weighted mean price.

    The dual value is convex and symmetric in them, so the mean is never worse.
    """
    blocking = demand.by_type(instance)
    kinds: dict[tuple[object, ...], list[int]] = {}
    for v in np.flatnonzero(instance.arrival_rate > 0):
        row = instance.match_reward[v].tobytes() + instance.allowed[v].tobytes()
        if instance.server_duration is not None:
            row += instance.server_duration.which[v].tobytes()
        key = (row, instance.duration[v], int(instance.servers_per_task[v]), blocking[v])
        kinds.setdefault(key, []).append(int(v))
    price = price.copy()
    for same in kinds.values():
        if len(same) > 1:
            rate = instance.arrival_rate[same]
            price[same] = float(rate @ price[same] / rate.sum())
    return price


def _rates(
    instance: LossInstance, demand: Demand, prices: Float, found: Certified
) -> tuple[Float, Float, Float]:
    """u (V, R), phi (R,) and the snapped index for given demand prices."""
    capacity = certificate.capacity_price(instance, prices)
    scale = float(instance.match_reward.max()) or 1.0
    slack = demand.at_most & (prices <= SNAP[0] * scale)
    for snap in SNAP if found.gap <= SOLVED or found.gear == FULL_LP else ():
        index = _snapped_index(instance, prices, capacity, snap * scale)
        try:
            rates, free = least_squares_rates(instance, demand, index, slack)
        except SolverError:
            continue
        return rates, free, index
    index = _snapped_index(instance, prices, capacity, SNAP[0] * scale)
    rates = np.zeros_like(instance.match_reward)
    weight = instance.arrival_rate[found.pair_type] * found.weight
    rates[found.pair_type, found.pair_server] = weight
    return rates, instance.on_duty - instance.busy_share(rates), index


def _snapped_index(
    instance: LossInstance, prices: Float, capacity: Float, tolerance: float
) -> Float:
    """(V, R) the index, exactly 0 where it is within the tolerance."""
    index = certificate.index(instance, prices, capacity)
    for block in certificate.server_blocks(instance):
        part = index[:, block]
        part[np.abs(part) <= tolerance] = 0.0
    return index


def _relaxation(
    instance: LossInstance,
    demand: Demand,
    parts: tuple[Float, Float, Float, Float, Float],
    notices: tuple[str, ...],
    provenance: tuple[str, float],
) -> Relaxation:
    prices, capacity, index, rates, free = parts
    value = math.fsum(np.einsum("vr,vr->v", instance.match_reward, rates))
    bound = certificate.dual_value(instance, demand, prices)
    blocked = bool(np.any(demand.by_type(instance) > 0))
    return Relaxation(
        instance=instance,
        value=value,
        dual_value=bound,
        gap=abs(bound - value) / max(abs(bound), 1e-300) if bound != value else 0.0,
        assignment_rate=rates,
        free_fraction=free,
        demand_price=prices,
        capacity_price=capacity,
        index=index,
        tie_weight=_tie_weight(instance, rates),
        demand=demand,
        priced_at="at-most" if demand.at_most else "blocking" if blocked else "zero",
        residuals=certificate.residuals(instance, demand, (prices, capacity, index), rates),
        solver=provenance[0],
        seconds=time.perf_counter() - provenance[1],
        notices=notices,
    )


def _tie_weight(instance: LossInstance, rates: Float) -> Float:
    """(V, R) u_vr / (lambda_v a_r): how often a task of the type takes a server on duty."""
    rate, on_duty = instance.arrival_rate[:, None], instance.availability
    weight = np.divide(rates, rate, out=np.zeros_like(rates), where=rate > 0)
    if on_duty is not None:
        np.divide(weight, on_duty, out=weight, where=on_duty > 0)
    return weight


def _nothing_arrives(
    instance: LossInstance, demand: Demand, notices: tuple[str, ...], start: float
) -> Relaxation:
    """All rates 0: every server is free, and a task would take the best ones at no cost."""
    free = instance.on_duty
    capacity = np.zeros(instance.n_servers)
    prices = np.array(
        [marginal_price(instance, demand, v, capacity, free) for v in range(instance.n_types)]
    )
    index = certificate.index(instance, prices, capacity)
    rates = np.zeros_like(instance.match_reward)
    parts = (prices, capacity, index, rates, free)
    return _relaxation(instance, demand, parts, notices, ("arithmetic", start))
