"""A split pool: against the slow twin, one sub-pool against the ordinary run, deals, refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.kernels.loss import Trace
from opportune.kernels.split import Deals, deal
from opportune.model.catalog import catalog_instance
from opportune.model.duration import Deterministic, Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.model.server_durations import ServerDurations
from opportune.policies.base import loss_policy
from opportune.simulate.loss import Run, simulate_plans
from opportune.simulate.split import Split, _deals, _empty_state, simulate_split
from tests import naive, naive_split
from tests.instances import Shape, random_instance, static_plans

COUNTS = ("assigned", "busy_steps", "arrived", "blocked")


def crowded(rng: np.random.Generator, shape: Shape) -> LossInstance:
    """A random instance of at least two servers per task, with equal servers among them."""
    one = random_instance(rng, shape)
    columns = np.repeat(np.arange(one.n_servers), rng.integers(1, 4, one.n_servers))
    columns = np.concatenate([columns, np.arange(one.n_servers)])
    return loss_instance(
        one.match_reward[:, columns],
        one.arrival_rate * min(1.0, 0.9 / one.arrival_rate.sum()),
        list(one.duration),
        one.servers_per_task.tolist(),
        allowed=one.allowed[:, columns],
    )


def assert_same(trace: Trace, counts: naive.Counts) -> None:
    """Counts exactly, the reward to rounding."""
    for name in COUNTS:
        assert getattr(trace, name).tolist() == getattr(counts, name), name
    assert trace.reward.sum() == pytest.approx(counts.reward[0], rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(
    "shape",
    [
        Shape(duration="mixed", per_type=True),
        Shape(scores="levels", duration="deterministic"),
        Shape(forbidden=True, scores="levels"),
    ],
    ids=["per type", "ties", "forbidden"],
)
def test_every_count_is_that_of_the_twin(shape: Shape) -> None:
    rng = np.random.default_rng(10)
    dropped = 0
    for case in range(8):
        instance = crowded(rng, shape)
        most = instance.n_servers // int(instance.servers_per_task.max())
        m = int(rng.integers(1, most + 1))
        period = (None, 1, 7, 50)[int(rng.integers(4))]
        split = Split(m, period, int(rng.integers(1, m + 1)))
        streams = naive.first_block(instance, case, 2)
        run = Run(200, 40, case, 2)
        plans = static_plans(instance)
        table = naive_split.Table((case, 2), m, period, split.tries)
        for plan, trace in zip(plans, simulate_split(instance, plans, split, run), strict=True):
            twin = naive_split.simulate(instance, plan.tables, streams, (40, 240), table)
            assert_same(trace, twin)
            dropped += int(trace.blocked.sum())
    assert dropped > 100


@pytest.mark.parametrize("redeal", [None, 1, 1000])
def test_one_sub_pool_is_the_ordinary_run(redeal: int | None) -> None:
    instance = catalog_instance("specialist-v1", 0.7)
    plans = static_plans(instance)
    run = Run(60_000, 500, seed=3)  # more than one block
    for own, other in zip(
        simulate_split(instance, plans, Split(1, redeal), run),
        simulate_plans(instance, plans, run),
        strict=True,
    ):
        for name in COUNTS:
            assert np.array_equal(getattr(own, name), getattr(other, name)), name
        assert own.reward == pytest.approx(other.reward, rel=1e-12)


def test_asking_every_sub_pool_drops_as_one_owner_drops() -> None:
    """With k = 1 a task finds a free server wherever it is: the same headcount, the same drops."""
    instance = catalog_instance("priority-v1", 0.8)
    plans = [loss_policy("lag").plan(instance)]
    run = Run(20_000, 100)
    (alone,) = simulate_plans(instance, plans, run)
    for m in (2, 4, 8):
        (all_asked,) = simulate_split(instance, plans, Split(m, 10, m), run)
        (one_asked,) = simulate_split(instance, plans, Split(m, 10, 1), run)
        assert np.array_equal(all_asked.blocked, alone.blocked)
        assert one_asked.blocked.sum() > 1.2 * alone.blocked.sum()
        assert alone.reward.sum() > all_asked.reward.sum() > one_asked.reward.sum()


def places_dealt(instance: LossInstance, split: Split, n: int) -> np.ndarray:
    """(n, R) sub-pool of each server in the first n deals."""
    deals: Deals = _deals(instance, split, (np.uint64(5), np.uint64(0)))
    state = _empty_state(deals)
    found = []
    for number in range(n):
        deal(number, deals, state)
        found.append(state.pool_of.copy())
    return np.array(found)


def test_a_deal_is_even_also_in_each_kind() -> None:
    """7 + 5 + 1 servers in three kinds over 3 sub-pools: 4 or 5 servers each, of a kind +-1."""
    kinds = np.repeat([0, 1, 2], [7, 5, 1])
    instance = loss_instance(np.array([[1.0, 2.0, 3.0]])[:, kinds], [0.5], Geometric(3))
    for places in places_dealt(instance, Split(3, 1), 50):
        assert sorted(np.bincount(places, minlength=3).tolist()) == [4, 4, 5]
        for kind, size in enumerate((7, 5, 1)):
            counts = np.bincount(places[kinds == kind], minlength=3)
            assert counts.max() - counts.min() <= 1
            assert counts.sum() == size


def test_different_servers_are_dealt_uniformly() -> None:
    """Every pair of servers meets with probability (R/m - 1) / (R - 1)."""
    instance = loss_instance(np.arange(1.0, 7.0)[None, :], [0.5], Geometric(3))
    found = places_dealt(instance, Split(2, 1), 4000)
    assert len({tuple(row) for row in found}) == 20  # 6 over 3
    assert found.mean(axis=0) == pytest.approx(0.5, abs=0.04)
    together = (found[:, :, None] == found[:, None, :]).mean(axis=0)
    assert together[np.triu_indices(6, 1)] == pytest.approx(0.4, abs=0.04)


def test_a_busy_server_is_busy_wherever_it_is_dealt() -> None:
    """One endless task a server: after R tasks nothing is ever served again, deals or not."""
    instance = loss_instance(np.ones((1, 12)), [1.0], Deterministic(10**6))
    plans = [loss_policy("greedy").plan(instance)]
    (trace,) = simulate_split(instance, plans, Split(4, 1), Run(3000, 0))
    assert trace.assigned.tolist() == [[1] * 12]
    assert trace.blocked.tolist() == [3000 - 12]


def test_without_arrivals_nothing_happens() -> None:
    instance = loss_instance([[1.0, 0.5]], [0.0], Deterministic(3))
    (trace,) = simulate_split(
        instance, [loss_policy("greedy").plan(instance)], Split(2, 5), Run(9, 0)
    )
    assert trace.arrived.tolist() == [0]
    assert trace.busy_steps.tolist() == [0, 0]


def test_progress_is_told_by_block() -> None:
    instance = catalog_instance("priority-v1", 0.7)
    told: list[float] = []
    plans = [loss_policy("greedy").plan(instance)]
    simulate_split(instance, plans, Split(2), Run(200_000, 0), told.append)
    assert told == sorted(told)
    assert len(told) > 3
    assert told[-1] == 1.0


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ((0,), "subpools"),
        ((2.0,), "subpools"),
        ((True,), "subpools"),
        ((2, 0), "redeal"),
        ((2, "1"), "redeal"),
        ((2, 1, 0), "tries"),
        ((2, 1, 3), "tries"),
    ],
)
def test_bad_splits_are_refused(values: tuple[object, ...], field: str) -> None:
    with pytest.raises(InputError) as caught:
        Split(*values)  # type: ignore[arg-type]
    assert [problem.field for problem in caught.value.problems] == [field]


def test_sub_pools_too_small_for_a_task_are_refused() -> None:
    instance = loss_instance(np.ones((1, 10)), [0.1], Geometric(3), 3)
    plans = [loss_policy("greedy").plan(instance)]
    simulate_split(instance, plans, Split(3), Run(10, 0))
    with pytest.raises(InputError, match=r"sub-pools of 2.*at most 3"):
        simulate_split(instance, plans, Split(4), Run(10, 0))


def test_a_plan_that_looks_at_the_headcount_is_refused() -> None:
    instance = catalog_instance("priority-v1", 0.7)
    plan = loss_policy("headcount").plan(instance)
    with pytest.raises(InputError, match="whole pool"):
        simulate_split(instance, [plan], Split(2), Run(10, 0))


def test_servers_with_shifts_or_durations_of_their_own_are_refused() -> None:
    plain = loss_instance(np.ones((1, 4)), [0.1], Geometric(3))
    shifts = replace(plain, availability=np.array([0.5, 1, 1, 1]))
    laws = ServerDurations((Geometric(3), Geometric(4)), np.array([[0, 0, 1, 1]]))
    for instance, told in (
        (shifts, "for a split pool"),
        (replace(plain, server_duration=laws), "by task type"),
    ):
        with pytest.raises(InputError, match=told):
            simulate_split(instance, [loss_policy("greedy").plan(plain)], Split(2), Run(10, 0))
