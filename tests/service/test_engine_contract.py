"""Engine, router and simulator pick the same servers from the same stream."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from opportune.model.loss import LossInstance
from opportune.model.streams import draw_block, loss_law, stream_key
from opportune.policies.base import Plan, loss_policy
from opportune.pricing.demand import AT_MOST
from opportune.pricing.occupancy import price
from opportune.router import Router
from opportune.service import engine
from opportune.service.commands import (
    Complete,
    CreateTask,
    PutPlan,
    PutPool,
    PutScores,
    PutServer,
    PutTaskType,
)
from opportune.service.events import Offered, TaskDropped
from opportune.service.planning import plan_document
from opportune.service.resources import PoolSettings, ScoreRow, ServerSettings, TaskTypeSettings
from opportune.service.state import State, capacity_mismatch, empty_state
from opportune.simulate.loss import Run, busy_paths
from tests.instances import STATIC, Shape, random_instance

SHAPES = {
    "smooth": Shape(),
    "ties": Shape(scores="levels"),
    "forbidden": Shape(scores="levels", forbidden=True, per_type=True, duration="mixed"),
}
STEPS = 1500


def pool_like(instance: LossInstance, plan: Plan) -> State:
    """A pool with the instance's servers and types, in another order, and the plan in force."""
    state = empty_state("p")
    types, servers = list(instance.task_types), list(instance.servers)
    k = dict(zip(types, instance.servers_per_task.tolist(), strict=True))
    setup = [
        PutPool(settings=PoolSettings(retain=100)),
        *(PutTaskType(settings=TaskTypeSettings(id=name, k=k[name])) for name in types[::-1]),
        *(PutServer(settings=ServerSettings(id=name)) for name in servers[::-1]),
        PutScores(
            rows=[
                ScoreRow(types[v], servers[r], float(instance.match_reward[v, r]))
                for v, r in zip(*np.nonzero(instance.allowed), strict=True)
            ]
        ),
        PutPlan(plan=plan_document("plan", plan, price(instance, AT_MOST)), activate=True),
    ]
    for command in setup:
        answer = engine.decide(state, command, 0.0, [0])
        assert answer.problem is None, answer.problem
    return state


def served(instance: LossInstance, state: State, run: Run) -> list[list[str]]:
    """Who serves each arrival of the run's stream in the pool; nobody where it is dropped."""
    k = int(instance.servers_per_task.max())
    block = draw_block(stream_key(run.seed, run.replication), 0, loss_law(instance), k)
    chosen: list[list[str]] = []
    running: list[tuple[int, str]] = []
    time = -1
    for gap, v, duration, draws in zip(*block, strict=True):
        time += int(gap)
        if time >= run.steps:
            return chosen
        while running and running[0][0] <= time:
            end, name = heapq.heappop(running)
            assert engine.decide(state, Complete(assignment=name), end, [0]).problem is None
        command = CreateTask(task_type=instance.task_types[v])
        answer = engine.decide(state, command, float(time), draws)
        (event,) = answer.events[1:]
        if isinstance(event, Offered):
            assert event.why.plan == "plan"
            assert event.why.degraded == ""
            chosen.append([pick.server for pick in event.picks])
            heapq.heappush(running, (time + int(duration) + 1, answer.body.assignment_id))
        else:
            assert isinstance(event, TaskDropped)
            chosen.append([])
    raise AssertionError("the run is longer than a block")


def simulated(instance: LossInstance, plan: Plan, run: Run) -> list[list[str]]:
    """Who serves each arrival in the simulator."""
    _, chosen = busy_paths(instance, [plan], run)
    return [[instance.servers[r] for r in row if r >= 0] for row in chosen[0].tolist()]


def same_picks(ours: list[list[str]], theirs: list[list[str]]) -> None:
    """The same servers in the same order, task for task."""
    assert len(ours) > 20
    assert ours == theirs


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("policy", STATIC)
def test_engine_and_simulator_pick_the_same_servers(shape: str, policy: str) -> None:
    rng = np.random.default_rng([len(shape), len(policy)])
    for load in (0.7, 1.1):
        instance = random_instance(rng, SHAPES[shape], load=load)
        plan = loss_policy(policy).plan(instance, price(instance, AT_MOST))
        run = Run(STEPS, 0, seed=int(rng.integers(1000)))
        state = pool_like(instance, plan)
        same_picks(served(instance, state, run), simulated(instance, plan, run))
        assert capacity_mismatch(state) == 0


def test_orders_that_depend_on_the_headcount_agree_too() -> None:
    for seed in (1, 2, 3):
        rng = np.random.default_rng([5, seed])
        instance = random_instance(rng, Shape(types=3, servers=8, k=2), load=0.8)
        plan = loss_policy("headcount").plan(instance)
        assert plan.tables.order.shape[1] > 1
        run = Run(STEPS, 0, seed=seed)
        ours = served(instance, pool_like(instance, plan), run)
        same_picks(ours, simulated(instance, plan, run))


@pytest.mark.parametrize("policy", [*STATIC, "headcount"])
def test_router_and_simulator_pick_the_same_servers(policy: str) -> None:
    rng = np.random.default_rng([9, len(policy)])
    shapes = SHAPES.values() if policy in STATIC else [Shape(types=3, servers=8, k=2)] * 3
    for shape in shapes:
        instance = random_instance(rng, shape, load=0.9)
        plan = loss_policy(policy).plan(instance, price(instance, AT_MOST))
        run = Run(STEPS, 0, seed=int(rng.integers(1000)))
        router = Router(instance, policy=policy, seed=run.seed)
        same_picks(routed(instance, router, run), simulated(instance, plan, run))


def routed(instance: LossInstance, router: Router, run: Run) -> list[list[str]]:
    """Who serves each arrival of the run's stream by the router."""
    k = int(instance.servers_per_task.max())
    block = draw_block(stream_key(run.seed, 0), 0, loss_law(instance), k)
    ours: list[list[str]] = []
    running: list[tuple[int, int]] = []
    time = -1
    for gap, v, duration in zip(block.gap, block.task_type, block.duration, strict=True):
        time += int(gap)
        if time >= run.steps:
            break
        while running and running[0][0] <= time:
            assert router.complete(heapq.heappop(running)[1])
        decision = router.decide(int(v))
        ours.append(list(decision.servers))
        if decision.servers:
            heapq.heappush(running, (time + int(duration) + 1, decision.id))
    return ours
