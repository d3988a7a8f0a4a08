"""From counts to publications: scores, rates, durations, when, and what a reader is told."""

from __future__ import annotations

import numpy as np
import pytest

from opportune.learning.pace import CAP
from opportune.learning.shrinkage import anchored, shrink_table
from opportune.service.commands import (
    Complete,
    PutLearned,
    PutPlan,
    PutPool,
    PutServer,
    ReportOutcome,
    RequestPlan,
    Tick,
)
from opportune.service.learned import durations_of, rates_of, scores_of
from opportune.service.learner import plan_request
from opportune.service.learner_estimates import document, estimate, has_changed, has_grown
from opportune.service.learner_reading import learning_body, uneven_share
from opportune.service.planning import instance_of, plan_pool
from opportune.service.resources import LearnerSettings, PoolSettings, ServerSettings
from tests.service.pools import Pool, pool_of
from tests.service.test_learner import learned_from


def publish(pool: Pool) -> None:
    """What the learner would publish now, taken in by the engine."""
    counts = learned_from(pool.log)
    version = 1 if pool.state.learned is None else pool.state.learned.version + 1
    pool.ok(PutLearned(learned=document(estimate(counts, pool.state), counts, version)))


def worked(pool: Pool, values: list[float | None], task_type: str = "a") -> None:
    """Tasks that take a second each; None: no outcome."""
    for value in values:
        body = pool.task(task_type, now=pool.now)
        pool.ok(Complete(assignment=body.assignment_id, value=value), pool.now + 1.0)


# ------------------------------------------------------------------------------- estimates


def test_estimates_are_the_shrunk_table_in_the_declared_range() -> None:
    learner = LearnerSettings(low=1.0, high=5.0, prior_strength=0.0)
    pool = pool_of({"a": [3, 2, 1], "b": [1, 2, 3]}, learning="on", learner=learner)
    rng = np.random.default_rng(0)
    success, trials = np.zeros((2, 3)), np.zeros((2, 3))
    for _ in range(60):
        v = int(rng.integers(2))
        body = pool.task("ab"[v])
        value = float(rng.choice([1.0, 2.0, 5.0]))
        pool.ok(Complete(assignment=body.assignment_id, value=value))
        success[v, int(body.servers[0].id[1])] += (value - 1.0) / 4.0
        trials[v, int(body.servers[0].id[1])] += 1
        if pool.state.plans == {} and rng.random() < 0.5:  # other servers have their turn
            pool.ok(PutServer(settings=ServerSettings(id="s0", available=bool(rng.integers(2)))))
    found = estimate(learned_from(pool.log), pool.state)
    table = shrink_table(success, trials)
    assert found.outcomes.tolist() == trials.tolist()
    assert found.mean == pytest.approx(1.0 + 4.0 * table.mean, abs=1e-8)
    assert found.deviation == pytest.approx(4.0 * table.sd, abs=1e-8)
    assert found.score == pytest.approx(1.0 + 4.0 * np.minimum(table.mean + table.sd, 1.0))


def test_a_declared_score_counts_as_so_many_outcomes() -> None:
    success, trials = np.array([[3.0, 0.0]]), np.array([[4.0, 0.0]])
    table = shrink_table(success, trials)
    prior, strength = np.array([[0.9, 0.2]]), np.array([[6.0, 0.0]])
    mean, deviation = anchored(table, trials, prior, strength)
    kappa = table.strength
    expected = (3.0 + kappa * table.center[0, 0] + 6.0 * 0.9) / (4.0 + kappa + 6.0)
    assert mean[0, 0] == pytest.approx(expected)
    assert mean[0, 1] == table.mean[0, 1]
    assert deviation[0, 1] == pytest.approx(table.sd[0, 1])
    assert deviation[0, 0] < table.sd[0, 0]
    certain, _ = anchored(table, trials, prior, np.full((1, 2), 1e12))
    assert certain == pytest.approx(prior, abs=1e-9)


def test_a_pair_that_is_not_permitted_has_no_estimate_and_one_without_outcome_borrows() -> None:
    pool = pool_of({"a": [0.5, None, 0.5]}, learning="on")
    worked(pool, [1.0] * 20)
    publish(pool)
    learned = pool.state.learned
    assert learned is not None
    mean = learned.mean.numpy()
    assert np.isnan(mean[0, 1])
    assert mean[0, 2] > 0.5  # the type's other server did well
    assert np.isnan(scores_of(pool.state)[0, 1])


def test_rates_and_durations_go_from_the_declared_to_the_measured() -> None:
    types = {"a": {"rate": 0.1, "mean_duration": 4.0}}
    learner = LearnerSettings(rate_strength=5.0, duration_strength=2.0)
    pool = pool_of({"a": [1.0, 0.5]}, types, learning="on", learner=learner)
    pool.now = 100.0
    for _ in range(20):
        body = pool.task(now=pool.now)
        pool.ok(Complete(assignment=body.assignment_id), pool.now + 1.0)
    running = pool.task(now=124.0)
    pool.do(Tick(), 130.0)
    pool.ok(ReportOutcome(subject=running.assignment_id, value=1.0), 130.0)
    found = estimate(learned_from(pool.log), pool.state)
    assert found.rate == [pytest.approx((21 + 5) / (30.0 + 5 / 0.1))]
    assert found.mean_duration == [pytest.approx((20 + 6 + 2 * 4.0) / (20 + 2))]
    assert rates_of(pool.state) == [0.1]
    publish(pool)
    assert rates_of(pool.state) == [pytest.approx(26 / 80)]
    assert durations_of(pool.state) == found.mean_duration
    instance, step = instance_of(pool.state)
    assert float(instance.arrival_rate[0]) / step == pytest.approx(26 / 80)


def test_without_declared_rates_they_are_measured() -> None:
    pool = pool_of({"a": [1.0, 0.5], "b": [1.0, 1.0]}, {"a": {"mean_duration": None}})
    assert estimate(learned_from(pool.log), pool.state).rate == [None, None]
    worked(pool, [None] * 10)
    found = estimate(learned_from(pool.log), pool.state)
    assert found.rate == [pytest.approx(10.5 / 10.0), pytest.approx(0.5 / 10.0)]
    assert found.mean_duration[0] == pytest.approx((10.0 + 1.0) / 11.0)


def test_the_load_is_capped_in_what_is_published() -> None:
    pool = pool_of({"a": [1.0, 0.5, 0.5, 0.5]}, {"a": {"rate": 5.0}}, learning="on")
    worked(pool, [1.0])
    counts = learned_from(pool.log)
    found = estimate(counts, pool.state)
    assert found.load > 1.0
    published = document(found, counts, 1)
    rate, duration = published.rate[0], published.mean_duration[0]
    assert rate is not None
    assert duration is not None
    assert rate * duration / 4 == pytest.approx(CAP * 0.75)
    assert "scaled" in " ".join(learning_body(counts, pool.state).warnings)


# ------------------------------------------------------------------------------------- when


def test_a_publication_is_due_at_two_percent_and_ten_outcomes() -> None:
    pool = pool_of({"a": [1.0]}, learning="on", retain=2000)
    due = []
    for n in range(1, 561):
        worked(pool, [1.0])
        if n % 10 == 0 or n > 540:
            counts = learned_from(pool.log)
            if has_grown(counts):
                due.append(n)
                publish(pool)
    assert due[:3] == [10, 20, 30]
    assert due[-2:] == [541, 552]  # 2 % of 530 and of 541 are 11 outcomes


def test_other_servers_or_another_load_are_worth_a_publication() -> None:
    pool = pool_of({"a": [1.0, 0.5]}, {"a": {"rate": 0.5, "mean_duration": 1.0}}, learning="on")
    worked(pool, [1.0] * 10)
    publish(pool)
    counts = learned_from(pool.log)
    assert not has_grown(counts)
    assert not has_changed(counts, estimate(counts, pool.state), pool.state)
    pool.ok(PutServer(settings=ServerSettings(id="new")))
    counts = learned_from(pool.log)
    assert has_changed(counts, estimate(counts, pool.state), pool.state)
    publish(pool)
    worked(pool, [None] * 90)
    counts = learned_from(pool.log)
    assert has_changed(counts, estimate(counts, pool.state), pool.state)


def test_a_plan_is_asked_for_once_for_every_publication() -> None:
    types = {"a": {"rate": 0.1, "mean_duration": 1.0}}
    pool = pool_of({"a": [1.0, 0.5]}, types, learning="on", replan="active")
    assert plan_request(pool.state) is None
    worked(pool, [1.0] * 10)
    publish(pool)
    asked = plan_request(pool.state)
    assert asked == RequestPlan(plan="learned-1", then="active", reason="learned version 1")
    pool.ok(asked)
    assert plan_request(pool.state) is None
    publish(pool)
    assert plan_request(pool.state) is None  # the one before is being priced
    for mode, replan in (("shadow", "active"), ("on", "off")):
        pool.ok(PutPool(settings=PoolSettings(learning=mode, replan=replan)))  # type: ignore[arg-type]
        assert plan_request(pool.state) is None


# ------------------------------------------------------------------------------ what counts


def test_shadow_is_for_view_and_on_counts() -> None:
    pool = pool_of({"a": [0.9, 0.1]}, learning="shadow")
    worked(pool, [0.0] * 10)
    publish(pool)
    assert scores_of(pool.state).tolist() == [[0.9, 0.1]]
    assert pool.task().servers[0].id == "s0"
    pool.ok(PutPool(settings=PoolSettings(learning="on")))
    pool.restart()
    assert scores_of(pool.state)[0, 0] < 0.5
    pool.restart(from_snapshot=True)
    learned = pool.state.learned
    assert learned is not None
    assert scores_of(pool.state).tolist() == learned.score.numpy().tolist()
    pool.ok(PutPool(settings=PoolSettings(learning="off")))
    assert scores_of(pool.state).tolist() == [[0.9, 0.1]]


def test_publications_follow_each_other_and_fit_the_pool() -> None:
    pool = pool_of({"a": [0.9, 0.1]}, learning="on")
    worked(pool, [1.0] * 10)
    counts = learned_from(pool.log)
    found = estimate(counts, pool.state)
    assert pool.refused(PutLearned(learned=document(found, counts, 2))) == "conflict"
    publish(pool)
    assert pool.refused(PutLearned(learned=document(found, counts, 1))) == "conflict"
    found.servers[0] = "nobody"
    assert pool.refused(PutLearned(learned=document(found, counts, 2))) == "conflict"
    pool.ok(PutPool(settings=PoolSettings(learning="off")))
    assert pool.refused(PutLearned(learned=document(found, counts, 2))) == "conflict"


def test_another_range_throws_away_what_was_published_in_the_old_one() -> None:
    pool = pool_of({"a": [0.9, 0.1]}, learning="on")
    worked(pool, [1.0] * 10)
    publish(pool)
    pool.ok(PutPool(settings=PoolSettings(learning="on", learner=LearnerSettings(high=10.0))))
    assert pool.state.learned is None
    assert scores_of(pool.state).tolist() == [[0.9, 0.1]]
    pool.restart()


# ---------------------------------------------------------------------------- what is told


def test_missing_outcomes_are_counted_and_told() -> None:
    learner = LearnerSettings(outcome_within=50.0)
    pool = pool_of({"a": [1.0, 0.5], "b": [0.1, 1.0]}, learning="on", learner=learner)
    worked(pool, [1.0] * 40, "a")
    worked(pool, [1.0, None, None, None] * 10, "b")
    body = learning_body(learned_from(pool.log), pool.state)
    assert (body.outcomes, body.served, body.missing + body.pending) == (50, 80, 30)
    assert body.pending == 30  # the tasks of b ended within the last 50 seconds
    absent = {one.server: (one.served, one.missing) for one in body.servers}
    assert absent == {"s0": (40, 0), "s1": (40, 30)}
    assert {one.task_type: one.missing for one in body.task_types} == {"a": 0, "b": 30}
    told = " ".join(body.warnings)
    assert "38 % of 80 services have no outcome" in told
    assert "not missing at random: 75 % at server 's1', 0 % elsewhere" in told
    assert "75 % at task type 'b'" in told
    worked(pool, [1.0] * 60, "a")
    body = learning_body(learned_from(pool.log), pool.state)
    assert (body.pending, body.missing) == (0, 30)


def test_even_gaps_are_not_said_to_be_uneven() -> None:
    served = np.array([100.0, 80.0, 0.0, 60.0])
    assert uneven_share(np.array([11.0, 8.0, 0.0, 5.0]), served) is None
    assert uneven_share(np.zeros(4), served) is None
    assert uneven_share(served, served) is None
    uneven = uneven_share(np.array([11.0, 8.0, 0.0, 40.0]), served)
    assert uneven is not None
    assert uneven == pytest.approx((3, 40 / 60, 19 / 180))


def test_support_is_told() -> None:
    pool = pool_of({"a": [1.0, 0.5]}, learning="on")
    worked(pool, [1.0] * 10)
    body = learning_body(learned_from(pool.log), pool.state)
    assert body.support.certain_share == 1.0
    assert "no support" in " ".join(body.warnings)
    tied = pool_of({"a": [1.0, 1.0]}, learning="on")
    worked(tied, [1.0] * 10)
    body = learning_body(learned_from(tied.log), tied.state)
    assert body.support.certain_share == 0.0
    assert body.support.propensity_floor == 0.5
    assert "no support" not in " ".join(body.warnings)


def test_a_pool_that_does_not_learn_says_so() -> None:
    pool = pool_of({"a": [1.0, 0.5]})
    body = learning_body(learned_from(pool.log), pool.state)
    assert (body.mode, body.version, body.warnings) == ("off", 0, [])
    pool = pool_of({"a": [1.0, 0.5]}, {"a": {"rate": 0.1}})
    pool.ok(PutPlan(plan=plan_pool(pool.state, "certain"), activate=True))
    body = learning_body(learned_from(pool.log), pool.state)
    assert "plan 'certain' is a list without ties" in " ".join(body.warnings)
    tied = pool_of({"a": [1.0, 1.0]}, {"a": {"rate": 0.1}})
    tied.ok(PutPlan(plan=plan_pool(tied.state, "tied", "random"), activate=True))
    assert learning_body(learned_from(tied.log), tied.state).warnings == []


def test_a_split_pool_does_not_learn() -> None:
    assert Pool().refused(PutPool(settings=PoolSettings(learning="on", partitions=2))) == "invalid"
