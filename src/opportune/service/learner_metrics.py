"""Prometheus metrics of what is learned, read when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from opportune.service.learner_counts import RECENT, Counts
from opportune.service.state import State

_GAUGES = (
    ("outcomes_counted", "Outcomes that the learner counts."),
    ("outcomes_missing_ratio", "Services without an outcome over services that ended."),
    ("learned_version", "Publications of the learner."),
    ("learner_behind_records", "Journal records written and not learned from yet."),
    ("explored_tasks", "Tasks that went to servers at random."),
    ("exploration_price", "What they cost: index of the plan's picks minus that of theirs."),
    ("certain_ratio", "Latest decisions with a choice that were certain; 1: no support."),
)


class LearnerMetrics:
    """A collector.

    Args:
        learning: Gives what is counted, the pool's state and its last record, pool by pool.
    """

    def __init__(self, learning: Callable[[], Iterator[tuple[Counts, State, int]]]) -> None:
        self._learning = learning

    def collect(self) -> Iterator[Metric]:
        """What Prometheus asks for."""
        gauges = {
            name: GaugeMetricFamily(f"opportune_{name}", text, labels=("pool",))
            for name, text in _GAUGES
        }
        for counts, state, written in self._learning():
            for name, value in _values(counts, state, written):
                gauges[name].add_metric([state.pool], value)
        yield from gauges.values()

    def describe(self) -> list[Metric]:
        """Nothing is asked of the pools when the collector is registered."""
        return []


def _values(counts: Counts, state: State, written: int) -> Iterator[tuple[str, float]]:
    outcomes, _, served, labeled = counts.pairs.totals()
    recent = counts.choices.certain[-RECENT:]
    yield "outcomes_counted", outcomes
    if served:
        yield "outcomes_missing_ratio", 1.0 - labeled / served
    yield "learned_version", 0 if state.learned is None else state.learned.version
    yield "learner_behind_records", max(written - counts.basis, 0)
    yield "explored_tasks", counts.choices.explored
    yield "exploration_price", counts.choices.given_up
    if recent:
        yield "certain_ratio", sum(recent) / len(recent)
