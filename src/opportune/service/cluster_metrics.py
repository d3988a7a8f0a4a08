"""Metrics of one node among several: what it owns, what it forwards, how fast it takes over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class ClusterMetrics:
    """The metrics.

    Args:
        registry: Where they are registered.
        owned: Gives the pools that this node owns.
        n_nodes: Gives the number of nodes that live.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        owned: Callable[[], Iterable[str]],
        n_nodes: Callable[[], int],
    ) -> None:
        self._owned, self._n_nodes = owned, n_nodes
        self._forwarded = Counter(
            "opportune_forwarded",
            "Requests sent on to the owner: answered, moved (asked again), lost (no answer).",
            ("result",),
            registry=registry,
        )
        self._taken = Counter(
            "opportune_pools_taken",
            "Pools that this node began to own: created, handed over, or taken over.",
            ("how",),
            registry=registry,
        )
        self._lost = Counter(
            "opportune_pools_lost",
            "Pools whose lease ended while this node held it.",
            registry=registry,
        )
        self._take_over = Histogram(
            "opportune_take_over_seconds",
            "Seconds from the end of another node's lease until its pool is served here.",
            buckets=SECONDS,
            registry=registry,
        )
        self.answered = self._forwarded.labels("answered").inc
        self.moved = self._forwarded.labels("moved").inc
        self.cut = self._forwarded.labels("lost").inc
        self.lost = self._lost.inc
        registry.register(self)

    def taken(self, how: str, seconds: float | None = None) -> None:
        """A pool is served here from now on.

        Args:
            how: ``created``, ``handed over`` or ``taken over``.
            seconds: Since nobody served it, if it was taken over.
        """
        self._taken.labels(how).inc()
        if seconds is not None:
            self._take_over.observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """The gauges (Prometheus' collector)."""
        owned = GaugeMetricFamily(
            "opportune_pool_owned", "1 for every pool that this node owns.", labels=("pool",)
        )
        for pool in self._owned():
            owned.add_metric([pool], 1)
        yield owned
        yield GaugeMetricFamily(
            "opportune_nodes", "Nodes that live, as this one sees it.", self._n_nodes()
        )

    def describe(self) -> list[Metric]:
        """Nothing is asked when the collector is registered."""
        return []
