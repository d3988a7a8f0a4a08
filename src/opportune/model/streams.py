"""From an instance to the law that its streams are drawn from.

The streams themselves are drawn block by block by ``kernels.streams.draw_arrivals``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, is_whole, shorten
from opportune.kernels.streams import (
    DETERMINISTIC,
    EMPIRICAL,
    GEOMETRIC,
    Law,
    LossStreams,
    draw_arrivals,
)
from opportune.model.duration import Deterministic, Geometric
from opportune.model.loss import LossInstance

BLOCK = 1 << 14
"""Arrivals per block: small enough for the cache, large enough to forget the call."""

Key = tuple[np.uint64, np.uint64]


def stream_key(seed: int, replication: int) -> Key:
    """The key of a run's streams.

    Raises:
        InputError: If the seed is not a whole number from 0 to 2**64 - 1.
    """
    if not is_whole(seed) or not 0 <= seed < 2**64:
        raise InputError(Problem("seed", shorten(seed), "a whole number from 0 to 2**64 - 1"))
    if not 0 <= replication < 2**32:
        raise InputError(Problem("replication", shorten(replication), "from 0 to 2**32 - 1"))
    return np.uint64(seed), np.uint64(replication)


def loss_law(instance: LossInstance) -> Law:
    """The law of arrivals, types and durations of an instance, as the kernels take it."""
    rate = instance.arrival_rate
    total = float(rate.sum())
    share = rate / total if total > 0 else np.full(len(rate), 1.0 / len(rate))
    threshold, alias = alias_table(share)
    kind, steps, log_stay = [], [], []
    value: list[NDArray[np.int64]] = []
    thresholds: list[NDArray[np.float64]] = []
    aliases: list[NDArray[np.int64]] = []
    start = [0]
    for duration in instance.duration:
        size = 0
        if isinstance(duration, Deterministic):
            kind.append(DETERMINISTIC)
        elif isinstance(duration, Geometric):
            kind.append(GEOMETRIC)
        else:
            kind.append(EMPIRICAL)
            own_threshold, own_alias = alias_table(duration.weight)
            value.append(duration.steps)
            thresholds.append(own_threshold)
            aliases.append(own_alias)
            size = len(duration.steps)
        steps.append(duration.steps if isinstance(duration, Deterministic) else 1)
        stay = 1.0 - 1.0 / duration.mean if isinstance(duration, Geometric) else 0.0
        log_stay.append(np.log(stay) if stay > 0 else -np.inf)
        start.append(start[-1] + size)
    return Law(
        arrival=min(total, 1.0),
        type_threshold=threshold,
        type_alias=alias.astype(np.int32),
        kind=np.array(kind, dtype=np.int8),
        steps=np.array(steps, dtype=np.int64),
        log_stay=np.array(log_stay),
        start=np.array(start, dtype=np.int64),
        value=np.concatenate(value or [np.zeros(0, np.int64)]),
        threshold=np.concatenate(thresholds or [np.zeros(0)]),
        alias=np.concatenate(aliases or [np.zeros(0, np.int64)]),
    )


def alias_table(probability: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Walker's alias table (Vose 1991): (n,) thresholds in [0, 1] and (n,) aliases.

    Draw a column j uniformly and keep it with probability threshold[j], else take alias[j].
    """
    n = len(probability)
    scaled = np.asarray(probability, dtype=np.float64) * n / np.sum(probability)
    threshold, alias = np.ones(n), np.arange(n)
    small = [i for i in range(n) if scaled[i] < 1.0]
    large = [i for i in range(n) if scaled[i] >= 1.0]
    while small and large:
        i, j = small.pop(), large[-1]
        threshold[i], alias[i] = scaled[i], j
        scaled[j] -= 1.0 - scaled[i]
        if scaled[j] < 1.0:
            small.append(large.pop())
    for i in small:  # left over by rounding: as good as one, unless impossible
        if probability[i] == 0.0:
            threshold[i], alias[i] = 0.0, int(np.argmax(probability))
    return threshold, alias


def draw_block(key: Key, block: int, law: Law, k: int, size: int = BLOCK) -> LossStreams:
    """Block ``block`` of the streams: arrivals block * size, ..., with k choices each."""
    streams = empty_block(k, size)
    draw_arrivals(key, block * size, law, streams)
    return streams


def empty_block(k: int, size: int = BLOCK) -> LossStreams:
    """Room for a block, to be filled by ``draw_arrivals``."""
    return LossStreams(
        gap=np.zeros(size, dtype=np.int64),
        task_type=np.zeros(size, dtype=np.int32),
        duration=np.zeros(size, dtype=np.int64),
        choice=np.zeros((size, k), dtype=np.uint32),
    )
