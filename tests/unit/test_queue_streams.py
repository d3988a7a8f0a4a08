"""Queue streams: the laws they are drawn from, and that nothing in them depends on anything else.

Statistical checks allow five standard errors; the seeds are fixed.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.kernels.queue import QueueStreams
from opportune.model.queue import KNOWLEDGE, QueueInstance
from opportune.model.queue_catalog import QueueChoice
from opportune.model.queue_files import load_queue
from opportune.model.queue_generator import largest_logit, logit
from opportune.model.queue_pool import PoolOptions, queue_from_data
from opportune.model.queue_streams import Feedback, queue_streams

IDS = ("hard-v1", "cqb-joint-v1", "cqb-disjoint-v1")


def mu(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


def fields_of(streams: QueueStreams) -> list[np.ndarray]:
    return [field for field in streams if isinstance(field, np.ndarray)]


@pytest.mark.parametrize("name", IDS)
def test_a_longer_horizon_begins_with_the_same_rounds_and_tasks(name: str) -> None:
    world = load_queue(name, QueueChoice(horizon=500))  # the hard one keeps its gap
    short, long = (queue_streams(world, horizon, 5, 7) for horizon in (300, 500))
    n = len(short.arrival_round)
    assert n < len(long.arrival_round)
    for field, there in zip(fields_of(short), fields_of(long), strict=True):
        assert field.dtype == there.dtype
        assert np.array_equal(field, there[: len(field)])
    assert short.arrival_round.max() < 300
    assert short.arrival_round.min() >= 1


@pytest.mark.parametrize("name", IDS)
def test_replications_and_seeds_share_nothing(name: str) -> None:
    world = load_queue(name)
    first, other, seeded = (queue_streams(world, 200, s, r) for s, r in ((1, 0), (1, 1), (2, 0)))
    for one in (other, seeded):
        assert not np.intersect1d(first.uniform, one.uniform).size
        assert not np.intersect1d(first.explore, one.explore).size
    again = queue_streams(world, 200, 1, 0)
    for field, there in zip(fields_of(first), fields_of(again), strict=True):
        assert np.array_equal(field, there)


def test_purposes_share_nothing() -> None:
    streams = queue_streams(load_queue("cqb-joint-v1"), 1000, 1, 0)
    drawn = (streams.uniform, streams.explore, streams.server, streams.choice)
    everything = np.concatenate([one.ravel() for one in drawn])
    assert len(np.unique(everything)) == len(everything)
    assert everything.min() >= 0
    assert everything.max() < 1
    assert everything.mean() == pytest.approx(0.5, abs=5 / math.sqrt(12 * len(everything)))
    for first in drawn:
        for second in drawn:
            if first is not second:
                pair = np.corrcoef(first.ravel(), second.ravel())[0, 1]
                assert abs(pair) < 5 / math.sqrt(1000)


@pytest.mark.parametrize("name", IDS)
def test_arrivals_come_at_their_rate(name: str) -> None:
    world = load_queue(name)
    n = len(queue_streams(world, 20_000, 3, 0).arrival_round)
    rate = world.arrival_rate
    assert n == pytest.approx(20_000 * rate, abs=5 * math.sqrt(20_000 * rate * (1 - rate)))


@pytest.mark.parametrize("name", ["cqb-joint-v1", "cqb-disjoint-v1"])
def test_drawn_contexts_fit_and_have_the_rates_of_the_weight(name: str) -> None:
    world = load_queue(name)
    instance = world.replicate(2, 9)
    streams = queue_streams(world, 3000, 2, 9)
    features, theta = streams.features, instance.true_weight
    z = features[:, 0] @ theta.T if streams.disjoint else features @ theta[0]
    assert streams.rate == pytest.approx(mu(z), abs=1e-14)
    assert z.max(axis=1).min() >= logit(0.8)
    assert np.abs(z).max() <= largest_logit(world.curvature)
    assert np.linalg.norm(features, axis=2).max() <= 1
    limit = 1 / math.sqrt(features.shape[2])
    assert np.abs(features).max() <= limit
    assert np.abs(features).max() > 0.99 * limit


@pytest.mark.parametrize(("name", "best"), [("cqb-joint-v1", 0.86), ("cqb-disjoint-v1", 0.83)])
def test_the_mean_best_rate_is_the_measured_one(name: str, best: float) -> None:
    """0.86 and 0.83 over instances (cqb.md 7.3)."""
    world = load_queue(name)
    means = [queue_streams(world, 500, 1, r).rate.max(axis=1).mean() for r in range(100)]
    assert np.mean(means) == pytest.approx(best, abs=0.01)


def test_rejection_keeps_the_law_of_the_contexts_that_fit() -> None:
    """Against plain rejection by NumPy: means of the features given a fit."""
    world = load_queue("cqb-disjoint-v1")
    instance = world.replicate(4, 1)
    drawn = queue_streams(world, 8000, 4, 1).features[:, 0]
    x = np.random.default_rng(0).uniform(-1, 1, size=(400_000, 5)) / math.sqrt(5)
    z = x @ instance.true_weight.T
    fits = (z.max(axis=1) >= logit(0.8)) & (np.abs(z).max(axis=1) <= largest_logit(10.0))
    kept = x[fits]
    error = np.sqrt(drawn.var(axis=0) / len(drawn) + kept.var(axis=0) / len(kept))
    assert np.all(np.abs(drawn.mean(axis=0) - kept.mean(axis=0)) < 5 * error)
    spread = np.cov(drawn.T) - np.cov(kept.T)
    assert np.abs(spread).max() < 0.01


def test_hard_contexts_are_signed_unit_vectors() -> None:
    world = load_queue("hard-v1", QueueChoice(horizon=9000, dimension=3, servers=5))
    assert isinstance(world, QueueInstance)
    streams = queue_streams(world, 9000, 1, 0)
    assert streams.features.shape[1:] == (5, 3)
    assert np.array_equal(np.abs(streams.features).sum(axis=2), np.ones(streams.rate.shape))
    assert np.array_equal(streams.features[:, 0], -streams.features[:, 4])
    share = streams.features[:, 0].mean(axis=0)
    assert share == pytest.approx(1 / 3, abs=5 * math.sqrt(2 / 9 / len(streams.features)))
    gap = 1 / (8 * math.sqrt(9000))
    assert np.unique(streams.rate.round(12)) == pytest.approx([0.5 - gap, 0.5 + gap])


def pool(outcomes: np.ndarray, **options: object) -> QueueInstance:
    contexts = np.array([[0.0], [1.0], [2.0], [5.0]])
    return queue_from_data(contexts, outcomes, options=PoolOptions(load=0.9, **options))  # type: ignore[arg-type]


OUTCOMES = np.array([[1, 0], [0, 1], [1, 1], [0, 1]])


def test_recorded_outcomes_are_rates_of_zero_and_one() -> None:
    world = pool(OUTCOMES)
    streams = queue_streams(world, 4000, 1, 0)
    assert streams.once
    rows = {tuple(x): y for x, y in zip(world.contexts.features[:, 0], OUTCOMES, strict=True)}  # type: ignore[union-attr]
    for x, rate in zip(streams.features[:50, 0], streams.rate[:50], strict=True):
        assert rate.tolist() == rows[tuple(x)].tolist()
    first = np.unique(streams.features[:, 0], axis=0, return_counts=True)[1]
    n = len(streams.features)
    assert first == pytest.approx(n / 4, abs=5 * math.sqrt(n * 3 / 16))
    fitted = pool(OUTCOMES, feedback="fitted").with_rate(world.arrival_rate)
    assert streams.known == pytest.approx(queue_streams(fitted, 4000, 1, 0).rate)


def test_the_oracle_may_know_more_or_less() -> None:
    world = pool(OUTCOMES)
    told, less, more = (
        queue_streams(replace(world, oracle_knows=one), 300, 1, 0) for one in KNOWLEDGE
    )
    assert [one.tolist() for one in (told.features, told.uniform)] == [
        one.tolist() for one in (more.features, more.uniform)
    ]
    assert np.array_equal(less.known, less.rate)
    assert more.known.tolist() == [[0.5, 0.75]] * len(more.known)  # share of successes
    assert np.array_equal(told.rate, more.rate)


def test_what_is_known_of_drawn_outcomes_is_the_rate() -> None:
    for name in IDS:
        streams = queue_streams(load_queue(name), 100, 1, 0)
        assert np.array_equal(streams.known, streams.rate)
        assert not streams.once


def test_reports_are_late_lost_and_repeated_as_told() -> None:
    world = load_queue("cqb-joint-v1")
    plain = queue_streams(world, 20_000, 1, 0)
    assert plain.delay.size == plain.copies.size == 0
    streams = queue_streams(world, 20_000, 1, 0, feedback=Feedback(10, 0.3, 0.2))
    assert (streams.delay.min(), streams.delay.max()) == (0, 20)
    assert streams.delay.mean() == pytest.approx(10, abs=5 * 6.1 / math.sqrt(20_000))
    for copies, share in ((0, 0.3), (1, 0.5), (2, 0.2)):
        seen = (streams.copies == copies).mean()
        assert seen == pytest.approx(share, abs=5 * math.sqrt(share * (1 - share) / 20_000))
    assert np.array_equal(plain.uniform, streams.uniform)


def test_several_servers_have_uniforms_of_their_own() -> None:
    streams = queue_streams(load_queue("cqb-joint-v1"), 100, 1, 0, servers_at_once=3)
    assert streams.uniform.shape == streams.server.shape == streams.choice.shape == (100, 3)
    assert len(np.unique(streams.uniform)) == 300


def test_no_arrivals_make_empty_streams() -> None:
    world = load_queue("hard-v1", QueueChoice(arrival_rate=0.0))
    streams = queue_streams(world, 50, 1, 0)
    assert streams.arrival_round.size == 0
    assert streams.features.shape == (0, 2, 1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: queue_streams(load_queue("hard-v1"), 0, 1, 0), "horizon: 0"),
        (lambda: queue_streams(load_queue("hard-v1"), 10, -1, 0), "seed: -1"),
        (lambda: queue_streams(load_queue("hard-v1"), 10, 1, 0, 0), "servers_at_once: 0"),
        (lambda: Feedback(delay=-1), "delay: -1"),
        (lambda: Feedback(delay=1.5), "delay: 1.5"),  # type: ignore[arg-type]
        (lambda: Feedback(lost=math.nan), "lost: nan"),
        (lambda: Feedback(lost=0.6, repeated=0.6), "at most 1 together"),
    ],
)
def test_numbers_out_of_range_are_refused(make, words: str) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert words in str(caught.value)


def test_a_pool_without_its_outcome_is_drawn_from_the_weight() -> None:
    world = pool(OUTCOMES, feedback="fitted")
    streams = queue_streams(world, 500, 1, 0)
    z = streams.features[:, 0] @ world.true_weight.T
    assert streams.rate == pytest.approx(mu(z), abs=1e-14)
