"""Run plans over days: rates and plans change by period, servers come and go.

The run goes from event to event: the start of a period (rates and plans change) and the start
of an absence (the server is taken off: it finishes its task, and takes the next one no sooner
than it is back). Gaps between arrivals are memoryless, so each stretch draws its own, from the
same counter-based streams for every policy.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem
from opportune.kernels.loss import LossState, Trace, Window, World, run_arrivals
from opportune.kernels.streams import LossStreams, draw_arrivals
from opportune.model.day import Day, merge_absences
from opportune.model.streams import Key, empty_block, loss_law, stream_key
from opportune.policies.base import Plan
from opportune.simulate.by_server import ServerRun
from opportune.simulate.loss import MAX_STEPS, empty_state, empty_trace

CHUNK = 1 << 10
"""Arrivals drawn at a time: stretches are short."""

DayPlans = Sequence[Plan]
"""One plan per period."""


@dataclass(frozen=True, eq=False)
class DayTrace:
    """What happened, by period of the day, summed over the counted days.

    Attributes:
        reward: (P,) reward.
        arrived: (P, V) tasks.
        blocked: (P, V) dropped tasks.
        assigned: (P, V, R) assignments.
        reward_by_day: (days,) reward of each counted day.
    """

    reward: NDArray[np.float64]
    arrived: NDArray[np.int64]
    blocked: NDArray[np.int64]
    assigned: NDArray[np.int64]
    reward_by_day: NDArray[np.float64]


@dataclass(frozen=True)
class _Stretch:
    """Steps of the day between two events, in one period."""

    first: int
    end: int
    period: int
    leaving: tuple[tuple[int, int], ...]  # (server, back at) at its start


def simulate_day(
    day: Day,
    policies: Sequence[DayPlans],
    n_days: int,
    seed: tuple[int, int],
    progress: Callable[[float], None] | None = None,
) -> list[DayTrace]:
    """Run each policy on the same ``n_days`` counted days, after one that is not counted.

    Args:
        day: Rates and absences.
        policies: For each policy one plan per period.
        n_days: Counted days.
        seed: Seed and replication of the streams.
        progress: Called with the share of days done.

    Raises:
        InputError: If a policy has not one plan per period or looks at the whole state, or
            ``n_days`` is below 1 or the days have too many steps.
    """
    if n_days < 1:
        raise InputError(Problem("days", str(n_days), "at least 1"))
    if (n_days + 1) * day.steps > MAX_STEPS:
        told = f"{n_days + 1} days of {day.steps} steps"
        expected, remedy = f"at most {MAX_STEPS} steps in all", "run fewer days, or longer steps"
        raise InputError(Problem("days", told, expected, remedy))
    for plans in policies:
        if len(plans) != day.n_periods:
            raise InputError(Problem("plans", f"{len(plans)}", f"one per period, {day.n_periods}"))
        if any(plan.counts is not None for plan in plans):
            told = f"a plan of {plans[0].policy} by busy servers or states"
            raise InputError(Problem("plans", told, "lists of servers, as of lag or greedy"))
    run = _Run(day, policies, stream_key(*seed))
    for number in range(n_days + 1):
        run.one_day(number)
        if progress is not None:
            progress((number + 1) / (n_days + 1))
    return run.traces()


class _Run:
    """The state of all policies while the days go by."""

    def __init__(self, day: Day, policies: Sequence[DayPlans], key: Key) -> None:
        self.day, self.policies, self.key = day, policies, key
        self.stretches = _stretches(day)
        rates = [day.base.arrival_rate * row for row in day.multiplier]
        self.laws = [loss_law(replace(day.base, arrival_rate=rate)) for rate in rates]
        self.world = World(day.base.match_reward, day.base.servers_per_task)
        laws = day.base.server_duration
        self.by_server = None if laws is None else ServerRun(day.base, laws, CHUNK)
        k = int(day.base.servers_per_task.max())
        self.streams: LossStreams = empty_block(k, CHUNK)
        self.no_log = np.zeros((0, k), dtype=np.int32)
        self.states: list[LossState] = [empty_state(day.base.n_servers) for _ in policies]
        self.counts: list[list[Trace]] = [
            [empty_trace(day.base) for _ in range(day.n_periods)] for _ in policies
        ]
        self.by_day: list[list[float]] = [[] for _ in policies]
        self.drawn = 0

    def one_day(self, number: int) -> None:
        """All stretches of a day; day 0 is not counted."""
        base = number * self.day.steps
        before = [self._total(p) for p in range(len(self.policies))]
        for stretch in self.stretches:
            for state in self.states:
                for server, back in stretch.leaving:
                    state.busy_until[server] = max(state.busy_until[server], base + back)
                state.clock[0] = base + stretch.first - 1
            self._run(stretch, base + stretch.end, counted=number > 0)
        for p in range(len(self.policies)):
            if number > 0:
                self.by_day[p].append(self._total(p) - before[p])

    def _total(self, policy: int) -> float:
        return float(sum(trace.reward.sum() for trace in self.counts[policy]))

    def _run(self, stretch: _Stretch, horizon: int, counted: bool) -> None:
        law = self.laws[stretch.period]
        done = not law.arrival > 0
        window = Window(0 if counted else horizon, horizon)
        while not done:
            draw_arrivals(self.key, self.drawn, law, self.streams)
            if self.by_server is not None:
                self.by_server.draw(self.key, self.drawn)
            self.drawn += CHUNK
            for p, plans in enumerate(self.policies):
                log = (self.counts[p][stretch.period], self.no_log)
                plan = plans[stretch.period]
                state = self.states[p]
                if self.by_server is not None:
                    self.by_server.serve(plan, self.streams, window, state, log)
                else:
                    run_arrivals(self.streams, plan.tables, self.world, window, state, log)
                done = bool(state.clock[0] >= horizon)
            done = done or not self.policies

    def traces(self) -> list[DayTrace]:
        """What was counted, by policy."""
        return [
            DayTrace(
                reward=np.array([trace.reward.sum() for trace in counts]),
                arrived=np.array([trace.arrived for trace in counts]),
                blocked=np.array([trace.blocked for trace in counts]),
                assigned=np.array([trace.assigned for trace in counts]),
                reward_by_day=np.array(by_day),
            )
            for counts, by_day in zip(self.counts, self.by_day, strict=True)
        ]


def _stretches(day: Day) -> list[_Stretch]:
    """The day cut at the starts of periods and absences."""
    absences = merge_absences(day.off_duty)
    cuts = {p * day.period_steps for p in range(day.n_periods)} | {int(a) for _, a, _ in absences}
    edges = [*sorted(cuts), day.steps]
    stretches = []
    for first, end in itertools.pairwise(edges):
        leaving = tuple((int(r), int(back)) for r, start, back in absences if start == first)
        stretches.append(_Stretch(first, end, first // day.period_steps, leaving))
    return stretches
