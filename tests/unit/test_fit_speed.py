"""Scores made of speeds: the formula, and how sure they are."""

from __future__ import annotations

import numpy as np

from opportune.learning.fit.speed import speed_scores


def test_speed_scores_are_the_formula() -> None:
    task_type, server = np.array([0, 0, 0, 0]), np.array([0, 0, 1, -1])
    found = speed_scores(task_type, server, np.array([1.0, 3.0, 12.0, 4.0]), (1, 3))
    mean, expected = 5.0, np.array([2 * 2.0 + 15, 1 * 5 / 12 + 15, 0 + 15]) / np.array([32, 31, 30])
    assert mean / 2.0 > 2.0  # the first is capped
    np.testing.assert_allclose(found.mean[0], expected / expected.max())
    assert found.count.tolist() == [[2.0, 1.0, 0.0]]
    variation = np.sqrt((0.25 + 0.25 + 0.0) / 3)  # of 1, 3 beside 2 and of 12 beside 12
    measured = [2 / 32 * variation * 2.0 / np.sqrt(2.0), 1 / 31 * variation * 5 / 12, 0.0]
    prior = np.array([30 / 32, 30 / 31, 1.0]) * 0.5  # no pair is seen often: the prior itself
    np.testing.assert_allclose(found.sd[0], np.hypot(measured, prior) / expected.max(), rtol=1e-12)
    assert (found.low >= 0).all()
    assert (found.high <= 2.0 / expected.max()).all()


def test_a_pair_never_seen_may_be_as_the_others_are() -> None:
    """Its interval spans what pairs that were seen often do."""
    rng = np.random.default_rng(6)
    true = np.repeat([0.6, 0.9, 1.4, 2.2], 5)
    server = np.repeat(np.arange(20), 300)
    took = rng.exponential(1.0, len(server)) * true[server]
    found = speed_scores(np.zeros(len(server), dtype=np.int64), server, took, (1, 21))
    seen, unseen = found.mean[0, :20], 20
    held = (found.low[0, unseen] <= seen) & (seen <= found.high[0, unseen])
    assert held.mean() >= 0.9
    assert found.sd[0, unseen] > 3 * found.sd[0, 0]


def test_intervals_of_speeds_hold_the_ratio_of_the_true_means() -> None:
    """Exponential durations of known means, 400 services a pair."""
    rng = np.random.default_rng(5)
    true = np.array([1.0, 1.25, 1.6])
    held = []
    for _ in range(200):
        server = np.repeat(np.arange(3), 400)
        took = rng.exponential(1.0, 1200) * true[server]
        found = speed_scores(np.zeros(1200, dtype=np.int64), server, took, (1, 3))
        mean = np.bincount(server, weights=took) / 400
        unit = (400 * (mean.mean() / mean).max() + 15.0) / 430.0  # what the largest is divided by
        ratio = true.mean() / true
        held.append((found.low[0] * unit <= ratio) & (ratio <= found.high[0] * unit))
    assert 0.93 <= np.mean(held) <= 0.995
