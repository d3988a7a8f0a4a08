"""The decisions of a log that another policy can be held against: who was free, who was taken.

Implements: ours. A decision is a task that one server took, or k together, each with the
probability of being among those taken (propensity) and what came of it (outcome). Who was free
comes from the log's column ``free``; without it, from the log's own services: a server is free
when none of its services is under way.
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
        decision: (m,) the decision that took a server; 0 to n - 1 where each took one.
        server: (m,) the server that was taken.
        propensity: (m,) with what probability.
        outcome: (m,) what it was worth.
        free: (n, R) servers free at that moment, those that were taken among them.
        headcount: (n,) tasks in service at that moment.
        source: ``log`` if the log says who was free, else ``services``.
        overlaps: Decisions whose server was at work by the log's services.
        left_out: Services that are no such decision, by reason.
    """

    task: Int
    decision: Int
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

    @property
    def wanted(self) -> Int:
        """(n,) how many servers each took."""
        return np.bincount(self.decision, minlength=self.n)

    def rows(self, keep: Bool) -> Decisions:
        """Those where ``keep`` (n,) is true."""
        taken = keep[self.decision]
        return Decisions(
            self.task[keep],
            (np.cumsum(keep) - 1)[self.decision[taken]],
            self.server[taken],
            self.propensity[taken],
            self.outcome[taken],
            self.free[keep],
            self.headcount[keep],
            self.source,
            self.overlaps,
            self.left_out,
        )


def decisions_of(
    log: Log, with_outcome: bool = True, with_propensity: bool = True, several: bool = False
) -> Decisions:
    """The decisions of a log that say enough.

    Args:
        log: The log.
        with_outcome: Leave out decisions whose outcome is unknown.
        with_propensity: Leave out decisions whose propensity is unknown.
        several: Whether tasks of several servers are decisions, if all of them began together and
            say enough; otherwise they are left out.

    Raises:
        InputError: If there are more decisions times servers than can be held.
    """
    if len(log.task) * len(log.servers) > MOST_CELLS:
        told = f"{len(log.task):,} services by {len(log.servers):,} servers"
        raise InputError(Problem("log", told, f"at most {MOST_CELLS:,} pairs", "shorten the log"))
    moment = np.where(np.isfinite(log.start), log.start, log.arrival[log.task])
    keep, left_out = _usable(log, moment, (with_outcome, with_propensity), several)
    order = np.lexsort((np.arange(len(moment)), moment))
    busy, headcount = _busy(log, moment, order)
    rows = order[np.flatnonzero(keep[order])]
    task, server = log.task[rows], log.server[rows]
    first = np.flatnonzero(np.diff(task, prepend=-1))  # services of a task are neighbors
    decision = np.cumsum(np.diff(task, prepend=-1) != 0) - 1
    known = log.free is not None
    if log.free is not None:
        free = np.logical_or.reduceat(log.free[rows], first) if len(rows) else log.free[rows]
    else:
        free = ~busy[rows[first]]
    overlaps = 0 if known else int((~free[decision, server]).sum())
    free[decision, server] = True
    return Decisions(
        task=task[first],
        decision=decision,
        server=server,
        propensity=log.propensity[rows],
        outcome=log.outcome[rows],
        free=free,
        headcount=headcount[rows[first]],
        source="log" if known else "services",
        overlaps=overlaps,
        left_out=left_out,
    )


def _usable(
    log: Log, moment: Float, needed: tuple[bool, bool], several: bool
) -> tuple[Bool, dict[str, int]]:
    """(m,) services of decisions that say enough, and how many others there are, by reason."""
    with_outcome, with_propensity = needed
    began = np.full(log.n_tasks, np.inf)
    np.minimum.at(began, log.task, moment)
    keep = np.ones(len(log.task), dtype=np.bool_)
    left_out: dict[str, int] = {}
    for reason, good in (
        ("without the name of the server", log.server >= 0),
        ("of tasks with several servers", (log.served[log.task] == 1) | several),
        ("that began after another of the same task", moment == began[log.task]),
        ("without a propensity", np.isfinite(log.propensity) | (not with_propensity)),
        ("without an outcome", np.isfinite(log.outcome) | (not with_outcome)),
    ):
        _leave_out(reason, good, keep, left_out)
    whole = np.ones(log.n_tasks, dtype=np.bool_)
    whole[log.task[~keep]] = False
    _leave_out("beside one of these", whole[log.task], keep, left_out)
    return keep, left_out


def _leave_out(reason: str, good: Bool, keep: Bool, left_out: dict[str, int]) -> None:
    lost = int((keep & ~good).sum())
    if lost:
        left_out[reason] = lost
    keep &= good


def left_out_text(decisions: Decisions) -> str:
    """Which services are left out, in words; empty if none are."""
    return ", ".join(
        f"{counted(count, 'service')} {reason}" for reason, count in decisions.left_out.items()
    )


def _busy(log: Log, moment: Float, order: Int) -> tuple[Bool, Int]:
    """(m, R) whether a server is at work when a service begins, and (m,) how many tasks are.

    Of services that begin together those that come first in the log began first. A service of
    unknown length ends when the next one of its server begins.
    """
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    busy = np.zeros((len(order), len(log.servers)), dtype=np.bool_)
    at_work = np.zeros(len(order))
    for r in range(-1, len(log.servers)):
        own = order[log.server[order] == r]
        end = moment[own] + log.duration[own]
        later = np.concatenate([moment[own][1:], [np.inf]])[: len(own)]
        end = np.where(np.isnan(end), later, end)
        by_end = np.argsort(end, kind="stable")
        begun = np.searchsorted(rank[own], rank, side="left")
        ended = np.searchsorted(end[by_end], moment, side="right")
        under_way = np.maximum(begun - ended, 0)
        part = 1.0 / log.served[log.task[own]]  # of a task
        parts = (np.concatenate([[0.0], np.cumsum(one)]) for one in (part, part[by_end]))
        at_work += np.maximum(next(parts)[begun] - next(parts)[ended], 0.0)
        if r >= 0:
            busy[:, r] = under_way > 0
    return busy, np.rint(at_work).astype(np.int64)
