"""A day: rates that change by period, agents that come and go, a plan for each period.

Calls are drawn period by period. The same calls are simulated with the kernel that also runs
``opportune day``; the bound is that of ``pricing.day_bound``, for a day that begins empty.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from flat_world import OWN_STEP, check_length
from world import Calls, Expected, Int, Made, Turn, quantiles

from opportune import InputError, LossInstance, Plan, Problem
from opportune.kernels.loss import Window, run_arrivals
from opportune.kernels.loss import World as Scores
from opportune.kernels.streams import LossStreams
from opportune.model.catalog import DATA_VARIABLE
from opportune.model.day import Day, merge_absences
from opportune.model.files import load_day
from opportune.model.streams import draw_block, loss_law, stream_key
from opportune.policies.base import loss_policy
from opportune.pricing.day import DayPrices, price_day
from opportune.pricing.day_bound import bound_day
from opportune.simulate.loss import empty_state, empty_trace

BANK_DAY = "bank-day-v1@Wed"
OWN_DAY = Path(__file__).parent / "day.toml"
"""The day where there are no data."""

PERIOD_SECONDS = {"bank-day-v1": 3600.0, "bank-calls-day-v1": 1800.0}
"""Days of the catalog: seconds of a period."""

MEAN_DAY = "mean-day"
"""Name of the plan that is made for the mean day."""


@dataclass(frozen=True)
class DayWorld:
    """A day of a call center (``world.World``).

    Attributes:
        day: What is played: the part of the day that was asked for.
        step, calls, turns, plans: As there.
        own: (P,) the plan that decides in each period, as simulated.
        seed: Of arrivals and durations.
    """

    day: Day
    step: float
    calls: Calls
    turns: tuple[Turn, ...]
    plans: dict[str, Made]
    own: tuple[Plan, ...]
    seed: int

    @property
    def instance(self) -> LossInstance:
        """The mean day."""
        return self.day.mean_day

    @property
    def steps(self) -> int:
        """Length of the day."""
        return self.day.steps

    @property
    def certified(self) -> str:
        """What the bound is a bound on."""
        return "the mean reward of such days from an empty call center on, by any plans"

    def bound(self, steps: int) -> float:
        """The bound of the day up to a step."""
        return bound_day(self.day, steps).value

    def expect(self, steps: int, stretches: int) -> Expected:
        """What the simulator says of such days."""
        bound, reward = self.bound(steps), self.day.base.match_reward
        share, blocking = np.zeros(stretches + 1), np.zeros(stretches + 1)
        same = np.zeros(0, dtype=np.int64)
        for i in range(stretches + 1):
            calls = self.calls if i == 0 else draw_calls(self.day, self.seed, i)
            chosen = self._serve(calls, steps)
            served = chosen >= 0
            kinds = calls.task_type[: len(chosen)][served]
            share[i] = reward[kinds, chosen[served]].sum() / bound
            blocking[i] = 1.0 - served.sum() / max(len(chosen), 1)
            same = chosen if i == 0 else same
        shares = quantiles(share[1:]), quantiles(blocking[1:])
        return Expected(*shares, stretches, float(share[0]), same)

    def _serve(self, calls: Calls, steps: int) -> Int:
        """(n,) agent of each call before a step, -1 where it is dropped."""
        base, state = self.day.base, empty_state(self.day.base.n_servers)
        scores, window = Scores(base.match_reward, base.servers_per_task), Window(0, steps)
        chosen = np.full((int((calls.at < steps).sum()), 1), -1, dtype=np.int32)
        trace, absent = empty_trace(base), merge_absences(self.day.off_duty)
        choice = np.zeros((len(chosen), 1), dtype=np.uint32)  # LAG's plans leave no ties
        edges = [turn.step for turn in self.turns if turn.step < steps]
        for first, end in itertools.pairwise([*edges, steps]):
            for server, _, back in absent[absent[:, 1] == first]:
                state.busy_until[server] = max(state.busy_until[server], back)
            low, high = np.searchsorted(calls.at, (first, end))
            if low == high:
                continue
            state.clock[0] = first - 1
            gap = np.diff(calls.at[low:high], prepend=first - 1)
            part = slice(low, high)
            streams = LossStreams(gap, calls.task_type[part], calls.duration[part], choice[part])
            plan = self.own[first // self.day.period_steps]
            run_arrivals(streams, plan.tables, scores, window, state, (trace, chosen[part]))
        return chosen[:, 0].astype(np.int64)


@dataclass(frozen=True)
class DayPart:
    """Which day, and how much of it.

    Attributes:
        name: A day of the catalog, or an instance file with a profile; None: the bank's Wednesday
            if its data are there, else the one next door.
        step: Seconds of a step; None: known for these.
        load: Load of the mean day.
        begin: Name of the period to begin with; None: the first in which anything can happen.
        hours: Hours from there on, to the end of a period; to the end of the day at most.
        everyone: All agents are there all day, whatever the shifts say.
    """

    name: str | None = None
    step: float | None = None
    load: float = 0.7
    begin: str | None = None
    hours: float = 10.0
    everyone: bool = False


def make_day(part: DayPart, seed: int, by_period: bool = True) -> DayWorld:
    """The calls of a day, and its plans.

    Args:
        part: Which part of which day.
        seed: Of the calls.
        by_period: A plan for each period; otherwise one for the mean day.

    Raises:
        InputError: If a value is out of range, or a task needs more than one server.
    """
    name = part.name
    if name is None:
        name = BANK_DAY if os.environ.get(DATA_VARIABLE) else str(OWN_DAY)
    whole = load_day(name, part.load, shifts=not part.everyone)
    step = _known_step(name, whole) if part.step is None else part.step
    check_length(whole.base, step, part.hours)
    day = _cut(whole, part, step)
    prices = price_day(day)
    own, plans = _plans(day, prices, by_period)
    turns = _turns(day, prices, by_period)
    return DayWorld(day, step, draw_calls(day, seed, 0), turns, plans, own, seed)


def draw_calls(day: Day, seed: int, replication: int) -> Calls:
    """The calls of a day, period by period: a stream of its own for each."""
    at, kinds, durations = [], [], []
    for p in range(day.n_periods):
        base = replace(day.base, arrival_rate=day.base.arrival_rate * day.multiplier[p])
        law = loss_law(base)
        if not law.arrival > 0:
            continue
        room = int(day.period_steps * law.arrival + 10 * np.sqrt(day.period_steps) + 100)
        key = stream_key(seed, replication * day.n_periods + p)
        drawn = draw_block(key, 0, law, 1, room)
        steps = np.cumsum(drawn.gap) - 1
        n = int((steps < day.period_steps).sum())
        at.append(p * day.period_steps + steps[:n])
        kinds.append(drawn.task_type[:n].copy())
        durations.append(drawn.duration[:n].copy())
    return Calls(np.concatenate(at), np.concatenate(kinds), np.concatenate(durations))


def _known_step(name: str, day: Day) -> float:
    catalog = name.partition("@")[0]
    if catalog in PERIOD_SECONDS:
        return PERIOD_SECONDS[catalog] / day.period_steps
    if name == str(OWN_DAY):
        return OWN_STEP
    raise InputError(Problem("--step", "missing", f"seconds of a step of {name}"))


def _cut(day: Day, part: DayPart, step: float) -> Day:
    """Some periods of a day, from the beginning of one to the end of one."""
    idle = [day.is_idle(p) for p in range(day.n_periods)]
    if part.begin is None:
        first = idle.index(False)
    elif part.begin in day.periods:
        first = day.periods.index(part.begin)
    else:
        raise InputError(Problem("--begin", part.begin, "one of " + ", ".join(day.periods)))
    n = int(np.ceil(part.hours * 3600 / (day.period_steps * step) - 1e-9))
    end = min(first + n, day.n_periods)
    if all(idle[first:end]):
        told = f"{day.periods[first]} to {day.periods[end - 1]}"
        raise InputError(
            Problem("--begin", told, "a time at which agents are there and calls come")
        )
    low, high = first * day.period_steps, end * day.period_steps
    there = (day.off_duty[:, 2] > low) & (day.off_duty[:, 1] < high)
    off_duty = day.off_duty[there].copy()
    off_duty[:, 1:] = np.clip(off_duty[:, 1:], low, high) - low
    names = day.periods[first:end]
    return replace(day, multiplier=day.multiplier[first:end], off_duty=off_duty, periods=names)


def _plans(
    day: Day, prices: DayPrices, by_period: bool
) -> tuple[tuple[Plan, ...], dict[str, Made]]:
    """(P,) plans that decide, and those to store by name."""
    policy = loss_policy("lag")
    mean = Made(policy.plan(day.mean_day, prices.mean), prices.mean)
    if not by_period:
        return (mean.plan,) * day.n_periods, {MEAN_DAY: mean}
    named: dict[str, Made] = {}
    own = [mean.plan]
    for name, known in zip(day.periods, prices.periods, strict=True):
        if known is not None:
            named[plan_name(name)] = Made(policy.plan(known.instance, known), known)
            own.append(named[plan_name(name)].plan)
        else:
            own.append(own[-1])
    return tuple(own[1:]), named


def _turns(day: Day, prices: DayPrices, by_period: bool) -> tuple[Turn, ...]:
    """What changes at the beginning of each period, and where agents come or go."""
    absent, names = merge_absences(day.off_duty), np.array(day.base.servers)
    periods = {p * day.period_steps for p in range(day.n_periods)}
    steps = periods | {int(edge) for edge in absent[:, 1:].ravel() if edge < day.steps}
    turns = []
    for step in sorted(steps):
        p = step // day.period_steps
        plan = ""
        if step in periods and by_period and prices.periods[p] is not None:
            plan = plan_name(day.periods[p])
        elif step == 0 and not by_period:
            plan = MEAN_DAY
        rate = day.base.arrival_rate * day.multiplier[p]
        leave = tuple(names[absent[absent[:, 1] == step, 0]].tolist())
        come = tuple(names[absent[absent[:, 2] == step, 0]].tolist())
        turns.append(Turn(step, day.periods[p], rate, plan, leave, come))
    return tuple(turns)


def plan_name(period: str) -> str:
    """Name of the plan for a period."""
    return f"from-{period}"
