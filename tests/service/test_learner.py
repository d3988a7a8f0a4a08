"""The learner: a function of the journal, whatever the order of reports, restarts or duplicates."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opportune.service import commands, events, learner_records
from opportune.service.commands import Complete, Decline, Fail, PutPool, ReportOutcome
from opportune.service.learner import PoolLearner
from opportune.service.learner_counts import GRAIN, Counts, pack, unpack
from opportune.service.learner_estimates import estimate
from opportune.service.learner_events import take_in
from opportune.service.memory import MemoryJournal
from opportune.service.resources import FeatureRange, LearnerSettings, PoolSettings
from tests.service.pools import Pool, pool_of


def learned_from(log: list[events.Event]) -> Counts:
    """What a learner knows after these events; short records say the same as full events."""
    counts, full = Counts(), Counts()
    for sequence, event in enumerate(log, start=1):
        take_in(counts, sequence, learner_records.decode(events.encode(event)))
        take_in(full, sequence, event)
    assert pack(counts) == pack(full)
    return counts


def labels_of(log: list[events.Event], low: float, high: float) -> dict[tuple[str, str], Any]:
    """(type, server) -> labels, from the whole log at once, by the rule as it is written down."""
    kind: dict[int, str] = {}
    state: dict[int, dict[str, str]] = {}
    told: dict[int, dict[str | None, tuple[int, float | None]]] = {}
    for event in log:
        if isinstance(event, events.TaskCreated):
            kind[event.task] = event.task_type
        elif isinstance(event, events.Offered):
            for pick in event.picks:
                first = "accepted" if event.accepted else "offered"
                state.setdefault(event.task, {})[pick.server] = first
        elif isinstance(event, events.SlotsMoved):
            for name in event.servers:
                state[event.task][name] = event.state
        elif isinstance(event, events.OutcomeReported):
            known = told.setdefault(event.task, {})
            if event.revision > known.get(event.server, (-1, None))[0]:
                known[event.server] = (event.revision, event.value)
    found: dict[tuple[str, str], list[float]] = {}
    never = ("offered", "declined", "timed_out", "rescinded")
    for task, reported in told.items():
        served = [name for name, slot in state[task].items() if slot not in never]
        for name in served:
            value = reported.get(name, (0, None))[1]
            whole = reported.get(None, (0, None))[1]
            if value is None and whole is not None:
                value = whole / len(served)
            if value is not None and low <= value <= high:
                found.setdefault((kind[task], name), []).append((value - low) / (high - low))
    return found


def counted(counts: Counts) -> dict[tuple[str, str], tuple[int, int]]:
    types, servers = list(counts.types), list(counts.servers)
    return {
        (types[key >> 32], servers[key & 0xFFFFFFFF]): (outcomes, grains)
        for key, outcomes, grains, *_ in counts.pairs.table().tolist()
        if outcomes
    }


# ------------------------------------------------------------------------ outcomes in any order


@st.composite
def reports(draw: st.DrawFn) -> list[tuple[int, int | None, float | None, int]]:
    """(task, server or None, value, revision): a report has one value, as its sender knows it."""
    keys = draw(
        st.lists(
            st.tuples(st.integers(0, 3), st.sampled_from([None, 0, 1]), st.integers(0, 3)),
            min_size=1,
            max_size=12,
            unique=True,
        )
    )
    values = st.one_of(st.none(), st.floats(0.0, 1.0))
    return [(task, server, draw(values), revision) for task, server, revision in keys]


def served(told: list[tuple[int, int | None, float | None, int]]) -> Pool:
    """Four tasks of two servers each; one completes before the reports, one fails, one runs on."""
    pool = pool_of({"a": [1, 0.9, 0.8, 0.7], "b": [0.1, 0.2, 0.3, 0.4]}, k=2, learning="on")
    tasks = []
    for i in range(4):
        body = pool.task("ab"[i % 2], now=float(i))
        tasks.append(body)
        if i == 0:
            pool.ok(Complete(assignment=body.assignment_id), 0.5)
        elif i == 1:
            pool.ok(Fail(assignment=body.assignment_id), 1.5)
        elif i == 2:
            pool.ok(Complete(assignment=body.assignment_id, server=body.servers[0].id), 2.5)
            pool.ok(Complete(assignment=body.assignment_id, server=body.servers[1].id), 2.75)
    for task, server, value, revision in told:
        name = None if server is None else tasks[task].servers[server].id
        pool.do(
            ReportOutcome(
                subject=tasks[task].assignment_id, server=name, value=value, revision=revision
            ),
            5.0,
        )
    pool.ok(Complete(assignment=tasks[3].assignment_id), 6.0)
    return pool


@settings(deadline=None, max_examples=60)
@given(reports(), st.randoms(use_true_random=False))
def test_any_order_and_repetition_of_reports_gives_the_same_estimates(
    told: list[tuple[int, int | None, float | None, int]], shuffled: random.Random
) -> None:
    other = told + shuffled.choices(told, k=shuffled.randrange(6))
    shuffled.shuffle(other)
    first, second = served(told), served(other)
    one, two = learned_from(first.log), learned_from(second.log)
    assert counted(one) == counted(two)
    before, after = estimate(one, first.state), estimate(two, second.state)
    for field in ("mean", "deviation", "score", "outcomes", "served", "labeled"):
        assert np.array_equal(getattr(before, field), getattr(after, field), equal_nan=True)
    assert before.mean_duration == after.mean_duration
    assert first.state.reward == pytest.approx(second.state.reward)


@settings(deadline=None, max_examples=60)
@given(reports())
def test_labels_are_those_of_the_rule(
    told: list[tuple[int, int | None, float | None, int]],
) -> None:
    pool = served(told)
    counts = learned_from(pool.log)
    expected = labels_of(pool.log, 0.0, 1.0)
    assert counted(counts) == {
        pair: (len(values), sum(round(value * GRAIN) for value in values))
        for pair, values in expected.items()
    }


def test_a_decline_is_no_label_and_what_comes_of_the_next_server_is() -> None:
    pool = pool_of({"a": [1, 0.9, 0.8]}, learning="on", auto_accept=False)
    body = pool.task()
    name = body.assignment_id
    pool.ok(Decline(assignment=name))
    assert pool.refused(ReportOutcome(subject=name, server="s0", value=0.0)) == "conflict"
    pool.ok(ReportOutcome(subject=name, value=1.0))  # before the accept that came later
    assert counted(learned_from(pool.log)) == {}
    pool.ok(commands.Accept(assignment=name, server="s1"))
    assert counted(learned_from(pool.log)) == {("a", "s1"): (1, GRAIN)}
    pool.ok(ReportOutcome(subject=name, server="s1", value=0.25))
    assert counted(learned_from(pool.log)) == {("a", "s1"): (1, GRAIN // 4)}
    pool.ok(ReportOutcome(subject=name, server="s1", value=None, revision=1))
    assert counted(learned_from(pool.log)) == {("a", "s1"): (1, GRAIN)}
    pool.ok(ReportOutcome(subject=name, value=None, revision=1))
    assert counted(learned_from(pool.log)) == {}


def test_nobody_served_nothing_can_come_of_it() -> None:
    pool = pool_of({"a": [1]}, auto_accept=False)
    body = pool.task()
    pool.ok(Decline(assignment=body.assignment_id))
    assert pool.refused(ReportOutcome(subject=body.assignment_id, value=0.0)) == "conflict"


@pytest.mark.parametrize("how", ["lost", "failed", "released"])
def test_an_outcome_after_a_service_that_went_wrong_counts(how: str) -> None:
    pool = pool_of({"a": [1, 0.5]}, learning="on", lease=10.0)
    body = pool.task()
    if how == "lost":
        pool.do(commands.Tick(), 11.0)
    elif how == "failed":
        pool.ok(Fail(assignment=body.assignment_id), 2.0)
    else:
        pool.ok(commands.Release(assignment=body.assignment_id), 2.0)
    before = learned_from(pool.log)
    assert counted(before) == {}
    assert before.pair(0, 0).served == 1
    late = pool.ok(ReportOutcome(subject=body.decision_id, value=0.0), 20.0)
    assert late.late is (how == "lost")
    assert counted(learned_from(pool.log)) == {("a", "s0"): (1, 0)}


@pytest.mark.parametrize(
    ("server", "value", "good"),
    [
        ("s0", 8.0, True),
        ("s0", 8.5, False),
        ("s0", 1.5, False),
        (None, 16.0, True),
        (None, 3.0, False),
        (None, 17.0, False),
        ("s0", None, True),
    ],
)
def test_values_lie_in_the_declared_range(
    server: str | None, value: float | None, good: bool
) -> None:
    """Of a server 2 to 8; of an assignment of two servers their sum, 4 to 16."""
    learner = LearnerSettings(low=2.0, high=8.0)
    pool = pool_of({"a": [3, 3]}, k=2, learning="shadow", learner=learner)
    body = pool.task()
    report = ReportOutcome(subject=body.assignment_id, server=server, value=value)
    if good:
        pool.ok(report)
    else:
        assert pool.refused(report) == "invalid"
        done = Complete(assignment=body.assignment_id, server=server, value=value)
        assert pool.refused(done) == "invalid"
        assert len(pool.state.tasks[1].outcomes) == 0


@pytest.mark.parametrize(
    ("learner", "context"),
    [
        (LearnerSettings(low=1.0, high=1.0), []),
        (LearnerSettings(features=(FeatureRange("length", 0, 9),)), []),
        (LearnerSettings(features=(FeatureRange("length", 9, 9),)), ["length"]),
    ],
)
def test_settings_that_cannot_be_are_refused(learner: LearnerSettings, context: list[str]) -> None:
    wrong = PoolSettings(context=context, learner=learner)
    assert Pool().refused(PutPool(settings=wrong)) == "invalid"


# --------------------------------------------------------------------------- what is forgotten


def test_a_late_outcome_of_a_task_that_the_pool_forgot_is_refused_and_counts_nowhere() -> None:
    pool = pool_of({"a": [1]}, learning="on", retain=100)
    first = pool.task()
    pool.ok(Complete(assignment=first.assignment_id))
    for _ in range(100):
        pool.ok(Complete(assignment=pool.task().assignment_id, value=1.0))
    assert pool.refused(ReportOutcome(subject=first.assignment_id, value=0.0)) == "not-found"
    counts = learned_from(pool.log)
    assert sorted(counts.tasks) == sorted(pool.state.tasks)
    assert list(counts.ended) == list(pool.state.ended)
    assert counted(counts) == {("a", "s0"): (100, 100 * GRAIN)}
    assert counts.pair(0, 0).served == 101


def test_another_range_starts_anew_from_the_tasks_that_are_kept() -> None:
    pool = pool_of({"a": [1]}, learning="on", retain=100)
    for i in range(110):
        pool.ok(Complete(assignment=pool.task().assignment_id, value=float(i % 2)))
    other = PoolSettings(learning="on", retain=100, learner=LearnerSettings(high=2.0))
    pool.ok(PutPool(settings=other))
    counts = learned_from(pool.log)
    assert counted(counts) == {("a", "s0"): (100, 50 * GRAIN // 2)}
    assert (counts.pair(0, 0).served, counts.pair(0, 0).labeled) == (100, 100)


def test_a_checkpoint_and_the_events_behind_it_are_all_events() -> None:
    told: list[tuple[int, int | None, float | None, int]]
    told = [(0, None, 1.0, 0), (1, 0, 0.3, 2), (1, 0, 0.9, 5), (2, 1, 0.7, 0), (3, None, 2.0, 0)]
    log = served(told).log
    whole = pack(learned_from(log))
    for cut in range(len(log)):
        counts = unpack(pack(learned_from(log[:cut])))
        for sequence, event in enumerate(log[cut:], start=cut + 1):
            take_in(counts, sequence, event)
        assert pack(counts) == whole


def test_a_checkpoint_of_another_form_is_not_read() -> None:
    counts = Counts(form=0)
    with pytest.raises(msgspec.DecodeError):
        unpack(pack(counts))
    assert PoolLearner("p", MemoryJournal(), pack(counts)).counts == Counts()
    assert PoolLearner("p", MemoryJournal(), b"nonsense").counts == Counts()
