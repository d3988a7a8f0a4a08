"""Price an instance: solve the occupancy LP and make everything that is chosen in it unique.

The steps: feasibility by arithmetic; the LP on HiGHS in scaled variables; demand prices from
its duals, equal for equal types, repaired for rare types; capacity prices and the dual value
in closed form; the index, snapped to 0 within ``SNAP``; rates by least squares among the
optimal ones; the Lemma B.1 residuals of the result.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from opportune.errors import SolverError
from opportune.model.loss import LossInstance
from opportune.pricing import certificate
from opportune.pricing.demand import FULL, Demand
from opportune.pricing.feasibility import feasibility
from opportune.pricing.limit import limit_prices
from opportune.pricing.lp import Solution, solve
from opportune.pricing.program import ScaledProgram, occupancy_program
from opportune.pricing.relaxation import Relaxation
from opportune.pricing.ties import least_squares_rates

Float = NDArray[np.float64]

SNAP = (1e-9, 1e-8, 1e-7)
"""|L| up to this share of the largest reward counts as 0; the later ones only if rates fail."""

RARE = 1e-4
"""Types this much rarer than the commonest get their price from their own optimality condition."""

BELOW_LIMIT = 1e-7
"""At the last feasible load with forbidden pairs or several k, prices are those of a load
smaller by this share: the largest l, nearly (closed form otherwise, see ``limit``)."""


def price(instance: LossInstance, demand: Demand = FULL) -> Relaxation:
    """Prices, rates and a certified bound: OCC-LP(0), OCC-LP(B) or OCC-LP(<=).

    Implements: LAG section 3.1 and 3.2 (quoted); choice of u and of l at the last feasible
    load: ours.

    Args:
        instance: What to price.
        demand: ``FULL`` (the fluid limit that LAG uses), ``Demand(blocking=B)``, ``AT_MOST``.

    Raises:
        OverloadError: With remedies, if every task must be served and cannot be.
        SolverError: If the solver ends without an optimal solution.
    """
    start = time.perf_counter()
    notices = []
    used = instance.arrival_rate > 0
    if not used.all():
        unused = [instance.task_types[v] for v in np.flatnonzero(~used)]
        notices.append(f"arrival rate 0, left out of the LP: {', '.join(unused)}")
    if not used.any():
        return _nothing_arrives(instance, demand, tuple(notices), start)
    near = instance
    if demand == FULL:
        checked = feasibility(instance)
        checked.require()
        if checked.at_limit:
            rate = instance.arrival_rate * (checked.max_load / instance.load)
            instance = replace(instance, arrival_rate=rate)
            near = replace(instance, arrival_rate=rate * (1 - BELOW_LIMIT))
            notices.append(f"load {instance.load:.6g} is the last feasible one: the largest prices")
            if np.ptp(instance.servers_per_task[used]) == 0 and not instance.has_forbidden_pairs:
                return _at_limit(instance, tuple(notices), start)
    program = occupancy_program(near, demand)
    solution = solve(program.linear, f"OCC-LP of {instance.name}")
    prices = _demand_price(near, demand, program, solution)
    rates, free, index = _rates(instance, demand, prices, solution, program)
    capacity = certificate.capacity_price(instance, prices)
    parts = (prices, capacity, index, rates, free)
    return _relaxation(instance, demand, parts, tuple(notices), (solution.solver, start))


def _at_limit(instance: LossInstance, notices: tuple[str, ...], start: float) -> Relaxation:
    """Prices at the last feasible load, by arithmetic."""
    prices, rates, free = limit_prices(instance)
    capacity = certificate.capacity_price(instance, prices)
    index = certificate.index(instance, prices, capacity)
    scale = float(instance.match_reward.max()) or 1.0
    index = np.where(np.abs(index) <= SNAP[0] * scale, 0.0, index)
    parts = (prices, capacity, index, rates, free)
    return _relaxation(instance, FULL, parts, notices, ("arithmetic", start))


def _demand_price(
    instance: LossInstance, demand: Demand, program: ScaledProgram, solution: Solution
) -> Float:
    """(V,) demand prices: duals, equal types equal, rare and unused types repaired."""
    price = program.demand_price(solution.row_dual, instance)
    if demand.at_most:
        price = np.maximum(price, 0.0)
    price = _equal_for_equal_types(instance, demand, price)
    free = solution.x[len(program.pair_type) :][: instance.n_servers]
    top = instance.arrival_rate.max()
    for v in np.flatnonzero(instance.arrival_rate <= RARE * top):
        trial = np.where(np.isnan(price), 0.0, price)
        capacity = certificate.capacity_price(instance, trial)
        trial[v] = _marginal_price(instance, demand, int(v), capacity, free)
        if np.isnan(price[v]) or certificate.dual_value(
            instance, demand, trial
        ) <= certificate.dual_value(instance, demand, np.where(np.isnan(price), 0.0, price)):
            price[v] = trial[v]
    return price


def _marginal_price(
    instance: LossInstance, demand: Demand, v: int, capacity: Float, free: Float
) -> float:
    """The l_v at which the servers with L > 0 are free just often enough for type v.

    The optimality condition of the dual in l_v alone: sum of phi_r over L(v,r) > 0 is at
    most k (1 - B), and over L(v,r) >= 0 at least.
    """
    permitted = np.flatnonzero(instance.allowed[v])
    worth = instance.match_reward[v, permitted] - instance.duration[v].mean * capacity[permitted]
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
        key = (row, instance.duration[v], int(instance.servers_per_task[v]), blocking[v])
        kinds.setdefault(key, []).append(int(v))
    price = price.copy()
    for same in kinds.values():
        if len(same) > 1:
            rate = instance.arrival_rate[same]
            price[same] = float(rate @ price[same] / rate.sum())
    return price


def _rates(
    instance: LossInstance,
    demand: Demand,
    prices: Float,
    solution: Solution,
    program: ScaledProgram,
) -> tuple[Float, Float, Float]:
    """u (V, R), phi (R,) and the snapped index for given demand prices."""
    capacity = certificate.capacity_price(instance, prices)
    raw = certificate.index(instance, prices, capacity)
    scale = float(instance.match_reward.max()) or 1.0
    slack = demand.at_most & (prices <= SNAP[0] * scale)
    for snap in SNAP:
        index = np.where(np.abs(raw) <= snap * scale, 0.0, raw)
        try:
            rates, free = least_squares_rates(instance, demand, index, slack)
        except SolverError:
            continue
        return rates, free, index
    index = np.where(np.abs(raw) <= SNAP[0] * scale, 0.0, raw)
    y = program.matrix(solution.x, instance.n_types, instance.n_servers)
    rates = instance.arrival_rate[:, None] * y
    return rates, 1.0 - instance.mean_duration @ rates, index


def _relaxation(
    instance: LossInstance,
    demand: Demand,
    parts: tuple[Float, Float, Float, Float, Float],
    notices: tuple[str, ...],
    provenance: tuple[str, float],
) -> Relaxation:
    prices, capacity, index, rates, free = parts
    value = float(np.sum(instance.match_reward * rates))
    bound = certificate.dual_value(instance, demand, prices)
    rate = instance.arrival_rate[:, None]
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
        tie_weight=np.divide(rates, rate, out=np.zeros_like(rates), where=rate > 0),
        demand=demand,
        priced_at="at-most" if demand.at_most else "blocking" if blocked else "zero",
        residuals=certificate.residuals(instance, demand, (prices, capacity, index), rates),
        solver=provenance[0],
        seconds=time.perf_counter() - provenance[1],
        notices=notices,
    )


def _nothing_arrives(
    instance: LossInstance, demand: Demand, notices: tuple[str, ...], start: float
) -> Relaxation:
    """All rates 0: every server is free, and a task would take the best ones at no cost."""
    free = np.ones(instance.n_servers)
    capacity = np.zeros(instance.n_servers)
    prices = np.array(
        [_marginal_price(instance, demand, v, capacity, free) for v in range(instance.n_types)]
    )
    index = certificate.index(instance, prices, capacity)
    rates = np.zeros_like(instance.match_reward)
    parts = (prices, capacity, index, rates, free)
    return _relaxation(instance, demand, parts, notices, ("arithmetic", start))
