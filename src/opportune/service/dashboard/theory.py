"""What a pool should do by theory, and what keeps it from being compared.

The bound and the blocking are about a pool that drops what it cannot serve, whose servers all take
every type and never decline. Where a pool differs, its numbers are a reference, not a bound; the
reasons say why.
"""

from __future__ import annotations

import math
from collections.abc import Set
from typing import NamedTuple

from opportune.pricing.blocking import erlang_loss
from opportune.service.dashboard.figures import plain
from opportune.service.dashboard.history import CONFLICTS, DECLINED, PINNED
from opportune.service.ordering import routing_of
from opportune.service.state import State

REFERENCE = "reference, not a bound"
"""What a number is called that the assumptions do not carry."""


MARGIN = 4.0
"""Standard deviations of a Poisson count by which more tasks must come than declared to be told."""


class Arrived(NamedTuple):
    """How many tasks came in how many seconds."""

    tasks: int
    seconds: float


NOBODY = Arrived(0, 0.0)


class Blocking(NamedTuple):
    """What blocking should be.

    Attributes:
        value: Erlang-B, None where there is none.
        reasons: Why it is only a reference, or why there is none.
    """

    value: float | None
    reasons: list[str]


def bound_reasons(state: State, asides: Set[str], arrived: Arrived = NOBODY) -> list[str]:
    """Why the bound of the plan is only a reference for this pool; empty if it is a bound.

    Args:
        state: The pool.
        asides: What ``history.History`` saw.
        arrived: How many tasks came while the plan was in force.
    """
    reasons = []
    if state.settings is not None and state.settings.mode == "queue":
        reasons.append("queue mode: tasks wait where the bound drops them")
    if is_split(state):
        reasons.append("the pool is split, the bound is that of all parts together")
    if _declines(state):
        reasons.append(DECLINED)
    reasons += sorted(asides & {PINNED})
    plan = state.active_plan
    if plan is not None and plan.arrival_rate:
        reasons += _too_many(arrived, sum(plan.arrival_rate))
    return reasons


def blocking(state: State, asides: Set[str], arrived: Arrived = NOBODY) -> Blocking:
    """Erlang-B at the declared rates and durations.

    Args:
        state: The pool.
        asides: What ``history.History`` saw.
        arrived: How many tasks came while blocking was counted.

    Implements: LAG Lemma 3.1 (quoted: the same for every work-conserving policy) with tasks that
    arrive at any time: Erlang-B(floor(slots / k), sum_v rate_v (E[D_v] + wrap-up)).
    """
    settings = state.settings
    present = [server for server in state.servers if server.present]
    if settings is None or not present or not state.types:
        return Blocking(None, ["nothing is declared yet"])
    if is_split(state):
        return Blocking(None, ["the pool is split, the declared rates are those of all parts"])
    if settings.mode == "queue":
        return Blocking(None, ["queue mode: tasks wait, none is dropped"])
    needs = set(state.servers_per_task)
    if len(needs) > 1:
        return Blocking(None, ["task types need different numbers of servers"])
    offered, rate = 0.0, 0.0
    for one in state.types:
        if one.rate is None or one.mean_duration is None:
            return Blocking(None, ["rates or durations are not declared for every task type"])
        wrap_up = settings.wrap_up if one.wrap_up is None else one.wrap_up
        offered += one.rate * (one.mean_duration + wrap_up)
        rate += one.rate
    (k,) = needs
    slots = sum(server.settings.capacity for server in present)
    reasons = []
    n_permitted = routing_of(state).n_permitted
    if any(n < len(present) for n in n_permitted):
        reasons.append("some task types do not permit all servers")
    if any(not server.takes_tasks for server in present):
        reasons.append("some servers take no tasks now")
    if k > 1 and slots > len(present):
        reasons.append("a server of several slots takes a task once only")
    if _declines(state):
        reasons.append(DECLINED)
    reasons += sorted(asides & {PINNED, CONFLICTS})
    reasons += _too_many(arrived, rate)
    return Blocking(erlang_loss(offered, slots // k), reasons)


def is_split(state: State) -> bool:
    """Whether a pool has sub-pools or is one."""
    settings = state.settings
    return settings is not None and (settings.partitions > 1 or settings.part_of is not None)


def _too_many(arrived: Arrived, rate: float) -> list[str]:
    """Whether clearly more tasks came than declared: then no bound at declared rates holds."""
    expected = rate * arrived.seconds
    if arrived.tasks - expected <= MARGIN * math.sqrt(max(expected, 1.0)):
        return []
    told = f"{arrived.tasks} tasks came where {plain(expected)} were declared"
    return [told]


def _declines(state: State) -> bool:
    return any(state.counts.get(name, 0) for name in ("slots_declined", "slots_timed_out"))
