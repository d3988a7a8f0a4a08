"""LAG Proposition 3.2: the rates of any work-conserving policy are feasible for OCC-LP(B).

Exactly: the chain of running tasks (each a set of k servers) under policies that choose at
random, differently in every state, so that nothing but work conservation is assumed. And in the
(m,n)-scaled system, where the paper uses the proposition again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from opportune.model.catalog import catalog_instance
from opportune.model.duration import Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.policies.base import list_plan
from opportune.policies.waterfill import lag_tables, list_tables
from opportune.pricing.blocking import exact_blocking
from opportune.pricing.demand import Demand
from opportune.pricing.occupancy import price
from opportune.simulate.scaled import ScaledRun, scaled_warm_up, simulate_scaled
from tests import textbook

Float = NDArray[np.float64]
State = frozenset[frozenset[int]]
"""Tasks in service, each as the set of its servers."""


def states_of(n_servers: int, k: int) -> list[State]:
    """All sets of disjoint sets of k servers."""
    tasks = [frozenset(task) for task in itertools.combinations(range(n_servers), k)]
    found, new = {frozenset[frozenset[int]]()}, [frozenset[frozenset[int]]()]
    while new:
        grown = {
            state | {task}
            for state in new
            for task in tasks
            if all(task.isdisjoint(x) for x in state)
        }
        new = list(grown - found)
        found |= grown
    return sorted(found, key=lambda state: (len(state), sorted(map(sorted, state))))


def survivors(state: State, end: float) -> Iterator[tuple[State, float]]:
    """Each task ends with probability ``end``, on its own."""
    for size in range(len(state) + 1):
        for left in itertools.combinations(state, size):
            yield frozenset(left), (1 - end) ** size * end ** (len(state) - size)


def random_policy_law(
    instance: LossInstance, rng: np.random.Generator, idle: float = 0.0
) -> tuple[Float, Float, float, float]:
    """u (V, R), phi (R,), blocking and reward of a random policy; ``idle``: share it turns away."""
    k, mean = instance.one_k, instance.memoryless_mean
    assert k is not None
    assert mean is not None
    n_servers, lam = instance.n_servers, instance.arrival_rate
    states = states_of(n_servers, k)
    place = {state: i for i, state in enumerate(states)}
    step = np.zeros((len(states), len(states)))
    taken = np.zeros((len(states), instance.n_types, n_servers))
    blocked = np.zeros(len(states))
    for i, state in enumerate(states):
        free = [r for r in range(n_servers) if all(r not in task for task in state)]
        choices = [frozenset(task) for task in itertools.combinations(free, k)]
        stay = [(place[left], p) for left, p in survivors(state, 1 / mean)]
        for v in range(instance.n_types):
            weight = rng.exponential(size=len(choices)) ** 4
            weight = weight / weight.sum() if choices else weight
            for task, w in zip(choices, weight * (1 - idle), strict=True):
                taken[i, v, list(task)] += lam[v] * w
                for left, p in survivors(state, 1 / mean):
                    step[i, place[left | {task}]] += lam[v] * w * p
            turned_away = lam[v] * (idle if choices else 1.0)
            blocked[i] += turned_away
            for to, p in stay:
                step[i, to] += turned_away * p
        for to, p in stay:
            step[i, to] += (1 - lam.sum()) * p
    system = np.vstack([step.T - np.eye(len(states)), np.ones(len(states))])
    law = np.linalg.lstsq(system, np.append(np.zeros(len(states)), 1.0), rcond=None)[0]
    u = np.einsum("s,svr->vr", law, taken)
    busy = np.array(
        [[any(r in task for task in state) for r in range(n_servers)] for state in states]
    )
    reward = float(np.sum(instance.match_reward * u))
    return u, 1 - law @ busy, float(law @ blocked / lam.sum()), reward


def small_instance(rng: np.random.Generator) -> LossInstance:
    n_servers, k = [(2, 1), (3, 1), (4, 1), (4, 2), (5, 2), (3, 2), (3, 3)][int(rng.integers(7))]
    n_types = int(rng.integers(1, 4))
    return loss_instance(
        rng.integers(0, 5, (n_types, n_servers)) / 4 + 0.01,
        rng.random(n_types) / n_types,
        Geometric(float(rng.uniform(1, 8))),
        k,
    )


def test_rates_of_any_work_conserving_policy_are_feasible() -> None:
    """(2), (3) and (4) exactly, so the reward is at most OCC-LP(B), B by the headcount chain."""
    rng = np.random.default_rng(5)
    closest = 0.0
    for _ in range(60):
        instance = small_instance(rng)
        u, phi, blocking, reward = random_policy_law(instance, rng)
        lam, k = instance.arrival_rate, instance.servers_per_task
        assert blocking == pytest.approx(exact_blocking(instance), rel=1e-9)  # Lemma 3.1
        assert u.sum(axis=1) == pytest.approx(k * lam * (1 - blocking), abs=1e-12)
        assert phi + instance.mean_duration @ u == pytest.approx(np.ones(len(phi)), abs=1e-11)
        assert np.all(u <= lam[:, None] * phi + 1e-12)
        bound = -textbook.occupancy(instance, blocking).fun
        assert reward <= bound + 1e-9
        assert price(instance, Demand(blocking)).dual_value == pytest.approx(bound, rel=1e-7)
        closest = max(closest, reward / bound)
    assert closest > 0.999  # R = k: no choice, and the bound is met


def test_with_one_server_the_bound_is_met() -> None:
    rng = np.random.default_rng(6)
    instance = loss_instance([[0.3], [0.9]], [0.2, 0.5], Geometric(4))
    _, _, blocking, reward = random_policy_law(instance, rng)
    assert blocking == pytest.approx(exact_blocking(instance), rel=1e-12)
    assert price(instance, Demand(blocking)).dual_value == pytest.approx(reward, rel=1e-9)


def test_turning_tasks_away_breaks_it() -> None:
    """Work conservation is needed: a policy that turns away has another B and other rates."""
    rng = np.random.default_rng(7)
    instance = loss_instance([[1.0, 0.5, 0.2], [0.4, 0.1, 0.9]], [0.2, 0.2], Geometric(5))
    u, phi, blocking, _ = random_policy_law(instance, rng, idle=0.5)
    exact = exact_blocking(instance)
    assert exact is not None
    assert blocking > exact + 0.1
    lam = instance.arrival_rate
    assert np.all(np.abs(u.sum(axis=1) - lam * (1 - exact)) > 0.01)
    assert phi + instance.mean_duration @ u == pytest.approx(np.ones(3), abs=1e-11)


@pytest.mark.parametrize("name", ["specialist-v1", "priority-v1", "unfriendly-v1"])
@pytest.mark.parametrize(("m", "n"), [(1, 4), (4, 1), (8, 64)])
def test_the_scaled_system_obeys_it_per_copy(name: str, m: int, n: int) -> None:
    """u and phi of LAG and of a list, divided by mn: (3) and (4) up to the noise of the run.

    (2) holds with the measured number of accepted tasks by construction: exactly.
    """
    instance = catalog_instance(name, 0.8)
    lam, mean = instance.arrival_rate, instance.mean_duration
    prices = price(instance)
    plain = list_plan("list", instance, instance.match_reward, np.arange(instance.n_servers))
    run = ScaledRun(n, m, 40_000 // m, scaled_warm_up(instance))
    for tables in (lag_tables(prices), list_tables(plain)):
        trace = simulate_scaled(instance, tables, run)
        accepted = trace.arrived - trace.blocked
        assert trace.assigned.sum(axis=1).tolist() == (n * accepted).tolist()
        u = trace.assigned / (run.copies * run.steps)
        phi = 1 - trace.busy_steps / (run.copies * run.steps)
        slots = m * run.steps
        noise = 5 * mean.max() * np.sqrt(u.sum(axis=0) / slots) + mean.max() / run.steps
        assert np.all(np.abs(phi + mean @ u - 1) <= noise)
        assert np.all(u <= lam[:, None] * phi + 5 * np.sqrt(lam[:, None] / slots))
        assert noise.max() < 0.2
        blocking = float(trace.blocked.sum() / trace.arrived.sum())
        reward = float(trace.reward.sum()) / (run.copies * run.steps)
        assert reward == pytest.approx(float(np.sum(instance.match_reward * u)), rel=1e-9)
        assert reward <= price(instance, Demand(blocking)).dual_value * 1.03
