"""LAG Lemma 4.9: the scaled system keeps more than k + gamma/2 servers free, but rarely.

P(sum_r x_r0 <= k + gamma/2) <= exp(-gamma^2 m / (2 k^2 d)) with gamma = R (1 - rho) - k, for any
work-conserving policy and every m, n. The proof bounds the tasks in service by those that would
be if none were dropped, on the same arrivals: that is tested path by path, exactly.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from opportune.kernels.allocate import WaterfillTables
from opportune.model.duration import Deterministic, Empirical
from opportune.model.loss import LossInstance, loss_instance
from opportune.model.streams import draw_block, loss_law, stream_key
from opportune.policies.base import list_plan
from opportune.policies.waterfill import lag_tables, list_tables
from opportune.pricing.fluid import longest_of
from opportune.pricing.occupancy import price
from opportune.simulate.scaled import ScaledRun, simulate_scaled

Float = NDArray[np.float64]


def stock(instance: LossInstance) -> float:
    """gamma = R (1 - rho) - k."""
    k = instance.one_k
    assert k is not None
    return instance.n_servers * (1 - instance.load) - k


def bound(instance: LossInstance, m: int) -> float:
    """exp(-gamma^2 m / (2 k^2 d))."""
    k, d = int(instance.servers_per_task[0]), longest_of(instance)
    return math.exp(-(stock(instance) ** 2) * m / (2 * k**2 * d))


def instances() -> list[LossInstance]:
    """Short durations, so that the bound says something at small m; k = 1 and 2."""
    rng = np.random.default_rng(4)
    short = Empirical(np.array([1, 2]), np.array([0.7, 0.3]))
    longer = Empirical(np.array([1, 5]), np.array([0.5, 0.5]))
    return [
        loss_instance(rng.random((3, 3)), [0.3, 0.2, 0.1], short),
        loss_instance(rng.random((2, 6)), [0.35, 0.35], short, 2),
        loss_instance(rng.random((2, 3)), [0.1, 0.2], [Deterministic(3), longer]),
    ]


def policies(instance: LossInstance) -> list[WaterfillTables]:
    """LAG, and lists by reward, best first and worst first."""
    position = np.arange(instance.n_servers)
    by_reward = [
        list_plan("l", instance, sign * instance.match_reward, position) for sign in (1, -1)
    ]
    return [lag_tables(price(instance)), *(list_tables(plan) for plan in by_reward)]


def would_be_in_service(instance: LossInstance, run: ScaledRun) -> NDArray[np.int64]:
    """Tasks in service at each step if none were dropped: slots (j, s) with an active task."""
    streams = draw_block(stream_key(run.seed, run.replication), 0, loss_law(instance), 0)
    step = (np.cumsum(streams.gap) - 1) // run.m
    change = np.zeros(run.steps + 2, dtype=np.int64)
    within = step < run.steps
    np.add.at(change, np.minimum(step[within] + 1, run.steps + 1), 1)
    np.add.at(change, np.minimum(step + streams.duration + 1, run.steps + 1)[within], -1)
    assert step[-1] > run.steps  # one block is enough
    return np.cumsum(change)[: run.steps]


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3), (6, 2), (12, 9)])
def test_never_more_tasks_than_without_dropping(number: int, m: int, n: int) -> None:
    """In service now (busy servers / nk) <= slots (j, s) with an active task, at every step."""
    instance = instances()[number]
    k = int(instance.servers_per_task[0])
    run = ScaledRun(n, m, 1200, 0, seed=3)
    most = would_be_in_service(instance, run)
    below = 0
    for tables in policies(instance):
        trace = simulate_scaled(instance, tables, run, path=True)
        busy = instance.n_servers * run.copies - trace.free_path.sum(axis=1)
        assert np.all(busy % (n * k) == 0)
        assert np.all(busy // (n * k) <= most)
        below += int(np.sum(busy // (n * k) < most))
        if trace.blocked.sum() == 0:
            assert np.array_equal(busy // (n * k), most)
    assert below > 0 or (m, n) != (1, 1) or number != 2  # there tasks are dropped: strict at times


def upper_tail(instance: LossInstance, m: int) -> float:
    """P(sum of the md independent indicators >= (m / k) (rho R + gamma / 2)), exactly."""
    d, k = longest_of(instance), int(instance.servers_per_task[0])
    law = np.ones(1)
    for age in range(d):
        tails = [float(one.tail(np.array([age + 1]))[0]) for one in instance.duration]
        active = float(instance.arrival_rate @ tails)  # P(arrival and D > age)
        for _ in range(m):
            law = np.convolve(law, [1 - active, active])
    least = m / k * (instance.load * instance.n_servers + stock(instance) / 2)
    return float(law[math.ceil(least - 1e-9) :].sum())


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("m", [1, 2, 4, 8, 16])
def test_low_stock_is_as_rare_as_stated(number: int, m: int) -> None:
    """Frequency <= exact tail without dropping <= the lemma's bound, with five standard errors.

    Steps further apart than d are independent without dropping, so the error is that of
    steps / (d + 1) independent looks.
    """
    instance = instances()[number]
    gamma, k = stock(instance), int(instance.servers_per_task[0])
    assert gamma > 0
    tail = upper_tail(instance, m)
    assert tail <= bound(instance, m)
    for n in (1, 8):
        run = ScaledRun(n, m, 30_000, 20)
        for tables in policies(instance)[:2]:
            trace = simulate_scaled(instance, tables, run, path=True)
            free = trace.free_path.sum(axis=1) / run.copies
            low = float(np.mean(free <= k + gamma / 2 + 1e-12))
            looks = run.steps / (longest_of(instance) + 1)
            assert low <= tail + 5 * math.sqrt(max(tail, 1 / looks) / looks)
            assert low <= bound(instance, m)


def test_the_bound_says_something() -> None:
    """It falls below one half, and stock does run low at small m: neither side is trivial."""
    for instance in instances():
        assert bound(instance, 1) < 1
        assert bound(instance, 32) < 0.5
        assert 0.01 < upper_tail(instance, 2) < bound(instance, 2)
