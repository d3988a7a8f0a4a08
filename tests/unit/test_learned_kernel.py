"""The learning run against its slow twin, on random worlds, rankings and ways to wait."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from opportune.kernels.learned import Ranking
from opportune.learning.pace import Pace, estimated
from opportune.model.duration import Geometric
from opportune.model.hidden import HiddenWorld, Recorded, hidden_world
from opportune.model.loss import loss_instance
from opportune.policies.beliefs import Beliefs, Ranked
from opportune.simulate.learned import Forced, LearnedRun, simulate_learned
from tests.instances import Shape, random_instance
from tests.naive_learned import Known, Story, serve

Float = NDArray[np.float64]

N_TASKS = 90


@dataclass
class Noise:
    """A policy whose rankings are noise with many ties; it keeps what it was told."""

    world: HiddenWorld
    by_context: bool = False
    told: list[Beliefs] = field(default_factory=list)
    id: ClassVar[str] = "noise"
    title: ClassVar[str] = "noise"

    def ranked(self, beliefs: Beliefs, previous: Ranked | None) -> Ranked:
        """Noise by the number of tasks."""
        self.told.append(
            Beliefs(
                **{
                    **vars(beliefs),
                    "success": beliefs.success.copy(),
                    "trials": beliefs.trials.copy(),
                }
            )
        )
        return Ranked(self.ranking(beliefs.n_tasks), None, beliefs.success)

    def ranking(self, n_tasks: int) -> Ranking:
        """The ranking before a stretch."""
        rng = np.random.default_rng(n_tasks)
        instance, shape = self.world.instance, self.world.instance.match_reward.shape
        rows = instance.n_types
        if self.by_context and self.world.recorded is not None:
            rows = self.world.recorded.n_tasks
        return Ranking(
            score=rng.integers(0, 3, (rows, instance.n_servers)).astype(float),
            column=rng.permutation(instance.n_servers),
            by_context=self.by_context,
            cost=rng.integers(0, 2, shape).astype(float),
            second=rng.integers(0, 2, shape).astype(float),
            rank=rng.integers(0, 2, instance.n_servers),
            forced=rng.random(shape) < 0.7,
            share=0.3 if n_tasks % 2 == 0 else 0.0,
        )


def random_world(rng: np.random.Generator, recorded: bool) -> HiddenWorld:
    """A small world near its last load, some with late servers."""
    if not recorded:
        duration = str(rng.choice(["geometric", "mixed", "deterministic"]))
        shape = Shape(
            k=int(rng.integers(1, 4)),
            forbidden=bool(rng.random() < 0.5),
            per_type=bool(rng.random() < 0.5),
            duration=duration,
        )
        instance = random_instance(rng, shape, 0.95)
        joins = {}
        r = int(rng.integers(instance.n_servers))
        there = instance.allowed.copy()
        there[:, r] = False
        if rng.random() < 0.5 and np.all(there.sum(axis=1) >= instance.servers_per_task):
            joins[instance.servers[r]] = 37
        return hidden_world(instance, joins)
    model = np.array([0, 0, 1, 2])
    mean = rng.random((3, 3))
    instance = loss_instance(mean[:, model], [0.05, 0.05, 0.05], Geometric(20)).with_load(0.95)
    log = Recorded(rng.random((120, 2)), rng.random((120, 3)), rng.integers(0, 3, 120))
    return hidden_world(instance, model=model, recorded=log)


def both(
    world: HiddenWorld, run: LearnedRun, by_context: bool, seed: int
) -> tuple[Noise, Story, NDArray[np.int32], Float, NDArray[np.int64], NDArray[np.bool_]]:
    """The run by the kernel and by the twin."""
    streams = world.streams(N_TASKS, seed, 3)
    policy = Noise(world, by_context)
    trace = simulate_learned(world, streams, policy, run)
    stretches = [one.n_tasks for one in policy.told[1:]] + [N_TASKS]
    story = serve(
        world,
        streams,
        (run.mode == "queue", run.fifo),
        lambda known: policy.ranking(known.n_tasks),
        stretches,
    )
    start = np.where(trace.wait >= 0, trace.wait + np.cumsum(streams.gap) - 1, -1)
    return policy, story, trace.chosen, trace.reward, start, trace.forced


@pytest.mark.parametrize("recorded", [False, True], ids=["types", "recorded"])
@pytest.mark.parametrize("mode", ["loss", "queue", "fifo"])
@pytest.mark.parametrize("seed", range(12))
def test_the_kernel_does_what_the_slow_twin_does(seed: int, mode: str, recorded: bool) -> None:
    rng = np.random.default_rng([seed, recorded])
    world = random_world(rng, recorded)
    run = LearnedRun("loss" if mode == "loss" else "queue", mode == "fifo", least=7, growth=0.1)
    policy, story, chosen, reward, start, forced = both(
        world, run, recorded and seed % 2 == 0, seed
    )
    for i in range(N_TASKS):
        assert [r for r in chosen[i] if r >= 0] == story.chosen.get(i, []), f"task {i}"
        assert start[i] == story.start.get(i, -1), f"task {i}"
        assert reward[i] == pytest.approx(world.unit * story.reward.get(i, 0.0))
    assert set(np.flatnonzero(forced)) == story.forced
    assert len(policy.told) == len(story.known)
    for told, known in zip(policy.told, story.known, strict=True):
        check_beliefs(world, told, known)


def check_beliefs(world: HiddenWorld, told: Beliefs, known: Known) -> None:
    """What the policy was told is what has ended, and rates and durations follow from it."""
    assert told.n_tasks == known.n_tasks
    np.testing.assert_allclose(told.success, known.success)
    np.testing.assert_array_equal(told.trials, known.trials)
    assert told.known_score is None
    assert told.known_context_score is None
    assert not told.instance.match_reward.any()
    there = world.joins <= known.n_tasks
    assert told.instance.servers == tuple(np.array(world.instance.servers)[there])
    pace = Pace(
        known.time + 1, np.array(known.arrived), np.array(known.ended), np.array(known.in_service)
    )
    expected = estimated(world.instance, pace)
    np.testing.assert_allclose(told.instance.arrival_rate, expected.arrival_rate)
    np.testing.assert_allclose(told.instance.mean_duration, expected.mean_duration)


def test_a_forced_share_takes_only_pairs_that_qualify() -> None:
    instance = loss_instance([[1.0, 0.5, 0.0]], [0.2], Geometric(3))
    world = hidden_world(instance)
    streams = world.streams(4000, 1, 0)
    policy = Noise(world)
    trace = simulate_learned(world, streams, policy, LearnedRun(), Forced(0.2, floor=0.25))
    late = trace.forced.copy()
    late[:1000] = False
    assert late.sum() > 300  # a fifth of the tasks that find one of the two
    assert not np.any(trace.chosen[late, 0] == 2)  # its interval fell below the floor
    shares = np.bincount(trace.chosen[late, 0], minlength=2) / late.sum()
    assert np.all(np.abs(shares - 0.5) < 0.1)
