"""Prometheus metrics of what is learned, read when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from opportune.service.learner_counts import RECENT, Counts
from opportune.service.pool_gauges import PoolGauge, PoolGauges, Sample
from opportune.service.state import State

_GAUGES = (
    PoolGauge("outcomes_counted", "Outcomes that the learner counts."),
    PoolGauge("outcomes_missing_ratio", "Services without an outcome over services that ended."),
    PoolGauge("learned_version", "Publications of the learner."),
    PoolGauge("learner_behind_records", "Journal records written and not learned from yet."),
    PoolGauge("explored_tasks", "Tasks that went to servers at random."),
    PoolGauge(
        "exploration_price", "What they cost: index of the plan's picks minus that of theirs."
    ),
    PoolGauge("certain_ratio", "Latest decisions with a choice that were certain; 1: no support."),
)


class LearnerMetrics(PoolGauges[tuple[Counts, State, int]]):
    """A collector.

    Args:
        learning: Gives what is counted, the pool's state and its last record, pool by pool.
    """

    def __init__(self, learning: Callable[[], Iterator[tuple[Counts, State, int]]]) -> None:
        super().__init__(_GAUGES, learning, _samples)


def _samples(one: tuple[Counts, State, int]) -> Iterator[Sample]:
    counts, state, written = one
    for name, value in _values(counts, state, written):
        yield Sample(name, (state.pool,), value)


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
