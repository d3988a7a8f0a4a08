"""Queue instances: what is accepted, what is refused with which words, what follows from them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.model.contexts import ContextPool, SignedContexts, UniformContexts
from opportune.model.queue import QueueInstance, pool_rates
from opportune.model.queue_capacity import queue_capacity
from opportune.model.queue_generator import (
    QueueGenerator,
    curvature_bound,
    hard_gap,
    hard_instance,
    largest_logit,
    logit,
)


def pool(features: object, **more: object) -> QueueInstance:
    """Two servers with a weight each on contexts of two entries."""
    values: dict[str, object] = {
        "arrival_rate": 0.3,
        "true_weight": [[1.0, 0.0], [0.0, 2.0]],
        "contexts": ContextPool(features, more.pop("outcome", None)),  # type: ignore[arg-type]
        "n_servers": 2,
        "slack": 0.1,
        "curvature": 10.0,
        **more,
    }
    return QueueInstance(**values)  # type: ignore[arg-type]


FEATURES = np.array([[[0.6, 0.8]], [[-0.5, 0.5]], [[0.0, 0.0]]])


def test_the_hard_pair_is_that_of_the_lower_bound() -> None:
    plus, minus = hard_instance(1600, 3, 5), hard_instance(1600, 3, 5, negative=True)
    assert plus.contexts == SignedContexts((1, 1, 1, -1, -1)) == minus.contexts
    assert hard_gap(1600) == 1 / 320
    assert np.array_equal(plus.true_weight, -minus.true_weight)
    assert plus.true_weight == pytest.approx(logit(0.5 + 1 / 320))
    served = queue_capacity(plus)
    assert served.tasks_per_step == pytest.approx(0.5 + 1 / 320, abs=1e-15)
    assert served.least_best_rate == pytest.approx(0.5 + 1 / 320, abs=1e-15)
    assert (plus.diversity, plus.dimension, plus.disjoint) == (1 / 3, 3, False)
    assert (plus.norm_bound, plus.curvature) == (1, curvature_bound(1))
    assert plus.slack == pytest.approx(0.1)
    assert plus.digest != minus.digest


def test_two_instances_cannot_be_told_apart_within_the_horizon() -> None:
    """The Kullback-Leibler distance of T rounds is at most 1/6 (CQB section 4)."""
    for horizon in (2, 10, 100, 10_000, 10**8):
        gap = hard_gap(horizon)
        distance = horizon * 2 * gap * math.log((1 + 2 * gap) / (1 - 2 * gap))
        assert 0.125 <= distance <= 1 / 6


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"horizon": 1}, "horizon"),
        ({"horizon": 100, "dimension": 0}, "dimension"),
        ({"horizon": 100, "n_servers": 1}, "servers"),
        ({"horizon": 100, "arrival_rate": 0.5}, "arrival_rate"),
        ({"horizon": 100, "arrival_rate": math.nan}, "arrival_rate"),
        ({"horizon": 100.0}, "horizon"),
    ],
)
def test_hard_instances_without_slack_or_sense_are_refused(options: dict, field: str) -> None:
    with pytest.raises(InputError) as caught:
        hard_instance(**options)
    assert caught.value.problems[0].field == field


def test_kappa_and_its_logit_belong_together() -> None:
    assert largest_logit(10.0) == pytest.approx(2.063, abs=5e-4)  # cqb.md 1.5
    assert largest_logit(50.0) == pytest.approx(3.871, abs=5e-4)
    for kappa in (4.0, 4.4, 10.0, 1e6):
        assert curvature_bound(largest_logit(kappa)) == pytest.approx(kappa, rel=1e-9)


JOINT = QueueGenerator(0.7, 5, 10, True, 0.1, 50.0, 2000)
DISJOINT = QueueGenerator(0.7, 5, 5, False, 0.1, 10.0, 5000)


@pytest.mark.parametrize("law", [JOINT, DISJOINT])
def test_every_replication_draws_its_own_weight(law: QueueGenerator) -> None:
    drawn = [law.replicate(1, replication) for replication in range(6)]
    assert len({one.digest for one in drawn}) == 6
    assert law.replicate(1, 3) == drawn[3]
    assert law.replicate(2, 3) != drawn[3]
    for one in drawn:
        assert one.dimension == law.dimension
        assert one.norm_bound <= law.norm_bound
        assert np.abs(one.true_weight).max() <= math.sqrt(law.entries)
        assert (one.disjoint, one.arrival_rate, one.slack) == (law.disjoint, 0.7, 0.1)


def test_entries_of_drawn_weights_are_about_uniform() -> None:
    drawn = [JOINT.replicate(7, replication).true_weight for replication in range(200)]
    entries = np.concatenate(drawn).ravel() / math.sqrt(10)
    # rejection of weights that hardly any context fits moves it a little
    assert abs(entries.mean()) < 4 * math.sqrt(1 / 3 / 2000)
    assert entries.var() == pytest.approx(1 / 3, abs=0.03)
    assert entries.min() > -1
    assert entries.max() < 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"arrival_rate": 0.95}, "arrival_rate"),
        ({"slack": 0.0}, "arrival_rate"),
        ({"arrival_rate": math.nan}, "arrival_rate"),
        ({"curvature": 3.0}, "curvature"),
        ({"curvature": 5.0}, "curvature"),  # its logit is below that of the least best rate
        ({"n_servers": 0}, "n_servers"),
        ({"entries": 2.5}, "entries"),
        ({"slack": "0.1"}, "slack"),
    ],
)
def test_laws_without_instances_are_refused(change: dict, field: str) -> None:
    with pytest.raises(InputError) as caught:
        replace(JOINT, **change)
    assert caught.value.problems[0].field == field


def test_a_law_that_no_weight_fits_is_refused() -> None:
    hopeless = QueueGenerator(0.9, 1, 1, True, 0.09, 1000.0, 100)  # needs a logit of 4.6
    with pytest.raises(InputError, match="some server serves"):
        hopeless.replicate(1, 0)


def test_a_pool_has_the_rates_of_its_weights() -> None:
    instance = pool(FEATURES)
    expected = 1 / (1 + np.exp(-np.array([[0.6, 1.6], [-0.5, 1.0], [0.0, 0.0]])))
    assert pool_rates(instance) == pytest.approx(expected, abs=1e-15)
    assert instance.dimension == 4
    assert instance.disjoint
    assert instance.norm_bound == pytest.approx(math.sqrt(5))
    served = queue_capacity(instance)
    best = expected.max(axis=1)
    assert served.tasks_per_step == pytest.approx(1 / np.mean(1 / best))
    assert served.least_best_rate == 0.5
    second = np.linalg.eigvalsh(FEATURES[:, 0].T @ FEATURES[:, 0] / 3)[0]
    assert instance.diversity == pytest.approx(second / 2)


def test_recorded_outcomes_count_tries_in_the_order_of_the_known_rates() -> None:
    outcome = np.array([[1, 0], [0, 1], [1, 1]])
    instance = pool(FEATURES, outcome=outcome)
    assert instance.replays
    # order: server 2 first in contexts 1 and 2, tie (server 1 first) in context 3: 2, 1, 1 tries
    assert queue_capacity(instance).tasks_per_step == pytest.approx(3 / 4)


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"arrival_rate": 1.5}, "arrival_rate", "from 0 to 1"),
        ({"arrival_rate": math.nan}, "arrival_rate", "from 0 to 1"),
        ({"curvature": 1.0}, "curvature", "from 4"),
        ({"n_servers": 0}, "n_servers", "whole number"),
        ({"horizon": 2.5}, "horizon", "whole number"),
        ({"true_weight": [[math.nan, 1], [0, 0]]}, "true_weight", "finite"),
        ({"true_weight": [["a", 1], [0, 0]]}, "true_weight", "a number"),
        ({"true_weight": [[1.0, 0.0]]}, "contexts", "shape (3, 2, 2)"),
        ({"servers": ("a", "a")}, "servers", "every name once"),
        ({"contexts": SignedContexts((1, -1, 1))}, "sign", "each of 2"),
        ({"contexts": None}, "contexts", "UniformContexts"),
        ({"outcome": [[1, 0, 1]] * 3}, "outcomes", "each of 2"),
    ],
)
def test_a_wrong_field_is_named(change: dict, field: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        pool(FEATURES, **change)
    told = str(caught.value)
    assert caught.value.problems[0].field.startswith(field)
    assert words in told


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ([[1, 0], [0.7, 0], [1, 1]], "0.7 in row 1, column 0 (1 such in all)"),
        ([[1, 0], [-1, 1], [1, 1]], "-1 in row 1"),
        ([[1, 0], [2, 1], [1, 1]], "2 in row 1"),
        ([[1, 0], [math.nan, 1], [1, 1]], "nan in row 1"),
        ([[1, 0], ["1", 1], [1, 1]], "outcomes[1,0]: '1'; expected a number"),
        ([[1, 0], [0, 0], [1, 1]], "1 of 3 contexts have no server with success"),
        ([[1, 0], [1, 1]], "one row for each of 3 contexts"),
    ],
)
def test_outcomes_are_zero_or_one(outcome: list, words: str) -> None:
    with pytest.raises(InputError) as caught:
        ContextPool(FEATURES, outcome)  # type: ignore[arg-type]
    assert words in str(caught.value)


def test_true_and_false_are_outcomes() -> None:
    told = np.array([[True, False], [False, True], [True, True]])
    kept = ContextPool(FEATURES, told).outcome
    assert kept is not None
    assert np.array_equal(kept, told)


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ([[[0.9, 0.9]]], "a norm of 1.273"),
        ([[[math.inf, 0.0]]], "inf in context 0"),
        ([[0.1, 0.2]], "shape (1, 2)"),
        ([[["x", 0.0]]], "a number"),
    ],
)
def test_features_have_norms_of_at_most_one(features: list, words: str) -> None:
    with pytest.raises(InputError) as caught:
        ContextPool(features)  # type: ignore[arg-type]
    assert words in str(caught.value)


def test_a_law_needs_room_between_its_logits() -> None:
    with pytest.raises(InputError, match="room between"):
        UniformContexts(2.0, 1.0)
    with pytest.raises(InputError, match="room between"):
        UniformContexts(-math.inf, 1.0)
    with pytest.raises(InputError, match="1 or -1"):
        SignedContexts((1, 0))


def test_arrays_cannot_be_changed_afterwards() -> None:
    instance = pool(FEATURES)
    with pytest.raises(ValueError, match="read-only"):
        instance.true_weight[0, 0] = 3.0
