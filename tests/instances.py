"""Random instances for tests, small enough for the slow twins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opportune.errors import InputError
from opportune.model.duration import Deterministic, Duration, Empirical, Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.policies.base import Plan, loss_policy
from opportune.pricing.demand import AT_MOST
from opportune.pricing.feasibility import max_load
from opportune.pricing.occupancy import price

STATIC = (
    "lag",
    "lag-cheapest",
    "whittle",
    "whittle-load-aware",
    "alg-sc-lp",
    "alg-sc-lp-vertex",
    "greedy",
    "random",
)
"""Policies whose plan is one list (or weights) per type, for every instance."""


def static_plans(instance: LossInstance) -> list[Plan]:
    """Their plans, at prices of OCC-LP(<=), which always exist."""
    prices = price(instance, AT_MOST)
    return [loss_policy(name).plan(instance, prices) for name in STATIC]


@dataclass(frozen=True)
class Shape:
    """What kind of instance to draw.

    Attributes:
        types, servers: Largest V and R.
        scores: ``smooth`` (all different) or ``levels`` (0, 1/2, 1: many ties).
        forbidden: Whether pairs are forbidden.
        k: Largest number of servers per task.
        per_type: Whether k and the mean duration differ by type.
        duration: ``geometric``, ``deterministic``, ``empirical`` or ``mixed``.
    """

    types: int = 6
    servers: int = 9
    scores: str = "smooth"
    forbidden: bool = False
    k: int = 3
    per_type: bool = False
    duration: str = "geometric"


def random_instance(rng: np.random.Generator, shape: Shape, load: float = 0.0) -> LossInstance:
    """One instance of a shape, at ``load`` times its last feasible load if a load is given."""
    n_types = int(rng.integers(1, shape.types + 1))
    n_servers = int(rng.integers(2, shape.servers + 1))
    most = min(shape.k, n_servers - 1)
    one = int(rng.integers(1, most + 1))
    k = [int(x) for x in rng.integers(1, most + 1, n_types)] if shape.per_type else [one] * n_types
    size = (n_types, n_servers)
    scores = rng.random(size) if shape.scores == "smooth" else rng.integers(0, 3, size) / 2
    durations = [_duration(rng, shape.duration) for _ in range(n_types if shape.per_type else 1)]
    instance = loss_instance(
        scores,
        (rng.random(n_types) + 0.05) / (2 * n_types),
        durations if shape.per_type else durations[0],
        k,
        allowed=_allowed(rng, k, n_servers) if shape.forbidden else None,
    )
    limit = max_load(instance)
    if load == 0.0 or limit <= 0.0:
        return instance
    try:
        return instance.with_load(load * limit)
    except InputError:  # more than one arrival a step: as it is, if that can be served
        return instance if instance.load < limit else random_instance(rng, shape, load)


def _allowed(rng: np.random.Generator, k: list[int], n_servers: int) -> np.ndarray:
    """Permitted pairs, at least k + 1 a type where there are as many servers."""
    allowed = rng.random((len(k), n_servers)) < 0.6
    for v, needed in enumerate(k):
        missing = min(needed + 1, n_servers) - int(allowed[v].sum())
        if missing > 0:
            allowed[v, rng.permutation(np.flatnonzero(~allowed[v]))[:missing]] = True
    return allowed


def _duration(rng: np.random.Generator, kind: str) -> Duration:
    if kind == "mixed":
        kind = ("geometric", "deterministic", "empirical")[int(rng.integers(3))]
    if kind == "geometric":
        return Geometric(1.0 + 15.0 * float(rng.random()))
    if kind == "deterministic":
        return Deterministic(int(rng.integers(1, 15)))
    steps = rng.choice(np.arange(1, 30), size=int(rng.integers(1, 5)), replace=False)
    return Empirical(steps, rng.random(len(steps)) + 0.1)
