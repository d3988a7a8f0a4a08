"""Runs of the queue: coupling, workers, feedback, several servers, and cases from the field."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2, kstest

from opportune.errors import InputError
from opportune.kernels.queue import QueueLog, QueueStreams, QueueTables
from opportune.kernels.queue_draws import draw_beta, draw_normals
from opportune.kernels.queue_run import run_queue
from opportune.kernels.queue_state import LENGTH, new_state
from opportune.learning.estimator import fit_logistic
from opportune.model.queue_catalog import QueueChoice
from opportune.model.queue_files import load_queue
from opportune.model.queue_streams import Feedback, queue_streams
from opportune.model.streams import stream_key
from opportune.policies.base import QueuePlan, queue_policies_by_id, queue_policy
from opportune.simulate.queue import QueueRun, curve_rounds, queue_path, simulate_queue

JOINT = load_queue("cqb-joint-v1", QueueChoice(horizon=400))
DISJOINT = load_queue("cqb-disjoint-v1", QueueChoice(horizon=400))
FIVE = load_queue("cqb-disjoint-v1", QueueChoice(horizon=1000, dimension=1, servers=5))
TWO = load_queue("cqb-disjoint-v1", QueueChoice(horizon=500, dimension=1, servers=2))


def plan_of(policy: str, world: Any = JOINT, horizon: int = 400, **knobs: Any) -> QueuePlan:
    """The plan of a policy with knobs."""
    known: Any = queue_policy(policy)
    made: QueuePlan = replace(known, **knobs).plan(world, horizon)
    return made


def alike(rate: list[float], horizon: int, arrival: float, seed: int = 1) -> QueueStreams:
    """Tasks without contexts: one constant feature, a weight for each server."""
    rng = np.random.default_rng(seed)
    rounds = np.flatnonzero(rng.random(horizon) < arrival).astype(np.int32)
    rounds = rounds[rounds > 0]
    rates = np.tile(np.array(rate), (len(rounds), 1))
    return QueueStreams(
        arrival_round=rounds,
        features=np.ones((len(rounds), 1, 1)),
        rate=rates,
        known=rates,
        uniform=rng.random((horizon, 1)),
        explore=rng.random(horizon),
        server=rng.random((horizon, 1)),
        choice=rng.random((horizon, 1)),
        delay=np.zeros(0, dtype=np.int32),
        copies=np.zeros(0, dtype=np.int8),
        key=stream_key(seed, 0),
        disjoint=True,
        once=False,
    )


# ---------------------------------------------------------------------------- the runs


def test_results_do_not_depend_on_workers_or_neighbors() -> None:
    plans = [plan_of(one) for one in queue_policies_by_id()]
    runs = [
        simulate_queue(JOINT, plans, QueueRun(400, 8, seed=3, workers=workers))
        for workers in (1, 2, 4)
    ]
    for other in runs[1:]:
        for a, b in zip(runs[0], other, strict=True):
            for x, y in zip(a, b, strict=True):
                assert np.array_equal(x, y)
    alone = simulate_queue(JOINT, plans[:1], QueueRun(400, 3, seed=3, first=4))[0]
    assert np.array_equal(alone.curve, runs[0][0].curve[4:7])
    assert len({tuple(row) for row in runs[0][0].curve}) == 8  # no two replications are equal


def test_traces_are_what_the_paths_say() -> None:
    plans = [plan_of(one) for one in ("optimistic", "cqb-eta-2", "random", "oracle")]
    traces = simulate_queue(JOINT, plans, QueueRun(400, 3, seed=9))
    for plan, trace in zip(plans, traces, strict=True):
        assert trace.grid[-1] == 400
        assert np.all(np.diff(trace.grid) > 0)
        for i in range(3):
            log = queue_path(queue_streams(JOINT, 400, 9, i), plan)
            queue = log.queue[1:].astype(float)
            assert trace.final_queue[i] == log.queue[400]
            assert trace.mean_queue[i] == pytest.approx(queue.mean())
            assert np.array_equal(trace.curve[i], log.queue[trace.grid])
            assert trace.average[i] == pytest.approx([queue[:t].mean() for t in trace.grid])
            tries = log.pair[:, 0, 0] >= 0
            assert trace.attempts[i] == tries.sum()
            assert trace.departures[i] == (log.flag[:, 0, 0] > 0).sum()
            assert trace.explored[i] == (log.flag[:, 0, 1] > 0).sum()


def test_grids_and_short_runs() -> None:
    assert curve_rounds(1).tolist() == [1]
    assert curve_rounds(20).tolist() == [20]
    grid = curve_rounds(100_000)
    assert grid[0] == 20
    assert grid[-1] == 100_000
    for horizon in (1, 2, 3):
        trace = simulate_queue(JOINT, [plan_of("optimistic")], QueueRun(horizon, 2))[0]
        assert trace.final_queue.max() <= horizon - 1


@pytest.mark.parametrize(
    ("name", "value"),
    [("horizon", 0), ("replications", 0), ("workers", 1.5), ("first", -1), ("switch", -1)],
)
def test_a_run_out_of_range_is_refused(name: str, value: object) -> None:
    settings: dict[str, Any] = {"horizon": 10, name: value}
    with pytest.raises(InputError, match=name):
        QueueRun(**settings)


def test_the_estimate_of_a_run_is_the_fit_to_its_log() -> None:
    """The exact learner's theta is the fit to all outcomes that its log shows."""
    for world in (JOINT, DISJOINT):
        streams = queue_streams(world, 400, 2, 0)
        log = queue_path(streams, plan_of("optimistic", world, estimator="exact"))
        phi, outcome = [], []
        for t in range(1, 400):
            task, server = log.pair[t, 0]
            if task < 0:
                continue
            row = np.zeros(log.theta.shape)
            if streams.disjoint:
                row[server] = streams.features[task, 0]
            else:
                row[0] = streams.features[task, server]
            phi.append(row.ravel())
            outcome.append(int(log.flag[t, 0, 0]))
        assert log.theta.ravel() == pytest.approx(fit_logistic(phi, outcome).theta, abs=1e-7)


def test_scans_with_bounds_choose_what_a_full_scan_chooses() -> None:
    """Long queues: the index of every served pair is the largest of all, computed anew."""
    world = load_queue("cqb-joint-v1", QueueChoice(horizon=800))
    streams = queue_streams(world, 800, 4, 1)
    for name, knobs in (
        ("cqb-eta-2", {"fractions": (0.6, 0.7), "scale": 0.02}),
        ("width-criterion", {}),
        ("greedy-decay", {"exploration": 9.0, "power": 0.3}),
    ):
        plan = plan_of(name, world, 800, estimator="growth", **knobs)
        log = queue_path(streams, plan)
        assert log.queue.max() > 30
        full = queue_path_with_full_scans(streams, plan)
        assert np.array_equal(log.pair, full)


def queue_path_with_full_scans(streams: QueueStreams, plan: QueuePlan) -> Any:
    """The pairs when no bound is of use, since features are said to be enormously long."""
    state = new_state(streams, plan.tables)
    state.level[LENGTH] = 1e12
    n_rounds, m = streams.uniform.shape
    log = QueueLog(
        queue=np.zeros(n_rounds + 1, dtype=np.int32),
        counts=np.zeros(8, dtype=np.int64),
        pair=np.full((n_rounds, m, 2), -1, dtype=np.int32),
        flag=np.zeros((n_rounds, m, 2), dtype=np.int8),
        theta=np.zeros((1, streams.features.shape[2])),
    )
    run_queue(streams, plan.tables, state, 2**62, log)
    return log.pair


# ---------------------------------------------------------------------------- feedback


def delayed(streams: QueueStreams, delay: int) -> QueueStreams:
    """The streams with every outcome so many rounds late."""
    return streams._replace(delay=np.full(len(streams.uniform), delay, dtype=np.int32))


@pytest.mark.parametrize("policy", ["optimistic", "acqb-ts", "q-ucb", "q-ths", "ecolog"])
def test_a_delay_of_zero_is_no_delay(policy: str) -> None:
    streams = queue_streams(JOINT, 400, 5, 0)
    plan = plan_of(policy)
    usual, late = queue_path(streams, plan), queue_path(delayed(streams, 0), plan)
    assert np.array_equal(usual.pair, late.pair)
    assert np.array_equal(usual.theta, late.theta)
    assert np.array_equal(usual.counts, late.counts)


def test_nothing_is_known_before_the_delay_is_over() -> None:
    """The choices of the first d rounds are those without any outcome; then they differ."""
    streams = queue_streams(JOINT, 400, 5, 0)
    plan = plan_of("optimistic")
    blind = queue_path(delayed(streams, 10_000), plan)
    late = queue_path(delayed(streams, 30), plan)
    first = int(np.flatnonzero(late.pair[:, 0, 0] >= 0)[0])
    apart = np.flatnonzero((late.pair != blind.pair).any(axis=(1, 2)))
    assert apart[0] == pytest.approx(first + 31, abs=8)
    assert apart[0] >= first + 31
    assert late.counts[7] == (late.pair[400 - 30 :, 0, 0] >= 0).sum()
    assert late.counts[4] + late.counts[7] == late.counts[0]


def test_late_outcomes_are_learned_in_the_order_in_which_they_come() -> None:
    """Varying delays: the exact fit at the end is that of all outcomes due by then."""
    feedback = Feedback(delay=20, lost=0.2, repeated=0.3)
    streams = queue_streams(JOINT, 400, 6, 0, feedback=feedback)
    log = queue_path(streams, plan_of("optimistic", estimator="exact"))
    phi, outcome = [], []
    for t in range(1, 400):
        task, server = log.pair[t, 0]
        if task >= 0 and streams.copies[t] > 0 and t + 1 + streams.delay[t] <= 400:
            phi.append(streams.features[task, server])
            outcome.append(int(log.flag[t, 0, 0]))
    assert len(phi) == log.counts[4]
    assert log.counts[7] == log.counts[0] - len(phi)  # the pending ones are told
    assert log.theta[0] == pytest.approx(fit_logistic(phi, outcome).theta, abs=1e-7)


def test_a_repeated_report_is_learned_from_once_unless_copies_count() -> None:
    streams = queue_streams(JOINT, 400, 7, 0)
    twice = streams._replace(copies=np.full(400, 2, dtype=np.int8))
    plan = plan_of("optimistic", estimator="exact")
    usual = queue_path(streams, plan)
    assert np.array_equal(queue_path(twice, plan).pair, usual.pair)
    naive = replace(plan, tables=plan.tables._replace(count_copies=True))
    log = queue_path(twice, naive)
    assert log.counts[4] == 2 * log.counts[0]
    assert not np.array_equal(log.theta, usual.theta)


def test_delay_costs_little_and_loss_is_never_success() -> None:
    """With 30 % of the outcomes lost the rates are not biased upward."""
    plans = [plan_of("optimistic"), plan_of("oracle")]
    run = QueueRun(400, 40, seed=2, workers=2)
    lossy = replace(run, feedback=Feedback(delay=10, lost=0.3))
    (plain, best), (hurt, _) = (simulate_queue(JOINT, plans, one) for one in (run, lossy))
    assert hurt.mean_queue.mean() > plain.mean_queue.mean()
    assert (hurt.mean_queue - best.mean_queue).mean() < 8


# ---------------------------------------------------------------------------- several servers


def test_several_servers_serve_more() -> None:
    """Three rounds of arrivals in four: one server hardly can, three easily."""
    world = load_queue("cqb-joint-v1", QueueChoice(horizon=400, arrival_rate=0.75))
    plans = [plan_of("optimistic"), plan_of("oracle"), plan_of("random")]
    found = {
        m: simulate_queue(world, plans, QueueRun(400, 10, servers_at_once=m)) for m in (1, 2, 3)
    }
    for m in (2, 3):
        assert found[m][0].mean_queue.mean() < found[1][0].mean_queue.mean()
        assert (found[m][0].mean_queue >= found[m][1].mean_queue - 1).all()
    assert found[3][2].mean_queue.mean() < found[2][2].mean_queue.mean()


def test_more_servers_at_once_than_there_are_use_each_once() -> None:
    streams = queue_streams(JOINT, 200, 3, 0, 9)
    log = queue_path(streams, plan_of("random", horizon=200))
    assert (log.pair[:, :, 1] >= 0).sum(axis=1).max() <= streams.rate.shape[1]


# ---------------------------------------------------------------------------- field cases (D)


@pytest.mark.parametrize(
    "policy", ["optimistic", "greedy-decay", "cqb-opt", "acqb-ts", "q-ucb", "q-ths", "random"]
)
def test_servers_that_look_alike_are_used_alike(policy: str) -> None:
    """fidelity/mabwiser#96: five equal servers, outcomes a thousand rounds late."""
    streams = delayed(alike([0.6] * 5, 1000, 0.5), 1000)
    log = queue_path(streams, plan_of(policy, FIVE, 1000))
    used = log.pair[:, 0, 1]
    counts = np.bincount(used[used >= 0], minlength=5)
    square = ((counts - counts.mean()) ** 2 / counts.mean()).sum()
    assert square < chi2.ppf(0.999, 4)


@pytest.mark.parametrize("policy", ["optimistic", "greedy-decay", "cqb-opt", "acqb-ucb"])
def test_without_contexts_the_better_server_is_learned(policy: str) -> None:
    """VowpalWabbit/vowpal_wabbit#1436: success .2 and .8, constant features."""
    streams = alike([0.2, 0.8], 1500, 0.6, seed=4)
    log = queue_path(streams, plan_of(policy, TWO, 1500))
    later = log.pair[500:, 0, 1]
    later = later[(later >= 0) & (log.flag[500:, 0, 1] == 0)]
    assert np.mean(later == 1) >= 0.9


def test_an_unstable_queue_runs_to_its_end() -> None:
    """salabim/salabim#21: arrivals .9, best rate .7."""
    streams = alike([0.7, 0.3], 3000, 0.9)
    for policy in ("optimistic", "cqb-eta-2", "oracle"):
        log = queue_path(streams, plan_of(policy, TWO, 3000))
        assert 300 < log.queue[3000] < 1500


def test_no_arrivals_at_all() -> None:
    """inference-sim/inference-sim#202."""
    streams = alike([0.7, 0.3], 100, 0.0)
    assert len(streams.arrival_round) == 0
    for policy in queue_policies_by_id():
        log = queue_path(streams, plan_of(policy, TWO, 100))
        assert log.queue.max() == 0
        assert log.counts[0] == 0


def test_failures_alone_end_with_a_finite_estimate() -> None:
    """david-cortes/contextualbandits#7: every try fails, and the queue grows."""
    streams = alike([0.0, 0.0], 400, 0.5)
    for policy in queue_policies_by_id():
        log = queue_path(streams, plan_of(policy, TWO, 400))
        assert np.isfinite(log.theta).all()
        assert log.queue[400] == len(streams.arrival_round)


# ---------------------------------------------------------------------------- draws


def test_normals_and_betas_have_their_laws() -> None:
    key = stream_key(11, 0)
    out = np.zeros((3, 5))
    drawn = []
    for time in range(1, 2001):
        draw_normals(key, time, out)
        drawn.append(out.ravel().copy())
    normals = np.array(drawn)
    assert kstest(normals.ravel(), "norm").pvalue > 1e-3
    assert np.abs(np.corrcoef(normals.T) - np.eye(15)).max() < 0.1
    again = np.zeros((3, 5))
    draw_normals(key, 2000, again)
    assert np.array_equal(again, out)
    for wins, losses in ((0.0, 0.0), (3.0, 1.0), (200.0, 800.0)):
        betas = [draw_beta(key, (t, a), wins, losses) for t in range(1, 1001) for a in range(3)]
        assert kstest(betas, "beta", args=(wins + 1, losses + 1)).pvalue > 1e-3


def test_thompson_draws_spread_like_the_posterior() -> None:
    """With outcomes never learned from, theta ~ N(0, (c^2 / ridge) I): best of K by chance."""
    streams = delayed(queue_streams(JOINT, 400, 8, 0), 10_000)
    plan = plan_of("laplace-thompson")
    log = queue_path(streams, plan)
    used = log.pair[:, 0, 1]
    counts = np.bincount(used[used >= 0], minlength=5)
    assert counts.min() > 0.1 * counts.sum()


def test_tables_compile_once() -> None:
    """A policy is a table: all of them run by one compiled function."""
    streams = queue_streams(JOINT, 30, 1, 0)
    queue_path(streams, plan_of("optimistic", horizon=30))
    known = len(run_queue.signatures)  # type: ignore[attr-defined]
    for one in queue_policies_by_id():
        queue_path(streams, plan_of(one, horizon=30))
    tables: QueueTables = plan_of("optimistic").tables
    assert isinstance(tables.rule, int)
    assert math.isinf(tables.fitting.norm_bound)
    assert len(run_queue.signatures) == known  # type: ignore[attr-defined]
