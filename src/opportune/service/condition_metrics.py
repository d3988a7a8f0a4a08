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
from opportune.service.reading import pool_body
from opportune.service.state import State

_OF_POOLS = (
    ("degraded", "1 while no fresh plan decides for some task type.", ("pool",)),
    ("plan_age_limit_seconds", "Age at which a plan counts as stale.", ("pool",)),
    ("rate_drift", "1 while tasks arrive at other rates than the plan was made for.", ("pool",)),
    (
        "blocking_theory_ratio",
        "Erlang-B at the declared rates; kind says whether the pool does what it assumes.",
        ("pool", "kind"),
    ),
    ("wait_seconds_max", "How long the task that waits longest has waited; 0: none.", ("pool",)),
    ("servers", "Servers in the pool.", ("pool",)),
    ("servers_quarantined", "Servers that get no offers for a while.", ("pool",)),
)
_OF_JOURNAL = (
    ("journal_bytes", "Size of the journal's files."),
    ("journal_free_bytes", "Bytes free where the journal is."),
)

EXACT, REFERENCE = "exact", "reference"


class ConditionMetrics:
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
        self._states = states
        self._now = now
        self._journal = journal

    def collect(self) -> Iterator[Metric]:
        """What Prometheus asks for."""
        gauges = {
            name: GaugeMetricFamily(f"opportune_{name}", text, labels=labels)
            for name, text, labels in _OF_POOLS
        }
        now = self._now()
        for pool, state in self._states():
            for name, labels, value in _values(state, now):
                gauges[name].add_metric([pool, *labels], value)
        yield from gauges.values()
        if self._journal is not None:
            sizes = (_size(self._journal), shutil.disk_usage(self._journal.parent).free)
            for (name, text), value in zip(_OF_JOURNAL, sizes, strict=True):
                yield GaugeMetricFamily(f"opportune_{name}", text, value=float(value))

    def describe(self) -> list[Metric]:
        """Nothing is asked of the pools when the collector is registered."""
        return []


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
