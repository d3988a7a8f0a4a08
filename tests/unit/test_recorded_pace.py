"""Recorded prompts at the pace of a trace: windows, the load that was asked for, waits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.model.duration import Geometric
from opportune.model.hidden import HiddenWorld, RecordedPace
from opportune.model.recorded_catalog import catalog_world, recorded_world, traced_pace
from opportune.model.tables import Sheet
from opportune.policies.beliefs import learned_policy
from opportune.simulate.learned import LearnedRun, simulate_learned


def traced_world() -> HiddenWorld:
    """Forty tasks for two models at times with bursts."""
    rng = np.random.default_rng(3)
    score = (rng.random((40, 2)) < [0.3, 0.8]).astype(float)
    world = recorded_world(
        rng.normal(size=(40, 2)),
        score,
        ((1, 1), ("a", "b")),
        np.zeros(40, dtype=np.int64),
        (Geometric(5), 0.7),
        "log",
    )
    gap = np.tile(np.array([9, 0, 1, 0, 14], dtype=np.int64), 20)
    return replace(world, pace=RecordedPace(gap, rng.integers(1, 9, 100)))


def test_a_run_takes_a_window_of_the_trace_as_it_is() -> None:
    world = traced_world()
    assert world.pace is not None
    firsts = set()
    for replication in range(6):
        streams = world.streams(40, 1, replication)
        again = world.streams(40, 1, replication)
        np.testing.assert_array_equal(streams.gap, again.gap)
        places = [
            first
            for first in range(61)
            if np.array_equal(world.pace.duration[first : first + 40], streams.duration)
        ]
        assert len(places) == 1
        own = world.pace.gap[places[0] : places[0] + 40]
        np.testing.assert_array_equal(streams.gap[1:], own[1:])
        assert streams.gap[0] == max(own[0], 1)  # the run begins at step 1 at the earliest
        firsts.add(places[0])
    assert len(firsts) > 1
    assert min(world.pace.window(40, 0.0)[1] == world.pace.duration[:40])
    assert min(world.pace.window(40, 1.0 - 1e-12)[1] == world.pace.duration[60:])


def test_tasks_of_one_step_are_served_in_it_and_waits_do_not_depend_on_the_policy() -> None:
    """A sample path law: services begin at the same steps whoever serves whom (one law)."""
    world = traced_world()
    streams = world.streams(40, 2, 0)
    assert (streams.gap == 0).any()
    waits = []
    for policy in ("lag-features", "greedy-features", "lag-known", "lag-thompson"):
        for fifo in (False, True):
            run = LearnedRun("queue", fifo)
            trace = simulate_learned(world, streams, learned_policy(policy), run)
            arrival = np.cumsum(streams.gap)
            assert (trace.wait >= 0).all()
            waits.append(float(trace.wait.sum()))
            assert (arrival + trace.wait).max() <= arrival[-1] + streams.duration.sum() + 40
    assert waits[0] > 0
    assert set(waits) == {waits[0]}


def test_a_pace_that_is_none_is_refused() -> None:
    one = np.ones(3, dtype=np.int64)
    with pytest.raises(InputError, match="as many of both"):
        RecordedPace(one, one[:2])
    with pytest.raises(InputError, match="as many of both"):
        RecordedPace(one[:0], one[:0])
    with pytest.raises(InputError, match="in the order of arrival"):
        RecordedPace(-one, one)
    with pytest.raises(InputError, match="at least one step"):
        RecordedPace(one, 0 * one)
    world = replace(traced_world(), pace=RecordedPace(one, one))
    with pytest.raises(InputError, match="at most 3, the tasks of the trace"):
        world.streams(4, 1, 0)


def test_a_trace_becomes_steps_and_durations_that_make_the_load() -> None:
    rows = [["0.0", "100"], ["0.01", "50"], ["2.0", "10"], ["10.0", "240"]]
    sheet = Sheet("trace.csv", None, [["t_s", "generated_tokens"], *rows], [1, 2, 3, 4, 5])
    pace = traced_pace(sheet, busy=0.6)
    assert pace.gap.tolist() == [0, 0, 100, 400]  # steps of 0.02 s
    assert pace.duration.mean() == pytest.approx(0.6 * 500 / 3, abs=0.6)
    assert pace.duration[3] == pytest.approx(24 * pace.duration[2], rel=0.1)


@pytest.mark.usefixtures("data")
def test_the_hour_of_the_real_trace() -> None:
    world = catalog_world("router-azure-v1", 0.7)
    assert world.pace is not None
    assert len(world.pace.gap) == 19_366
    rate = len(world.pace.gap) / world.pace.gap.sum()
    assert world.instance.arrival_rate.sum() == pytest.approx(rate, rel=1e-3)
    assert rate * world.pace.duration.mean() / 16 == pytest.approx(0.7, rel=1e-3)
    assert world.instance.load == pytest.approx(0.7)
    assert (world.pace.gap == 0).any()  # arrivals share steps
