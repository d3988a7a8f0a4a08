"""One plan being made: how far it is, and the work itself, away from the event loop."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from opportune.errors import OpportuneError
from opportune.pricing.blas import one_thread
from opportune.pricing.search import Stop
from opportune.service.drifting import NO_PLAN, Basis, basis_of, measured_rates
from opportune.service.ordering import keep_routings
from opportune.service.plan_bodies import Progress
from opportune.service.plan_checks import plan_problem
from opportune.service.plan_jobs import PlanJob
from opportune.service.planning import plan_pool
from opportune.service.resources import PlanDocument
from opportune.service.routing import Kept
from opportune.service.state import Server, State

Tell = Callable[[float, str], None]
"""Told how far pricing is: the gap, infinite before there is one, and the step."""


class PlanCanceledError(Exception):
    """Nobody wants the plan any more."""


@dataclass
class Run:
    """A plan that is being made.

    Attributes:
        canceled: Set when nobody wants it any more.
        interrupt: Ends the work at once where that can be done, None elsewhere.
        began: When pricing began, of a clock that does not jump; None while it waits.
        step, gap: As in ``plan_bodies.Progress``.
    """

    canceled: threading.Event = field(default_factory=threading.Event)
    interrupt: Callable[[], None] | None = None
    began: float | None = None
    step: str = "waiting"
    gap: float | None = None

    def cancel(self) -> None:
        """Nobody wants it any more; from any thread."""
        self.canceled.set()
        interrupt = self.interrupt
        if interrupt is not None:
            interrupt()

    def tell(self, gap: float, step: str) -> None:
        """How far pricing is; called by the planner's thread.

        Raises:
            PlanCanceledError: If nobody wants the plan any more.
        """
        self.step, self.gap = step, gap if gap < 1e300 else None
        if self.canceled.is_set():
            raise PlanCanceledError

    @property
    def progress(self) -> Progress:
        """The same for a reader."""
        seconds = 0.0 if self.began is None else time.monotonic() - self.began
        return Progress(step=self.step, gap=self.gap, seconds=seconds)


class Made(NamedTuple):
    """A plan, its routings, and what it was made from."""

    document: PlanDocument
    kept: list[Kept]
    basis: Basis


def price_job(state: State, name: str, how: tuple[PlanJob, Tell, float]) -> Made:
    """Make a plan of a copy of a pool; in the planner's thread or in a process of its own.

    Args:
        state: The copy (:func:`declared`).
        name: Of the plan.
        how: The job, who is told how far it is, and the seconds of the pool's clock.

    Raises:
        OpportuneError: If no plan comes of it.
    """
    job, tell, now = how
    stop = Stop(seconds=job.seconds, progress=tell, catch_interrupt=False)
    tell(float("inf"), "reading the pool")
    basis = basis_of(state, name)
    rate = measured_rates(state, now) if job.rates == "measured" else None
    source = "priors" if job.reason == NO_PLAN else "plan"
    with one_thread():
        document = plan_pool(state, name, job.policy, source, (rate, stop))
    wrong = plan_problem(document)
    if wrong is not None:
        raise OpportuneError(wrong)
    tell(document.gap if document.gap is not None else float("inf"), "building")
    return Made(document, keep_routings(state, document), basis)


def declared(state: State) -> State:
    """A copy of what the planner reads, so that the pool may go on while it plans."""
    return State(
        state.pool,
        state.settings,
        state.clock,
        list(state.types),
        [Server(one.settings, present=one.present, here=one.here) for one in state.servers],
        state.score.copy(),
        state.score_version,
        dict(state.plans),
        dict(state.activated),
        list(state.history),
        shadow=state.shadow,
        made=dict(state.made),
        arrivals=copy.deepcopy(state.arrivals),
        type_index=dict(state.type_index),
        server_index=dict(state.server_index),
        learned=state.learned,
    )


def free_name(state: State, begins: str) -> str:
    """``plan-1``, ``plan-2``, ...: the first that is not taken."""
    number = len(state.plans) + 1
    while f"{begins}-{number}" in state.plans or f"{begins}-{number}" in state.jobs:
        number += 1
    return f"{begins}-{number}"
