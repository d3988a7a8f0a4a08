"""Days: periods, absences, and what a simulated day counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.model.day import Day, breaks_from_share, merge_absences
from opportune.model.duration import Geometric
from opportune.model.loss import loss_instance
from opportune.policies.loss.greedy import Greedy
from opportune.policies.loss.random import Random
from opportune.pricing.blocking import exact_blocking
from opportune.simulate.day import simulate_day

NOBODY = np.zeros((0, 3), dtype=np.int64)
BASE = loss_instance([[1.0, 0.6, 0.2], [0.1, 0.5, 0.9]], [0.1, 0.2], Geometric(4))


def day(**change: Any) -> Day:
    """Two periods of 500 steps, the second twice as busy."""
    plain = Day(BASE, 500, np.array([[1.0, 1.0], [2.0, 2.0]]), NOBODY, ("morning", "noon"))
    return replace(plain, **change)


def test_periods_scale_the_rates() -> None:
    one = day()
    assert one.steps == 1000
    assert np.allclose(one.period(1).arrival_rate, 2 * BASE.arrival_rate)
    assert np.allclose(one.mean_day.arrival_rate, 1.5 * BASE.arrival_rate)
    assert np.all(one.on_duty == 1.0)


def test_absences_are_shares_of_the_periods_they_fall_into() -> None:
    off = np.array([[0, 250, 750], [2, 0, 1000]])
    assert np.allclose(day(off_duty=off).on_duty, [[0.5, 1, 0], [0.5, 1, 0]])
    touching = np.array([[1, 5, 9], [1, 9, 12], [0, 3, 4], [1, 2, 6]])
    assert merge_absences(touching).tolist() == [[0, 3, 4], [1, 2, 12]]
    breaks = breaks_from_share(np.array([1.0, 0.8, 0.0]), 2, 500)
    assert np.allclose(day(off_duty=breaks).on_duty, [[1, 0.8, 0], [1, 0.8, 0]])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"period_steps": 0}, "period_steps"),
        ({"period_steps": 2.5}, "period_steps"),
        ({"multiplier": np.ones((2, 3))}, "multiplier"),
        ({"multiplier": np.array([[1.0, -1.0], [1.0, 1.0]])}, r"multiplier\[0,1\]"),
        ({"multiplier": np.full((2, 2), np.nan)}, "multiplier"),
        ({"multiplier": np.full((2, 2), 4.0)}, "1.2 arrivals per step"),
        ({"off_duty": np.array([[3, 0, 10]])}, "server 3"),
        ({"off_duty": np.array([[0, 10, 10]])}, "from 10 to 10"),
        ({"off_duty": np.array([[0, 900, 1001]])}, "from 900 to 1001"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        day(**change)


def test_a_day_without_change_is_the_stationary_system() -> None:
    """Rates and blocking of equal periods agree with the chain of the stationary system."""
    flat = day(multiplier=np.ones((2, 2)))
    plan = Greedy().plan(BASE)
    (trace,) = simulate_day(flat, [[plan, plan]], 200, (3, 0))
    arrived, blocked = trace.arrived.sum(), trace.blocked.sum()
    exact = exact_blocking(BASE)
    assert exact is not None
    assert arrived / (200 * flat.steps) == pytest.approx(0.3, rel=0.02)
    assert blocked / arrived == pytest.approx(exact, rel=0.1)
    assert trace.reward_by_day.sum() == pytest.approx(trace.reward.sum())
    assert trace.assigned.sum() == arrived - blocked


def test_who_is_off_duty_gets_nothing_and_all_policies_see_the_same_tasks() -> None:
    """Server 0 is away all day; server 1 at noon only."""
    away = day(off_duty=np.array([[0, 0, 1000], [1, 500, 1000]]))
    plans = [Greedy().plan(BASE), Random().plan(BASE)]
    traces = simulate_day(away, [[one, one] for one in plans], 30, (1, 2))
    for trace in traces:
        assert trace.assigned[:, :, 0].sum() == 0
        assert trace.assigned[0, :, 1].sum() > 0
        assert trace.assigned[1, :, 1].sum() == 0
        assert np.array_equal(trace.arrived, traces[0].arrived)
    # blocking may differ: who leaves is busy under one policy and free under the other, so
    # LAG Lemma 3.1 does not hold over a change of shift
    assert traces[0].arrived[1].sum() > 1.6 * traces[0].arrived[0].sum()


def test_plans_and_days_must_fit() -> None:
    plan = Greedy().plan(BASE)
    with pytest.raises(InputError, match="one per period"):
        simulate_day(day(), [[plan]], 1, (1, 0))
    with pytest.raises(InputError, match="at least 1"):
        simulate_day(day(), [[plan, plan]], 0, (1, 0))
