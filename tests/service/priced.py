"""Plans of two task types and three servers, and a pool that they fit."""

from __future__ import annotations

from typing import Any

from opportune.model.duration import Geometric
from opportune.model.loss import loss_instance
from opportune.policies.base import loss_policy
from opportune.pricing.occupancy import price
from opportune.service.planning import plan_document
from opportune.service.reading import decision_body
from opportune.service.resources import PlanDocument
from tests.service.pools import Pool, pool_of

PRIOR = {"rate": 0.1, "mean_duration": 4.0}


def priced(policy: str = "lag", plan_id: str = "plan", **options: Any) -> PlanDocument:
    """A plan for types a, b and servers s0, s1, s2."""
    instance = loss_instance(
        [[4.0, 2.0, 1.0], [3.0, 3.0, 0.0]],
        [0.1, 0.2],
        [Geometric(4.0), Geometric(5.0)],
        task_types=["a", "b"],
        servers=["s0", "s1", "s2"],
        **options,
    )
    prices = price(instance)
    return plan_document(plan_id, loss_policy(policy).plan(instance, prices), prices)


def two_types(**settings: Any) -> Pool:
    return pool_of({"a": [4.0, 2.0, 1.0], "b": [3.0, 3.0, 0.0]}, **settings)


def why(pool: Pool, body: Any) -> Any:
    return decision_body(pool.state, body.decision_id).why
