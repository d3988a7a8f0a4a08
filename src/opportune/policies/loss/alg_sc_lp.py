"""ALG-SC-LP: sample servers by an optimal solution of KIID-LP (Dickerson et al. 2021).

Servers are drawn one after another with probability proportional to x_vr among the free
ones; Greedy when none of them has weight (LAG 5.1; sampling without replacement: reconstructed).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opportune.model.loss import LossInstance
from opportune.policies.base import Plan, list_plan, sampling_plan
from opportune.pricing.kiid import kiid_weights
from opportune.pricing.relaxation import Relaxation


@dataclass(frozen=True)
class AlgScLp:
    """Sampling by an interior solution, whose tiny weights act when the main servers are busy."""

    id: ClassVar[str] = "alg-sc-lp"
    title: ClassVar[str] = "ALG-SC-LP, interior solution"
    rank: ClassVar[int] = 25

    def plan(self, instance: LossInstance, prices: Relaxation | None = None) -> Plan:
        """Weights from the interior of the optimal face of KIID-LP.

        Raises:
            SolverError: If the solver does not end with an optimal solution.
        """
        weights, _ = kiid_weights(instance, interior=True)
        return sampling_plan(self.id, weights, list_plan(self.id, instance, instance.match_reward))
