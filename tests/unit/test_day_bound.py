"""A day's certified bound: against the exact optimum of tiny days, the program, the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.model.day import Day
from opportune.model.duration import Deterministic, Duration, Empirical, Geometric
from opportune.model.loss import loss_instance
from opportune.model.server_durations import ServerDurations
from opportune.policies.base import loss_policy
from opportune.pricing.day import price_day
from opportune.pricing.day_bound import bound_day, day_dual_value
from opportune.pricing.demand import AT_MOST
from opportune.pricing.occupancy import price
from opportune.simulate.day import simulate_day

NOBODY = np.zeros((0, 3), dtype=np.int64)
MIXED = Empirical(np.array([1, 2, 4]), np.array([0.5, 0.2, 0.3]))


def tiny(duration: list[Duration], off_duty: np.ndarray = NOBODY, k: int = 1) -> Day:
    """Two servers, two types, two periods of four steps."""
    reward = [[1.0, 0.7], [0.2, 0.9]]
    base = loss_instance(reward, [0.3, 0.4], duration, k)
    return Day(base, 4, np.array([[1.0, 0.5], [0.4, 1.5]]), off_duty, ("early", "late"))


def best(day: Day) -> float:
    """The most that a day can earn on average: every state, every choice, durations known never."""
    base, rate = day.base, day.base.arrival_rate * day.multiplier
    chance: list[Mapping[int, float]] = []
    for law in base.duration:
        tail = law.tail(np.arange(1, day.steps + 3))
        ends = {j + 1: float(tail[j] - tail[j + 1]) for j in range(day.steps)}
        chance.append(ends | {day.steps + 1: 1.0 - sum(ends.values())})
    absent = {(int(r), t) for r, first, end in day.off_duty for t in range(first, end)}

    @cache
    def value(t: int, free_at: tuple[int, int]) -> float:
        if t == day.steps:
            return 0.0
        idle = value(t + 1, free_at)
        p, total = t // day.period_steps, 0.0
        for v in range(base.n_types):
            choices = [idle]
            for r in range(2):
                if free_at[r] <= t and (r, t) not in absent:
                    later = 0.0
                    for steps, share in chance[v].items():
                        until = min(t + steps + 1, day.steps)
                        then = (until, free_at[1]) if r == 0 else (free_at[0], until)
                        later += share * value(t + 1, then)
                    choices.append(float(base.match_reward[v, r]) + later)
            total += rate[p, v] * max(choices)
        return total + (1.0 - float(rate[p].sum())) * idle

    return value(0, (0, 0))


@pytest.mark.parametrize(
    "laws",
    [[Geometric(3.0), Geometric(1.5)], [Deterministic(3), MIXED], [MIXED, Geometric(2.0)]],
    ids=["geometric", "listed", "both"],
)
@pytest.mark.parametrize("off", [NOBODY, np.array([[0, 3, 6]])], ids=["all day", "a break"])
def test_no_policy_does_better_than_the_bound(laws: list[Duration], off: np.ndarray) -> None:
    day = tiny(laws, off)
    found, most = bound_day(day), best(day)
    assert most <= found.value <= 1.35 * most
    for payment in (0.0, 0.1, 0.5):
        assert most <= day_dual_value(day, np.full((2, 2), payment), day.steps) + 1e-12


def test_alone_and_free_of_charge_it_is_the_optimum() -> None:
    day = tiny([Geometric(3.0), MIXED], np.array([[0, 0, 8]]))  # server 0 is never there
    assert day_dual_value(day, np.zeros((2, 2)), 8) == pytest.approx(best(day), rel=1e-12)


def test_a_long_day_of_one_period_has_the_value_of_its_program() -> None:
    base = loss_instance([[1.0, 0.6, 0.2], [0.1, 0.5, 0.9]], [0.1, 0.2], Geometric(4.0))
    day = Day(base, 4000, np.ones((1, 2)), NOBODY, ("all day",))
    found = bound_day(day)
    program = price(base, AT_MOST).dual_value
    assert found.by_period[0] == pytest.approx(4000 * program)
    assert 4000 * program <= found.value <= 4000 * program + 5.0  # tasks that run over the end
    half = bound_day(day, 2000)
    assert (half.steps, found.steps) == (2000, 4000)
    assert found.value - half.value == pytest.approx(2000 * program, rel=1e-6)


def test_simulated_days_stay_below_it() -> None:
    base = loss_instance([[1.0, 0.6, 0.2], [0.1, 0.5, 0.9]], [0.1, 0.2], [Geometric(4.0), MIXED])
    off = np.array([[1, 100, 500]])
    day = Day(base, 300, np.array([[1.0, 1.0], [2.0, 0.5]]), off, ("morning", "noon"))
    plans = [loss_policy("lag").plan(one.instance, one) for one in price_day(day).periods if one]
    (trace,) = simulate_day(day, [plans], 400, (1, 0))
    mean = float(trace.reward_by_day.mean())
    assert 0.8 * mean < mean <= bound_day(day).value


def test_several_servers_per_task_pay_each() -> None:
    base = loss_instance([[1.0, 0.7], [0.2, 0.9]], [0.3, 0.4], [Geometric(3.0), MIXED], 2)
    day = Day(base, 400, np.ones((1, 2)), NOBODY, ("all day",))
    plan = loss_policy("lag").plan(base, price(base, AT_MOST))
    (trace,) = simulate_day(day, [[plan]], 200, (1, 0))
    assert float(trace.reward_by_day.mean()) <= bound_day(day).value


def test_what_proves_nothing_is_refused() -> None:
    day = tiny([Geometric(3.0), MIXED])
    for wrong in (np.full((2, 2), -0.1), np.full((2, 2), np.nan), np.zeros((2, 3))):
        with pytest.raises(InputError, match="demand_price"):
            day_dual_value(day, wrong, 8)
    for steps in (0, 9):
        with pytest.raises(InputError, match="steps"):
            day_dual_value(day, np.zeros((2, 2)), steps)
    laws = ServerDurations((Geometric(3.0), Geometric(4.0)), np.array([[0, 1], [1, 0]]))
    with pytest.raises(InputError, match="depend on the server"):
        bound_day(replace(day, base=replace(day.base, server_duration=laws)))
