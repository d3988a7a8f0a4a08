"""From a learner's counts to what it publishes: scores, rates, durations.

Implements: ``learned.md`` 1 and 1.3 (ours), as in the simulation: a table of estimates shrunk to
server and task type, plus posterior deviations of optimism (``learning.shrinkage``), or regressions
on contexts without optimism (``learner_contexts``); rates and mean
durations from counts, the load capped (``learning.pace.CAP``). A declared score counts as
``prior_strength`` outcomes beside the table, a declared rate as so many arrivals, a declared mean
duration as so many services.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune.learning.pace import CAP
from opportune.learning.shrinkage import anchored, shrink_table
from opportune.service.learner_contexts import ContextScores, context_scores
from opportune.service.learner_counts import GRAIN, Counts
from opportune.service.learner_pairs import GRAINS, LABELED, OUTCOMES, SERVED
from opportune.service.ordering import permitted
from opportune.service.resources import Array, LearnedDocument
from opportune.service.state import State

Float = NDArray[np.float64]

SHORTEST = 1e-6
"""Seconds of the shortest mean duration."""

FEWEST, GROWTH = 10, 0.02
"""A publication is due when the outcomes reported grew by this share, and by this many at least."""

SURE, MATERIAL = 30, 0.2
"""Arrivals from which on a load counts that differs by so much from the one published."""


@dataclass(frozen=True, eq=False)
class Paces:
    """What is known of V types in time, and the R servers that are in the pool.

    Attributes:
        task_types, servers: Names.
        rate, mean_duration: (V,) None where nobody knows; rates as measured, not capped.
        cap: Factor of the rates in a publication, at most 1.
        load: Busy share of the servers that rates and durations mean.
    """

    task_types: list[str]
    servers: list[str]
    rate: list[float | None]
    mean_duration: list[float | None]
    cap: float
    load: float


@dataclass(frozen=True, eq=False)
class Estimates(Paces):
    """What is known of the pairs as well.

    Attributes:
        mean, deviation, score: (V, R) in reward; NaN for a pair that is not permitted.
        outcomes, served, labeled: (V, R) counts.
        low, high: Of an outcome.
        features: Context fields behind the scores; none: they go by type.
        weight: (R, p) what they weigh.
    """

    mean: Float
    deviation: Float
    score: Float
    outcomes: Float
    served: Float
    labeled: Float
    low: float
    high: float
    features: list[str]
    weight: Float | None


def paces(counts: Counts, state: State) -> Paces:
    """What is known in time; arguments as for :func:`estimate`, in a fraction of its time."""
    rate = [_rate(counts, state, v) for v in range(len(state.types))]
    duration = _durations(counts, state)
    load, most = _load(state, rate, duration)
    return Paces(
        task_types=[settings.id for settings in state.types],
        servers=[server.settings.id for server in state.servers if server.present],
        rate=rate,
        mean_duration=duration,
        cap=1.0 if load <= most or not most > 0 else most / load,
        load=load,
    )


def estimate(counts: Counts, state: State) -> Estimates:
    """All estimates, for the servers and types that a pool has.

    Args:
        counts: What was seen; of the same pool, as far as it was read.
        state: The pool, or a copy of what is declared in it.
    """
    assert state.settings is not None
    learner = state.settings.learner
    low, unit = learner.low, learner.high - learner.low
    n_types, n_servers = len(state.types), len(state.servers)
    n, grains, served, labeled = _tables(counts, (n_types, n_servers))
    declared = state.score[:n_types, :n_servers]
    prior = np.clip((np.nan_to_num(declared, nan=low) - low) / unit, 0.0, 1.0)
    strength = np.where(np.isnan(declared), 0.0, learner.prior_strength)
    shrunk = shrink_table(grains, n)
    mean, deviation = anchored(shrunk, n, prior, strength)
    score = np.minimum(mean + learner.optimism * deviation, 1.0)
    contexts: ContextScores | None = None
    if counts.features:
        contexts = context_scores(counts, (n_types, n_servers))
        mean, deviation, score = contexts.mean, contexts.deviation, contexts.mean
    may = permitted(state)
    present = [r for r, server in enumerate(state.servers) if server.present]

    def shown(values: Float, start: float) -> Float:
        return np.where(may, start + unit * values, np.nan)[:, present]

    return Estimates(
        **vars(paces(counts, state)),
        mean=shown(mean, low),
        deviation=shown(deviation, 0.0),
        score=shown(score, low),
        outcomes=n[:, present],
        served=served[:, present],
        labeled=labeled[:, present],
        low=low,
        high=learner.high,
        features=[one.name for one in counts.features],
        weight=None if contexts is None else contexts.weight[present],
    )


def _tables(counts: Counts, shape: tuple[int, int]) -> tuple[Float, Float, Float, Float]:
    """(V, R) each: outcomes, the sum of their shares of the range, services ended, and labeled."""
    found = counts.pairs.table()
    v, r = found[:, 0] >> 32, found[:, 0] & 0xFFFFFFFF
    known = (v < shape[0]) & (r < shape[1])
    place, tables = (v[known], r[known]), []
    for column in (OUTCOMES, GRAINS, SERVED, LABELED):
        table = np.zeros(shape)
        table[place] = found[known, column]
        tables.append(table)
    return tables[0], tables[1] / GRAIN, tables[2], tables[3]


def _rate(counts: Counts, state: State, v: int) -> float | None:
    """(arrived + w) / (elapsed + w / declared); where none is declared half an arrival is added."""
    declared, settings = state.types[v].rate, state.settings
    elapsed = 0.0 if counts.began is None else counts.clock - counts.began
    arrived = counts.pace[v].arrived if v < len(counts.pace) else 0
    if declared is None:
        return (arrived + 0.5) / elapsed if elapsed > 0 else None
    weight = 0.0 if settings is None else settings.learner.rate_strength
    if declared == 0.0:
        return arrived / elapsed if elapsed > 0 else 0.0
    seconds = elapsed + weight / declared
    return (arrived + weight) / seconds if seconds > 0 else declared


def _durations(counts: Counts, state: State) -> list[float | None]:
    """Seconds in service, running services included, over services ended; see ``learning.pace``."""
    settings = state.settings
    weight = 0.0 if settings is None else settings.learner.duration_strength
    seen = [
        (p.seconds + max(p.running * counts.clock - p.since, 0.0), p.ended) for p in counts.pace
    ]
    seconds, ended = (sum(column) for column in zip(*seen, strict=True)) if seen else (0.0, 0)
    found: list[float | None] = []
    for v, own in enumerate(state.types):
        mine, n = seen[v] if v < len(seen) else (0.0, 0)
        if own.mean_duration is not None and weight + n > 0:
            mean = (mine + weight * own.mean_duration) / (n + weight)
        elif own.mean_duration is not None or not ended:
            found.append(own.mean_duration)
            continue
        else:
            mean = (mine + seconds / ended) / (n + 1.0)
        found.append(max(mean, SHORTEST))
    return found


def _load(
    state: State, rate: list[float | None], duration: list[float | None]
) -> tuple[float, float]:
    """The load, and up to which it is believed."""
    k = state.servers_per_task
    slots = sum(server.settings.capacity for server in state.servers if server.present)
    if not slots or not k:
        return 0.0, 1.0
    work = sum(
        many * (one or 0.0) * (mean or 0.0)
        for many, one, mean in zip(k, rate, duration, strict=True)
    )
    return work / slots, CAP * (1.0 - max(k) / slots)


def document(found: Estimates, counts: Counts, version: int) -> LearnedDocument:
    """A publication."""
    return LearnedDocument(
        version=version,
        task_types=found.task_types,
        servers=found.servers,
        score=Array.of(found.score),
        mean=Array.of(found.mean),
        deviation=Array.of(found.deviation),
        rate=[None if rate is None else rate * found.cap for rate in found.rate],
        mean_duration=found.mean_duration,
        features=found.features,
        weight=None if found.weight is None else Array.of(found.weight),
        outcomes=counts.outcomes,
        basis=counts.basis,
    )


def has_grown(counts: Counts) -> bool:
    """Whether outcomes have grown enough for a publication."""
    least = max(FEWEST, math.ceil(GROWTH * counts.published_at))
    return counts.reports - counts.published_at >= least


def has_changed(counts: Counts, found: Paces, state: State) -> bool:
    """Whether something else is worth a publication: other servers or types, another load."""
    learned = state.learned
    if learned is not None and (
        learned.servers != found.servers or learned.task_types != found.task_types
    ):
        return True
    if sum(pace.arrived for pace in counts.pace) < SURE:
        return False
    if learned is None:
        rate = [settings.rate for settings in state.types]
        duration = [settings.mean_duration for settings in state.types]
    else:
        rate, duration = learned.rate, learned.mean_duration
    before, now = 0.0, 0.0
    for old, long, new, lasts in zip(rate, duration, found.rate, found.mean_duration, strict=True):
        work = (new or 0.0) * found.cap * (lasts or 0.0)
        before += (old or 0.0) * (long or 0.0)
        now += abs(work - (old or 0.0) * (long or 0.0))
    return now > MATERIAL * before
