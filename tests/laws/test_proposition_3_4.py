"""LAG Proposition 3.4: the signs of the index decide the optimal rates.

The primal solutions are SciPy's, of the program as the paper prints it; the prices are ours.
"""

from __future__ import annotations

import numpy as np
import pytest

from opportune.model.catalog import catalog_instance
from opportune.model.loss import LossInstance
from opportune.pricing.occupancy import price
from tests import textbook
from tests.instances import Shape, random_instance


def instances(number: int) -> list[LossInstance]:
    rng = np.random.default_rng(11)
    shapes = (Shape(), Shape(scores="levels"), Shape(per_type=True, duration="mixed"))
    found = []
    for i in range(number):
        load = 0.1 + 0.85 * float(rng.random())
        found.append(random_instance(rng, shapes[i % len(shapes)], load))
    return found


def test_an_independent_optimum_obeys_the_signs_of_our_index() -> None:
    """L > 0: u = lambda phi. L < 0: u = 0. (Lemma B.1: every optimal pair does.)"""
    counted = {1: 0, 0: 0, -1: 0}
    for instance in instances(60):
        index = price(instance).index
        solved = textbook.occupancy(instance)
        assert solved.status == 0
        V, R = instance.match_reward.shape
        u, phi = solved.x[: V * R].reshape(V, R), solved.x[V * R :]
        lam = np.broadcast_to(instance.arrival_rate[:, None], (V, R))
        scale = float(instance.match_reward.max())
        for v, r in np.ndindex(V, R):
            sign = 0 if abs(index[v, r]) <= 1e-6 * scale else int(np.sign(index[v, r]))
            counted[sign] += 1
            if sign > 0:
                assert u[v, r] / lam[v, r] == pytest.approx(phi[r], abs=1e-6)
            if sign < 0:
                assert u[v, r] / lam[v, r] == pytest.approx(0.0, abs=1e-6)
    assert min(counted.values()) > 40


def test_our_own_optimum_obeys_them() -> None:
    for instance in instances(60):
        prices = price(instance)
        share = prices.assignment_rate / instance.arrival_rate[:, None]
        free = np.broadcast_to(prices.free_fraction, share.shape)
        assert share[prices.index > 0] == pytest.approx(free[prices.index > 0], abs=1e-9)
        assert share[prices.index < 0] == pytest.approx(0.0 * free[prices.index < 0], abs=1e-9)
        assert np.all(share <= free + 1e-9)


def test_a_solution_that_is_not_optimal_breaks_them() -> None:
    """Serving every type on all servers alike is feasible, and worse on Specialist."""
    instance = catalog_instance("specialist-v1", 0.7)
    prices = price(instance)
    uniform = np.full(instance.match_reward.shape, 1.0 / instance.n_servers)  # u / lambda, k = 1
    free = 1.0 - instance.load
    assert uniform.max() <= free
    lam = instance.arrival_rate[:, None]
    lost = np.where(prices.index > 0, prices.index * lam * (free - uniform), 0.0)
    lost += np.where(prices.index < 0, -prices.index * lam * uniform, 0.0)
    earned = float(np.sum(instance.match_reward * lam * uniform))
    assert lost.sum() > 0.01
    assert prices.value - earned == pytest.approx(lost.sum(), rel=1e-9)  # Lemma B.1 (ii)


def test_the_decoupled_policy_earns_the_bound() -> None:
    """Each server on its own accepts with alpha = u / (lambda phi), 1 and 0 by the signs."""
    for instance in instances(30):
        prices = price(instance)
        lam, mean = instance.arrival_rate[:, None], instance.mean_duration
        alpha = prices.assignment_rate / (lam * prices.free_fraction)
        assert alpha[prices.index > 0] == pytest.approx(1.0, abs=1e-9)
        assert alpha[prices.index < 0] == pytest.approx(0.0, abs=1e-9)
        free = 1.0 / (1.0 + mean @ (lam * alpha))  # renewal: free 1 / rate, then busy E[D]
        u = lam * alpha * free
        earned = float(np.sum(instance.match_reward * u))
        assert earned == pytest.approx(prices.dual_value, rel=1e-8, abs=1e-14)
        assert u.sum(axis=1) == pytest.approx(
            instance.servers_per_task * instance.arrival_rate, rel=1e-8
        )
