"""Plans that were made elsewhere: large ones are checked and written ahead beside decisions."""

from __future__ import annotations

import asyncio

from opportune.service.commands import PutPlan
from opportune.service.idempotency import Ticket
from opportune.service.owner import PoolOwner
from opportune.service.plan_checks import plan_problem
from opportune.service.plan_parts import is_large, part_records
from opportune.service.resources import PlanDocument


async def to_be_put(owner: PoolOwner, plan: PlanDocument, asked: Ticket | None) -> PutPlan:
    """The command that stores a plan; what is wrong with one, the engine says.

    Args:
        owner: Of the pool.
        plan: The plan.
        asked: The request's idempotency key.

    Raises:
        RefusalError: If its tables could not be written.
    """
    again = asked is not None and owner.keys.find(asked.key) is not None
    if again or plan.id in owner.state.plans or not is_large(plan):
        return PutPlan(plan=plan)
    records = await asyncio.to_thread(_checked, plan)
    if not records:
        return PutPlan(plan=plan)
    parts = [await owner.write_ahead(record) for record in records]
    return PutPlan(plan=plan, parts=parts, checked=True)


def _checked(plan: PlanDocument) -> list[bytes]:
    """The records of a plan's tables; none if the plan is wrong."""
    return [] if plan_problem(plan) is not None else list(part_records(plan))
