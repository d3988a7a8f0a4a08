"""Prices at the last feasible load, in closed form.

At rho = 1 - k/R (no forbidden pairs, one k) every availability constraint is tight: u = lambda
phi with phi = k/R for all pairs (phi_r = a_r k / sum a where a server is on duty for a_r only),
whatever the rewards. The optimal prices are exactly the l with L(v,r) >= 0 for all pairs, and l - c
stays optimal for every c >= 0. Take the largest, the limit of the prices as the load rises to rho
(ours, ``lag.md`` section 2).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opportune.model.loss import LossInstance

Float = NDArray[np.float64]


def limit_prices(instance: LossInstance) -> tuple[Float, Float, Float]:
    """Demand prices (V,), rates u (V, R) and free fractions (R,) at the last feasible load.

    L >= 0 everywhere makes q_r = (sum_v lambda_v s_vr - m) / (1 + W) with m = sum lambda l and
    W = sum lambda E[D], so l_v <= min_r (s_vr - E[D_v] sigma_r / (1 + W)) + E[D_v] m / (1 + W);
    all of these with equality give m, and no larger l exists.
    """
    rate, mean = instance.arrival_rate, instance.mean_duration
    work = 1.0 + float(rate @ mean)
    reward, on_duty = instance.match_reward, instance.on_duty
    earned = rate @ reward
    slack = reward - mean[:, None] * earned / work
    least = np.min(slack[:, on_duty > 0], axis=1)
    total = work * float(rate @ least)
    prices = least + mean * total / work
    free = on_duty / work
    return prices, rate[:, None] * free, free
