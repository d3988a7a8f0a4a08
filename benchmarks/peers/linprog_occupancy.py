"""OCC-LP(0) as it stands in the paper, given to HiGHS through ``scipy.optimize.linprog``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

Float = NDArray[np.float64]


def solve(
    match_reward: Float,
    arrival_rate: Float,
    mean_duration: Float,
    servers_per_task: NDArray[np.int64],
) -> float:
    """Its optimal value.

    Implements: LAG section 3.1 (2)-(4) (quoted), in the paper's variables u and phi: maximize
    sum s u with sum_r u_vr = k lam_v, phi_r + sum_v ED_v u_vr = 1, u_vr <= lam_v phi_r.

    Args:
        match_reward: (V, R) s.
        arrival_rate: (V,) lam.
        mean_duration: (V,) ED in steps.
        servers_per_task: (V,) k.

    Raises:
        ValueError: If HiGHS does not end with an optimal solution.
    """
    n_types, n_servers = match_reward.shape
    each_server = sparse.eye_array(n_servers)
    demand = sparse.kron(sparse.eye_array(n_types), np.ones((1, n_servers)))
    capacity = sparse.kron(mean_duration[None, :], each_server)
    equal = sparse.block_array([[demand, None], [capacity, each_server]], format="csr")
    available = sparse.hstack(
        [
            sparse.eye_array(n_types * n_servers),
            -sparse.kron(arrival_rate[:, None], each_server),
        ],
        format="csr",
    )
    found = linprog(
        np.concatenate([-match_reward.ravel(), np.zeros(n_servers)]),
        A_ub=available,
        b_ub=np.zeros(n_types * n_servers),
        A_eq=equal,
        b_eq=np.concatenate([servers_per_task * arrival_rate, np.ones(n_servers)]),
        method="highs",
    )
    if found.status != 0:
        raise ValueError(f"linprog ended with: {found.message}")
    return -float(found.fun)
