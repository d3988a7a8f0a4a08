"""The compiled loss system against the slow twin: every pick, every count, every window."""

from __future__ import annotations

import numpy as np
import pytest

from opportune.kernels.loss import Trace, Window, World, headcount, run_arrivals
from opportune.kernels.streams import LossStreams
from opportune.model.duration import Deterministic, Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.model.streams import draw_block, loss_law, stream_key
from opportune.policies.base import Plan, list_plan
from opportune.simulate.loss import empty_state, empty_trace
from tests import naive
from tests.instances import Shape, random_instance, static_plans

SHAPES = [
    Shape(),
    Shape(scores="levels", duration="deterministic"),
    Shape(forbidden=True, scores="levels"),
    Shape(per_type=True, duration="mixed"),
    Shape(per_type=True, forbidden=True, duration="mixed"),
]


def busy_instance(rng: np.random.Generator, shape: Shape) -> LossInstance:
    """An instance so loaded that tasks are dropped, of at most one arrival a step."""
    one = random_instance(rng, shape)
    rate = one.arrival_rate * min(0.9 / one.arrival_rate.sum(), 1.0 / max(one.load, 1e-9))
    return loss_instance(
        one.match_reward,
        rate,
        list(one.duration),
        one.servers_per_task.tolist(),
        allowed=one.allowed,
    )


def run(
    instance: LossInstance, plan: Plan, streams: LossStreams, window: Window, pieces: int = 1
) -> tuple[Trace, np.ndarray]:
    """The kernel's trace and log, with the streams handed over in pieces."""
    state, trace = empty_state(instance.n_servers), empty_trace(instance)
    world = World(instance.match_reward, instance.servers_per_task)
    k = streams.choice.shape[1]
    logs = []
    for part in np.array_split(np.arange(len(streams.gap)), pieces):
        piece = LossStreams(*(column[part] for column in streams))
        chosen = np.full((len(part), k), -1, dtype=np.int32)
        n = run_arrivals(piece, plan.tables, world, window, state, (trace, chosen))
        logs.append(chosen[:n])
    return trace, np.concatenate(logs)


def assert_same(trace: Trace, counts: naive.Counts) -> None:
    """Counts exactly, rewards to rounding."""
    assert trace.assigned.tolist() == counts.assigned
    assert trace.busy_steps.tolist() == counts.busy_steps
    assert trace.arrived.tolist() == counts.arrived
    assert trace.blocked.tolist() == counts.blocked
    assert trace.reward.tolist() == pytest.approx(counts.reward, rel=1e-12, abs=1e-12)


def assert_same_picks(chosen: np.ndarray, counts: naive.Counts) -> None:
    """The servers of every arrival before the horizon, -1 where it was dropped."""
    assert len(chosen) == len(counts.picks)
    for row, picks in zip(chosen.tolist(), counts.picks, strict=True):
        assert sorted(r for r in row if r >= 0) == sorted(picks or [])


@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
def test_every_pick_and_every_count_is_that_of_the_twin(shape: Shape) -> None:
    rng = np.random.default_rng(4)
    rules, dropped = set(), 0
    for case in range(12):
        instance = busy_instance(rng, shape)
        k = int(instance.servers_per_task.max())
        streams = draw_block(stream_key(case, 1), 0, loss_law(instance), k, 1024)
        horizon = int(streams.gap.sum()) - 1
        horizon = min(horizon, 600)
        window = Window(int(rng.integers(0, 100)), horizon)
        for plan in static_plans(instance):
            trace, chosen = run(instance, plan, streams, window, pieces=1 + case % 3)
            counts = naive.simulate(instance, plan.tables, streams, window, len(trace.reward))
            assert_same(trace, counts)
            assert_same_picks(chosen, counts)
            rules.add(plan.tables.rule)
            dropped += int(trace.blocked.sum())
    assert rules == {0, 1, 2}
    assert dropped > 100


def test_order_by_headcount_is_that_of_the_twin() -> None:
    """H levels of headcount, each with an order of its own; k = 2."""
    rng = np.random.default_rng(5)
    instance = loss_instance(rng.random((3, 7)), [0.1, 0.1, 0.2], Geometric(6), 2)
    levels = 7 // 2 + 1
    order = np.array([[rng.permutation(7) for _ in range(levels)] for _ in range(3)])
    tables = list_plan("x", instance, instance.match_reward, np.arange(7)).tables._replace(
        order=order.astype(np.uint32),
        level=np.tile(np.arange(7, dtype=np.int32), (3, levels, 1)),
    )
    plan = Plan("x", tables, instance.match_reward)
    streams = draw_block(stream_key(1, 1), 0, loss_law(instance), 2, 1024)
    trace, chosen = run(instance, plan, streams, Window(50, 1500), pieces=3)
    counts = naive.simulate(instance, tables, streams, (50, 1500), len(trace.reward))
    assert_same(trace, counts)
    assert_same_picks(chosen, counts)
    fixed = tables._replace(order=np.ascontiguousarray(np.repeat(tables.order[:, :1], levels, 1)))
    other, _ = run(instance, Plan("x", fixed, instance.match_reward), streams, Window(50, 1500))
    assert other.assigned.tolist() != trace.assigned.tolist()


def test_headcount_is_tasks_in_service() -> None:
    busy_until = np.array([5, 6, 0, 9, 7])
    assert headcount(busy_until, 5, 1, 6) == 3
    assert headcount(busy_until, 5, 2, 3) == 1
    assert headcount(busy_until, 4, 1, 4) == 3  # never above the last level
    assert headcount(busy_until, 4, 1, 1) == 0


def by_hand(gap: list[int], duration: list[int]) -> LossStreams:
    """Streams of one type, written down."""
    n = len(gap)
    return LossStreams(
        gap=np.array(gap),
        task_type=np.zeros(n, dtype=np.int32),
        duration=np.array(duration),
        choice=np.zeros((n, 1), dtype=np.uint32),
    )


ONE = loss_instance([[1.0]], [0.5], Deterministic(2))
"""One type, one server."""


@pytest.mark.parametrize(("second", "blocked"), [(1, 1), (2, 1), (3, 0)])
def test_a_server_is_free_again_after_d_full_steps(second: int, blocked: int) -> None:
    """Taken at t with D = 2 it is busy at t+1 and t+2, and free again at t+3."""
    plan = list_plan("x", ONE, ONE.match_reward)
    trace, chosen = run(ONE, plan, by_hand([1, second, 99], [2, 2, 2]), Window(0, 50))
    assert trace.blocked.tolist() == [blocked]
    assert chosen.tolist() == [[0], [-1 if blocked else 0]]
    assert trace.busy_steps.tolist() == [2 if blocked else 4]


@pytest.mark.parametrize(
    ("gap", "window", "busy", "arrived"),
    [
        (1, Window(0, 5), 4, 1),  # taken at 0, busy at 1, 2, 3, 4 of 10
        (5, Window(0, 5), 0, 1),  # taken at 4, the last step
        (6, Window(0, 5), 0, 0),  # at 5: beyond the horizon
        (1, Window(3, 9), 6, 0),  # taken in the warm-up, busy at 3 to 8
        (4, Window(3, 9), 5, 1),  # taken at 3, the first counted step
        (1, Window(10, 20), 1, 0),  # busy to step 10, the first counted one
        (1, Window(11, 20), 0, 0),
    ],
)
def test_only_steps_of_the_window_count(gap: int, window: Window, busy: int, arrived: int) -> None:
    plan = list_plan("x", ONE, ONE.match_reward)
    streams = by_hand([gap, 10**6], [10, 1])
    trace, _ = run(ONE, plan, streams, window)
    assert trace.busy_steps.tolist() == [busy]
    assert trace.arrived.tolist() == [arrived]
    assert trace.reward.sum() == arrived
    assert_same(trace, naive.simulate(ONE, plan.tables, streams, window, len(trace.reward)))


def test_each_reward_is_in_the_batch_of_its_step() -> None:
    """A task at every step, D = 1, two servers: batch b of 20 equal parts has what came then."""
    instance = loss_instance([[1.0, 1.0]], [1.0], Deterministic(1))
    plan = list_plan("x", instance, instance.match_reward)
    for window in (Window(7, 107), Window(0, 50), Window(3, 13), Window(0, 1)):
        n = window.horizon + 1
        streams = by_hand([1] * n, [1] * n)
        trace, _ = run(instance, plan, streams, window, pieces=7)
        steps = window.horizon - window.warm_up
        edges = np.arange(21) * steps // 20
        assert trace.reward.tolist() == np.diff(edges).tolist()


def test_a_run_that_is_over_takes_no_more_arrivals() -> None:
    plan, world = list_plan("x", ONE, ONE.match_reward), World(ONE.match_reward, np.array([1]))
    state, trace = empty_state(1), empty_trace(ONE)
    log = (trace, np.zeros((0, 1), dtype=np.int32))
    streams = by_hand([3, 3, 3], [1, 1, 1])
    assert run_arrivals(streams, plan.tables, world, Window(0, 6), state, log) == 2
    assert state.clock[0] == 6
    assert run_arrivals(streams, plan.tables, world, Window(0, 6), state, log) == 0
    assert trace.arrived.tolist() == [2]


def test_a_gap_or_a_duration_without_end_does_not_overflow() -> None:
    plan = list_plan("x", ONE, ONE.match_reward)
    trace, _ = run(ONE, plan, by_hand([2, 1, 2**62], [2**62, 1, 1]), Window(0, 10**15))
    assert trace.busy_steps.tolist() == [10**15 - 2]
    assert (trace.arrived.tolist(), trace.blocked.tolist()) == ([2], [1])
