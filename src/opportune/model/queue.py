"""The queueing model: tasks wait in one queue, one of them is tried by one server in each step.

In a step at most one task arrives, with probability ``arrival_rate``. One waiting task is given
to one server, which succeeds with probability mu(<phi(x, a), theta>), mu(z) = 1 / (1 + e^-z); then
the task departs, otherwise it goes on waiting and may be given to another server. What arrives in
a step can be served from the next one on (CQB 2606.09668, section 2, quoted; the display
Q(t+1) = [Q(t) - D(t)]^+ + A(t) reconstructed).
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, is_whole, shorten
from opportune.kernels.contexts import departure_rates
from opportune.model.axes import Quantity
from opportune.model.checks import name_problems, number_problem, plain_array
from opportune.model.contexts import ContextLaw, ContextPool, SignedContexts, UniformContexts

Float = NDArray[np.float64]

MAX_HORIZON = 10**8
MAX_SERVERS = 10**4
MAX_DIMENSION = 2000
"""Longest run, in steps: its streams are held in memory."""

KNOWLEDGE = ("rates", "outcomes", "servers")
"""What the oracle may know: the success rate of every pair; in a replay what will happen as well;
or only the mean success rate of every server."""

LEAST_CURVATURE = 4.0
"""It bounds 1 / mu'(z) from above, which is at least 4."""


@dataclass(frozen=True, eq=False)
class QueueInstance:
    """Servers with unknown success rates, and tasks with contexts that wait for them.

    Build one with :func:`opportune.load_queue` (a catalog id or a file) or directly.

    Attributes:
        contexts: Law of the contexts.
        n_servers: Number of servers K.
        servers: Their names.
        horizon: Steps of a run if nothing else is said; queue lengths are told at its start.
        name: For tables.
        notes: What a reader should know of how it was made.
        oracle_knows: One of :data:`KNOWLEDGE`.
        weight_bound: S, what algorithms are told of the norm of all weights; None for the norm.

    Raises:
        InputError: Naming every field that is wrong.
    """

    arrival_rate: Annotated[
        float, Quantity("lambda", "", "probability per step", "probability that a task arrives")
    ]
    true_weight: Annotated[
        Float, Quantity("theta", "W,x", "logit", "weights: one row shared, or one a server")
    ]
    contexts: ContextLaw
    n_servers: int
    slack: Annotated[
        float,
        Quantity(
            "epsilon",
            "",
            "probability per step",
            "what every best rate exceeds the arrival rate by",
        ),
    ]
    curvature: Annotated[
        float, Quantity("kappa", "", "1", "upper bound of 1 / mu'(z) over all pairs (at least 4)")
    ]
    servers: tuple[str, ...] = ()
    horizon: int = 2000
    name: str = "queue"
    notes: tuple[str, ...] = ()
    oracle_knows: str = "rates"
    weight_bound: float | None = None

    def __post_init__(self) -> None:
        if not self.servers and isinstance(self.n_servers, int):
            names = tuple(f"server-{a + 1}" for a in range(self.n_servers))
            object.__setattr__(self, "servers", names)
        problems = _number_problems(self)
        weight_problem = number_problem("true_weight", self.true_weight)
        if weight_problem is not None:
            problems.append(weight_problem)
        weight = plain_array(self.true_weight)
        if not problems:
            problems += _shape_problems(self, weight)
        if problems:
            raise InputError(problems)
        kept = np.array(weight, dtype=np.float64, order="C")
        kept.setflags(write=False)
        object.__setattr__(self, "true_weight", kept)

    @property
    def disjoint(self) -> bool:
        """Whether every server has a weight of its own; otherwise one serves all."""
        return len(self.true_weight) > 1

    @property
    def feature_rows(self) -> int:
        """Rows of features that a context has: one a server, or 1 for all."""
        return 1 if self.disjoint else self.n_servers

    @property
    def dimension(self) -> int:
        """Numbers to be learned, d: the entries of all weights."""
        return int(self.true_weight.size)

    @property
    def norm_bound(self) -> float:
        """S, at least the norm of the true weight: what the radii are told."""
        if self.weight_bound is not None:
            return float(self.weight_bound)
        return float(np.linalg.norm(self.true_weight))

    @property
    def diversity(self) -> float:
        """sigma_0^2: least eigenvalue of E[phi phi'] for a uniformly random server.

        Formula (ours): 1 / d for unit vectors; 1 / 3 / d for uniform entries (rejection left
        aside) and a K-th of it with one weight a server; of a pool by its second moments.
        """
        share = 1.0 / self.n_servers if self.disjoint else 1.0
        if isinstance(self.contexts, SignedContexts):
            return float(1.0 / self.true_weight.shape[1])
        if isinstance(self.contexts, UniformContexts):
            return 1.0 / 3.0 / self.dimension
        rows = self.contexts.features.reshape(-1, self.true_weight.shape[1])
        return share * max(0.0, float(np.linalg.eigvalsh(rows.T @ rows / len(rows))[0]))

    @property
    def replays(self) -> bool:
        """Whether recorded outcomes decide, so that a failed pair is not tried again."""
        return isinstance(self.contexts, ContextPool) and self.contexts.outcome is not None

    def replicate(self, seed: int, replication: int) -> QueueInstance:
        """The instance of a replication: this one, whatever the replication."""
        return self

    def with_rate(self, arrival_rate: float) -> QueueInstance:
        """The same instance with another arrival rate."""
        return replace(self, arrival_rate=arrival_rate)

    def with_numbers(self, arrival_rate: float, slack: float, curvature: float) -> QueueInstance:
        """The same instance with another rate and with what algorithms are told."""
        return replace(self, arrival_rate=arrival_rate, slack=slack, curvature=curvature)

    @cached_property
    def digest(self) -> str:
        """A hash of everything that decides a result, for provenance."""
        state = hashlib.sha256(self.true_weight.tobytes())
        law = self.contexts
        if isinstance(law, ContextPool):
            state.update(law.features.tobytes())
            state.update(b"" if law.outcome is None else law.outcome.tobytes())
        else:
            state.update(repr(law).encode())
        numbers = (self.arrival_rate, self.n_servers, self.slack, self.curvature, self.norm_bound)
        state.update(repr((numbers, self.servers, self.oracle_knows)).encode())
        return state.hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QueueInstance) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


def pool_rates(instance: QueueInstance) -> Float:
    """(C, K) success rate of every context of a pool with every server, by the true weight."""
    if not isinstance(instance.contexts, ContextPool):
        raise TypeError("only a pool lists its contexts")
    features = instance.contexts.features
    rate = np.empty((len(features), instance.n_servers))
    departure_rates(features, instance.true_weight, rate)
    return rate


def _number_problems(instance: QueueInstance) -> list[Problem]:
    problems = []
    for name, least, most in (
        ("arrival_rate", 0.0, 1.0),
        ("slack", -1.0, 1.0),
        ("curvature", LEAST_CURVATURE, math.inf),
    ):
        value = getattr(instance, name)
        number = isinstance(value, (int, float, np.integer, np.floating))
        if not number or isinstance(value, bool) or not least <= value <= most:
            expected = f"a number from {least:g} to {most:g}"
            problems.append(Problem(name, shorten(value), expected))
    for name, largest in (("n_servers", MAX_SERVERS), ("horizon", MAX_HORIZON)):
        value = getattr(instance, name)
        whole = is_whole(value)
        if not whole or not 1 <= value <= largest:
            problems.append(Problem(name, shorten(value), f"a whole number from 1 to {largest}"))
    if instance.oracle_knows not in KNOWLEDGE:
        expected = "one of " + ", ".join(KNOWLEDGE)
        problems.append(Problem("oracle_knows", shorten(instance.oracle_knows), expected))
    if not problems:
        problems += name_problems("servers", instance.servers, instance.n_servers)
    return problems


def _shape_problems(instance: QueueInstance, weight: NDArray[np.float64]) -> list[Problem]:
    n, law = instance.n_servers, instance.contexts
    if weight.ndim != 2 or len(weight) not in (1, n) or weight.size == 0:
        expected = f"one row for all servers, or one for each of {n}"
        return [Problem("true_weight", f"shape {weight.shape}", expected)]
    bound, norm = instance.weight_bound, float(np.linalg.norm(weight))
    if bound is not None and not bound >= norm * (1.0 - 1e-12):
        return [Problem("weight_bound", shorten(bound), f"at least the norm, {norm:.6g}")]
    if not np.isfinite(weight).all():
        return [Problem("true_weight", "a missing or infinite entry", "finite numbers")]
    if isinstance(law, SignedContexts) and (len(law.sign) != n or len(weight) != 1):
        return [Problem("sign", f"{len(law.sign)} signs", f"one for each of {n} servers")]
    if isinstance(law, ContextPool):
        rows = 1 if len(weight) > 1 else n
        shape = (len(law.features), rows, weight.shape[1])
        if law.features.shape != shape:
            return [Problem("contexts", f"shape {law.features.shape}", f"shape {shape}")]
        if law.outcome is not None and law.outcome.shape[1] != n:
            told = f"{law.outcome.shape[1]} columns"
            return [Problem("outcomes", told, f"one for each of {n} servers")]
    elif not isinstance(law, (UniformContexts, SignedContexts)):
        expected = "UniformContexts, SignedContexts or ContextPool"
        return [Problem("contexts", shorten(law), expected)]
    return []
