"""policy <= exact optimum <= HC-group-LP <= HC-LP <= OCC-LP(B), on 200 random instances.

Memoryless durations of one mean. With forbidden pairs the headcount depends on the policy: then
policy <= exact optimum <= OCC-LP(<=), and prices by headcount are refused with the reason.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.experiments.prices import choose_prices
from opportune.model.duration import Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.policies.base import loss_policy
from opportune.pricing.blocking import exact_blocking
from opportune.pricing.demand import AT_MOST, Demand
from opportune.pricing.evaluation import exact_value
from opportune.pricing.exact import optimum
from opportune.pricing.headcount import headcount_prices
from opportune.pricing.headcount_certificate import upper_bound
from opportune.pricing.headcount_groups import group_prices
from opportune.pricing.occupancy import price
from opportune.pricing.states import state_space

CASES = 200
ROOM = 1e-8
"""Relative: the solvers' gap; certificates and brackets need no room."""


def draw(rng: np.random.Generator, forbidden: bool = False) -> LossInstance:
    """A few servers, some of them equal, one k, any load up to 1.3."""
    while True:
        k = int(rng.integers(1, 4))
        copies = rng.integers(1, 4, int(rng.integers(1, 5)))
        n_types, n_servers = int(rng.integers(1, 5)), int(copies.sum())
        if n_servers < k:
            continue
        scores = rng.random((n_types, len(copies)))
        if rng.random() < 0.3:
            scores = rng.integers(0, 3, scores.shape) / 2
        allowed = np.ones((n_types, n_servers), dtype=bool)
        if forbidden:
            allowed = rng.random(allowed.shape) < 0.7
            if np.any(allowed.sum(axis=1) < k) or allowed.all():
                continue
        mean = float(rng.choice([1.0 + 3 * rng.random(), 5 + 20 * rng.random()]))
        rate = rng.random(n_types) + 0.05
        rate *= rng.uniform(0.05, 1.3) * n_servers / (k * mean * rate.sum())
        if rate.sum() > 1:
            continue
        reward = np.repeat(scores, copies, axis=1)
        instance = loss_instance(reward, rate, Geometric(mean), k, allowed=allowed)
        try:
            state_space(instance, 1_500)
        except InputError:
            continue
        return instance


def values_of_policies(instance: LossInstance, ids: tuple[str, ...]) -> dict[str, float]:
    """Exact values."""
    prices, _ = choose_prices(instance)
    values = {}
    for one in ids:
        plan = loss_policy(one).plan(instance, prices)
        tables = plan.tables if plan.counts is None else plan.counts
        values[one] = exact_value(instance, tables, limit=5_000).value
    return values


def test_the_order_of_all_bounds() -> None:
    rng = np.random.default_rng(2024)
    seen = {"k": set(), "forced": set(), "tight": 0, "strict": 0}
    for _ in range(CASES):
        instance = draw(rng)
        k, blocking = instance.one_k, exact_blocking(instance)
        assert k is not None
        assert blocking is not None
        best = optimum(instance)
        single, group = headcount_prices(instance), group_prices(instance)
        occupancy = price(instance, Demand(blocking)).dual_value
        room = ROOM * occupancy + 1e-13
        for value in values_of_policies(instance, ("lag", "greedy", "headcount")).values():
            assert value <= best.upper + 1e-12 * occupancy
        assert best.value <= group.bound + room
        assert group.bound <= single.bound + room
        assert single.bound <= occupancy + room
        noise = rng.standard_normal(single.prices.shape) * float(rng.choice([0.0, 0.1, 2.0]))
        loss = single.loss + rng.standard_normal(single.loss.shape)
        anyhow = upper_bound(single.merged, single.chain, single.prices + noise, loss)
        assert anyhow >= single.value - room
        groups = single.merged.n_groups
        if groups <= 2:
            assert group.bound == pytest.approx(best.value, rel=ROOM, abs=1e-13)
        seen["k"].add(k)
        seen["forced"].add(instance.n_servers % k == 0)
        seen["tight"] += group.bound <= best.value * (1 + 1e-6)
        seen["strict"] += single.bound > best.value * (1 + 1e-3)
    assert seen["k"] == {1, 2, 3}
    assert seen["forced"] == {True, False}
    assert min(seen["tight"], seen["strict"]) > 20


def test_the_group_index_is_a_policy_too() -> None:
    rng = np.random.default_rng(2025)
    gained = 0
    for _ in range(60):
        instance = draw(rng)
        merged = headcount_prices(instance).merged
        if instance.one_k != 1 or merged.n_groups == instance.n_servers:
            continue
        values = values_of_policies(instance, ("headcount", "headcount-group"))
        best = optimum(instance).upper
        assert values["headcount-group"] <= best * (1 + 1e-12) + 1e-13
        gained += values["headcount-group"] >= best * (1 - 1e-9)
    assert gained >= 10


def test_permuting_equal_servers_changes_nothing() -> None:
    rng = np.random.default_rng(2026)
    for _ in range(25):
        instance = draw(rng)
        order = rng.permutation(instance.n_servers)
        moved = replace(instance, match_reward=instance.match_reward[:, order])
        scale = max(optimum(instance).value, 1e-12)
        for function in (optimum, headcount_prices, group_prices):
            one, other = function(instance), function(moved)
            assert abs(one.value - other.value) <= 1e-7 * scale
        one, other = headcount_prices(instance), headcount_prices(moved)
        assert one.bound == pytest.approx(other.bound, rel=1e-7, abs=1e-13)


def test_with_forbidden_pairs() -> None:
    rng = np.random.default_rng(2027)
    for _ in range(60):
        instance = draw(rng, forbidden=True)
        best = optimum(instance)
        bound = price(instance, AT_MOST).dual_value
        for value in values_of_policies(instance, ("lag", "greedy", "auto")).values():
            assert value <= best.upper + 1e-12 * bound
        assert best.value <= bound * (1 + 1e-9) + 1e-13
        with pytest.raises(InputError, match="forbidden pairs"):
            headcount_prices(instance)
        with pytest.raises(InputError, match="forbidden pairs"):
            group_prices(instance)


def test_a_bound_that_forgets_part_of_the_law_would_be_seen() -> None:
    """HC-LP at half the arrival rate is below the optimum: the order is not empty."""
    rng = np.random.default_rng(2028)
    broken = 0
    for _ in range(20):
        instance = draw(rng)
        slower = replace(instance, arrival_rate=instance.arrival_rate / 2)
        broken += headcount_prices(slower).bound < optimum(instance).value
    assert broken >= 15
