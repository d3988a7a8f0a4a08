"""Gauges that are read pool by pool when Prometheus asks, without holding up decisions.

A thousand pools take most of a second to read. All of them are the event loop's own, so it reads a
few at a time and serves requests in between; what was read is written out in another thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from prometheus_client.core import GaugeMetricFamily, Metric

SLICE = 0.002
"""Seconds of reading after which requests have their turn."""

Seen = TypeVar("Seen")


class PoolGauge(NamedTuple):
    """A gauge: its name without ``opportune_``, what it means, the names of its labels."""

    name: str
    meaning: str
    labels: tuple[str, ...] = ("pool",)


class Sample(NamedTuple):
    """A value of a gauge, with its labels."""

    gauge: str
    labels: tuple[str, ...]
    value: float


class PoolGauges(Generic[Seen]):
    """A collector.

    Args:
        gauges: What there is.
        pools: Gives what is read of every pool.
        samples: Reads one of them.
    """

    def __init__(
        self,
        gauges: Sequence[PoolGauge],
        pools: Callable[[], Iterable[Seen]],
        samples: Callable[[Seen], Iterable[Sample]],
    ) -> None:
        self._gauges = gauges
        self._pools = pools
        self._samples = samples
        self._gathered: dict[str, GaugeMetricFamily] | None = None

    async def gather(self) -> None:
        """Read all pools, a few at a time; what was read goes out with the next ``collect``."""
        families, began = self._families(), time.perf_counter()
        for one in list(self._pools()):
            self._add(families, one)
            if time.perf_counter() - began > SLICE:
                await asyncio.sleep(0)
                began = time.perf_counter()
        self._gathered = families

    def collect(self) -> Iterator[Metric]:
        """What Prometheus asks for: what was gathered, or all pools as they are now."""
        families, self._gathered = self._gathered, None
        if families is None:
            families = self._families()
            for one in self._pools():
                self._add(families, one)
        yield from families.values()

    def describe(self) -> list[Metric]:
        """Nothing is asked of the pools when the collector is registered."""
        return []

    def _families(self) -> dict[str, GaugeMetricFamily]:
        return {
            one.name: GaugeMetricFamily(f"opportune_{one.name}", one.meaning, labels=one.labels)
            for one in self._gauges
        }

    def _add(self, families: dict[str, GaugeMetricFamily], one: Seen) -> None:
        for sample in self._samples(one):
            families[sample.gauge].add_metric(list(sample.labels), sample.value)
