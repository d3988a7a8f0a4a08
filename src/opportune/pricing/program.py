"""OCC-LP and KIID-LP as programs in scaled variables.

Scaling (ours): rewards are divided by their maximum, and the variable of a pair is
y_vr = u_vr / lambda_v (servers r per arriving task of type v), not u_vr: otherwise the
solver's tolerance swallows rare types and their prices come out arbitrary. Types with rate 0
are left out. Sources: OCC-LP LAG section 3.1 (2)-(4), quoted; KIID-LP reconstructed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune.model.loss import LossInstance
from opportune.pricing.demand import Demand
from opportune.pricing.lp import Program

Float = NDArray[np.float64]
Int = NDArray[np.int64]


@dataclass(frozen=True)
class ScaledProgram:
    """A linear program and how to read it.

    Attributes:
        linear: Columns: y of every pair, then phi_r (OCC-LP), then shortfalls if asked for.
            Rows: demand of every used type, capacity of every server, availability of pairs.
        types: (Vt,) types with a positive rate, in the order of the demand rows.
        pair_type: (n,) type of each pair column.
        pair_server: (n,) its server.
        unit: Reward that one unit of the objective stands for.
    """

    linear: Program
    types: Int
    pair_type: Int
    pair_server: Int
    unit: float

    def matrix(self, x: Float, n_types: int, n_servers: int) -> Float:
        """(V, R) the pair columns of a solution as a matrix of y, 0 elsewhere."""
        y = np.zeros((n_types, n_servers))
        y[self.pair_type, self.pair_server] = x[: len(self.pair_type)]
        return y

    def demand_price(self, row_dual: Float, instance: LossInstance) -> Float:
        """(V,) l_v in reward from the duals of the demand rows, NaN for types left out."""
        price = np.full(instance.n_types, np.nan)
        rate = instance.arrival_rate[self.types]
        price[self.types] = row_dual[: len(self.types)] * self.unit / rate
        return price


def _pairs(instance: LossInstance) -> tuple[Int, Int, Int, float]:
    types = np.flatnonzero(instance.arrival_rate > 0)
    pair_type, pair_server = np.nonzero(instance.allowed & (instance.arrival_rate > 0)[:, None])
    top = float(instance.match_reward.max(initial=0.0))
    unit = (top if top > 0 else 1.0) * float(instance.arrival_rate.max())
    return types, pair_type, pair_server, unit


def _work(instance: LossInstance, pair_type: Int, pair_server: Int) -> Float:
    """(n,) lambda_v E[D_vr] of pairs."""
    rate = instance.arrival_rate[pair_type]
    return np.asarray(rate * mean_at(instance, pair_type, pair_server))


def mean_at(instance: LossInstance, pair_type: Int, pair_server: Int) -> Float:
    """(n,) E[D_vr] of pairs."""
    if instance.server_duration is None:
        return instance.mean_duration[pair_type]
    return np.asarray(instance.server_duration.mean[pair_type, pair_server])


def occupancy_program(
    instance: LossInstance, demand: Demand, factor: float = 1.0, shortfall: bool = False
) -> ScaledProgram:
    """OCC-LP(B) or OCC-LP(<=); with ``shortfall``, the least demand that must go unserved.

    Args:
        instance: At least one type must have a positive rate.
        demand: Equality with blocking B, or at most.
        factor: All arrival rates are multiplied by it (only used with ``shortfall``).
        shortfall: Maximize -sum_v lambda_v z_v with z_v >= 0 added to demand row v, instead
            of the reward; 0 means that every task can be served.
    """
    types, pair_type, pair_server, unit = _pairs(instance)
    n, n_types, n_servers = len(pair_type), len(types), instance.n_servers
    row_of = np.empty(instance.n_types, dtype=np.int64)
    row_of[types] = np.arange(n_types)
    work = _work(instance, pair_type, pair_server) * factor
    pair, server = np.arange(n), np.arange(n_servers)
    capacity_row, pair_row = n_types + server, n_types + n_servers + pair
    row = [row_of[pair_type], n_types + pair_server, capacity_row, pair_row, pair_row]
    column = [pair, pair, n + server, pair, n + pair_server]
    one = np.ones(n)
    value = [one, work, np.ones(n_servers), one, -one]
    reward = instance.arrival_rate * instance.match_reward.T / unit
    cost = np.concatenate([reward.T[pair_type, pair_server], np.zeros(n_servers)])
    upper = np.ones(n + n_servers)
    if shortfall:
        row.append(np.arange(n_types))
        column.append(n + n_servers + np.arange(n_types))
        value.append(np.ones(n_types))
        weight = instance.arrival_rate[types] / instance.arrival_rate.max()
        cost = np.concatenate([np.zeros(n + n_servers), -weight])
        upper = np.concatenate([upper, np.full(n_types, np.inf)])
    want, on_duty = demand.servers_per_arrival(instance)[types], instance.on_duty
    linear = Program(
        cost=cost,
        lower=np.zeros(len(cost)),
        upper=upper,
        row_lower=np.concatenate(
            [np.zeros(n_types) if demand.at_most else want, on_duty, np.full(n, -np.inf)]
        ),
        row_upper=np.concatenate([want, on_duty, np.zeros(n)]),
        row=np.concatenate(row),
        column=np.concatenate(column),
        value=np.concatenate(value),
    )
    return ScaledProgram(linear, types, pair_type, pair_server, unit)


def kiid_program(instance: LossInstance, at_most: bool = False) -> ScaledProgram:
    """KIID-LP: sum_r u = k lambda (or <=), sum_v E[D] u <= a_r, 0 <= u <= lambda a_r.

    Looser than OCC-LP(0): it forgets that a busy server misses arrivals.
    """
    types, pair_type, pair_server, unit = _pairs(instance)
    n, n_types, n_servers = len(pair_type), len(types), instance.n_servers
    row_of = np.empty(instance.n_types, dtype=np.int64)
    row_of[types] = np.arange(n_types)
    work = _work(instance, pair_type, pair_server)
    pair = np.arange(n)
    reward = instance.arrival_rate[:, None] * instance.match_reward / unit
    want = instance.servers_per_task[types].astype(np.float64)
    linear = Program(
        cost=reward[pair_type, pair_server],
        lower=np.zeros(n),
        upper=instance.on_duty[pair_server],
        row_lower=np.concatenate([0.0 * want if at_most else want, np.full(n_servers, -np.inf)]),
        row_upper=np.concatenate([want, instance.on_duty]),
        row=np.concatenate([row_of[pair_type], n_types + pair_server]),
        column=np.concatenate([pair, pair]),
        value=np.concatenate([np.ones(n), work]),
    )
    return ScaledProgram(linear, types, pair_type, pair_server, unit)
