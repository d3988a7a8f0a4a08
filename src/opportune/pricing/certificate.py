"""Closed forms that make a bound ours, whatever produced the prices.

For any demand prices l (at least 0 when the demand is "at most"), weak duality gives
    OCC-LP(B) <= D(l) = sum_r a_r q_r(l) + sum_v lambda_v k_v (1 - B_v) l_v,
where a_r is the share of time on duty (1 in LAG) and q_r(l), the value of the Arm-r LP, is the
root of q = sum_v lambda_v max(s_vr - l_v - E[D_v] q, 0) (LAG section 3.2,
reconstructed from the text; tested against another solver).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune.model.loss import LossInstance
from opportune.pricing.demand import Demand

Float = NDArray[np.float64]

BLOCK = 2**17
"""Pairs looked at together."""


def capacity_price(instance: LossInstance, demand_price: Float) -> Float:
    """(R,) q_r(l), what one step of server r is worth at demand prices l.

    Accepting exactly the types of a set A earns sum_A lambda a / (1 + sum_A lambda E[D]) per
    step, a = s - l; the best set is a prefix of the types by a / E[D] (a fractional knapsack),
    so q is the largest value over the prefixes, and at least 0.
    """
    mean = instance.pair_mean
    capacity = np.empty(instance.n_servers)
    for block in server_blocks(instance):
        gain = instance.match_reward[:, block] - demand_price[:, None]
        gain[~instance.allowed[:, block]] = -np.inf
        own = mean if mean.shape[1] == 1 else mean[:, block]
        order = np.argsort(-(gain / own), axis=0, kind="stable")
        gain = np.take_along_axis(gain, order, axis=0)
        rate = np.where(gain > 0, instance.arrival_rate[order], 0.0)
        earned = np.cumsum(rate * np.maximum(gain, 0.0), axis=0)
        taken = own[order, 0] if own.shape[1] == 1 else np.take_along_axis(own, order, axis=0)
        busy = np.cumsum(rate * taken, axis=0)
        capacity[block] = np.max(earned / (1.0 + busy), axis=0)
    return capacity


def server_blocks(instance: LossInstance) -> list[slice]:
    """Runs of servers whose pairs fit into a few megabytes: no second matrix of all pairs."""
    size = max(1, BLOCK // instance.n_types)
    return [slice(r, r + size) for r in range(0, instance.n_servers, size)]


def dual_value(instance: LossInstance, demand: Demand, demand_price: Float) -> float:
    """D(l): an upper bound in reward per step, for any prices l.

    Prices below 0 are raised to 0 where the demand is "at most": there only l >= 0 is valid.
    """
    price = np.maximum(demand_price, 0.0) if demand.at_most else demand_price
    served = demand.servers_per_arrival(instance)
    capacity = capacity_price(instance, price)
    arms = capacity.sum() if instance.availability is None else instance.availability @ capacity
    return float(arms + np.sum(instance.arrival_rate * served * price))


def index(instance: LossInstance, demand_price: Float, capacity: Float) -> Float:
    """(V, R) L(v,r) = s_vr - l_v - E[D_v] q_r, -inf for a forbidden pair (LAG Def. 3.3, quoted)."""
    value, mean = np.empty_like(instance.match_reward), instance.pair_mean
    for block in server_blocks(instance):
        own = mean if mean.shape[1] == 1 else mean[:, block]
        cost = demand_price[:, None] + own * capacity[block]
        value[:, block] = instance.match_reward[:, block] - cost
    value[~instance.allowed] = -np.inf
    return value


@dataclass(frozen=True)
class Residuals:
    """How far a primal and dual pair is from LAG Lemma B.1; all relative, 0 is perfect.

    Attributes:
        demand: Largest violation of (2), in servers per task.
        capacity: Largest violation of (3), in share of time.
        availability: Largest violation of 0 <= u <= lambda phi, divided by lambda.
        price: Largest |q_r - sum_v lambda_v max(L, 0)|, by the largest reward.
        complement: Reward lost by u where L > 0 or L < 0 asks otherwise, by the value.
    """

    demand: float
    capacity: float
    availability: float
    price: float
    complement: float

    @property
    def worst(self) -> float:
        """The largest of them."""
        return max(self.demand, self.capacity, self.availability, self.price, self.complement)


def residuals(
    instance: LossInstance, demand: Demand, prices: tuple[Float, Float, Float], rates: Float
) -> Residuals:
    """Check Lemma B.1 for prices (l, q, L) and assignment rates u (V, R).

    Implements: LAG Lemma B.1 (i) q = sum lambda max(L, 0), (iii) L > 0 => u = lambda phi and
    L < 0 => u = 0 (quoted), with the demand of the LP at hand.
    """
    price, capacity, value = prices
    rate, used = instance.arrival_rate, instance.arrival_rate > 0
    scale = max(float(instance.match_reward.max()), 1e-300)
    free = instance.on_duty - instance.busy_share(rates)
    served = np.divide(rates.sum(axis=1), rate, out=np.zeros_like(rate), where=used)
    want = demand.servers_per_arrival(instance)
    short = np.where(used, served - want, 0.0)
    available = off_price = total = 0.0
    lost = float(np.sum(price * rate * (want - served))) if demand.at_most else 0.0
    for block in server_blocks(instance):
        u, level = rates[:, block], value[:, block]
        weight = np.divide(u, rate[:, None], out=np.zeros_like(u), where=used[:, None])
        over = np.where(used[:, None], weight - free[block], 0.0)
        positive = np.where(level > 0, level, 0.0)
        negative = np.where(level < 0, np.maximum(level, -scale * 1e6), 0.0)
        lost += float(np.sum(positive * (rate[:, None] * free[block] - u) - negative * u))
        available = max(available, float(over.max()), -float(weight.min()))
        off_price = max(off_price, float(np.max(np.abs(capacity[block] - rate @ positive))))
        total += float(np.sum(instance.match_reward[:, block] * u))
    return Residuals(
        demand=float(np.max(np.maximum(short, 0.0) if demand.at_most else np.abs(short))),
        capacity=float(np.max(np.maximum(-free, 0.0))),
        availability=available,
        price=off_price / scale,
        complement=abs(lost) / max(total, scale * 1e-12),
    )
