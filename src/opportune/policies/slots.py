"""Servers of several slots: priced slot by slot, planned server by server.

A server of capacity c is c slots, at most one of them for a task. The loss model knows servers of
one slot, so a pool is priced with a column for every slot; in a plan the first place of a
server in each list counts. (The instance allows two slots of one server to a task of
k > 1; the plan does not.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.allocate import SAMPLE
from opportune.model.loss import LossInstance
from opportune.policies.base import Plan

Int = NDArray[np.int64]


def slot_owner(capacity: Sequence[int]) -> Int:
    """(slots,) the server of each slot, from the number of slots of each server."""
    return np.repeat(np.arange(len(capacity)), capacity)


def with_slots(instance: LossInstance, owner: Int) -> LossInstance:
    """The instance with a server for every slot, named ``server/1``, ``server/2``, ..."""
    if len(owner) == instance.n_servers:
        return instance
    place = np.arange(len(owner)) - first_slot(owner)[owner] + 1
    names = [f"{instance.servers[r]}/{i}" for r, i in zip(owner, place, strict=True)]
    shares, laws = instance.availability, instance.server_duration
    return replace(
        instance,
        match_reward=instance.match_reward[:, owner],
        allowed=instance.allowed[:, owner],
        servers=tuple(names),
        availability=None if shares is None else shares[owner],
        server_duration=None if laws is None else replace(laws, which=laws.which[:, owner]),
    )


def first_slot(owner: Int) -> Int:
    """(R,) the first slot of each server; equal servers have equal prices."""
    return np.unique(owner, return_index=True)[1]


def by_server(plan: Plan, owner: Int) -> Plan:
    """A plan of slots as one of servers.

    Args:
        plan: A plan of the instance :func:`with_slots`.
        owner: (slots,) the server of each slot.
    """
    first = first_slot(owner)
    if len(first) == len(owner):
        return plan
    tables = plan.tables
    n_types, levels, _ = tables.order.shape
    order = np.zeros((n_types, levels, len(first)), dtype=np.uint32)
    level = np.zeros((n_types, levels, len(first)), dtype=np.int32)
    n_allowed = np.zeros(n_types, dtype=np.int32)
    for v in range(n_types):
        for h in range(levels):
            servers = owner[tables.order[v, h, : tables.n_allowed[v]]]
            place = np.sort(np.unique(servers, return_index=True)[1])
            n_allowed[v] = len(place)
            order[v, h, : len(place)] = servers[place]
            level[v, h, : len(place)] = tables.level[v, h, place]
    weight = np.zeros((n_types, 0))
    if tables.rule == SAMPLE:
        weight = np.zeros((n_types, len(first)))
        np.add.at(weight.T, owner, tables.weight.T)
    merged = tables._replace(order=order, level=level, n_allowed=n_allowed, weight=weight)
    return replace(plan, tables=merged, index=plan.index[:, first], counts=None)
