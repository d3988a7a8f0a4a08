"""Blocking: the share of arriving tasks that find fewer than k servers free.

Without forbidden pairs and with one k it is the same for every work-conserving policy and
every type (LAG Lemma 3.1, quoted), so it can be known before any policy runs.
"""

from __future__ import annotations

from opportune.kernels.markov import headcount_transition, stationary
from opportune.model.loss import LossInstance

MAX_CHAIN = 2000
"""Largest headcount M for which the chain is solved (its cost grows with M cubed)."""


def exact_blocking(instance: LossInstance) -> float | None:
    """B, exactly, or None where the headcount is no chain.

    Needs memoryless durations of one mean, one k, no forbidden pair, all servers on duty, and a
    headcount of at most ``MAX_CHAIN`` tasks. Componentwise accurate (GTH), so tiny values
    are right too.
    """
    mean, k = instance.memoryless_mean, instance.one_k
    if mean is None or k is None or instance.has_forbidden_pairs or instance.is_part_time:
        return None
    most = instance.n_servers // k
    arrival = float(instance.arrival_rate.sum())
    if not arrival > 0:
        return 0.0
    if most > MAX_CHAIN:
        return None
    return float(stationary(headcount_transition(most, arrival, 1.0 / mean))[-1])


def erlang_b(instance: LossInstance) -> float | None:
    """Erlang-B(floor(R/k), sum_v lambda_v E[D_v]): the continuous-time reference value.

    The share of calls lost by ``floor(R/k)`` lines at that offered load, R the servers on duty at a
    time. None if k differs or durations depend on the server.
    """
    k = instance.one_k
    if k is None or instance.server_duration is not None:
        return None
    offered = float(instance.arrival_rate @ instance.mean_duration)
    return erlang_loss(offered, int(instance.servers_on_duty + 1e-9) // k)


def erlang_loss(offered: float, lines: int) -> float:
    """Erlang-B: the share of calls lost by ``lines`` lines, ``offered`` calls long at a time.

    Implements: B_n = a B_{n-1} / (n + a B_{n-1}), B_0 = 1 (textbook, quoted); a = ``offered``.
    """
    if not offered > 0:
        return 0.0
    inverse = 1.0  # 1/B by the recursion 1/B_n = 1 + n / (a B_{n-1})
    for n in range(1, lines + 1):
        inverse = 1.0 + n / offered * inverse
        if inverse == float("inf"):
            return 0.0
    return 1.0 / inverse


def least_blocking(instance: LossInstance, blocking: float) -> float:
    """The blocking raised, if need be, to the least at which OCC-LP(B) is feasible.

    No forbidden pairs: max_v k_v (1 - B) <= R - R rho (1 - B), R the servers on duty. A simulated
    B can fall below it by chance under heavy load.
    """
    k = int(instance.servers_per_task.max())
    there = instance.servers_on_duty
    least = 1.0 - there / (k + there * instance.load)
    return max(blocking, least)
