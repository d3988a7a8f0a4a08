"""Prometheus metrics that alerts need: is a pool as it should be, is there room for its journal?

All are read when they are asked for; nothing is counted.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily, Metric

from opportune.service.dashboard.theory import blocking
from opportune.service.drifting import baseline, rate_drift
from opportune.service.pool_gauges import PoolGauge, PoolGauges, Sample
from opportune.service.reading import pool_body
from opportune.service.state import State

_OF_POOLS = (
    PoolGauge("degraded", "1 while no fresh plan decides for some task type.", ("pool",)),
    PoolGauge("plan_age_limit_seconds", "Age at which a plan counts as stale.", ("pool",)),
    PoolGauge(
        "rate_drift", "1 while tasks arrive at other rates than the plan was made for.", ("pool",)
    ),
    PoolGauge(
        "blocking_theory_ratio",
        "Erlang-B at the declared rates; kind says whether the pool does what it assumes.",
        ("pool", "kind"),
    ),
    PoolGauge(
        "wait_seconds_max", "How long the task that waits longest has waited; 0: none.", ("pool",)
    ),
    PoolGauge("servers", "Servers in the pool.", ("pool",)),
    PoolGauge("servers_quarantined", "Servers that get no offers for a while.", ("pool",)),
)
_OF_JOURNAL = (
    ("journal_bytes", "Size of the journal's files."),
    ("journal_free_bytes", "Bytes free where the journal is."),
)

EXACT, REFERENCE = "exact", "reference"


class ConditionMetrics(PoolGauges[tuple[str, State]]):
    """A collector.

    Args:
        states: Gives the pools and their states.
        now: The time, in seconds since 1970.
        journal: The journal's file; None if it is no file.
    """

    def __init__(
        self,
        states: Callable[[], Iterable[tuple[str, State]]],
        now: Callable[[], float],
        journal: Path | None,
    ) -> None:
        super().__init__(_OF_POOLS, states, self._samples)
        self._now = now
        self._journal = journal

    def collect(self) -> Iterator[Metric]:
        """What Prometheus asks for."""
        yield from super().collect()
        if self._journal is not None:
            sizes = (_size(self._journal), shutil.disk_usage(self._journal.parent).free)
            for (name, text), value in zip(_OF_JOURNAL, sizes, strict=True):
                yield GaugeMetricFamily(f"opportune_{name}", text, value=float(value))

    def _samples(self, one: tuple[str, State]) -> Iterator[Sample]:
        pool, state = one
        for name, labels, value in _values(state, self._now()):
            yield Sample(name, (pool, *labels), value)


def _values(state: State, now: float) -> Iterator[tuple[str, tuple[str, ...], float]]:
    """Gauge, labels behind the pool, value."""
    settings = state.settings
    if settings is None:
        return
    body = pool_body(state, now)
    yield "degraded", (), float(body is not None and body.degraded != "")
    yield "plan_age_limit_seconds", (), settings.plan_max_age
    plan = baseline(state)
    if plan is not None:
        yield "rate_drift", (), float(rate_drift(state, plan, now, settings.replan_change) != "")
    theory = blocking(state, frozenset())
    if theory.value is not None:
        yield "blocking_theory_ratio", (REFERENCE if theory.reasons else EXACT,), theory.value
    waiting = [state.tasks[number].created for number in state.queued]
    yield "wait_seconds_max", (), max(now - min(waiting), 0.0) if waiting else 0.0
    present = [server for server in state.servers if server.present]
    yield "servers", (), len(present)
    yield "servers_quarantined", (), sum(server.quarantined_until > 0 for server in present)


def _size(journal: Path) -> int:
    """Bytes of the database and of what SQLite keeps beside it."""
    files = (journal, journal.with_name(journal.name + "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())
