"""Queue instances by construction: the hard pair of the lower bound, and drawn ones.

A generator draws a weight for every replication, so that a comparison is over instances as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, shorten, whole_problems
from opportune.kernels.contexts import PROBE, WEIGHT, draw_uniform_contexts
from opportune.kernels.streams import words
from opportune.model.checks import number_problem
from opportune.model.contexts import SignedContexts, UniformContexts
from opportune.model.loss import numbered
from opportune.model.queue import (
    LEAST_CURVATURE,
    MAX_DIMENSION,
    MAX_HORIZON,
    MAX_SERVERS,
    QueueInstance,
)
from opportune.model.streams import stream_key

Float = NDArray[np.float64]

PROBES = 100
"""Contexts by which a drawn weight is tried."""

MOST_CANDIDATES = 100
"""Candidates for a context, on average, that a weight may need; otherwise another is drawn."""

HARD_BOUND = 1.0
"""S told on the hard pair: its norm would give the gap away, and where an online estimate is held
to so small a ball it forgets what pulled it to the border."""

MOST_WEIGHTS = 1000
"""Weights drawn before a generator is refused."""


def logit(rate: float) -> float:
    """log(rate / (1 - rate)), infinite at 0 and 1."""
    if rate <= 0:
        return -math.inf
    return math.inf if rate >= 1 else math.log(rate / (1.0 - rate))


def largest_logit(kappa: float) -> float:
    """z_max with 1 / mu'(z_max) = kappa: log((kappa - 2 + sqrt(kappa (kappa - 4))) / 2).

    Implements: CQB 7.3 (ours, from kappa = 2 + e^z + e^-z).
    """
    return math.log((kappa - 2.0 + math.sqrt(kappa * (kappa - LEAST_CURVATURE))) / 2.0)


def curvature_bound(size: float) -> float:
    """kappa = 1 / mu'(S) = 2 + e^S + e^-S, the largest over logits up to S in size."""
    return 2.0 + math.exp(size) + math.exp(-size) if size < 700 else math.inf


def hard_gap(horizon: int) -> float:
    """Delta_T = 1 / (8 sqrt T): best rate 1/2 + Delta_T, the other servers 1/2 - Delta_T."""
    return 1.0 / (8.0 * math.sqrt(horizon))


def hard_instance(
    horizon: int,
    dimension: int = 1,
    n_servers: int = 2,
    arrival_rate: float = 0.4,
    negative: bool = False,
) -> QueueInstance:
    """nu_T^+ or nu_T^-: two instances that no policy can tell apart within T steps.

    Implements: CQB section 4, reconstructed. The first ceil(K/2) servers have the sign +1;
    theta = +- logit(1/2 + Delta_T) (1, ..., 1), so those are best in nu^+ and worst in nu^-.

    Raises:
        InputError: If there is no slack, lambda >= 1/2, or a number is out of range.
    """
    problems = whole_problems(
        (
            ("horizon", horizon, 2, MAX_HORIZON),
            ("dimension", dimension, 1, MAX_DIMENSION),
            ("servers", n_servers, 2, MAX_SERVERS),
        )
    )
    if problems:
        raise InputError(problems)
    number = isinstance(arrival_rate, (int, float)) and not isinstance(arrival_rate, bool)
    if not number or not 0 <= arrival_rate < 0.5:
        expected = "a number from 0 and below 1/2, since every task's best rate is just above 1/2"
        raise InputError(Problem("arrival_rate", shorten(arrival_rate), expected))
    size = logit(0.5 + hard_gap(horizon)) * (-1.0 if negative else 1.0)
    bound = max(HARD_BOUND, abs(size) * math.sqrt(dimension))
    good = (n_servers + 1) // 2
    return QueueInstance(
        arrival_rate=arrival_rate,
        true_weight=np.full((1, dimension), size),
        contexts=SignedContexts((1,) * good + (-1,) * (n_servers - good)),
        n_servers=n_servers,
        slack=0.5 - arrival_rate,
        curvature=curvature_bound(bound),
        horizon=horizon,
        weight_bound=bound,
        name="hard-v1@1" if negative else "hard-v1",
    )


@dataclass(frozen=True)
class QueueGenerator:
    """A law of queue instances: every replication draws its own weight and contexts.

    Implements: CQB 7.1 to 7.3, reconstructed: entries of weights uniform on (-1, 1), contexts by
    rejection so that every task has a best rate of at least arrival_rate + slack and no pair a
    logit beyond kappa's. Features are divided by the root of their length and the weight
    multiplied by it, so that norms are at most one.

    Attributes:
        arrival_rate: Probability that a task arrives in a step.
        n_servers: Number of servers K.
        entries: Numbers in a feature vector.
        shared: One weight with features of its own a pair; otherwise one weight a server.
        slack: What the best rate of every task exceeds the arrival rate by, at least.
        curvature: Bound of 1 / mu'(z).
        horizon: Steps of a run if nothing else is said.
        name: For tables.
        oracle_knows: As in :class:`QueueInstance`.

    Raises:
        InputError: Naming the field that is wrong.
    """

    arrival_rate: float
    n_servers: int
    entries: int
    shared: bool
    slack: float
    curvature: float
    horizon: int
    name: str = "generated"
    oracle_knows: str = "rates"

    def __post_init__(self) -> None:
        for name in ("arrival_rate", "slack", "curvature"):
            problem = number_problem(name, getattr(self, name))
            if problem is not None:
                raise InputError(problem)
        best = self.arrival_rate + self.slack
        if not (0 <= self.arrival_rate <= 1 and self.slack > 0 and best < 1):
            told = f"{self.arrival_rate:g} with slack {self.slack:g}"
            remedy = "lower one of them: every task's best rate exceeds their sum"
            raise InputError(Problem("arrival_rate", told, "a positive slack, sum < 1", remedy))
        if not self.curvature >= LEAST_CURVATURE:
            raise InputError(
                Problem("curvature", shorten(self.curvature), "a number of at least 4")
            )
        UniformContexts(logit(best), largest_logit(self.curvature))
        problems = whole_problems(
            (
                ("n_servers", self.n_servers, 1, MAX_SERVERS),
                ("entries", self.entries, 1, MAX_DIMENSION),
                ("horizon", self.horizon, 1, MAX_HORIZON),
            )
        )
        if problems:
            raise InputError(problems)

    @property
    def disjoint(self) -> bool:
        """Whether every server has a weight of its own."""
        return not self.shared and self.n_servers > 1

    @property
    def servers(self) -> tuple[str, ...]:
        """Names of the servers."""
        return numbered("server", self.n_servers)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know."""
        return ("every replication draws its own weight and contexts",)

    @property
    def replays(self) -> bool:
        """Whether recorded outcomes decide: never."""
        return False

    @property
    def dimension(self) -> int:
        """Numbers to be learned, d: the entries of all weights."""
        return self.entries * (self.n_servers if self.disjoint else 1)

    @property
    def norm_bound(self) -> float:
        """S: no drawn weight has a larger norm."""
        return self.entries * math.sqrt(self.n_servers if self.disjoint else 1)

    @property
    def diversity(self) -> float:
        """sigma_0^2, as of any instance that is drawn (rejection left aside)."""
        return 1.0 / 3.0 / self.dimension

    def with_rate(self, arrival_rate: float) -> QueueGenerator:
        """The same law at another arrival rate; the slack stays, so tasks are easier or harder."""
        return replace(self, arrival_rate=arrival_rate)

    def replicate(self, seed: int, replication: int) -> QueueInstance:
        """The instance of a replication.

        Raises:
            InputError: If hardly any context fits any weight.
        """
        key = stream_key(seed, replication)
        scale = 1.0 / math.sqrt(self.entries)
        rows = 1 if self.shared else self.n_servers
        law = UniformContexts(logit(self.arrival_rate + self.slack), largest_logit(self.curvature))
        for attempt in range(MOST_WEIGHTS):
            weight = _drawn_weight(key, attempt, (rows, self.entries)) / scale
            if self._fits(key, weight, law):
                return QueueInstance(
                    arrival_rate=self.arrival_rate,
                    true_weight=weight,
                    contexts=law,
                    n_servers=self.n_servers,
                    slack=self.slack,
                    curvature=self.curvature,
                    horizon=self.horizon,
                    name=self.name,
                    oracle_knows=self.oracle_knows,
                )
        told = f"rate {self.arrival_rate:g}, slack {self.slack:g}, curvature {self.curvature:g}"
        remedy = "lower the arrival rate or the slack, or raise the dimension or the curvature"
        raise InputError(Problem("arrival_rate", told, "tasks that some server serves", remedy))

    def _fits(self, key: tuple[np.uint64, np.uint64], weight: Float, law: UniformContexts) -> bool:
        """Whether contexts that fit the weight are not too rare."""
        n = PROBES * MOST_CANDIDATES
        features = np.empty((n, self.n_servers if self.shared else 1, self.entries))
        rate = np.empty((n, self.n_servers))
        everything = (-math.inf, math.inf, 1.0 / math.sqrt(self.entries))
        draw_uniform_contexts(key, PROBE, weight, everything, (features, rate))
        least, top = (1.0 / (1.0 + math.exp(-z)) for z in (law.least_logit, law.largest_logit))
        best, worst = rate.max(axis=1), rate.min(axis=1)
        return int(((best >= least) & (best <= top) & (worst >= 1.0 - top)).sum()) >= PROBES


def _drawn_weight(key: tuple[np.uint64, np.uint64], attempt: int, shape: tuple[int, int]) -> Float:
    """Entries uniform on (-1, 1): the ``attempt``-th candidate of a replication."""
    size = shape[0] * shape[1]
    blocks = (size + 3) // 4
    first = attempt * blocks
    drawn = [words(key, WEIGHT, np.uint64(first + block)) for block in range(blocks)]
    entries = np.array(drawn, dtype=np.float64).ravel()[:size]
    return np.asarray((entries + 0.5) / 2.0**31 - 1.0).reshape(shape)


QueueWorld = QueueInstance | QueueGenerator
"""What can be run: an instance, or a law that gives each replication one."""
