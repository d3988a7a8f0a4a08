"""Plans for a pool, made outside the request path: from what was declared to a plan document.

The planner reads a pool as a loss instance in steps of a length that it chooses, prices it, and
writes the prices back per second. Until the learner has rates of its own, rates and durations are
the declared priors.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem
from opportune.kernels.allocate import SAMPLE
from opportune.model.duration import Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.policies.base import Plan, loss_policy
from opportune.pricing.demand import AT_MOST
from opportune.pricing.occupancy import price
from opportune.pricing.relaxation import Relaxation
from opportune.service.ordering import permitted
from opportune.service.resources import Array, PlanDocument
from opportune.service.state import State

Int = NDArray[np.int64]

BUSIEST = 0.5
"""Arrivals per step, at most, when a pool in seconds is read in steps."""

FINEST = 20.0
"""Steps that the shortest mean duration has at least: a step is short beside any service."""


def instance_of(state: State) -> tuple[LossInstance, float]:
    """The pool as a loss instance with geometric durations, and the seconds of its step.

    Raises:
        InputError: If a task type lacks a prior or a score, or no instance comes of it.
    """
    if not state.types or not any(server.present for server in state.servers):
        raise InputError(Problem("pool", "no task types or no servers", "at least one of each"))
    lacking = [t.id for t in state.types if t.rate is None or t.mean_duration is None]
    if lacking:
        told = f"no rate or mean_duration for {', '.join(lacking[:5])}"
        raise InputError(Problem("task_types", told, "both for every task type"))
    rate = np.array([settings.rate for settings in state.types], dtype=np.float64)
    mean = np.array([settings.mean_duration for settings in state.types], dtype=np.float64)
    step = float(mean.min()) / FINEST
    if rate.sum() > 0:
        step = min(step, BUSIEST / float(rate.sum()))
    present = [r for r, server in enumerate(state.servers) if server.present]
    slots = [r for r in present for _ in range(state.servers[r].settings.capacity)]
    allowed = permitted(state)[:, slots]
    score = np.nan_to_num(state.score[: len(state.types)][:, slots], nan=0.0)
    names = [state.servers[r].settings.id for r in present]
    default_k = 1 if state.settings is None else state.settings.k
    k = [settings.k if settings.k is not None else default_k for settings in state.types]
    servers = names if len(slots) == len(present) else [f"slot-{i + 1}" for i in range(len(slots))]
    instance = loss_instance(
        score,
        rate * step,
        [Geometric(max(float(m), 1.0)) for m in mean / step],
        k,
        allowed=allowed,
        task_types=[settings.id for settings in state.types],
        servers=servers,
        name=state.pool,
    )
    return instance, step


def plan_pool(
    state: State, plan_id: str, policy: str = "lag", source: str = "priors"
) -> PlanDocument:
    """Price the pool as declared and make a plan of it.

    Args:
        state: The pool; nothing in it changes.
        plan_id: Id of the new plan.
        policy: Which policy reads the prices.
        source: ``priors`` where rates are the declared ones, ``plan`` where they are learned.

    Raises:
        InputError: If the pool cannot be priced (``instance_of``).
    """
    instance, step = instance_of(state)
    prices = price(instance, AT_MOST)
    plan = loss_policy(policy).plan(instance, prices)
    present = [server.settings for server in state.servers if server.present]
    owner = [settings.id for settings in present for _ in range(settings.capacity)]
    return plan_document(plan_id, plan, prices, (step, owner), source)


def plan_document(
    plan_id: str,
    plan: Plan,
    prices: Relaxation,
    clock: tuple[float, list[str] | None] = (1.0, None),
    source: str = "plan",
) -> PlanDocument:
    """A plan and its prices as a document, in seconds.

    Args:
        plan_id: Id of the document.
        plan: A plan of ``prices.instance``.
        prices: The prices that explain it.
        clock: Seconds of a step; and (R,) the server of each slot, where a server of several
            slots stands in the instance once for each (its first place in an order counts).
        source: ``plan`` or ``priors``.
    """
    instance, (step, names) = prices.instance, clock
    slots = list(instance.servers) if names is None else names
    unique = list(dict.fromkeys(slots))
    at = {name: i for i, name in enumerate(unique)}
    owner = np.array([at[name] for name in slots])
    first = np.array([slots.index(name) for name in unique])
    tables = plan.tables
    order, level, n_allowed = _merged(plan, owner, len(unique))
    weight = np.zeros((instance.n_types, 0))
    if tables.rule == SAMPLE:
        weight = np.zeros((instance.n_types, len(unique)))
        np.add.at(weight.T, owner, tables.weight.T)
    return PlanDocument(
        id=plan_id,
        policy=plan.policy,
        task_types=list(instance.task_types),
        servers=unique,
        order=Array.of(np.ascontiguousarray(order, dtype=np.uint32)),
        level=Array.of(np.ascontiguousarray(level, dtype=np.int32)),
        n_allowed=Array.of(n_allowed.astype(np.int32)),
        weight=Array.of(weight),
        rule=int(tables.rule),
        index=Array.of(plan.index[:, first].astype(np.float64)),
        demand_price=prices.demand_price.tolist(),
        capacity_price=(prices.capacity_price[first] / step).tolist(),
        mean_duration=(instance.mean_duration * step).tolist(),
        source="priors" if source == "priors" else "plan",
        bound=prices.dual_value / step,
        gap=prices.gap,
        note=plan.note,
    )


def _merged(plan: Plan, owner: Int, n_servers: int) -> tuple[Int, Int, Int]:
    """Order, level and length of the lists when each server counts at its first slot only."""
    tables = plan.tables
    if n_servers == len(owner):
        lengths = tables.n_allowed.astype(np.int64)
        return tables.order.astype(np.int64), tables.level.astype(np.int64), lengths
    n_types, levels, _ = tables.order.shape
    order = np.zeros((n_types, levels, n_servers), dtype=np.int64)
    level = np.zeros((n_types, levels, n_servers), dtype=np.int64)
    n_allowed = np.zeros(n_types, dtype=np.int64)
    for v in range(n_types):
        for h in range(levels):
            servers = owner[tables.order[v, h, : tables.n_allowed[v]]]
            _, first = np.unique(servers, return_index=True)
            first.sort()
            n_allowed[v] = len(first)
            order[v, h, : len(first)] = servers[first]
            level[v, h, : len(first)] = tables.level[v, h, first]
    return order, level, n_allowed
