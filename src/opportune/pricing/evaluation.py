"""What the plans of a policy do in every state: the input of an exact evaluation.

A plan that lists servers is a rule on the states of ``pricing.states`` as long as no list
separates equal servers; otherwise every server counts for itself (``merge_servers=False``).
Servers of a task are picked one by one, as the kernels do: the first tie of the list with a free
server, one of its free servers at random; or by weight; or the group of highest rank.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem
from opportune.kernels.allocate import PRIORITY, SAMPLE, PlanTables
from opportune.kernels.group import GroupTables, StateTables
from opportune.model.loss import LossInstance
from opportune.pricing.exact import ExactValue, evaluate
from opportune.pricing.states import MAX_STATES, StateSpace, state_space

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Tables = PlanTables | GroupTables | StateTables

SEPARATED = "a list separates equal servers"


def exact_value(
    instance: LossInstance,
    tables: Tables,
    limit: int = MAX_STATES,
    space: StateSpace | None = None,
) -> ExactValue:
    """The reward per step of a plan, exactly.

    Args:
        instance: All durations memoryless.
        tables: What the plan does.
        limit: Largest number of states.
        space: The states with equal servers merged, if they are known.

    Raises:
        InputError: If a duration is not memoryless or there are too many states.
    """
    space = state_space(instance, limit) if space is None else space
    if not isinstance(tables, PlanTables):
        return evaluate(space, *plan_rates(instance, space, tables))
    try:
        rates = plan_rates(instance, space, tables)
    except InputError as error:
        if SEPARATED not in str(error):
            raise
        space = state_space(instance, limit, merge_servers=False)
        rates = plan_rates(instance, space, tables)
    return evaluate(space, *rates)


def plan_rates(instance: LossInstance, space: StateSpace, tables: Tables) -> tuple[Float, Float]:
    """(N, J) probability that a step brings a task that gets kind j, and (N,) reward per step.

    Raises:
        InputError: If the plan separates servers that the states merge.
    """
    weight = np.zeros((space.n_states, len(space.team)))
    reward = np.zeros(space.n_states)
    for v in np.flatnonzero(instance.arrival_rate > 0):
        c = int(space.merged.class_of[v])
        rate = float(instance.arrival_rate[v])
        own = slice(space.offers.start[c], space.offers.start[c + 1])
        earns = np.zeros(len(space.team))
        earns[space.offers.kind[own]] = space.offers.reward[own] * space.unit
        if isinstance(tables, StateTables):
            chosen = tables.action[:, v]
            served = np.flatnonzero(chosen >= 0)
            weight[served, chosen[served]] += rate
            reward[served] += rate * earns[chosen[served]]
            continue
        number = {space.team[j].tobytes(): j for j in space.offers.kind[own]}
        for team, chance in _teams(space, tables, int(v), int(space.merged.k[c])):
            j = number[team.tobytes()]
            weight[:, j] += rate * chance
            reward += rate * chance * earns[j]
    return weight, reward


def _teams(
    space: StateSpace, tables: PlanTables | GroupTables, v: int, k: int
) -> list[tuple[Int, Float]]:
    """Teams (G,) that type v may get, with the probability of each in every state (N,)."""
    copies, permitted = space.merged.copies, space.merged.allowed[space.merged.class_of[v]]
    free = np.where(permitted, copies - space.busy, 0)
    enough = (free.sum(axis=1) >= k).astype(np.float64)
    found = {np.zeros(len(copies), dtype=np.int64).tobytes(): enough}
    for _ in range(k):
        grown: dict[bytes, Float] = {}
        for key, chance in found.items():
            team = np.frombuffer(key, dtype=np.int64)
            share = _next_group(space, tables, (v, k), free - team)
            for g in np.flatnonzero(share.any(axis=0)):
                more = team.copy()
                more[g] += 1
                grown[more.tobytes()] = grown.get(more.tobytes(), 0.0) + chance * share[:, g]
        found = {key: chance for key, chance in grown.items() if chance.any()}
    return [(np.frombuffer(key, dtype=np.int64), chance) for key, chance in found.items()]


def _next_group(
    space: StateSpace, tables: PlanTables | GroupTables, task: tuple[int, int], free: Int
) -> Float:
    """(N, G) probability that the next server comes from each group, given what is left."""
    v, k = task
    usable = free > 0
    if isinstance(tables, GroupTables):
        level = np.minimum(space.busy.sum(axis=1), tables.rank.shape[3] - 1)
        groups = np.arange(free.shape[1])
        rank = tables.rank[v, groups, space.busy, level[:, None]]
        best = np.argmax(np.where(usable, rank, -1), axis=1)
        share = np.zeros(free.shape)
        share[np.arange(len(best)), best] = 1.0
        return share * usable
    share = np.zeros(free.shape)
    headcount = np.minimum(space.busy.sum(axis=1) // k, tables.order.shape[1] - 1)
    for h in np.unique(headcount):
        rows = headcount == h
        place = _places(space, tables, v, int(h))
        first = np.where(usable[rows], place, np.iinfo(np.int64).max)
        weight = np.where(first == first.min(axis=1, keepdims=True), free[rows], 0) * usable[rows]
        share[rows] = weight / np.maximum(weight.sum(axis=1, keepdims=True), 1)
    if tables.rule == SAMPLE:
        weighted = _group_weights(space, tables, v) * np.maximum(free, 0)
        total = weighted.sum(axis=1, keepdims=True)
        drawn = np.divide(weighted, total, out=np.zeros(free.shape), where=total > 0)
        share = np.where(total > 0, drawn, share)
    return share


def _places(space: StateSpace, tables: PlanTables, v: int, h: int) -> Int:
    """(G,) place of each group in a list; equal places are a tie."""
    n = int(tables.n_allowed[v])
    listed = space.merged.group_of[tables.order[v, h, :n].astype(np.int64)]
    apart = np.ones(n, dtype=np.bool_)
    if tables.rule != PRIORITY:
        apart[1:] = tables.level[v, h, 1:n] != tables.level[v, h, : n - 1]
    run = np.cumsum(apart)
    # Levels that hold one group only and follow each other are one: its servers are equal.
    same = np.array([len(set(listed[run == run[i]].tolist())) == 1 for i in range(n)])
    joined = apart.copy()
    joined[1:] &= ~(same[1:] & same[:-1] & (listed[1:] == listed[:-1]))
    run = np.cumsum(joined)
    place = np.full(len(space.merged.copies), np.iinfo(np.int64).max - 1)
    for g in range(len(place)):
        runs = set(run[listed == g].tolist())
        if len(runs) > 1:
            raise InputError(Problem("plan", SEPARATED, "equal servers side by side"))
        if runs:
            place[g] = runs.pop()
    return place


def _group_weights(space: StateSpace, tables: PlanTables, v: int) -> Float:
    """(G,) sampling weight of one server of each group."""
    weight = np.zeros(len(space.merged.copies))
    for g in range(len(weight)):
        own = tables.weight[v, space.merged.group_of == g]
        if np.ptp(own) > 0:
            raise InputError(Problem("plan", SEPARATED, "equal servers with equal weights"))
        weight[g] = own[0]
    return weight
