"""The result of pricing an instance: prices, rates, bound and how sure they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from opportune.model.axes import Quantity
from opportune.model.loss import LossInstance
from opportune.pricing.certificate import Residuals
from opportune.pricing.demand import Demand

Float = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Relaxation:
    """An optimal primal and dual pair of an occupancy LP, with its own certificate.

    ``dual_value`` is computed by us in closed form from ``demand_price`` alone, so it bounds
    the LP (and every work-conserving policy, LAG Prop. 3.2) whatever the solver did.
    """

    instance: LossInstance
    value: Annotated[float, Quantity("OPT", "", "reward per step", "primal value of the LP")]
    dual_value: Annotated[float, Quantity("D(l)", "", "reward per step", "certified upper bound")]
    gap: Annotated[float, Quantity("gap", "", "relative", "(dual - primal) / max(dual, 1e-300)")]
    assignment_rate: Annotated[
        Float, Quantity("u_vr", "V,R", "assignments per step", "assignment rate")
    ]
    free_fraction: Annotated[Float, Quantity("phi_r", "R", "share of time", "free fraction")]
    demand_price: Annotated[Float, Quantity("l_v", "V", "reward", "price of serving a task")]
    capacity_price: Annotated[
        Float, Quantity("q_r", "R", "reward per step", "price of a server's step")
    ]
    index: Annotated[
        Float,
        Quantity("L(v,r)", "V,R", "reward", "score minus opportunity cost; -inf if forbidden"),
    ]
    tie_weight: Annotated[Float, Quantity("w_vr", "V,R", "probability", "u_vr / (lambda_v a_r)")]
    demand: Demand
    priced_at: str
    residuals: Residuals
    solver: str
    seconds: float
    notices: tuple[str, ...] = ()

    @property
    def opportunity_cost(self) -> Float:
        """(V, R) l_v + E[D_vr] q_r: what using server r for type v costs later tasks."""
        mean = self.instance.pair_mean
        return np.asarray(self.demand_price[:, None] + mean * self.capacity_price)
