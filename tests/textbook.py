"""The programs as the paper prints them, given unscaled to SciPy's solver, and exact optima.

Nothing here knows how ``opportune.pricing`` scales, solves or chooses: V R + R variables u_vr
and phi_r, the constraints (2), (3), (4) of LAG section 3.1 one by one, dense.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, linprog

from opportune.model.loss import LossInstance
from opportune.policies.base import Plan

Float = NDArray[np.float64]

EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def occupancy(
    instance: LossInstance, blocking: Float | float = 0.0, at_most: bool = False
) -> OptimizeResult:
    """OCC-LP(B), or OCC-LP(<=): ``-fun`` is the value, ``status`` 0 where it has a solution."""
    V, R = instance.match_reward.shape
    lam, ED = instance.arrival_rate, instance.mean_duration
    demand = np.zeros((V, V * R + R))
    capacity = np.zeros((R, V * R + R))
    available = np.zeros((V * R, V * R + R))
    for v in range(V):
        for r in range(R):
            u, phi = v * R + r, V * R + r
            demand[v, u] = 1.0
            capacity[r, u] = ED[v]
            capacity[r, phi] = 1.0
            available[u, u] = 1.0
            available[u, phi] = -lam[v]
    want = instance.servers_per_task * lam * (1.0 - blocking)
    upper = np.append(np.where(instance.allowed.ravel(), np.inf, 0.0), np.full(R, np.inf))
    least, most = ([demand], [want]) if at_most else ([], [])
    equal, value = ([], []) if at_most else ([demand], [want])
    return linprog(
        np.append(-instance.match_reward.ravel(), np.zeros(R)),
        A_ub=np.vstack([available, *least]),
        b_ub=np.concatenate([np.zeros(V * R), *most]),
        A_eq=np.vstack([capacity, *equal]),
        b_eq=np.concatenate([np.ones(R), *value]),
        bounds=np.column_stack([np.zeros(V * R + R), upper]),
        method="highs",
        options=EXACT,
    )


def kiid(instance: LossInstance) -> OptimizeResult:
    """KIID-LP: sum_r u = k lambda, sum_v E[D] u <= 1, 0 <= u <= lambda."""
    V, R = instance.match_reward.shape
    demand = np.kron(np.eye(V), np.ones(R))
    capacity = np.kron(instance.mean_duration, np.eye(R))
    upper = np.where(instance.allowed, instance.arrival_rate[:, None], 0.0).ravel()
    return linprog(
        -instance.match_reward.ravel(),
        A_ub=capacity,
        b_ub=np.ones(R),
        A_eq=demand,
        b_eq=instance.servers_per_task * instance.arrival_rate,
        bounds=np.column_stack([np.zeros(V * R), upper]),
        method="highs",
        options=EXACT,
    )


def price_range(instance: LossInstance, value: float, direction: Float) -> tuple[float, float]:
    """Least and largest direction @ l over the optimal demand prices of OCC-LP(0).

    The dual: min sum_r q_r + sum_v k lambda_v l_v, q_r >= sum_v lambda_v z_vr,
    z_vr >= s_vr - l_v - E[D_v] q_r, z >= 0. Its optimal face is cut out by the value. Equal
    ends for a generic direction mean that the prices are unique.
    """
    V, R = instance.match_reward.shape
    lam, ED = instance.arrival_rate, instance.mean_duration
    n = V + R + V * R  # l, q, z
    rows, right = [], []
    for r in range(R):
        row = np.zeros(n)
        row[V + r] = -1.0
        row[V + R + r + R * np.arange(V)] = lam
        rows.append(row)
        right.append(0.0)
    for v, r in zip(*np.nonzero(instance.allowed), strict=True):
        row = np.zeros(n)
        row[v], row[V + r], row[V + R + v * R + r] = -1.0, -ED[v], -1.0
        rows.append(row)
        right.append(-instance.match_reward[v, r])
    objective = np.concatenate([instance.servers_per_task * lam, np.ones(R), np.zeros(V * R)])
    rows.append(objective)
    right.append(value + 1e-11 * max(abs(value), 1e-3))
    bounds = [(None, None)] * (V + R) + [(0, None)] * (V * R)
    ends = []
    for sign in (1.0, -1.0):
        cost = np.concatenate([sign * direction, np.zeros(R + V * R)])
        solved = linprog(
            cost, A_ub=np.array(rows), b_ub=right, bounds=bounds, method="highs", options=EXACT
        )
        ends.append(sign * solved.fun if solved.status == 0 else -sign * np.inf)
    return ends[0], ends[1]


# ------------------------------------------------------------------------ exact optima


def survival(n_servers: int, end: float) -> Float:
    """(2^R, 2^R) chance that of the busy servers of a set those of another are still busy."""
    n = 2**n_servers
    busy = (np.arange(n)[:, None] >> np.arange(n_servers)) & 1
    stays = np.ones((n, n))
    for r in range(n_servers):
        before, after = busy[:, None, r], busy[None, :, r]
        stays *= np.where(before == 1, np.where(after == 1, 1 - end, end), 1.0 - after)
    return stays


def optimal_reward(instance: LossInstance) -> float:
    """Largest reward per step of a work-conserving policy; k = 1, one memoryless mean.

    Relative value iteration on the 2^R sets of busy servers. A task taken at t is in service
    at t+1 for certain; every other one ends with probability 1/E[D] (LAG section 1).
    """
    stays, moves = _moves(instance)
    lam = instance.arrival_rate
    value = np.zeros(len(stays))
    for _ in range(100_000):
        later = stays @ value
        best = (1.0 - lam.sum()) * later
        for v in range(instance.n_types):
            choices = np.full(len(value), -np.inf)
            for r in np.flatnonzero(instance.allowed[v]):
                can, with_r = moves[r]
                earned = instance.match_reward[v, r] + stays @ value[with_r]
                choices = np.where(can, np.maximum(choices, earned), choices)
            best += lam[v] * np.where(np.isneginf(choices), later, choices)
        change = best - value
        if np.ptp(change) < 1e-13:
            return float(change.mean())
        value = best - best[0]
    raise RuntimeError("value iteration did not converge")


def list_law(instance: LossInstance, plan: Plan) -> tuple[float, float, Float]:
    """Reward per step, blocking and blocking by type of a plan without ties; k = 1."""
    stays, moves = _moves(instance)
    lam, n = instance.arrival_rate, len(stays)
    step = (1.0 - lam.sum()) * stays
    earned, lost = np.zeros(n), np.zeros((instance.n_types, n))
    for v in range(instance.n_types):
        open_states = np.ones(n, dtype=bool)
        for r in plan.tables.order[v, 0, : plan.tables.n_allowed[v]]:
            can, with_r = moves[r]
            now = open_states & can
            grown = np.zeros_like(stays)
            np.add.at(grown.T, with_r, stays.T)
            step[now] += lam[v] * grown[now]
            earned[now] += lam[v] * instance.match_reward[v, r]
            open_states &= ~can
        step[open_states] += lam[v] * stays[open_states]
        lost[v, open_states] = 1.0
    system = np.vstack([step.T - np.eye(n), np.ones(n)])
    law = np.linalg.lstsq(system, np.append(np.zeros(n), 1.0), rcond=None)[0]
    by_type = lost @ law
    return float(law @ earned), float(lam @ by_type / lam.sum()), by_type


def _moves(instance: LossInstance) -> tuple[Float, list[tuple[NDArray[np.bool_], Float]]]:
    """Survival, and per server the sets in which it is free and the sets with it added."""
    if instance.one_k != 1 or instance.memoryless_mean is None:
        raise ValueError("k = 1 and one memoryless mean only")
    states = np.arange(2**instance.n_servers)
    stays = survival(instance.n_servers, 1.0 / instance.memoryless_mean)
    return stays, [((states >> r) & 1 == 0, states | (1 << r)) for r in range(instance.n_servers)]
