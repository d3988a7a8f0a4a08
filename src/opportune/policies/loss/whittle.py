"""Whittle: a closed-form index from the subsidy of indifference (LAG 5.1, reconstructed).

W(v,r) = s_vr - E[D_v] sum_w p_w max(s_wr - s_vr, 0), p = lambda / sum lambda. With p, not
lambda, the paper's columns come out (Low-rank .1: 42.3 against 43.0; with lambda 79.7).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem
from opportune.model.loss import LossInstance
from opportune.policies.base import Plan, list_plan
from opportune.pricing.relaxation import Relaxation

MIXED = "heuristic: types have different mean durations, the arriving type's mean is used"


@dataclass(frozen=True)
class Whittle:
    """The Whittle index of Gurushankar et al. 2026, as the paper's numbers show it."""

    id: ClassVar[str] = "whittle"
    title: ClassVar[str] = "Whittle index"
    rank: ClassVar[int] = 20

    def plan(self, instance: LossInstance, prices: Relaxation | None = None) -> Plan:
        """Servers by the index with type shares p; equal ones at random."""
        total = instance.arrival_rate.sum()
        share = instance.arrival_rate / total if total > 0 else instance.arrival_rate
        note = MIXED if np.ptp(instance.mean_duration) > 0 else ""
        return list_plan(self.id, instance, whittle_index(instance, share), note=note)


def whittle_index(instance: LossInstance, share: NDArray[np.float64]) -> NDArray[np.float64]:
    """(V, R) s_vr - E[D_v] sum_w share_w max(s_wr - s_vr, 0); forbidden pairs offer nothing.

    Raises:
        InputError: If durations depend on the server: the closed form supposes one mean.
    """
    if instance.server_duration is not None:
        told = "Whittle's closed form supposes durations that do not depend on the server"
        remedy = "leave it out; lag, greedy and random can be used"
        raise InputError(Problem("policy", told, "durations by task type only", remedy))
    reward = instance.match_reward
    better = np.empty_like(reward)
    for v in range(instance.n_types):
        better[v] = share @ np.maximum(reward - reward[v], 0.0)
    return np.asarray(reward - instance.mean_duration[:, None] * better)
