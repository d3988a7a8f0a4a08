"""Environments: Gymnasium's own checks, and what our simulator says of the same streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import opportune
from opportune.errors import InputError
from opportune.model.queue_files import load_queue
from opportune.model.queue_streams import queue_streams
from opportune.policies.base import loss_policy, queue_policy
from opportune.simulate.queue import queue_path
from tests.instances import Shape, random_instance

gymnasium = pytest.importorskip("gymnasium", reason="the extra gym is not installed")
gym = pytest.importorskip("opportune.gym")
env_checker = pytest.importorskip("gymnasium.utils.env_checker")

LOSS: dict[str, Any] = {"instance": "priority-v1", "load": 0.7, "steps": 400}
QUEUE: dict[str, Any] = {"horizon": 120, "window": 4}


def instances() -> Iterator[opportune.LossInstance]:
    """Small ones with k servers per task, forbidden pairs, ties, mixed durations."""
    rng = np.random.default_rng(11)
    shapes = (
        Shape(k=1, scores="levels"),
        Shape(k=3, per_type=True, duration="mixed"),
        Shape(k=2, forbidden=True),
    )
    for shape in shapes:
        yield random_instance(rng, shape, 0.8)


@pytest.mark.parametrize(("name", "options"), [("Loss", LOSS), ("Queue", QUEUE)])
def test_gymnasiums_checker_finds_nothing(name: str, options: dict[str, Any]) -> None:
    """Warnings are errors here."""
    env = gymnasium.make(f"opportune/{name}-v0", **options)
    env_checker.check_env(env.unwrapped)
    assert env.spec.id == f"opportune/{name}-v0"


@pytest.mark.parametrize("number", range(3))
def test_an_agent_that_follows_a_plan_earns_what_the_simulator_says(number: int) -> None:
    instance = list(instances())[number]
    steps = 3_000
    env = gym.LossEnv(instance, steps=steps)
    for policy in ("lag", "greedy", "random"):
        plan = loss_policy(policy).plan(instance)
        for episode in range(2):  # the second draws further blocks, and other streams
            run = opportune.Run(steps=steps, warm_up=0, seed=5, replication=episode)
            trace = opportune.simulate_plans(instance, [plan], run)[0]
            observed, info = env.reset(seed=5) if episode == 0 else env.reset()
            total, picks, over = 0.0, np.zeros_like(trace.assigned), False
            while not over:
                pick = env.planned(plan)
                assert info["action_mask"][pick] == 1
                assert env.observation_space.contains(observed)
                picks[observed["task_type"], pick] += 1
                observed, reward, _, over, info = env.step(pick)
                total += reward
            assert np.array_equal(picks, trace.assigned)
            assert total == pytest.approx(trace.reward.sum(), rel=1e-12)
            assert info["blocked"] == trace.blocked.sum()
            assert info["refused"] == 0


def test_an_impossible_pick_turns_the_task_away() -> None:
    instance = opportune.loss_instance([[1.0, 0.5]], [1.0], opportune.Deterministic(3), 2)
    env = gym.LossEnv(instance, steps=8)
    observed, info = env.reset(seed=1)
    assert (observed["needed"], observed["free"].tolist()) == (2, [1, 1])
    observed, reward, _, _, info = env.step(0)
    assert (reward, observed["needed"], info["elapsed"]) == (0.0, 1, 0)
    assert info["action_mask"].tolist() == [0, 1]
    _, reward, _, _, info = env.step(0)  # the same server again
    assert (reward, info["refused"], info["step"], info["elapsed"]) == (0.0, 1, 1, 1)
    env.step(1)
    observed, reward, _, over, info = env.step(0)
    assert (reward, info["step"], info["blocked"]) == (1.5, 5, 3)
    env.step(0)
    observed, reward, _, over, info = env.step(1)
    assert over
    assert info["action_mask"].sum() == 0
    assert observed["busy_for"].tolist() == [3.0, 3.0]


@pytest.mark.parametrize(("name", "options"), [("Loss", LOSS), ("Queue", QUEUE)])
def test_many_at_once_are_as_many_alone(name: str, options: dict[str, Any]) -> None:
    """Over several episodes, random actions, some of them impossible."""
    n = 3
    env_id = f"opportune/{name}-v0"
    many = gymnasium.make_vec(env_id, num_envs=n, **options)
    alone = gymnasium.make_vec(env_id, num_envs=n, vectorization_mode="sync", **options)
    assert many.single_observation_space == alone.single_observation_space
    assert many.observation_space == alone.observation_space
    assert many.action_space == alone.action_space
    rng = np.random.default_rng(2)
    ended = 0
    told = [envs.reset(seed=7) for envs in (many, alone)]
    for _ in range(500):
        _assert_same(*told)
        mask = told[0][-1]["action_mask"]
        noise = rng.random(mask.shape) + 0.9 * mask
        action = noise.argmax(axis=1)
        told = [envs.step(action) for envs in (many, alone)]
        ended += told[0][3].sum()
    assert ended >= n
    assert many.observation_space.contains(told[0][0])


def _assert_same(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    for name, rows in one[0].items():
        assert np.array_equal(rows, other[0][name]), name
    for mine, theirs in zip(one[1:-1], other[1:-1], strict=True):
        assert np.array_equal(mine, theirs)
    for name, rows in one[-1].items():
        assert np.array_equal(rows, other[-1][name]), name


@pytest.mark.parametrize("world", ["cqb-joint-v1", "cqb-disjoint-v1", "hard-v1"])
def test_the_queue_is_that_of_the_simulator(world: str) -> None:
    """An agent that knows the rates follows the oracle's path, one that serves the oldest its."""
    horizon = 200
    env = gym.QueueEnv(world, horizon=horizon, window=64)
    loaded = load_queue(world, opportune.QueueChoice(horizon=horizon))
    n_servers = env.queue.hidden_rates().shape[2]
    for policy in ("oracle", "fifo-random"):
        streams = queue_streams(loaded, horizon, 3, 0)
        log = queue_path(streams, queue_policy(policy).plan(loaded, horizon))
        observed, info = env.reset(seed=3)
        path, over = [0], False
        while not over:
            assert env.observation_space.contains(observed)
            assert info["action_mask"].sum() == observed["waiting"][0] * n_servers
            rate = env.queue.hidden_rates()[0]
            action = int(rate.argmax())
            if policy == "fifo-random":
                action = int(streams.server[info["round"], 0] * n_servers)
            observed, reward, _, over, info = env.step(action)
            path.append(-int(reward))
        assert path == log.queue[1:].tolist()


def test_recorded_outcomes_are_not_tried_again(tmp_path: Any) -> None:
    world = opportune.QueueInstance(
        arrival_rate=0.5,
        true_weight=np.array([[0.0], [0.0]]),
        contexts=_pool(np.ones((1, 1, 1)), np.array([[False, True]])),
        n_servers=2,
        slack=0.1,
        curvature=4.0,
    )
    env = gym.QueueEnv(world, horizon=60, window=2)
    observed, info = env.reset(seed=1)
    while observed["waiting"][0] == 0:
        observed, _, _, _, info = env.step(0)
    assert info["action_mask"][:2].tolist() == [1, 1]
    observed, _, _, _, info = env.step(0)
    assert info["departed"] == 0
    assert info["action_mask"][:2].tolist() == [0, 1]
    observed, _, _, _, info = env.step(0)
    assert info["idle"] == 1
    observed, _, _, _, info = env.step(1)
    assert info["departed"] == 1


def _pool(features: Any, outcome: Any) -> Any:
    contexts = pytest.importorskip("opportune.model.contexts")
    return contexts.ContextPool(features=features, outcome=outcome)


def test_seeds_and_their_lists() -> None:
    envs = gym.LossVectorEnv(3, **LOSS)
    first, _ = envs.reset(seed=[5, None, 5])
    assert all(np.array_equal(rows[0], rows[2]) for rows in first.values())
    with pytest.raises(InputError, match="one for each of 3"):
        envs.reset(seed=[1, 2])
    again = gym.LossEnv(**LOSS)
    assert again.reset(seed=5)[0]["task_type"] == first["task_type"][0]


@pytest.mark.parametrize("name", ["Loss", "Queue"])
def test_all_options_have_a_default(name: str) -> None:
    """Also flattened, as many libraries want it."""
    env = gymnasium.wrappers.FlattenObservation(gymnasium.make(f"opportune/{name}-v0"))
    observed, _ = env.reset(seed=1)
    assert observed.ndim == 1
    envs = gymnasium.make_vec(f"opportune/{name}-v0", num_envs=2)
    assert envs.reset(seed=1)[1]["action_mask"].shape[0] == 2


def test_bad_input_is_told() -> None:
    world = opportune.load_instance("priority-v1", load=0.7)
    for options, told in (
        ({"steps": 0}, "steps"),
        ({"num_envs": 0}, "num_envs"),
        ({"instance": "priority-v9"}, "priority-v9"),
    ):
        with pytest.raises(InputError, match=told):
            gym.LossVectorEnv(**{"instance": world, **options})
    for options in ({"window": 0}, {"horizon": 1}):
        with pytest.raises(InputError, match=next(iter(options))):
            gym.QueueEnv(**options)
    plan = loss_policy("optimal").plan(_tiny())
    with pytest.raises(InputError, match="by busy servers or states"):
        gym.LossEnv(_tiny()).planned(plan)


def _tiny() -> opportune.LossInstance:
    return opportune.loss_instance([[1.0, 0.5]], [0.1], opportune.Geometric(2.0), 1)
