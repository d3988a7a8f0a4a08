"""Learners on whole runs: the ceiling is LAG, what is learned is used, waits, late servers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.experiments.learn_settings import LearnSettings
from opportune.experiments.learned import compare_learned, doublings, window_edges
from opportune.experiments.learned_record import claims, learned_record
from opportune.kernels.learned import HiddenStreams
from opportune.kernels.streams import LossStreams
from opportune.model.catalog import catalog_instance
from opportune.model.duration import Deterministic, Geometric
from opportune.model.hidden import HiddenWorld, Recorded, hidden_world
from opportune.model.loss import LossInstance, loss_instance
from opportune.model.recorded_catalog import catalog_world, clusters, recorded_world
from opportune.policies.base import loss_policy
from opportune.policies.beliefs import learned_policies_by_id, learned_policy, trait
from opportune.policies.learned.lag_learned import LagLearned
from opportune.simulate.learned import Forced, LearnedRun, LearnedTrace, simulate_learned
from opportune.simulate.loss import Run, busy_paths

ALL = list(learned_policies_by_id())
WITHOUT_FEATURES = [one for one in ALL if not trait(learned_policy(one), "reads_features")]


def trace_of(
    world: HiddenWorld, policy: str, n: int, run: LearnedRun | None = None, seed: int = 1
) -> LearnedTrace:
    streams = world.streams(n, seed, 0)
    return simulate_learned(world, streams, learned_policy(policy), run or LearnedRun())


def small_log(seed: int = 0, n: int = 400) -> HiddenWorld:
    """Three models of which each is good at its own direction of the context."""
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(n, 3))
    score = (contexts + rng.normal(size=(n, 3)) > 0.5).astype(float)
    task_type = (contexts[:, 0] > 0).astype(np.int64)
    models = ((2, 1, 1), ("a", "b", "c"))
    return recorded_world(contexts, score, models, task_type, (Geometric(20), 0.7), "log")


# ---------------------------------------------------------------------------- the contract


@pytest.mark.parametrize("policy_id", ALL)
def test_every_policy_ranks_ties_overload_forbidden_pairs_and_several_servers(
    policy_id: str,
) -> None:
    policy = learned_policy(policy_id)
    assert policy.id == policy_id
    assert policy.title
    worlds = [small_log()]
    if not trait(policy, "reads_features"):
        tied = loss_instance(np.ones((2, 4)), [0.1, 0.1], Deterministic(5), 2)
        allowed = np.array([[True, True, False], [False, True, True]])
        few = loss_instance(np.eye(2, 3), [0.3, 0.3], Geometric(9), allowed=allowed)
        nothing = loss_instance(np.zeros((1, 2)), [0.2], Geometric(4))
        only = loss_instance([[1.0, 0.5]], [0.2], Geometric(4), 2)
        unused = loss_instance([[1.0, 0.5], [0.5, 1.0]], [0.0, 0.1], Geometric(4))
        heavy = loss_instance([[1.0, 0.5], [0.5, 1.0]], [0.4, 0.6], Geometric(9))
        worlds = [hidden_world(one) for one in (tied, few, nothing, only, unused, heavy)]
    for world in worlds:
        trace = trace_of(world, policy_id, 200)
        n_types = world.instance.n_types
        assert np.isfinite(trace.reward).all()
        assert trace.last.score.shape == (n_types, world.n_models)
        v = world.streams(200, 1, 0).task_type
        served = trace.chosen[:, 0] >= 0
        assert world.instance.allowed[v[served], trace.chosen[served, 0]].all()


@pytest.mark.parametrize("policy_id", ALL)
def test_the_same_seed_gives_the_same_decisions(policy_id: str) -> None:
    world = small_log()
    first, again = (trace_of(world, policy_id, 300) for _ in range(2))
    np.testing.assert_array_equal(first.chosen, again.chosen)


def test_policies_that_learn_never_see_the_truth() -> None:
    """Two worlds that differ in scores only, with the same outcomes: the same decisions."""
    rng = np.random.default_rng(1)
    contexts, score = rng.normal(size=(300, 2)), rng.integers(0, 2, (300, 3)).astype(float)
    models, pace = ((1, 1, 2), ("a", "b", "c")), (Geometric(20), 0.7)
    task_type = rng.integers(0, 2, 300)
    world = recorded_world(contexts, score, models, task_type, pace, "log")
    lied = replace(world, instance=replace(world.instance, match_reward=np.eye(2, 4)))
    for one in ALL:
        same = np.array_equal(trace_of(world, one, 300).chosen, trace_of(lied, one, 300).chosen)
        by_type = one in ("lag-known", "greedy-known")
        assert same == (not by_type), one


# ----------------------------------------------------------------------------- the ceiling


@pytest.mark.parametrize("name", ["priority-v1", "specialist-v1", "unfriendly-v1", "lowrank-v1"])
def test_the_ceiling_is_lag_on_the_same_stream(name: str) -> None:
    instance = catalog_instance(name, 0.7)
    n = 3000
    trace = trace_of(hidden_world(instance), "lag-known", n, seed=5)
    plan = loss_policy("lag").plan(instance)
    steps = int(np.cumsum(hidden_world(instance).streams(n, 5, 0).gap)[-1])
    _, chosen = busy_paths(instance, [plan], Run(steps, 0, 5, 0))
    np.testing.assert_array_equal(trace.chosen[: len(chosen[0]), 0], chosen[0][:n, 0])


def test_tasks_are_dropped_alike_by_every_policy() -> None:
    """Lemma 3.1: without forbidden pairs acceptance does not depend on who serves."""
    world = hidden_world(catalog_instance("priority-v1", 0.8))
    waits = [trace_of(world, one, 1500).wait for one in WITHOUT_FEATURES]
    assert (waits[0] < 0).mean() > 0.05
    for wait in waits[1:]:
        np.testing.assert_array_equal(wait, waits[0])


# -------------------------------------------------------------------------------- learning


def test_priority_is_learned_within_300_tasks() -> None:
    world = hidden_world(catalog_instance("priority-v1", 0.7))
    settings = LearnSettings(policies=("lag-learned", "greedy-learned"), tasks=3000, replications=6)
    result = compare_learned(world, settings)
    row = result.row("lag-learned")
    assert row.second_half > 99.5
    reached = row.tasks_to[1]
    assert reached is not None
    assert reached <= 300
    assert result.row("greedy-learned").second_half < 85
    assert result.gain("lag-learned", "greedy-learned").errors > 5


def test_a_newcomer_is_found_by_optimism_and_missed_by_means() -> None:
    reward = np.array([[0.7] * 8 + [0.95] * 2, [0.8] * 8 + [0.95] * 2])
    instance = loss_instance(reward, [1.0 / 40, 1.0 / 40], Geometric(20)).with_load(0.1)
    world = hidden_world(instance, {"server-9": 1000, "server-10": 1000})
    settings = LearnSettings(policies=("lag-learned", "lag-mean"), tasks=3000, replications=3)
    result = compare_learned(world, settings)
    assert result.row("lag-learned").second_half > 99
    assert result.row("lag-mean").second_half < 97
    for place in range(2):
        trace = trace_of(world, ("lag-learned", "lag-mean")[place], 1000)
        assert trace.chosen.max() < 8  # not there yet


def test_scores_of_at_most_one_are_probabilities() -> None:
    """They were divided by the largest: a server of .5, the best there was, never failed."""
    one, other = (loss_instance([[top, 0.0]], [0.01], Geometric(2)) for top in (0.5, 8.0))
    assert hidden_world(other).unit == 8.0
    trace = trace_of(hidden_world(one), "lag-known", 2000)
    assert trace.success[0, 0] / trace.trials[0, 0] == pytest.approx(0.5, abs=0.05)


def test_optimism_is_what_finds_it() -> None:
    reward = np.array([[0.7] * 8 + [0.95] * 2])
    instance = loss_instance(reward, [1.0 / 40], Geometric(20)).with_load(0.1)
    world = hidden_world(instance, {"server-9": 500, "server-10": 500})
    streams = world.streams(3000, 2, 0)
    bold, shy = (
        simulate_learned(world, streams, LagLearned(optimism), LearnedRun())
        for optimism in (1.0, -2.0)
    )
    assert bold.reward[1500:].mean() > shy.reward[1500:].mean() + 0.05


def test_before_any_feedback_equal_servers_take_equal_shares() -> None:
    """cases.md D: all tie, and late outcomes must not let the first server win."""
    instance = loss_instance(np.ones((1, 5)), [0.004], Geometric(2))
    world = hidden_world(instance)
    streams = world.streams(2000, 3, 0)
    late = streams._replace(duration=np.full(2000, 10**9))
    trace = simulate_learned(world, streams, learned_policy("lag-learned"), LearnedRun())
    held = simulate_learned(world, late, learned_policy("lag-learned"), LearnedRun())
    assert set(held.chosen[:5, 0]) == set(range(5))  # nobody comes back
    first = np.array([_first(world, seed) for seed in range(400)])
    shares = np.bincount(first, minlength=5)
    assert ((shares - 80) ** 2 / 80).sum() < 18.5  # chi-square, 4 degrees of freedom, .001
    assert np.bincount(trace.chosen[:, 0], minlength=5).min() > 0


def _first(world: HiddenWorld, seed: int) -> int:
    trace = trace_of(world, "lag-learned", 1, seed=seed)
    return int(trace.chosen[0, 0])


def test_features_are_learned_where_types_say_nothing() -> None:
    world = small_log(n=3000)
    settings = LearnSettings(
        policies=("lag-features", "greedy-features", "lag-learned"), replications=3
    )
    result = compare_learned(world, settings)
    assert result.tasks == 3000
    assert result.row("lag-features").second_half > result.row("lag-learned").second_half + 5


def test_known_rates_are_told_and_learned_ones_come_near_them() -> None:
    world = hidden_world(catalog_instance("lowrank-v1", 0.7))
    told = trace_of(world, "lag-mean", 3000, LearnedRun(known_pace=True)).last.prices
    learned = trace_of(world, "lag-mean", 3000).last.prices
    assert told is not None
    assert learned is not None
    np.testing.assert_array_equal(told.instance.arrival_rate, world.instance.arrival_rate)
    np.testing.assert_allclose(learned.instance.arrival_rate, world.instance.arrival_rate, rtol=0.3)
    np.testing.assert_allclose(learned.instance.mean_duration, 43, rtol=0.02)


# --------------------------------------------------------------------------------- waiting


@pytest.mark.parametrize("k", [1, 2])
def test_the_mean_wait_does_not_depend_on_the_policy_under_one_law(k: int) -> None:
    instance = loss_instance(
        np.random.default_rng(4).random((3, 5)), [0.1, 0.1, 0.1], Geometric(8), k
    ).with_load(0.75)
    world = hidden_world(instance)
    totals = set()
    for policy in ("lag-known", "lag-learned", "greedy-thompson"):
        for fifo in (False, True):
            trace = trace_of(world, policy, 2000, LearnedRun("queue", fifo))
            assert (trace.wait >= 0).all()
            totals.add(int(trace.wait.sum()))
    assert len(totals) == 1
    assert totals.pop() > 1000


def test_first_come_first_served_starts_in_the_order_of_arrival() -> None:
    world = hidden_world(catalog_instance("priority-v1", 0.9))
    arrival = np.cumsum(world.streams(2000, 1, 0).gap)
    fifo = trace_of(world, "lag-learned", 2000, LearnedRun("queue", True))
    index = trace_of(world, "lag-learned", 2000, LearnedRun("queue"))
    assert np.all(np.diff(arrival + fifo.wait) >= 0)
    assert np.any(np.diff(arrival + index.wait) < 0)
    assert index.reward.sum() > fifo.reward.sum()
    assert np.percentile(index.wait, 99) > np.percentile(fifo.wait, 99)


# ------------------------------------------------------------------------- comparing them


def comparison(**changes: object) -> object:
    world = hidden_world(catalog_instance("priority-v1", 0.7))
    usual = LearnSettings(policies=("lag-learned", "greedy-learned"), tasks=600, replications=3)
    return compare_learned(world, replace(usual, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_result_does_not_depend_on_the_workers(workers: int) -> None:
    alone = learned_record(comparison())  # type: ignore[arg-type]
    assert learned_record(comparison(workers=workers)) == alone  # type: ignore[arg-type]


def test_windows_regret_and_doublings_add_up() -> None:
    world = hidden_world(catalog_instance("priority-v1", 0.7))
    settings = LearnSettings(policies=("lag-learned",), tasks=1600, replications=2)
    result = compare_learned(world, settings)
    edges, shares = result.windows()
    np.testing.assert_array_equal(edges, window_edges(1600))
    assert edges[0] == 50
    assert shares.shape == (2, len(edges) - 1)
    np.testing.assert_allclose(shares[0], 1.0)
    tasks, regret = result.regret()
    trace = [
        [
            simulate_learned(
                world, world.streams(1600, 1, i), learned_policy(one), LearnedRun()
            ).reward
            for one in result.names
        ]
        for i in range(2)
    ]
    lost = np.mean([ceiling.sum() - own.sum() for ceiling, own in trace])
    per_task = np.mean([ceiling.mean() for ceiling, _ in trace])
    assert regret[1, -1] == pytest.approx(lost / per_task)
    assert result.row("lag-learned").regret == pytest.approx(lost / per_task)
    parts = doublings(result, "lag-learned")
    assert [part[:2] for part in parts] == [(100, 200), (200, 400), (400, 800), (800, 1600)]
    first = regret[1, list(tasks).index(100)]
    assert first + sum((b - a) * rate for a, b, rate in parts) == pytest.approx(regret[1, -1])


def test_a_forced_share_has_a_row_of_its_own_and_a_price() -> None:
    result = comparison(forced=Forced(0.2), tasks=1500)
    assert result.names[-1] == "greedy-learned+forced"  # type: ignore[attr-defined]
    row = result.row("lag-learned+forced")  # type: ignore[attr-defined]
    assert row.forced == pytest.approx(0.2 * (1 - row.dropped), abs=0.03)
    assert row.second_half < 97
    told = [one for one in claims(result) if "forced share of 0.2" in one]  # type: ignore[arg-type]
    assert len(told) == 2
    assert "+forced" not in told[0].split("costs")[1]
    price, half = result.forced_price("lag-learned")  # type: ignore[attr-defined]
    assert price == pytest.approx(result.row("lag-learned").reward - row.reward)  # type: ignore[attr-defined]
    assert 0 < half < price
    assert f"{price:+.2f} +/- {half:.2f} per 100 tasks over the whole run" in "".join(told)


def test_a_width_ends_the_forced_share() -> None:
    world = hidden_world(catalog_instance("priority-v1", 0.5))
    streams = world.streams(6000, 1, 0)
    trace = simulate_learned(
        world, streams, learned_policy("lag-mean"), LearnedRun(), Forced(0.3, width=0.4)
    )
    assert trace.forced[:500].sum() > 50
    assert trace.forced[5000:].sum() == 0


def test_everything_may_be_forced() -> None:
    world = hidden_world(catalog_instance("priority-v1", 0.5))
    streams = world.streams(4000, 1, 0)
    policy = learned_policy("lag-learned")
    trace = simulate_learned(world, streams, policy, LearnedRun(), Forced(1.0))
    served = trace.wait >= 0
    assert trace.forced[served].all()
    shares = np.bincount(trace.chosen[served, 0], minlength=8) / served.sum()
    assert np.all(np.abs(shares - 1 / 8) < 0.03)


def test_small_known_gains_support_no_claim() -> None:
    instance = loss_instance([[0.5, 0.5], [0.5, 0.5]], [0.05, 0.05], Geometric(8))
    ids = ("greedy-known", "lag-learned", "greedy-learned")
    settings = LearnSettings(policies=ids, tasks=500, replications=3)
    told = claims(compare_learned(hidden_world(instance), settings))
    assert told
    assert all("claim anything" in one for one in told)


# ------------------------------------------------------------------------------- bad input


def two() -> LossInstance:
    return loss_instance([[1.0, 0.5]], [0.1], Geometric(4))


def test_bad_input_is_told() -> None:
    with pytest.raises(InputError, match="server-3"):
        hidden_world(two(), {"server-3": 5})
    with pytest.raises(InputError, match="too few servers"):
        hidden_world(two(), {"server-1": 5, "server-2": 5})
    with pytest.raises(InputError, match="all zero"):
        hidden_world(loss_instance([[1.0]], [0.0], Geometric(4))).streams(10, 1, 0)
    with pytest.raises(InputError, match="fewer tasks"):
        hidden_world(loss_instance([[1.0]], [1e-300], Geometric(4))).streams(10, 1, 0)
    with pytest.raises(InputError, match="reads features"):
        trace_of(hidden_world(two()), "lag-features", 10)
    with pytest.raises(InputError, match="from 1 to 400"):
        small_log().streams(401, 1, 0)
    with pytest.raises(InputError, match="numbers from 0 to 1"):
        Recorded(np.zeros((2, 1)), np.array([[0.5], [1.5]]), np.zeros(2, dtype=np.int64))
    with pytest.raises(InputError, match="queue"):
        LearnedRun("loss", fifo=True)
    with pytest.raises(InputError, match="share"):
        Forced(1.5)
    with pytest.raises(InputError, match="every policy once"):
        LearnSettings(policies=("lag-mean", "lag-mean"))
    with pytest.raises(InputError, match="one of"):
        LearnSettings(policies=("lag",))
    several = loss_instance(np.ones((2, 2)), [0.1, 0.1], [Geometric(4), Geometric(5)])
    log = Recorded(np.zeros((2, 1)), np.zeros((2, 2)), np.arange(2))
    with pytest.raises(InputError, match="one law"):
        hidden_world(several, recorded=log)
    with pytest.raises(InputError, match="router-scarce-v1"):
        catalog_world("router-v1", 0.7)
    with pytest.raises(InputError, match="load"):
        catalog_world("router-scarce-v1")


# ------------------------------------------------------------------------------- real data


@pytest.mark.usefixtures("data")
def test_the_recorded_prompts_are_what_they_should_be() -> None:
    world = catalog_world("router-scarce-v1", 0.7)
    assert world.recorded is not None
    assert world.recorded.score.shape == (6108, 9)
    assert world.instance.n_servers == 16
    assert world.instance.load == pytest.approx(0.7)
    share = np.bincount(world.recorded.task_type) / 6108
    assert share[0] == pytest.approx(0.53, abs=0.01)  # learned.md 2: one cluster holds 53 %
    assert np.all(np.diff(share) <= 0)
    streams: HiddenStreams = world.streams(6108, 1, 0)
    assert len(set(streams.row)) == 6108
    np.testing.assert_array_equal(
        clusters(world.recorded.features[:, :-1], 16), world.recorded.task_type
    )


def test_streams_of_types_are_those_of_the_loss_system() -> None:
    world = hidden_world(two())
    streams = world.streams(100, 7, 2)
    assert set(LossStreams._fields) <= set(streams._fields)
    np.testing.assert_array_equal(streams.row, streams.task_type)
