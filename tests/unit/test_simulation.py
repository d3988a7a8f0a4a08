"""Runs of the loss system: blocks, windows, paired streams, and what a run may be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.kernels.loss import Trace
from opportune.model.duration import Deterministic, Geometric
from opportune.model.loss import loss_instance
from opportune.model.streams import BLOCK, draw_block, loss_law, stream_key
from opportune.policies.base import list_plan, loss_policy
from opportune.simulate.loss import (
    N_BATCHES,
    Run,
    busy_paths,
    default_warm_up,
    empty_state,
    empty_trace,
    simulate_plans,
)
from tests import naive
from tests.instances import Shape, random_instance, static_plans


def same(first: Trace, second: Trace) -> bool:
    """Bit for bit."""
    return all(a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True))


def test_a_run_over_several_blocks_is_the_run_of_the_twin() -> None:
    """A task at nearly every step, so that 20,000 steps take more than one block."""
    instance = loss_instance(
        [[1.0, 0.5, 0.0, 0.25], [0.5, 0.5, 1.0, 0.25]],
        [0.5, 0.45],
        [Deterministic(2), Geometric(3)],
    )
    steps, warm_up = BLOCK + 2_000, 500
    law, key = loss_law(instance), stream_key(5, 2)
    blocks = [draw_block(key, b, law, 1) for b in range(2)]
    streams = naive.LossStreams(*(np.concatenate(two) for two in zip(*blocks, strict=True)))
    assert streams.gap[:BLOCK].sum() < warm_up + steps
    for name in ("greedy", "alg-sc-lp"):
        plan = loss_policy(name).plan(instance)
        (trace,) = simulate_plans(instance, [plan], Run(steps, warm_up, 5, 2))
        counts = naive.simulate(
            instance, plan.tables, streams, (warm_up, warm_up + steps), N_BATCHES
        )
        assert trace.assigned.tolist() == counts.assigned
        assert trace.busy_steps.tolist() == counts.busy_steps
        assert trace.arrived.tolist() == counts.arrived
        assert trace.blocked.tolist() == counts.blocked
        assert trace.reward.tolist() == pytest.approx(counts.reward, rel=1e-12)


def test_all_plans_see_the_same_arrivals_and_none_sees_another_plan() -> None:
    instance = random_instance(np.random.default_rng(91), Shape(scores="levels"), load=0.8)
    plans = static_plans(instance)
    together = simulate_plans(instance, plans, Run(5_000, 100))
    assert len({trace.arrived.tobytes() for trace in together}) == 1
    for plan, trace in zip(plans, together, strict=True):
        assert same(simulate_plans(instance, [plan], Run(5_000, 100))[0], trace)
    backwards = simulate_plans(instance, plans[::-1], Run(5_000, 100))
    assert all(same(a, b) for a, b in zip(together, backwards[::-1], strict=True))


def test_counts_are_estimates_of_the_variables_of_the_program() -> None:
    """Sums that must agree exactly, whatever happens."""
    rng = np.random.default_rng(92)
    for shape in (Shape(), Shape(per_type=True, forbidden=True, duration="mixed")):
        instance = random_instance(rng, shape, load=0.9)
        for trace in simulate_plans(instance, static_plans(instance), Run(20_000, 0)):
            accepted = trace.arrived - trace.blocked
            assert (
                trace.assigned.sum(axis=1).tolist()
                == (accepted * instance.servers_per_task).tolist()
            )
            reward = float(np.sum(trace.assigned * instance.match_reward))
            assert trace.reward.sum() == pytest.approx(reward, rel=1e-10)
            assert np.all(trace.busy_steps <= 20_000)
            assert np.all(trace.assigned[~instance.allowed] == 0)


def test_a_server_is_never_busy_for_more_than_the_run() -> None:
    """D = 1, a task at every step, two servers, 1,000 steps: r-simmer/simmer#67."""
    instance = loss_instance([[1.0, 1.0]], [1.0], Deterministic(1))
    for plan in static_plans(instance):
        (trace,) = simulate_plans(instance, [plan], Run(1_000, 0))
        assert trace.busy_steps.sum() == 999
        assert np.all(trace.busy_steps <= 1_000)
        assert trace.blocked.tolist() == [0]


def test_where_nothing_arrives_nothing_happens() -> None:
    instance = loss_instance(np.eye(2), [0.0, 0.0], Geometric(3))
    (trace,) = simulate_plans(instance, static_plans(instance)[:1], Run(100, 0))
    assert all(not array.any() for array in trace)
    busy, chosen = busy_paths(instance, static_plans(instance)[:1], Run(100, 0))
    assert busy.tolist() == [[0] * 100]
    assert chosen.shape[1] == 0


def test_no_plans_no_traces() -> None:
    assert simulate_plans(loss_instance([[1.0]], [0.5], Geometric(3)), [], Run(10**9, 0)) == []


def test_progress_rises_to_one() -> None:
    instance = loss_instance([[1.0]], [0.9], Geometric(3))
    plan = list_plan("x", instance, instance.match_reward)
    seen: list[float] = []
    simulate_plans(instance, [plan], Run(100_000, 0), seen.append)
    assert len(seen) > 3
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    assert seen[0] == pytest.approx(BLOCK / 0.9 / 100_000, rel=0.05)


def test_an_interrupt_from_progress_stops_the_run() -> None:
    instance = loss_instance([[1.0]], [0.9], Geometric(3))
    plan = list_plan("x", instance, instance.match_reward)

    def stop(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate_plans(instance, [plan], Run(10**12, 0), stop)


def test_longer_runs_begin_like_shorter_ones() -> None:
    """The stream does not depend on the length: counts of a run are those of its first part."""
    instance = random_instance(np.random.default_rng(93), Shape(k=1), load=0.7)
    plan = loss_policy("greedy").plan(instance)
    (all_steps,) = simulate_plans(instance, [plan], Run(20_000, 0))
    (first,) = simulate_plans(instance, [plan], Run(10_000, 0))
    (second,) = simulate_plans(instance, [plan], Run(10_000, 10_000))
    for name in ("assigned", "busy_steps", "arrived", "blocked"):
        parts = getattr(first, name) + getattr(second, name)
        assert parts.tolist() == getattr(all_steps, name).tolist()
    assert first.reward.sum() + second.reward.sum() == pytest.approx(all_steps.reward.sum())


@pytest.mark.parametrize(
    ("mean", "steps", "want"),
    [(10.0, 200_000, 20_000), (10.0, 500, 100), (43.5, 1_000, 435), (1.0, 15, 10), (1.0, 101, 11)],
)
def test_the_warm_up_is_a_tenth_or_ten_durations(mean: float, steps: int, want: int) -> None:
    instance = loss_instance(np.eye(2), [0.1, 0.1], [Geometric(1.0), Geometric(mean)])
    assert default_warm_up(instance, steps) == want


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"steps": 0}, "steps"),
        ({"steps": -1}, "steps"),
        ({"steps": 1.5}, "steps"),
        ({"steps": True}, "steps"),
        ({"steps": "10"}, "steps"),
        ({"steps": 10**15 + 1}, "steps"),
        ({"warm_up": -1}, "warm_up"),
        ({"warm_up": 0.5}, "warm_up"),
        ({"warm_up": None}, "warm_up"),
    ],
)
def test_a_run_is_a_whole_number_of_steps(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError, match=f"{field}: .*a whole number"):
        Run(**{"steps": 10, "warm_up": 0, **changed})


def test_zero_warm_up_and_numpy_numbers_are_fine() -> None:
    run = Run(np.int64(10), np.int32(0))  # type: ignore[arg-type]
    assert (run.steps, run.warm_up, run.seed, run.replication) == (10, 0, 1, 0)


def test_states_and_traces_begin_empty() -> None:
    instance = loss_instance(np.ones((2, 3)), [0.1, 0.1], Geometric(3))
    state, trace = empty_state(3), empty_trace(instance)
    assert state.busy_until.tolist() == [0, 0, 0]
    assert state.clock.tolist() == [-1]
    assert state.picks.shape == (4,)
    assert trace.assigned.shape == (2, 3)
    assert trace.reward.shape == (20,)
    assert all(not array.any() for array in trace)
