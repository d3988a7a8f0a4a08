"""Rules that draw or count, followed step by step in plain Python from the log of a run."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from opportune.kernels.queue_draws import draw_beta, draw_normals
from opportune.learning.confidence import paper_radius, radius_after
from opportune.learning.estimator import fit_logistic
from opportune.model.queue_catalog import QueueChoice
from opportune.model.queue_files import load_queue
from opportune.model.queue_streams import queue_streams
from opportune.policies.base import QueuePlan, queue_policy
from opportune.simulate.queue import queue_path

HORIZON = 250
WORLD = load_queue("cqb-joint-v1", QueueChoice(horizon=HORIZON, dimension=4, servers=3))


def plan_of(policy: str, **knobs: Any) -> QueuePlan:
    """The plan of a policy with knobs."""
    known: Any = queue_policy(policy)
    made: QueuePlan = replace(known, **knobs).plan(WORLD, HORIZON)
    return made


@pytest.mark.parametrize("policy", ["q-ucb", "q-ths"])
@pytest.mark.parametrize("replication", [0, 1])
def test_rules_without_contexts(policy: str, replication: int) -> None:
    """CQB 8: explore with probability min(1, 3 K log(t)^2 / t), oldest task, index of means.

    Here with 1 in place of 3 K, which explores all the time in so short a run.
    """
    streams = queue_streams(WORLD, HORIZON, 3, replication)
    plan = plan_of(policy)
    assert plan.tables.schedule.decay == 9.0
    often = plan.tables.schedule._replace(decay=1.0)
    log = queue_path(streams, replace(plan, tables=plan.tables._replace(schedule=often)))
    wins, tries = np.zeros(3), np.zeros(3)
    departed: set[int] = set()
    explored = 0
    for t in range(1, HORIZON):
        waiting = [i for i, at in enumerate(streams.arrival_round) if at < t and i not in departed]
        task, server = (int(one) for one in log.pair[t, 0])
        if not waiting:
            assert task == -1
            continue
        assert task == waiting[0]
        share = min(1.0, math.log(t) ** 2 / t)
        if streams.explore[t] < share:
            explored += 1
            assert log.flag[t, 0, 1] == 1
            assert server == int(streams.server[t, 0] * 3)
        else:
            assert log.flag[t, 0, 1] == 0
            if policy == "q-ucb":
                with np.errstate(divide="ignore", invalid="ignore"):
                    index = wins / tries + np.sqrt(math.log(t) ** 2 / (2 * tries))
                index[tries == 0] = math.inf
            else:
                index = np.array(
                    [draw_beta(streams.key, (t, a), wins[a], (tries - wins)[a]) for a in range(3)]
                )
            best = np.flatnonzero(index == index.max())
            assert server == best[int(streams.choice[t, 0] * len(best))]
        won = bool(streams.uniform[t, 0] < streams.rate[task, server])
        wins[server] += won
        tries[server] += 1
        if won:
            departed.add(task)
    assert 0 < explored < log.counts[0]


@pytest.mark.parametrize("policy", ["acqb-ts", "laplace-thompson"])
def test_thompson_takes_the_largest_drawn_logit(policy: str) -> None:
    """theta + radius A^(-1/2) xi with the round's normals, A = V or the information."""
    streams = queue_streams(WORLD, HORIZON, 5, 0)
    knobs = {"estimator": "exact"} | ({"scale": 0.05} if policy == "acqb-ts" else {})
    log = queue_path(streams, plan_of(policy, **knobs))
    ridge, bound = (1.0, WORLD.norm_bound) if policy == "acqb-ts" else (0.1, math.inf)
    start = WORLD.curvature * ridge
    problem = (WORLD.dimension, WORLD.curvature, ridge, WORLD.norm_bound)
    radius = paper_radius(problem, 1.0 / HORIZON, 0.05)
    rows: list[np.ndarray[Any, Any]] = []
    outcomes: list[int] = []
    departed: set[int] = set()
    normal = np.zeros((1, 4))
    checked = 0
    for t in range(1, HORIZON):
        task, server = (int(one) for one in log.pair[t, 0])
        if task < 0:
            continue
        if not log.flag[t, 0, 1]:
            fit = fit_logistic(np.reshape(rows, (-1, 4)), outcomes, ridge, bound)
            if policy == "acqb-ts":
                v = start * np.eye(4) + sum((np.outer(x, x) for x in rows), np.zeros((4, 4)))
                inverse, spread = np.linalg.inv(v), radius_after(radius, len(rows))
            else:
                inverse, spread = fit.covariance, 1.0
            draw_normals(streams.key, t, normal)
            drawn = fit.theta + spread * np.linalg.cholesky(inverse) @ normal[0]
            waiting = [
                i for i, at in enumerate(streams.arrival_round) if at < t and i not in departed
            ]
            logits = streams.features[waiting] @ drawn
            best = np.unravel_index(np.argmax(logits), logits.shape)
            assert (task, server) == (waiting[best[0]], best[1])
            checked += 1
        rows.append(streams.features[task, server])
        outcomes.append(int(log.flag[t, 0, 0]))
        if outcomes[-1]:
            departed.add(task)
    assert checked > 100


def test_cqb_eps_starts_in_turn_and_goes_on_at_random() -> None:
    """CQB 5.1: fresh arrivals to the servers one after another until tau, then p = T^-1/2."""
    streams = queue_streams(WORLD, HORIZON, 6, 0)
    log = queue_path(streams, plan_of("cqb-eps", fraction=0.5))
    fresh = np.isin(np.arange(HORIZON) - 1, streams.arrival_round)
    explored = log.flag[:, 0, 1] > 0
    first = np.flatnonzero(explored & (np.arange(HORIZON) <= HORIZON // 2))
    assert np.array_equal(first, np.flatnonzero(fresh & (np.arange(HORIZON) <= HORIZON // 2)))
    assert log.pair[first, 0, 1].tolist() == [i % 3 for i in range(len(first))]
    later = np.arange(HORIZON) > HORIZON // 2
    expected = fresh & later & (streams.explore < HORIZON**-0.5)
    assert np.array_equal(explored & later, expected)
    assert (
        log.pair[expected, 0, 1].tolist() == (streams.server[expected, 0] * 3).astype(int).tolist()
    )


def test_the_width_criterion_ends_the_first_phase_once() -> None:
    """Every fresh arrival is tried at random up to a round, and none after it."""
    world = load_queue("cqb-joint-v1", QueueChoice(horizon=3000, dimension=2, servers=2))
    known: Any = queue_policy("width-criterion")
    streams = queue_streams(world, 3000, 2, 0)
    ends = []
    for factor in (0.5, 4.0, 1e6):
        log = queue_path(streams, replace(known, factor=factor).plan(world, 3000))
        explored = np.flatnonzero(log.flag[:, 0, 1] > 0)
        end = int(explored[-1])
        fresh = np.isin(np.arange(3000) - 1, streams.arrival_round)
        assert np.array_equal(explored, np.flatnonzero(fresh[: end + 1]))
        ends.append(end)
    assert ends[0] > ends[1] > ends[2]
    assert ends[2] < 20
