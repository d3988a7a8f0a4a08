"""What may not matter does not: units of reward, a constant added, names and places."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opportune.model.loss import LossInstance, loss_instance
from opportune.policies.base import loss_policies_by_id
from opportune.pricing.demand import FULL, Demand
from opportune.pricing.occupancy import price
from opportune.simulate.loss import Run, simulate_plans
from tests.instances import STATIC, Shape, random_instance

PRICED = ("lag", "lag-cheapest")
BY_SCORE = ("greedy", "whittle", "whittle-load-aware")


def with_reward(instance: LossInstance, reward: np.ndarray) -> LossInstance:
    """The same instance with other rewards."""
    return replace(instance, match_reward=reward)


def orders(instance: LossInstance, policy_ids: tuple[str, ...]) -> dict[str, list[object]]:
    """Order and levels of each policy's plan."""
    plans = {name: loss_policies_by_id()[name].plan(instance) for name in policy_ids}
    return {
        name: [plan.tables.order.tolist(), plan.tables.level.tolist()]
        for name, plan in plans.items()
    }


@pytest.mark.parametrize("scores", ["smooth", "levels"])
@pytest.mark.parametrize("factor", [2.0**-20, 0.1, 1e6])
def test_the_unit_of_reward(scores: str, factor: float) -> None:
    """All values and prices change by the factor, no plan does."""
    rng = np.random.default_rng(51)
    for _ in range(10):
        instance = random_instance(rng, Shape(scores=scores), load=0.9 * rng.random() + 0.05)
        other = with_reward(instance, instance.match_reward * factor)
        if not instance.match_reward.any():
            continue
        for demand in (FULL, Demand(0.1)):
            one, two = price(instance, demand), price(other, demand)
            assert two.value == pytest.approx(factor * one.value, rel=1e-9)
            assert two.dual_value == pytest.approx(factor * one.dual_value, rel=1e-9)
            assert two.tie_weight == pytest.approx(one.tie_weight, abs=1e-7)
            scale = factor * instance.match_reward.max()
            assert two.demand_price == pytest.approx(factor * one.demand_price, abs=1e-7 * scale)
        assert orders(instance, PRICED + BY_SCORE) == orders(other, PRICED + BY_SCORE)


def test_a_constant_added_to_all_rewards() -> None:
    """k assignments a task whoever does them: value + c k sum lambda (1-B), l + c, q as it was."""
    rng = np.random.default_rng(52)
    for _ in range(15):
        instance = random_instance(rng, Shape(), load=0.9 * rng.random() + 0.05)
        c = float(rng.random() * 3)
        other = with_reward(instance, instance.match_reward + c)
        one, two = price(instance), price(other)
        served = float(instance.servers_per_task @ instance.arrival_rate)
        assert two.value == pytest.approx(one.value + c * served, rel=1e-9)
        assert two.demand_price == pytest.approx(one.demand_price + c, abs=1e-7)
        assert two.capacity_price == pytest.approx(one.capacity_price, abs=1e-7)
        assert two.index == pytest.approx(one.index, abs=1e-7)
        at = Demand(0.2)
        gain = price(other, at).value - price(instance, at).value
        assert gain == pytest.approx(0.8 * c * served, rel=1e-7)
        assert orders(instance, PRICED + BY_SCORE) == orders(other, PRICED + BY_SCORE)


def test_a_constant_added_to_a_type() -> None:
    """The same of one type: its own price moves by c, nothing else."""
    rng = np.random.default_rng(53)
    for _ in range(15):
        instance = random_instance(rng, Shape(per_type=True), load=0.8 * rng.random() + 0.05)
        reward = instance.match_reward.copy()
        reward[0] += 1.5
        one, two = price(instance), price(with_reward(instance, reward))
        moved = two.demand_price - one.demand_price
        assert moved[0] == pytest.approx(1.5, abs=1e-7)
        assert moved[1:] == pytest.approx(np.zeros(len(moved) - 1), abs=1e-7)
        assert two.index == pytest.approx(one.index, abs=1e-7)


def shuffled(
    rng: np.random.Generator, instance: LossInstance
) -> tuple[LossInstance, np.ndarray, np.ndarray]:
    """The instance with types and servers in another order, and the two orders."""
    types, servers = rng.permutation(instance.n_types), rng.permutation(instance.n_servers)
    other = loss_instance(
        instance.match_reward[np.ix_(types, servers)],
        instance.arrival_rate[types],
        [instance.duration[v] for v in types],
        instance.servers_per_task[types].tolist(),
        allowed=instance.allowed[np.ix_(types, servers)],
        task_types=[instance.task_types[v] for v in types],
        servers=[instance.servers[r] for r in servers],
    )
    return other, types, servers


@pytest.mark.parametrize("forbidden", [False, True])
def test_the_places_of_types_and_servers(forbidden: bool) -> None:
    rng = np.random.default_rng(54)
    shape = Shape(forbidden=forbidden, per_type=True, duration="mixed", types=5)
    for _ in range(15):
        instance = random_instance(rng, shape, load=0.8 * rng.random() + 0.05)
        other, types, servers = shuffled(rng, instance)
        if instance.load > 0.999 * other.load * 10:
            continue
        one, two = price(instance), price(other)
        assert two.value == pytest.approx(one.value, rel=1e-10)
        assert two.demand_price == pytest.approx(one.demand_price[types], abs=1e-7)
        assert two.capacity_price == pytest.approx(one.capacity_price[servers], abs=1e-7)
        assert two.tie_weight == pytest.approx(one.tie_weight[np.ix_(types, servers)], abs=1e-7)
        for name in PRICED + BY_SCORE:
            policy = loss_policies_by_id()[name]
            plan, moved = policy.plan(instance).tables, policy.plan(other).tables
            for i, v in enumerate(types):
                n = plan.n_allowed[v]
                assert moved.n_allowed[i] == n
                assert servers[moved.order[i, 0, :n]].tolist() == plan.order[v, 0, :n].tolist()


def test_names_change_nothing_that_happens() -> None:
    instance = random_instance(np.random.default_rng(55), Shape(), load=0.6)
    other = replace(
        instance,
        task_types=tuple(f"T{v}" for v in range(instance.n_types)),
        servers=tuple(f"S{r}" for r in range(instance.n_servers)),
    )
    for policy in (loss_policies_by_id()[name] for name in STATIC):
        one, two = policy.plan(instance), policy.plan(other)
        assert one.digest == two.digest
        (first,), (second,) = (
            simulate_plans(i, [plan], Run(2000, 10)) for i, plan in ((instance, one), (other, two))
        )
        assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
