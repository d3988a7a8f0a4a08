"""KIID-LP: value, weights, and how it stands to OCC-LP(0)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opportune.errors import SolverError
from opportune.model.duration import Geometric
from opportune.model.loss import loss_instance
from opportune.pricing import kiid
from opportune.pricing.kiid import kiid_weights
from opportune.pricing.occupancy import price
from tests import textbook
from tests.instances import Shape, random_instance

SHAPES = [Shape(), Shape(per_type=True, duration="mixed"), Shape(forbidden=True, scores="levels")]


@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
@pytest.mark.parametrize("interior", [False, True])
def test_the_weights_solve_the_textbook_program(shape: Shape, interior: bool) -> None:
    rng = np.random.default_rng(16)
    for _ in range(25):
        instance = random_instance(rng, shape, load=0.9 * rng.random() + 0.05)
        solved = textbook.kiid(instance)
        if solved.status != 0:
            continue
        x, value = kiid_weights(instance, interior)
        rate, k = instance.arrival_rate, instance.servers_per_task
        assert value == pytest.approx(-solved.fun, rel=1e-7)
        assert np.sum(rate[:, None] * x * instance.match_reward) == pytest.approx(value, rel=1e-7)
        assert x.sum(axis=1) == pytest.approx(k.astype(float), abs=1e-7)
        assert np.max((rate * instance.mean_duration) @ x) <= 1 + 1e-7
        assert x.min() >= 0.0
        assert x.max() <= 1 + 1e-7
        assert np.all(x[~instance.allowed] == 0.0)


def test_it_is_looser_than_the_occupancy_program() -> None:
    """It forgets that a busy server misses arrivals (LAG section 3.1)."""
    rng = np.random.default_rng(17)
    strictly = 0
    for shape in SHAPES:
        for _ in range(20):
            instance = random_instance(rng, shape, load=0.9 * rng.random() + 0.05)
            if textbook.occupancy(instance).status != 0:
                continue
            tight, (_, loose) = price(instance), kiid_weights(instance, interior=False)
            assert loose >= tight.value * (1 - 1e-9)
            strictly += loose > tight.value * (1 + 1e-6)
    assert strictly > 30


def test_a_vertex_has_few_weights_and_the_interior_many() -> None:
    """Of tied servers the interior solution uses all, the vertex as few as it can."""
    instance = loss_instance(np.ones((2, 8)), [0.05, 0.05], Geometric(10))
    vertex, _ = kiid_weights(instance, interior=False)
    interior, _ = kiid_weights(instance, interior=True)
    assert (vertex > 1e-9).sum() <= 2 + 8
    assert (interior > 1e-3).sum() == 16


def test_where_not_all_can_be_served_as_many_as_pay_are() -> None:
    """Overload: <= in place of =, so a plan exists; nothing pays where nothing is earned."""
    instance = loss_instance([[1.0, 0.5], [0.0, 0.0]], [0.4, 0.4], Geometric(10))
    x, value = kiid_weights(instance, interior=False)
    assert value == pytest.approx(0.1 * 1.0 + 0.1 * 0.5)
    assert x[0] == pytest.approx([0.25, 0.25])
    blocked = loss_instance(
        np.ones((1, 4)), [0.9], Geometric(10), 2, allowed=[[True, True, True, False]]
    )
    x, value = kiid_weights(blocked, interior=True)
    assert value == pytest.approx(0.3, rel=1e-6)
    assert x[0, 3] == 0.0


def test_types_that_never_come_have_no_weight() -> None:
    instance = loss_instance(np.ones((2, 3)), [0.0, 0.1], Geometric(4))
    x, value = kiid_weights(instance, interior=False)
    assert x[0].tolist() == [0.0, 0.0, 0.0]
    assert value == pytest.approx(0.1)
    nothing = replace(instance, arrival_rate=np.zeros(2))
    x, value = kiid_weights(nothing, interior=True)
    assert (x.tolist(), value) == (np.zeros((2, 3)).tolist(), 0.0)


def test_a_solver_that_fails_on_both_forms_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def fails(_: object, doing: str, method: str) -> object:
        tried.append((doing, method))
        raise SolverError("Unknown", doing)

    monkeypatch.setattr(kiid, "solve", fails)
    with pytest.raises(SolverError, match="KIID-LP"):
        kiid_weights(loss_instance(np.ones((1, 2)), [0.1], Geometric(2)), interior=True)
    assert tried == [("KIID-LP", "interior"), ("KIID-LP (<=)", "interior")]
