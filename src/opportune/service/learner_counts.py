"""What a pool's learner has counted, from the events of its journal in their order.

:class:`Counts` is a pure function of the events: a checkpoint (:func:`pack`) and the events behind
it give the same counts as all events, bit by bit. Outcomes are kept as whole numbers of ``GRAIN``
ths of the declared range, so that sums do not depend on the order in which outcomes come.

The rule of labels. A server *served* if it has accepted. Its label is the outcome reported for it;
failing that, its equal share of the outcome reported for the assignment as a whole. A revision
replaces, None takes back. Who declined, was rescinded or timed out has no label, and neither has a
service without an outcome, whether it was completed, failed, lost or released: it is missing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import Struct, field

from opportune.service.learner_pairs import Pair, Pairs
from opportune.service.resources import FeatureRange

GRAIN = 2**32
"""Parts of the declared range that an outcome is counted in."""

MOST_KEPT = 100_000
"""Ended tasks whose outcomes can still be told apart, at most (and the pool's ``retain``)."""

SERVED = frozenset({"accepted", "wrapping", "completed", "failed", "lost", "released"})
"""States of a slot whose server has taken the task."""

RUNS = frozenset({"accepted"})
HELD = frozenset({"offered", "accepted", "wrapping"})

WHOLE = -1
"""In place of a server: the outcome of the assignment as a whole."""

FORM = 2
"""Grows with every change of what a checkpoint holds; another one is not read."""

RECENT = 1000
"""Latest decisions that had a choice, by which support for evaluation is judged."""


PACKED_AT_ONCE = 250
"""Tasks that are encoded before other threads have their turn."""


class Service(Struct, array_like=True, gc=False):
    """A server's slot of a task.

    Attributes:
        server: Index.
        state: As in ``events.SlotsMoved``, and ``offered``.
        since: When it was accepted; ``until`` when the service ended, None while it runs.
    """

    server: int
    state: str
    since: float = 0.0
    until: float | None = None


class Told(Struct, array_like=True, gc=False):
    """The latest revision of an outcome."""

    value: float | None
    revision: int


class Seen(Struct, array_like=True, gc=False):
    """A task whose outcome may come or be revised.

    Tuples, and structs that no cycle can go through: a search for garbage passes all tasks by.

    Attributes:
        task_type: Index.
        k: Servers that it needs.
        x: Features of its context, scaled; empty without.
        services: Its slots.
        told: Outcomes by server, ``WHOLE`` for the assignment.
        started, ended: Whether it began; when it ended, None before.
        labels: (server, grains) that are counted now.
    """

    task_type: int
    k: int
    x: tuple[float, ...] = ()
    services: tuple[Service, ...] = ()
    told: dict[int, Told] = field(default_factory=dict)
    started: bool = False
    ended: float | None = None
    labels: tuple[tuple[int, int], ...] = ()


class Pace(Struct, array_like=True):
    """What was seen of a task type in time.

    Attributes:
        arrived: Tasks.
        ended: Services that ended; ``seconds``: their sum.
        running: Services that run; ``since``: the sum of their beginnings.
    """

    arrived: int = 0
    ended: int = 0
    seconds: float = 0.0
    running: int = 0
    since: float = 0.0


class Choices(Struct, array_like=True):
    """What was seen of decisions.

    Attributes:
        explored: Tasks that went to servers at random.
        given_up: Their price: index of the plan's own picks minus index of theirs, summed.
        floor: Least propensity of a pick.
        certain: By the latest decisions that had a choice: whether it was certain.
    """

    explored: int = 0
    given_up: float = 0.0
    floor: float = 1.0
    certain: list[bool] = field(default_factory=list)


class Counts(Struct):
    """All of it.

    Attributes:
        basis: Number of the last journal record taken in.
        began, clock: Times of the first task and of the latest event.
        low, high, retain: Of the pool's settings.
        features: Scales of the context, by field.
        types, servers: Index of each name, in the pool's numbering.
        pairs, pace, choices: The counts.
        tasks: Those whose outcomes are still waited for; ``ended``: those that are over, by time.
        reports: Outcomes reported so far, revisions included.
        outside: Outcomes outside the declared range, and those of tasks no longer kept.
        published_at: ``reports`` as of the latest publication.
        decisions: All of them, drops included.
        form: ``FORM`` of the program that wrote it.
    """

    basis: int = 0
    began: float | None = None
    clock: float = 0.0
    low: float = 0.0
    high: float = 1.0
    retain: int = 10_000
    features: tuple[FeatureRange, ...] = ()
    types: dict[str, int] = field(default_factory=dict)
    servers: dict[str, int] = field(default_factory=dict)
    pairs: Pairs = field(default_factory=Pairs)
    pace: list[Pace] = field(default_factory=list)
    choices: Choices = field(default_factory=Choices)
    tasks: dict[int, Seen] = field(default_factory=dict)
    ended: deque[int] = field(default_factory=deque)
    reports: int = 0
    outside: int = 0
    published_at: int = 0
    decisions: int = 0
    form: int = FORM

    @property
    def outcomes(self) -> int:
        """Labels that count."""
        return self.pairs.totals().outcomes

    def pair(self, v: int, r: int) -> Pair:
        """What was seen of a type at a server."""
        return self.pairs.pair(v, r)


class _Checkpoint(Struct, array_like=True):
    """Counts without their tasks, and the tasks in pieces."""

    form: int
    counts: msgspec.Raw
    tasks: list[dict[int, Seen]] = []


def _bare(value: Any) -> Any:
    return value.dump() if isinstance(value, Pairs) else list(value)


def _dressed(kind: Any, value: Any) -> Any:
    return Pairs(value) if kind is Pairs else deque(value)


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_bare)
_DECODER = msgspec.msgpack.Decoder(_Checkpoint)
_COUNTS = msgspec.msgpack.Decoder(Counts, dec_hook=_dressed)


def pack(counts: Counts, rest: Callable[[], None] = lambda: None) -> bytes:
    """A checkpoint.

    Args:
        counts: They do not change meanwhile.
        rest: Called between two pieces, none of which takes long.
    """
    numbers, pieces = list(counts.tasks), []
    for first in range(0, len(numbers), PACKED_AT_ONCE):
        some = {number: counts.tasks[number] for number in numbers[first : first + PACKED_AT_ONCE]}
        pieces.append(msgspec.Raw(_ENCODER.encode(some)))
        rest()
    head = msgspec.Raw(_ENCODER.encode(msgspec.structs.replace(counts, tasks={})))
    rest()
    return _ENCODER.encode((counts.form, head, pieces))


def unpack(data: bytes) -> Counts:
    """The counts of a checkpoint.

    Raises:
        msgspec.DecodeError: If it is none, or one of another form.
    """
    found = _DECODER.decode(data)
    if found.form != FORM:
        raise msgspec.DecodeError(f"form {found.form}, not {FORM}")
    counts: Counts = _COUNTS.decode(found.counts)
    for some in found.tasks:
        counts.tasks.update(some)
    return counts


def start_anew(counts: Counts, low: float, high: float) -> None:
    """Another range: pairs are counted again, from the tasks that are kept."""
    counts.low, counts.high = low, high
    counts.pairs = Pairs()
    counts.published_at = 0
    for seen in counts.tasks.values():
        seen.labels = ()
        for service in seen.services:
            if service.until is not None:
                counts.pairs.serve(seen.task_type, service.server, False)
        relabel(counts, seen)


def relabel(counts: Counts, seen: Seen) -> None:
    """Count the labels of a task anew, from its services and what was told."""
    labels = tuple(_labels(counts, seen))
    if labels == seen.labels:
        return
    for sign, each in ((-1, seen.labels), (1, labels)):
        for r, grains in each:
            ended = sign * _has_ended(seen, r)
            counts.pairs.label(seen.task_type, r, (sign, sign * grains), ended)
    seen.labels = labels


def _labels(counts: Counts, seen: Seen) -> Iterator[tuple[int, int]]:
    """The rule of labels."""
    if not seen.told:
        return
    servers = [one.server for one in seen.services if one.state in SERVED]
    whole = seen.told.get(WHOLE)
    for r in servers:
        own = seen.told.get(r)
        value = None if own is None else own.value
        if value is None and whole is not None and whole.value is not None:
            value = whole.value / len(servers)
        if value is not None and counts.low <= value <= counts.high:
            share = (value - counts.low) / (counts.high - counts.low)
            yield r, round(share * GRAIN)


def _has_ended(seen: Seen, r: int) -> bool:
    return any(one.server == r and one.until is not None for one in seen.services)


def move(counts: Counts, seen: Seen, service: Service, state: str, time: float) -> None:
    """A slot goes into another state."""
    pace, before = counts.pace[seen.task_type], service.state
    service.state = state
    if state in RUNS and before not in RUNS:
        service.since = time
        pace.running += 1
        pace.since += time
    elif before in RUNS and state not in RUNS:
        pace.running -= 1
        pace.since -= service.since
        pace.seconds += max(time - service.since, 0.0)
        pace.ended += state != "lost"  # when it would have ended nobody knows
        service.until = time
        labeled = any(r == service.server for r, _ in seen.labels)
        counts.pairs.serve(seen.task_type, service.server, labeled)
    if seen.told:
        relabel(counts, seen)


def settle(counts: Counts, number: int, seen: Seen, time: float) -> None:
    """Say anew whether a task has begun, and whether it is over (``settling.settle``)."""
    if not seen.started:
        seen.started = sum(one.state == "accepted" for one in seen.services) >= seen.k
    if seen.started and not any(one.state in HELD for one in seen.services):
        end(counts, number, time)


def end(counts: Counts, number: int, time: float) -> None:
    """A task is over; the oldest of those that are is forgotten when there are too many."""
    seen = counts.tasks[number]
    if seen.ended is not None:
        return
    seen.ended = time
    counts.ended.append(number)
    while len(counts.ended) > min(counts.retain, MOST_KEPT):
        del counts.tasks[counts.ended.popleft()]


def scaled(features: tuple[FeatureRange, ...], context: dict[str, Any]) -> list[float]:
    """(p,) one and the context fields in [-1, 1], over the square root of p: of norm at most 1.

    A field that is missing or no number counts as the middle of its range.
    """
    root = (1.0 + len(features)) ** 0.5
    found = [1.0 / root]
    for one in features:
        value = context.get(one.name)
        share = 0.5
        if isinstance(value, (int, float)) and value == value:
            share = (min(max(float(value), one.low), one.high) - one.low) / (one.high - one.low)
        found.append((2.0 * share - 1.0) / root)
    return found
