"""Slow twin of the queue: environment, estimator and policies in plain Python.

Written from the papers (CQB, sections 1 to 6 of the notes on arXiv 2606.09668, 2601.19300 and
2602.02061), not from the kernel. The estimate is the exact minimizer by SciPy; every matrix is
inverted anew in every round.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize

from opportune.kernels.queue import QueueStreams

Float = NDArray[np.float64]
Pair = tuple[int, int]
"""A task (number of its arrival) and a server."""


@dataclass
class Past:
    """What a policy knows: features and outcomes of the rounds in which a task was served.

    ``last`` is where the next search for the estimate starts.
    """

    dimension: int
    features: list[Float] = field(default_factory=list)
    outcomes: list[int] = field(default_factory=list)
    last: Float | None = None


@dataclass
class Round:
    """What a policy sees at the start of a round."""

    t: int
    waiting: list[int]
    newest: int | None
    streams: QueueStreams
    past: Past
    tried: set[Pair]

    def pairs(self) -> list[Pair]:
        """Waiting tasks in the order of arrival, servers ascending, without spent pairs."""
        servers = range(self.streams.rate.shape[1])
        found = [(i, a) for i in self.waiting for a in servers]
        return [one for one in found if not (self.streams.once and one in self.tried)]

    def phi(self, pair: Pair) -> Float:
        """The features of a pair; with one weight a server, e_a (x) x."""
        i, a = pair
        if not self.streams.disjoint:
            return np.asarray(self.streams.features[i, a])
        n_servers, entries = self.streams.rate.shape[1], self.streams.features.shape[2]
        whole = np.zeros((n_servers, entries))
        whole[a] = self.streams.features[i, 0]
        return whole.ravel()

    def best(self, index: Callable[[Pair], float], within: float = 1e-8) -> Pair:
        """The pair of largest index; among j tied ones that at place floor(u j).

        What is equal but for the rounding of an inverse is tied.
        """
        pairs = self.pairs()
        values = [index(one) for one in pairs]
        top = max(values)
        tied = [one for one, value in zip(pairs, values, strict=True) if value >= top - within]
        return tied[int(self.streams.choice[self.t, 0] * len(tied))]

    def uniform_server(self, i: int) -> int | None:
        """A uniform one of the servers that have not failed on the task yet; None if all have."""
        servers = range(self.streams.rate.shape[1])
        spent = self.tried if self.streams.once else set()
        left = [a for a in servers if (i, a) not in spent]
        return left[int(self.streams.server[self.t, 0] * len(left))] if left else None

    def first_served(self, start: int) -> Pair:
        """From a place of the queue on, in a circle: the first task with a server left for it."""
        for step in range(len(self.waiting)):
            i = self.waiting[(start + step) % len(self.waiting)]
            server = self.uniform_server(i)
            if server is not None:
                return i, server
        raise AssertionError("every waiting task has failed everywhere")


Policy = Callable[[Round], tuple[Pair, bool]]
"""The pair to serve, and whether it was random exploration."""


@dataclass
class Path:
    """Q(1), ..., Q(T) and what was done in each round (None where the queue was empty)."""

    queue: list[int]
    served: list[Pair | None]
    success: list[bool]
    explored: list[bool]


def mu(z: float) -> float:
    """1 / (1 + e^-z), without overflow."""
    return 1.0 / (1.0 + math.exp(-z)) if z >= 0 else math.exp(z) / (1.0 + math.exp(z))


def run(streams: QueueStreams, policy: Policy, until: int | None = None) -> Path:
    """Rounds 1 to T - 1: choose, serve, learn, then admit what arrives.

    Args:
        streams: The randomness.
        policy: What chooses.
        until: Follow the policy in rounds 1, ..., until and the oracle afterwards (pi_t of
            CQB 1.4); None for to the end.
    """
    horizon = len(streams.uniform)
    arrivals: dict[int, list[int]] = {}
    for i, t in enumerate(streams.arrival_round):
        arrivals.setdefault(int(t), []).append(i)
    n_servers, entries = streams.rate.shape[1], streams.features.shape[2]
    past = Past(entries * (n_servers if streams.disjoint else 1))
    waiting = list(arrivals.get(0, []))
    newest: int | None = None
    tried: set[Pair] = set()
    path = Path([], [], [], [])
    for t in range(1, horizon):
        path.queue.append(len(waiting))
        chosen, explored, success = None, False, False
        if waiting:
            now = Round(t, waiting, newest, streams, past, tried)
            by = policy if until is None or t <= until else oracle
            chosen, explored = by(now)
            i, a = chosen
            success = bool(streams.uniform[t, 0] < streams.rate[i, a])
            past.features.append(now.phi(chosen))
            past.outcomes.append(int(success))
            tried.add(chosen)
            if success:
                waiting = [one for one in waiting if one != i]
        path.served.append(chosen)
        path.success.append(success)
        path.explored.append(explored)
        newest = None
        for i in arrivals.get(t, []):
            waiting = [*waiting, i]
            newest = i
    path.queue.append(len(waiting))
    return path


# -------------------------------------------------------------------------- estimation


def mle(past: Past, ridge: float, bound: float = math.inf) -> Float:
    """argmin over ||theta|| <= bound of the logistic loss + ridge / 2 ||theta||^2 (CQB 2.1).

    On the ball's border the minimum is that of a larger ridge, whose norm is the bound.
    """
    if not past.features:
        return np.zeros(past.dimension)
    free = _penalized(past, ridge)
    if np.linalg.norm(free) <= bound:
        return free

    def too_long(more: float) -> float:
        return float(np.linalg.norm(_penalized(past, ridge + more))) - bound

    most = 1.0
    while too_long(most) > 0:
        most *= 2.0
    return _penalized(past, ridge + float(brentq(too_long, 0.0, most, xtol=1e-14, rtol=1e-15)))


def _penalized(past: Past, ridge: float) -> Float:
    """The minimum without a constraint, to the last digits."""
    x, y = np.array(past.features), np.array(past.outcomes, dtype=float)

    def loss(theta: Float) -> tuple[float, Float]:
        z = x @ theta
        value = np.logaddexp(0.0, z).sum() - y @ z + 0.5 * ridge * theta @ theta
        return float(value), x.T @ (1.0 / (1.0 + np.exp(-z)) - y) + ridge * theta

    def curvature(theta: Float) -> Float:
        rate = 1.0 / (1.0 + np.exp(-x @ theta))
        return np.asarray((x.T * (rate * (1 - rate))) @ x + ridge * np.eye(len(theta)))

    start = past.last if past.last is not None else np.zeros(past.dimension)
    options: Any = {"gtol": 1e-6}
    found = minimize(loss, start, jac=True, hess=curvature, method="trust-exact", options=options).x
    for _ in range(2):  # two Newton steps more, to the last digits
        found = found - np.linalg.solve(curvature(found), loss(found)[1])
    past.last = found
    return np.asarray(found)


def radius(t: int, d: int, told: tuple[float, float, float, float]) -> float:
    """beta_t of CQB 2.3, the tight form.

    kappa sqrt(d/4 log(1 + t/(kappa l d)) + log(1/delta)/2)
    + S sqrt(kappa l); ``told`` is (kappa, l, S, delta).
    """
    kappa, ridge, bound, delta = told
    spread = d / 4 * math.log(1 + t / (kappa * ridge * d)) + 0.5 * math.log(1 / delta)
    return kappa * math.sqrt(spread) + bound * math.sqrt(kappa * ridge)


def design(past: Past, start: float) -> Float:
    """V = start I + sum of phi phi' over the served rounds (CQB 2.2: start = kappa l)."""
    v = start * np.eye(past.dimension)
    for phi in past.features:
        v += np.outer(phi, phi)
    return v


def information(past: Past, theta: Float, ridge: float) -> Float:
    """H = sum of mu'(<phi, theta>) phi phi' + ridge I: the observed information."""
    h = ridge * np.eye(past.dimension)
    for phi in past.features:
        p = mu(float(phi @ theta))
        h += p * (1 - p) * np.outer(phi, phi)
    return h


# ---------------------------------------------------------------------------- policies


def oracle(now: Round) -> tuple[Pair, bool]:
    """argmax of what is known of the pair (CQB 1.3)."""
    return now.best(lambda one: float(now.streams.known[one])), False


def random(now: Round) -> tuple[Pair, bool]:
    """A uniform waiting task, a uniform server."""
    return now.first_served(int(now.streams.choice[now.t, 0] * len(now.waiting))), True


def fifo_random(now: Round) -> tuple[Pair, bool]:
    """The task that has waited longest, a uniform server."""
    return now.first_served(0), True


def exploring(share: Callable[[int], float], otherwise: Policy) -> Policy:
    """A fresh arrival goes to a uniform server with probability share(t) (CQB 3.1)."""

    def choose(now: Round) -> tuple[Pair, bool]:
        if now.newest is not None and now.streams.explore[now.t] < share(now.t):
            server = now.uniform_server(now.newest)
            assert server is not None  # it has just arrived
            return (now.newest, server), True
        return otherwise(now)

    return choose


def greedy(ridge: float, bound: float = math.inf) -> Policy:
    """argmax of the estimated logit."""

    def choose(now: Round) -> tuple[Pair, bool]:
        theta = mle(now.past, ridge, bound)
        return now.best(lambda one: float(now.phi(one) @ theta)), False

    return choose


def ucb(scale: float, told: tuple[float, float, float, float]) -> Policy:
    """argmax of mu(<phi, theta>) + scale beta ||phi||_{V^-1} (CQB 2.4); told as in ``radius``."""

    def choose(now: Round) -> tuple[Pair, bool]:
        kappa, ridge, bound, _ = told
        theta = mle(now.past, ridge, bound)
        inverse = np.linalg.inv(design(now.past, kappa * ridge))
        beta = radius(len(now.past.features), now.past.dimension, told)

        def index(one: Pair) -> float:
            phi = now.phi(one)
            return mu(float(phi @ theta)) + scale * beta * math.sqrt(float(phi @ inverse @ phi))

        return now.best(index), False

    return choose


def optimistic(deviations: float, ridge: float) -> Policy:
    """argmax of the logit plus some posterior standard deviations of it (ours)."""

    def choose(now: Round) -> tuple[Pair, bool]:
        theta = mle(now.past, ridge)
        inverse = np.linalg.inv(information(now.past, theta, ridge))

        def index(one: Pair) -> float:
            phi = now.phi(one)
            return float(phi @ theta) + deviations * math.sqrt(float(phi @ inverse @ phi))

        return now.best(index), False

    return choose


def three_phases(first: float, second: float, eta: float) -> Callable[[int], float]:
    """p_t of CQB-eta-2: 1 up to tau_1, eta up to tau_2, then 0."""
    return lambda t: 1.0 if t <= first else eta if t <= second else 0.0
