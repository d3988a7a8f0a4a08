"""All randomness of a queue run, drawn beforehand: every policy of a replication sees the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, is_whole, shorten
from opportune.kernels.contexts import (
    ARRIVAL,
    CONTEXT,
    COPIES,
    DELAY,
    DEPARTURE,
    EXPLORE,
    SERVER,
    TIE,
    departure_rates,
    draw_uniform_contexts,
    fill_units,
)
from opportune.kernels.queue import QueueStreams
from opportune.model.contexts import ContextPool, SignedContexts
from opportune.model.queue import MAX_HORIZON, QueueInstance
from opportune.model.queue_capacity import mean_rates
from opportune.model.queue_generator import QueueWorld
from opportune.model.streams import Key, stream_key

Float = NDArray[np.float64]

MOST_AT_ONCE = 1000
"""Servers that may work in one step."""


@dataclass(frozen=True)
class Feedback:
    """How outcomes reach the learner; the queue itself sees each of them at once.

    Attributes:
        delay: Rounds until an outcome is learned from: uniform from 0 to twice this, so that
            reports come out of order as well; 0 for at once.
        lost: Share of outcomes that are never reported.
        repeated: Share of outcomes that are reported twice.

    Raises:
        InputError: Naming the number that is out of range.
    """

    delay: int = 0
    lost: float = 0.0
    repeated: float = 0.0

    def __post_init__(self) -> None:
        whole = is_whole(self.delay)
        if not whole or not 0 <= self.delay <= MAX_HORIZON:
            told = f"a whole number from 0 to {MAX_HORIZON}"
            raise InputError(Problem("delay", shorten(self.delay), told))
        for name in ("lost", "repeated"):
            value = getattr(self, name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not number or not 0 <= value <= 1:
                raise InputError(Problem(name, shorten(value), "a share from 0 to 1"))
        if self.lost + self.repeated > 1:
            told = f"{self.lost + self.repeated:g} together"
            raise InputError(Problem("lost", told, "lost and repeated to be at most 1 together"))


class _Drawn(NamedTuple):
    features: Float  # (n, m, x)
    rate: Float  # (n, K)
    known: Float  # (n, K)


def queue_streams(
    world: QueueWorld,
    horizon: int,
    seed: int,
    replication: int,
    servers_at_once: int = 1,
    feedback: Feedback | None = None,
) -> QueueStreams:
    """The streams of a replication; a longer horizon begins with the same rounds and arrivals.

    Args:
        world: An instance, or a generator, which draws the instance of the replication first.
        horizon: T: rounds 1 to T - 1 are played, Q(T) is the last queue length.
        seed: Seed of all streams.
        replication: Which replication.
        servers_at_once: Servers that work in a round, each on a task of its own.
        feedback: Late, lost and repeated reports; None for none of them.

    Raises:
        InputError: If a number is out of range.
    """
    for name, value, most in (
        ("horizon", horizon, MAX_HORIZON),
        ("servers_at_once", servers_at_once, MOST_AT_ONCE),
    ):
        whole = is_whole(value)
        if not whole or not 1 <= value <= most:
            raise InputError(Problem(name, shorten(value), f"a whole number from 1 to {most}"))
    key = stream_key(seed, replication)
    instance = world.replicate(seed, replication)
    arrives = units(key, ARRIVAL, horizon) < instance.arrival_rate
    arrives[:1] = False
    rounds = np.flatnonzero(arrives).astype(np.int32)
    drawn = _contexts(instance, key, len(rounds))
    told = _reports(key, horizon, feedback)
    at_once = (horizon, servers_at_once)
    size = horizon * servers_at_once
    return QueueStreams(
        arrival_round=rounds,
        features=drawn.features,
        rate=drawn.rate,
        known=_known(instance, drawn),
        uniform=units(key, DEPARTURE, size).reshape(at_once),
        explore=units(key, EXPLORE, horizon),
        server=units(key, SERVER, size).reshape(at_once),
        choice=units(key, TIE, size).reshape(at_once),
        delay=told[0],
        copies=told[1],
        key=key,
        disjoint=instance.disjoint,
        once=instance.replays,
    )


def units(key: Key, purpose: int, n: int) -> Float:
    """(n,) numbers in [0, 1) from the start of a purpose's stream."""
    out = np.empty(n)
    fill_units(key, purpose, out)
    return out


def _contexts(instance: QueueInstance, key: Key, n: int) -> _Drawn:
    law, weight = instance.contexts, instance.true_weight
    n_servers = instance.n_servers
    rate = np.empty((n, n_servers))
    if isinstance(law, ContextPool):
        at = np.minimum(units(key, CONTEXT, n) * len(law.features), len(law.features) - 1)
        rows = at.astype(np.int64)
        features = np.ascontiguousarray(law.features[rows])
        departure_rates(features, weight, rate)
        if law.outcome is not None:
            return _Drawn(features, law.outcome[rows].astype(np.float64), rate)
        return _Drawn(features, rate, rate)
    if isinstance(law, SignedContexts):
        d = weight.shape[1]
        entry = np.minimum((units(key, CONTEXT, n) * d).astype(np.int64), d - 1)
        features = np.zeros((n, n_servers, d))
        features[np.arange(n)[:, None], np.arange(n_servers)[None, :], entry[:, None]] = law.sign
        departure_rates(features, weight, rate)
        return _Drawn(features, rate, rate)
    d = weight.shape[1]
    features = np.empty((n, instance.feature_rows, d))
    limits = (law.least_logit, law.largest_logit, 1.0 / np.sqrt(d))
    if draw_uniform_contexts(key, CONTEXT, weight, limits, (features, rate)) < 0:
        told = f"best logit of at least {law.least_logit:.3g}, none beyond {law.largest_logit:.3g}"
        remedy = "another weight, a lower arrival rate or a larger curvature"
        raise InputError(Problem("contexts", "none fits the weight", told, remedy))
    return _Drawn(features, rate, rate)


def _known(instance: QueueInstance, drawn: _Drawn) -> Float:
    """What the oracle goes by."""
    if instance.oracle_knows == "outcomes":
        return drawn.rate
    if instance.oracle_knows == "servers":
        return np.array(np.broadcast_to(mean_rates(instance), drawn.rate.shape))
    return drawn.known


def _reports(
    key: Key, horizon: int, feedback: Feedback | None
) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Delay and number of reports of every round's outcome; empty where all is as usual."""
    none = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int8)
    if feedback is None:
        return none
    delay, copies = none
    if feedback.delay > 0:
        spread = units(key, DELAY, horizon) * (2 * feedback.delay + 1)
        delay = spread.astype(np.int32)
    if feedback.lost > 0 or feedback.repeated > 0:
        u = units(key, COPIES, horizon)
        copies = np.ones(horizon, dtype=np.int8)
        copies[u < feedback.lost] = 0
        copies[u >= 1.0 - feedback.repeated] = 2
    return delay, copies
