"""Servers of several slots: equal to as many equal servers, as far as one task takes one slot."""

from __future__ import annotations

import numpy as np
import pytest

from opportune.model.duration import Geometric
from opportune.model.loss import loss_instance
from opportune.policies.base import check_plan, loss_policy
from opportune.policies.slots import by_server, first_slot, slot_owner, with_slots
from opportune.pricing.demand import AT_MOST
from opportune.pricing.occupancy import price
from opportune.router import Router
from tests.instances import STATIC


def test_slots_are_numbered_server_by_server() -> None:
    owner = slot_owner([2, 1, 3])
    assert owner.tolist() == [0, 0, 1, 2, 2, 2]
    assert first_slot(owner).tolist() == [0, 2, 3]
    instance = loss_instance([[1.0, 2.0, 3.0]], [0.1], Geometric(2), servers=["x", "y", "z"])
    slots = with_slots(instance, owner)
    assert slots.servers == ("x/1", "x/2", "y/1", "z/1", "z/2", "z/3")
    assert slots.match_reward.tolist() == [[1.0, 1.0, 2.0, 3.0, 3.0, 3.0]]
    assert with_slots(instance, slot_owner([1, 1, 1])) is instance


@pytest.mark.parametrize("policy", STATIC)
def test_a_plan_by_server_is_one_that_the_kernels_can_trust(policy: str) -> None:
    rng = np.random.default_rng(4)
    scores = np.round(rng.random((3, 4)), 1)
    allowed = np.ones((3, 4), dtype=bool)
    allowed[1, 2] = False
    instance = loss_instance(scores, [0.1, 0.2, 0.1], Geometric(8), allowed=allowed)
    owner = slot_owner([2, 3, 1, 2])
    slots = with_slots(instance, owner)
    plan = by_server(loss_policy(policy).plan(slots, price(slots, AT_MOST)), owner)
    check_plan(plan, instance)
    assert plan.index.shape == (3, 4)


def test_capacity_and_equal_servers_earn_the_same() -> None:
    """k = 1: a router of capacities picks the kind of server that a router of slots picks."""
    rng = np.random.default_rng(6)
    scores = rng.random((3, 4))
    options = {"arrival_rate": [0.2, 0.2, 0.2], "duration": Geometric(9)}
    capacity = [2, 3, 1, 2]
    whole = Router(scores, capacity=capacity, **options)
    owner = slot_owner(capacity)
    apart = Router(scores[:, owner], **options)
    running: list[tuple[int, int]] = []
    for _ in range(2_000):
        v = int(rng.integers(3))
        first, second = whole.decide(v), apart.decide(v)
        assert first.scores == pytest.approx(second.scores)
        assert first.opportunity_cost == pytest.approx(second.opportunity_cost)
        if first.servers:
            running.append((first.id, second.id))
        if running and rng.random() < 0.6:
            one, other = running.pop(int(rng.integers(len(running))))
            assert whole.complete(one)
            assert apart.complete(other)
