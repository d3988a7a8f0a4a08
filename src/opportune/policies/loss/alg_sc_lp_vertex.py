"""ALG-SC-LP from a vertex of KIID-LP, as a simplex solver gives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.model.loss import LossInstance
from opportune.policies.base import Plan, list_plan, sampling_plan
from opportune.pricing.kiid import kiid_weights
from opportune.pricing.relaxation import Relaxation


@dataclass(frozen=True)
class AlgScLpVertex:
    """Sampling by a vertex solution: mostly one server a type, else Greedy."""

    id: ClassVar[str] = "alg-sc-lp-vertex"
    title: ClassVar[str] = "ALG-SC-LP, vertex solution"
    rank: ClassVar[int] = 26

    def plan(self, instance: LossInstance, prices: Relaxation | None = None) -> Plan:
        """Weights from a vertex of the optimal face of KIID-LP.

        Raises:
            SolverError: If the solver does not end with an optimal solution.
        """
        weights, _ = kiid_weights(instance, interior=False)
        return sampling_plan(self.id, weights, list_plan(self.id, instance, instance.match_reward))
