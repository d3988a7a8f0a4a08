"""Plans for a pool, made outside the request path: from what was declared to a plan document.

The planner reads a pool as a loss instance in steps of a length that it chooses, prices it, and
writes the prices back per second. Rates and durations are the declared ones, unless rates that were
measured are handed in.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem
from opportune.model.duration import Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.policies.base import Plan, loss_policy
from opportune.policies.slots import by_server, first_slot, slot_owner, with_slots
from opportune.pricing.demand import AT_MOST
from opportune.pricing.occupancy import price
from opportune.pricing.relaxation import Relaxation
from opportune.pricing.search import Stop
from opportune.service.learned import durations_of, rates_of, scores_of
from opportune.service.ordering import permitted
from opportune.service.resources import Array, PlanDocument
from opportune.service.state import State

Float = NDArray[np.float64]
Int = NDArray[np.int64]

BUSIEST = 0.5
"""Arrivals per step, at most, when a pool in seconds is read in steps."""

FINEST = 20.0
"""Steps that the shortest mean duration has at least: a step is short beside any service."""


def instance_of(state: State, measured: Float | None = None) -> tuple[LossInstance, float]:
    """The pool as a loss instance with geometric durations, and the seconds of its step.

    Args:
        state: The pool.
        measured: (V,) arrival rates per second that go before the declared ones, NaN for none.

    Raises:
        InputError: If a task type lacks a prior or a score, or no instance comes of it.
    """
    if not state.types or not any(server.present for server in state.servers):
        raise InputError(Problem("pool", "no task types or no servers", "at least one of each"))
    rates, means = rates_of(state), durations_of(state)
    if measured is not None:
        rates = [
            own if np.isnan(found) else float(found)
            for own, found in zip(rates, measured, strict=True)
        ]
    lacking = [
        t.id
        for t, rate, mean in zip(state.types, rates, means, strict=True)
        if rate is None or mean is None
    ]
    if lacking:
        told = f"no rate or mean_duration for {', '.join(lacking[:5])}"
        raise InputError(Problem("task_types", told, "both for every task type"))
    rate = np.array(rates, dtype=np.float64)
    mean = np.array(means, dtype=np.float64)
    step = float(mean.min()) / FINEST
    if rate.sum() > 0:
        step = min(step, BUSIEST / float(rate.sum()))
    present = [r for r, server in enumerate(state.servers) if server.present]
    instance = loss_instance(
        np.nan_to_num(scores_of(state)[:, present], nan=0.0),
        rate * step,
        [Geometric(max(float(m), 1.0)) for m in mean / step],
        state.servers_per_task,
        allowed=permitted(state)[:, present],
        task_types=[settings.id for settings in state.types],
        servers=[state.servers[r].settings.id for r in present],
        name=state.pool,
    )
    return instance, step


def plan_pool(
    state: State,
    plan_id: str,
    policy: str = "lag",
    source: str = "priors",
    how: tuple[Float | None, Stop | None] = (None, None),
) -> PlanDocument:
    """Price the pool as declared and make a plan of it.

    Args:
        state: The pool; nothing in it changes.
        plan_id: Id of the new plan.
        policy: Which policy reads the prices.
        source: ``priors`` for a plan that only stands in for one, ``plan`` otherwise.
        how: (V,) measured rates that go before the declared ones; and when pricing ends.

    Raises:
        InputError: If the pool cannot be priced (``instance_of``).
    """
    rate, stop = how
    instance, step = instance_of(state, rate)
    owner = slot_owner([s.settings.capacity for s in state.servers if s.present])
    prices = price(with_slots(instance, owner), AT_MOST, stop=stop)
    plan = by_server(loss_policy(policy).plan(prices.instance, prices), owner)
    document = plan_document(plan_id, plan, prices, (step, first_slot(owner)), source)
    return msgspec.structs.replace(
        document, servers=list(instance.servers), score_version=state.score_version
    )


def plan_document(
    plan_id: str,
    plan: Plan,
    prices: Relaxation,
    clock: tuple[float, Int | None] = (1.0, None),
    source: str = "plan",
) -> PlanDocument:
    """A plan and its prices as a document, in seconds.

    Args:
        plan_id: Id of the document.
        plan: A plan of ``prices.instance``.
        prices: The prices that explain it.
        clock: Seconds of a step; and the columns of the prices that are the plan's servers,
            None for all.
        source: ``plan`` or ``priors``.
    """
    instance, (step, columns) = prices.instance, clock
    kept = np.arange(instance.n_servers) if columns is None else columns
    tables, laws = plan.tables, instance.server_duration
    return PlanDocument(
        id=plan_id,
        policy=plan.policy,
        task_types=list(instance.task_types),
        servers=[instance.servers[r] for r in kept],
        order=Array.of(tables.order.astype(np.uint32)),
        level=Array.of(tables.level.astype(np.int32)),
        n_allowed=Array.of(tables.n_allowed.astype(np.int32)),
        weight=Array.of(tables.weight.astype(np.float64)),
        rule=int(tables.rule),
        index=Array.of(plan.index.astype(np.float64)),
        demand_price=prices.demand_price.tolist(),
        capacity_price=(prices.capacity_price[kept] / step).tolist(),
        mean_duration=(instance.mean_duration * step).tolist(),
        pair_mean=None if laws is None else Array.of(laws.mean[:, kept] * step),
        source="priors" if source == "priors" else "plan",
        bound=prices.dual_value / step,
        gap=prices.gap,
        note=plan.note,
        arrival_rate=(instance.arrival_rate / step).tolist(),
    )
