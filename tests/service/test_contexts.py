"""Scores from contexts: learned per server, and each task decided by its own prediction."""

from __future__ import annotations

import random

import numpy as np
import pytest

from opportune.learning.estimator import fit_logistic
from opportune.service import events
from opportune.service.commands import (
    Complete,
    CreateTask,
    PutLearned,
    PutPlan,
    PutPool,
    ReportOutcome,
    ShadowPlan,
)
from opportune.service.learned import scores_of
from opportune.service.learner_contexts import context_scores, predicted
from opportune.service.learner_counts import scaled
from opportune.service.learner_estimates import document, estimate
from opportune.service.planning import plan_pool
from opportune.service.reading import decision_body
from opportune.service.resources import FeatureRange, LearnerSettings, PoolSettings
from opportune.service.verifying import verify
from tests.service.pools import Pool, pool_of
from tests.service.test_exploring import state_before
from tests.service.test_learner import learned_from

LENGTH = (FeatureRange("length", 0.0, 100.0),)
LEARNER = LearnerSettings(high=2.0, features=LENGTH, exploration=0.5)
TYPES = {"a": {"rate": 0.1, "mean_duration": 2.0}}


def crossing(n: int, seed: int = 1) -> Pool:
    """s0 is good at short tasks, s1 at long ones; on average they are alike."""
    settings = {"learning": "on", "learner": LEARNER, "context": ["length"]}
    pool = pool_of({"a": [1.0, 1.0]}, TYPES, **settings)
    draw = random.Random(seed)
    for i in range(n):
        length = 100.0 * draw.random()
        draws = np.random.default_rng(i).integers(0, 2**32, 16, dtype=np.uint32)
        task = CreateTask(task_type="a", context={"length": length})
        body = pool.ok(task, float(i), draws)
        good = (length < 50.0) == (body.servers[0].id == "s0")
        value = 2.0 if draw.random() < (0.9 if good else 0.1) else 0.0
        pool.ok(Complete(assignment=body.assignment_id, value=value))
    return pool


def publish(pool: Pool) -> None:
    counts = learned_from(pool.log)
    found = estimate(counts, pool.state)
    version = 1 if pool.state.learned is None else pool.state.learned.version + 1
    pool.ok(PutLearned(learned=document(found, counts, version)))


def test_weights_are_those_of_a_regression_for_each_server() -> None:
    pool = crossing(120)
    counts = learned_from(pool.log)
    found = context_scores(counts, (1, 2))
    every = np.array([seen.x for seen in counts.tasks.values()])
    for r in (0, 1):
        rows = [
            (seen.x, dict(seen.labels)[r])
            for seen in counts.tasks.values()
            if r in dict(seen.labels)
        ]
        x = np.array([row[0] for row in rows])
        y = np.array([row[1] > 0 for row in rows], dtype=float)
        expected = fit_logistic(x, y)
        assert found.weight[r] == pytest.approx(expected.theta, abs=1e-4)
        assert found.mean[0, r] == pytest.approx(expected.probability(every).mean(), abs=1e-4)
    assert np.all(np.linalg.norm(every, axis=1) <= 1.0 + 1e-12)


def test_each_task_goes_where_its_context_says() -> None:
    pool = crossing(150)
    publish(pool)
    pool.ok(PutPlan(plan=plan_pool(pool.state, "priced", source="plan"), activate=True))
    quiet = LearnerSettings(high=2.0, features=LENGTH)
    pool.ok(PutPool(settings=PoolSettings(learning="on", learner=quiet, context=["length"])))
    for length, server in ((10.0, "s0"), (90.0, "s1"), (30.0, "s0"), (70.0, "s1")):
        body = pool.task(context={"length": length})
        slot = body.servers[0]
        assert slot.id == server
        assert decision_body(pool.state, body.decision_id).why.rule == "context"
        weight = pool.state.learned.weight.numpy()  # type: ignore[union-attr]
        x = np.array(scaled(LENGTH, {"length": length}))
        share = predicted(weight, x)[int(server[1])]
        assert slot.score == pytest.approx(2.0 * share)
        assert slot.index == pytest.approx(slot.score - slot.opportunity_cost)
        pool.ok(Complete(assignment=body.assignment_id))
    middle = scores_of(pool.state)[0]
    assert abs(middle[0] - middle[1]) < 0.5  # types alone would not tell them apart
    pool.restart(from_snapshot=True)
    assert pool.task(context={"length": 95.0}).servers[0].id == "s1"


def test_a_shadow_goes_by_context_as_well() -> None:
    """The same plan under another name picks the same servers, and would be worth the same."""
    pool = crossing(150)
    publish(pool)
    for name, active in (("priced", True), ("twin", False)):
        pool.ok(PutPlan(plan=plan_pool(pool.state, name, source="plan"), activate=active))
    quiet = LearnerSettings(high=2.0, features=LENGTH)
    pool.ok(PutPool(settings=PoolSettings(learning="on", learner=quiet, context=["length"])))
    pool.ok(ShadowPlan(plan="twin"))
    for length in (10.0, 90.0, 30.0, 70.0):
        body = pool.task(context={"length": length})
        pool.ok(Complete(assignment=body.assignment_id))
    record = pool.state.shadowed["twin"]
    assert (record.decisions, record.differed) == (4, 0)
    assert record.at_active.mean == 0.0


def test_decisions_by_context_can_be_made_again() -> None:
    pool = crossing(40)
    publish(pool)
    for i in range(12):
        pool.ok(Complete(assignment=pool.task(context={"length": 9.0 * i}).assignment_id))
    decided = [event for event in pool.log if isinstance(event, events.Offered)]
    assert all(verify(state_before(pool, event), event) for event in decided[-12:])


@pytest.mark.parametrize("value", [None, "long", float("inf"), 1e300, True, [1]])
def test_odd_contexts_are_the_middle_or_the_end_of_the_range(value: object) -> None:
    (one, x) = scaled(LENGTH, {"length": value})
    assert one == pytest.approx(2**-0.5)
    expected = {"inf": 1.0, "1e+300": 1.0, "True": -0.98}.get(str(value), 0.0)
    assert x == pytest.approx(expected * 2**-0.5)
    assert scaled(LENGTH, {}) == scaled(LENGTH, {"length": 50.0})


def test_the_order_of_reports_changes_no_weight() -> None:
    """Outcomes in any order: the same weights, bit by bit."""
    found = []
    for shuffled in (False, True):
        settings = {"learning": "on", "learner": LEARNER, "context": ["length"]}
        pool = pool_of({"a": [1.0, 1.0]}, TYPES, **settings)
        bodies = [pool.task(context={"length": 7.0 * i}, now=float(i)) for i in range(2)]
        for i in range(2, 14):
            pool.ok(Complete(assignment=bodies[i - 2].assignment_id))
            bodies.append(pool.task(context={"length": 7.0 * i}, now=float(i)))
        told = [(body, float(i % 3)) for i, body in enumerate(bodies)]
        if shuffled:
            random.Random(3).shuffle(told)
        for body, value in told:
            pool.ok(ReportOutcome(subject=body.assignment_id, value=value))
        found.append(context_scores(learned_from(pool.log), (1, 2)))
    assert np.array_equal(found[0].weight, found[1].weight)
    assert np.array_equal(found[0].mean, found[1].mean)


def test_other_features_make_published_weights_of_no_use() -> None:
    pool = crossing(30)
    publish(pool)
    other = LearnerSettings(high=2.0)
    pool.ok(PutPool(settings=PoolSettings(learning="on", learner=other, context=["length"])))
    slot = pool.task(context={"length": 1.0}).servers[0]
    assert slot.score == float(scores_of(pool.state)[0, int(slot.id[1:])])
