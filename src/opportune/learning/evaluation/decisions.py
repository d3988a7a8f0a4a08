"""The decisions of a log that another policy can be held against: who was free, who was taken.

Implements: ours. A decision is a task that one server took, with the probability of that choice
(propensity) and what came of it (outcome). Who was free comes from the log's column ``free``;
without it, from the log's own services: a server is free when none of its services is under way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem
from opportune.learning.fit.log import Log
from opportune.model.spelling import counted

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

MOST_CELLS = 2**31
"""Decisions times servers that are held at once."""


@dataclass(frozen=True, eq=False)
class Decisions:
    """Decisions in the order in which they were made.

    Attributes:
        task: (n,) the task of each.
        server: (n,) the server that was taken.
        propensity: (n,) with what probability.
        outcome: (n,) what it was worth.
        free: (n, R) servers free at that moment, the one that was taken among them.
        headcount: (n,) tasks in service at that moment.
        source: ``log`` if the log says who was free, else ``services``.
        overlaps: Decisions whose server was at work by the log's services.
        left_out: Services that are no such decision, by reason.
    """

    task: Int
    server: Int
    propensity: Float
    outcome: Float
    free: Bool
    headcount: Int
    source: str
    overlaps: int
    left_out: dict[str, int]

    @property
    def n(self) -> int:
        """Number of decisions."""
        return len(self.task)

    def rows(self, keep: Bool) -> Decisions:
        """Those where ``keep`` is true."""
        return Decisions(
            self.task[keep],
            self.server[keep],
            self.propensity[keep],
            self.outcome[keep],
            self.free[keep],
            self.headcount[keep],
            self.source,
            self.overlaps,
            self.left_out,
        )


def decisions_of(log: Log, with_outcome: bool = True, with_propensity: bool = True) -> Decisions:
    """The decisions of a log that say enough.

    Args:
        log: The log.
        with_outcome: Leave out decisions whose outcome is unknown.
        with_propensity: Leave out decisions whose propensity is unknown.

    Raises:
        InputError: If there are more decisions times servers than can be held.
    """
    if len(log.task) * len(log.servers) > MOST_CELLS:
        told = f"{len(log.task):,} services by {len(log.servers):,} servers"
        raise InputError(Problem("log", told, f"at most {MOST_CELLS:,} pairs", "shorten the log"))
    alone = log.served[log.task] == 1
    keep = np.ones(len(log.task), dtype=np.bool_)
    left_out: dict[str, int] = {}
    for reason, good in (
        ("without the name of the server", log.server >= 0),
        ("of tasks with several servers", alone),
        ("without a propensity", np.isfinite(log.propensity) | (not with_propensity)),
        ("without an outcome", np.isfinite(log.outcome) | (not with_outcome)),
    ):
        lost = int((keep & ~good).sum())
        if lost:
            left_out[reason] = lost
        keep &= good
    moment = np.where(np.isfinite(log.start), log.start, log.arrival[log.task])
    order = np.lexsort((np.arange(len(moment)), moment))
    busy, headcount = _busy(log, moment, order)
    chosen = np.flatnonzero(keep[order])
    rows = order[chosen]
    server = log.server[rows]
    known = log.free is not None
    free = log.free[rows] if log.free is not None else ~busy[rows]
    place = np.arange(len(rows))
    overlaps = 0 if known else int((~free[place, server]).sum())
    free[place, server] = True
    return Decisions(
        task=log.task[rows],
        server=server,
        propensity=log.propensity[rows],
        outcome=log.outcome[rows],
        free=free,
        headcount=headcount[rows],
        source="log" if known else "services",
        overlaps=overlaps,
        left_out=left_out,
    )


def left_out_text(decisions: Decisions) -> str:
    """Which services are left out, in words; empty if none are."""
    return ", ".join(
        f"{counted(count, 'service')} {reason}" for reason, count in decisions.left_out.items()
    )


def _busy(log: Log, moment: Float, order: Int) -> tuple[Bool, Int]:
    """(m, R) whether a server is at work when a service begins, and how many services are.

    Of services that begin together those that come first in the log began first. A service of
    unknown length ends when the next one of its server begins.
    """
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    busy = np.zeros((len(order), len(log.servers)), dtype=np.bool_)
    at_work = np.zeros(len(order), dtype=np.int64)
    for r in range(-1, len(log.servers)):
        own = order[log.server[order] == r]
        end = moment[own] + log.duration[own]
        later = np.concatenate([moment[own][1:], [np.inf]])[: len(own)]
        end = np.sort(np.where(np.isnan(end), later, end))
        begun = np.searchsorted(rank[own], rank, side="left")
        ended = np.searchsorted(end, moment, side="right")
        under_way = np.maximum(begun - ended, 0)
        at_work += under_way
        if r >= 0:
            busy[:, r] = under_way > 0
    return busy, at_work
