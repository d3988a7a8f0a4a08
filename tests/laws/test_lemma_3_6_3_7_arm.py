"""LAG Lemmas 3.6 and 3.7: the Arm-r bandit, by dynamic programming over all its states.

The bandit is solved here as any average-reward problem is, by Howard's policy iteration on the
states free, 1, ..., d and by trying all sets of accepted types; neither uses that h(x) = -g x,
nor the closed form of q_r(l) that the tests are about.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from opportune.model.duration import Empirical
from opportune.model.loss import LossInstance, loss_instance
from opportune.pricing import certificate
from opportune.pricing.occupancy import price
from tests.instances import Shape, random_instance

Float = NDArray[np.float64]


def durations(instance: LossInstance) -> Float:
    """(V, d+1) P(D_v = i)."""
    d = max(int(one.steps[-1]) for one in instance.duration if isinstance(one, Empirical))
    steps = np.arange(d + 1)
    return np.array([one.tail(steps) - one.tail(steps + 1) for one in instance.duration])


def chain(instance: LossInstance, accept: Float) -> Float:
    """(d+1, d+1) transitions of a server that, free, accepts type v with accept[v]."""
    mass = durations(instance)
    d = mass.shape[1] - 1
    step = np.zeros((d + 1, d + 1))
    step[np.arange(1, d + 1), np.arange(d)] = 1.0
    taken = instance.arrival_rate * accept
    step[0] = taken @ mass
    step[0, 0] += 1.0 - taken.sum()
    return step


def evaluate(instance: LossInstance, accept: Float, gain: Float) -> tuple[float, Float]:
    """Average reward g and relative values h (h(free) = 0): g + h = reward + P h, solved."""
    step = chain(instance, accept)
    n = len(step)
    reward = np.zeros(n)
    reward[0] = instance.arrival_rate @ (accept * gain)
    system = np.eye(n) - step
    system[:, 0] = 1.0  # the column of h(free) = 0 holds g
    solved = np.linalg.solve(system, reward)
    values = solved.copy()
    values[0] = 0.0
    return float(solved[0]), values


def optimum(instance: LossInstance, gain: Float) -> tuple[float, Float]:
    """Optimal average reward and (V,) advantage of accepting over rejecting, by iteration."""
    accept = np.zeros(instance.n_types)
    for _ in range(100):
        g, h = evaluate(instance, accept, gain)
        advantage = gain + durations(instance) @ h - h[0]
        better = np.where(np.abs(advantage) < 1e-12, accept, (advantage > 0).astype(float))
        if np.array_equal(better, accept):
            return g, advantage
        accept = better
    raise RuntimeError("policy iteration did not end")


def instances(number: int, load: float = 0.8) -> list[LossInstance]:
    rng = np.random.default_rng(3)
    shape = Shape(types=5, servers=6, duration="empirical", per_type=True)
    tied = Shape(types=5, servers=6, duration="empirical", scores="levels")
    return [random_instance(rng, (shape, tied)[i % 2], load) for i in range(number)]


def test_the_optimal_average_reward_is_the_value_of_the_arm_lp() -> None:
    """Lemma 3.6 at optimal penalties, g = q_r, and by trying all sets of accepted types."""
    checked = 0
    for instance in instances(40):
        prices = price(instance)
        for r in range(instance.n_servers):
            gain = instance.match_reward[:, r] - prices.demand_price
            g, _ = optimum(instance, gain)
            assert g == pytest.approx(prices.capacity_price[r], abs=1e-9)
            sets = itertools.product([0.0, 1.0], repeat=instance.n_types)
            best = max(evaluate(instance, np.array(accept), gain)[0] for accept in sets)
            assert g == pytest.approx(best, abs=1e-12)
            checked += 1
    assert checked > 80


def test_the_closed_form_holds_at_any_penalties() -> None:
    """q_r(l) of ``pricing.certificate`` is the arm's optimum for random l, negative ones too."""
    rng = np.random.default_rng(8)
    for instance in instances(40):
        penalty = rng.normal(0.3, 0.5, instance.n_types)
        q = certificate.capacity_price(instance, penalty)
        for r in range(instance.n_servers):
            g, _ = optimum(instance, instance.match_reward[:, r] - penalty)
            assert g == pytest.approx(q[r], abs=1e-12)


def test_signs_of_the_index_are_the_optimal_decisions() -> None:
    """Lemma 3.7: accepting is better by exactly L(v,r): wins if L > 0, loses if L < 0."""
    signs = set()
    for instance in instances(40):
        prices = price(instance)
        for r in range(instance.n_servers):
            gain = instance.match_reward[:, r] - prices.demand_price
            _, advantage = optimum(instance, gain)
            assert advantage == pytest.approx(prices.index[:, r], abs=1e-7)
            signs |= set(np.sign(prices.index[:, r]).tolist())
    assert signs == {-1.0, 0.0, 1.0}


def test_a_decision_against_the_sign_costs_reward() -> None:
    """Both ways: rejecting a type of positive index, accepting one of negative index."""
    found = {1.0: 0, -1.0: 0}
    for instance in instances(40):
        prices = price(instance)
        for r in range(instance.n_servers):
            gain = instance.match_reward[:, r] - prices.demand_price
            index = prices.index[:, r]
            for v in np.flatnonzero(np.abs(index) > 1e-3):
                accept = (index > 0).astype(float)
                accept[v] = 1.0 - accept[v]
                g, _ = evaluate(instance, accept, gain)
                assert g < prices.capacity_price[r] - 1e-9
                found[float(np.sign(index[v]))] += 1
            tied = np.where(index == 0, 0.37, (index > 0).astype(float))
            g, _ = evaluate(instance, tied, gain)  # zero indices: either, or randomization
            assert g == pytest.approx(prices.capacity_price[r], abs=1e-7)
    assert min(found.values()) > 20


def test_calibrated_acceptance_realizes_the_selected_optimum() -> None:
    """Lemma 3.6, second half: accept with u / (lambda phi), and u and phi come out."""
    for instance in instances(40):
        prices = price(instance)
        for r in range(instance.n_servers):
            u, phi = prices.assignment_rate[:, r], prices.free_fraction[r]
            accept = np.clip(u / (instance.arrival_rate * phi), 0.0, 1.0)
            assert accept == pytest.approx(u / (instance.arrival_rate * phi), abs=1e-9)
            step = chain(instance, accept)
            n = len(step)
            system = np.vstack([step.T - np.eye(n), np.ones(n)])
            law = np.linalg.lstsq(system, np.append(np.zeros(n), 1.0), rcond=None)[0]
            assert law[0] == pytest.approx(phi, abs=1e-9)
            assert law[0] * instance.arrival_rate * accept == pytest.approx(u, abs=1e-9)


def test_one_type_by_hand() -> None:
    """lambda=.5, D=1 or 3, s-l=1: accept always, g = .5 / (1 + .5 * 2) = .25, h(x) = -g x."""
    duration = Empirical(np.array([1, 3]), np.array([0.5, 0.5]))
    instance = loss_instance([[1.0]], [0.5], duration)
    g, h = evaluate(instance, np.ones(1), np.ones(1))
    assert g == pytest.approx(0.25)
    assert h == pytest.approx([0.0, -0.25, -0.5, -0.75])
    assert certificate.capacity_price(instance, np.zeros(1)) == pytest.approx([0.25])
