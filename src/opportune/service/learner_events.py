"""From an event to a learner's next counts; pure, and quick about what it does not need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opportune.service import events
from opportune.service.learner_counts import (
    RECENT,
    WHOLE,
    Counts,
    Pace,
    Seen,
    Service,
    Told,
    end,
    move,
    relabel,
    scaled,
    settle,
    start_anew,
)
from opportune.service.learner_records import Offered, Record, SlotsMoved, TaskDropped


def take_in(counts: Counts, sequence: int, event: events.Event | Record) -> None:
    """Count an event, record ``sequence`` of the journal."""
    counts.basis = sequence
    counts.clock = max(counts.clock, event.time)
    handler = _TAKE.get(type(event).__name__)
    if handler is not None:
        handler(counts, event)


def _pool_put(counts: Counts, event: events.PoolPut) -> None:
    """Another range or other features: what was learned in the old ones does not count."""
    learner = event.settings.learner
    counts.retain = event.settings.retain
    if counts.features != learner.features:
        counts.features = learner.features
        for seen in counts.tasks.values():
            seen.x = ()
    if (counts.low, counts.high) != (learner.low, learner.high):
        start_anew(counts, learner.low, learner.high)
    counts.choices.certain.clear()  # support is that of the present settings


def _task_type_put(counts: Counts, event: events.TaskTypePut) -> None:
    if event.settings.id not in counts.types:
        counts.types[event.settings.id] = len(counts.types)
        counts.pace.append(Pace())


def _server_put(counts: Counts, event: events.ServerPut) -> None:
    if event.settings.id not in counts.servers:
        counts.servers[event.settings.id] = len(counts.servers)


def _task_created(counts: Counts, event: events.TaskCreated) -> None:
    if counts.began is None:
        counts.began = event.time
    v = counts.types[event.task_type]
    counts.pace[v].arrived += 1
    x = tuple(scaled(counts.features, event.context)) if counts.features else ()
    counts.tasks[event.task] = Seen(v, event.k, x)


def _offered(counts: Counts, event: events.Offered | Offered) -> None:
    seen = counts.tasks.get(event.task)
    if seen is None:
        return
    for pick in event.picks:
        service = Service(counts.servers[pick.server], "offered")
        seen.services += (service,)
        if event.accepted:
            move(counts, seen, service, "accepted", event.time)
    _choice(counts, event)
    settle(counts, event.task, seen, event.time)


def _choice(counts: Counts, event: events.Offered | Offered) -> None:
    """What the decision says about support and exploration."""
    why, choices = event.why, counts.choices
    counts.decisions += 1
    least = min((pick.propensity for pick in event.picks), default=1.0)
    choices.floor = min(choices.floor, least)
    if why.explored:
        choices.explored += 1
        choices.given_up += why.given_up
    if why.n_free > len(event.picks):
        choices.certain.append(least >= 1.0)
        if len(choices.certain) > 2 * RECENT:
            del choices.certain[:-RECENT]


def _task_dropped(counts: Counts, event: events.TaskDropped | TaskDropped) -> None:
    counts.decisions += 1
    if event.task in counts.tasks:
        end(counts, event.task, event.time)


def _slots_moved(counts: Counts, event: events.SlotsMoved | SlotsMoved) -> None:
    seen = counts.tasks.get(event.task)
    if seen is None:
        return
    for name in event.servers:
        r = counts.servers[name]
        service = next(one for one in reversed(seen.services) if one.server == r)
        move(counts, seen, service, event.state, event.time)
    settle(counts, event.task, seen, event.time)


def _task_started(counts: Counts, event: events.TaskStarted) -> None:
    seen = counts.tasks.get(event.task)
    if seen is not None:
        seen.started = True
        settle(counts, event.task, seen, event.time)


def _task_ended(counts: Counts, event: events.TaskEnded) -> None:
    if event.task in counts.tasks:
        end(counts, event.task, event.time)


def _outcome_reported(counts: Counts, event: events.OutcomeReported) -> None:
    """An older revision than the known one changes nothing; the engine writes none anyway."""
    counts.reports += 1
    seen = counts.tasks.get(event.task)
    if seen is None:
        counts.outside += 1
        return
    key = WHOLE if event.server is None else counts.servers[event.server]
    before = seen.told.get(key)
    if before is not None and event.revision <= before.revision:
        return
    seen.told[key] = Told(event.value, event.revision)
    relabel(counts, seen)
    n = seen.k if event.server is None else 1
    if event.value is not None and not n * counts.low <= event.value <= n * counts.high:
        counts.outside += 1


def _learned_put(counts: Counts, event: Any) -> None:
    counts.published_at = counts.reports


_TAKE: dict[str, Callable[[Counts, Any], None]] = {
    "PoolPut": _pool_put,
    "TaskTypePut": _task_type_put,
    "ServerPut": _server_put,
    "TaskCreated": _task_created,
    "Offered": _offered,
    "TaskDropped": _task_dropped,
    "SlotsMoved": _slots_moved,
    "TaskStarted": _task_started,
    "TaskEnded": _task_ended,
    "OutcomeReported": _outcome_reported,
    "LearnedPut": _learned_put,
}
"""By the name of an event: full ones, and the learner's own short ones, are called alike."""
