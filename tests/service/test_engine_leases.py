"""Leases, wrap-up, servers that come and go, outcomes, and what can be read."""

from __future__ import annotations

from typing import Any

from opportune.service import engine
from opportune.service.commands import (
    Accept,
    CancelTask,
    ClearQuarantine,
    Complete,
    CreateTask,
    Decline,
    Fail,
    Heartbeat,
    PutPool,
    PutServer,
    PutTaskType,
    RemoveServer,
    ReportOutcome,
    ServerHeartbeat,
    Tick,
)
from opportune.service.events import (
    OutcomeReported,
    QuarantineEnded,
    QuarantineStarted,
    ServerSilent,
)
from opportune.service.reading import (
    assignment_body,
    decision_body,
    pool_body,
    server_body,
    task_body,
)
from opportune.service.resources import PoolSettings, ServerSettings, TaskTypeSettings
from opportune.service.state import empty_state
from tests.service.pools import Pool, names, pool_of


def offering(**settings: Any) -> Pool:
    """Four servers of scores 4, 3, 2, 1 that are asked first."""
    return pool_of({"a": [4, 3, 2, 1]}, auto_accept=False, **settings)


# ---------------------------------------------------------------------------- lease and wrap-up


def test_a_lease_that_is_over_is_lost_and_a_late_completion_frees_nothing() -> None:
    pool = pool_of({"a": [1, 1], "b": [1, 1]}, lease=20.0)
    a = pool.task(now=0.0)
    pool.ok(Heartbeat(assignment=a.assignment_id), 15.0)
    pool.ok(Tick(), 34.9)
    assert len(pool.free) == 1
    pool.ok(Tick(), 35.0)
    body = assignment_body(pool.state, a.assignment_id)
    assert (body.state, body.task_state) == ("lost", "failed")
    taken = [pool.task(now=36.0), pool.task(now=36.0)]
    assert pool.free == []
    late = pool.do(Complete(assignment=a.assignment_id, value=3.0), 37.0)
    assert [type(event) for event in late.events] == [OutcomeReported]
    assert late.body.state == "lost"
    assert pool.free == []
    assert pool.state.reward == 3.0
    again = pool.do(Complete(assignment=a.assignment_id, value=3.0), 38.0)
    assert again.repeated
    assert pool.state.reward == 3.0
    for body in taken:
        pool.ok(Complete(assignment=body.assignment_id), 39.0)
    assert pool.free == ["s0", "s1"]


def test_service_longer_than_expected_keeps_the_server() -> None:
    pool = pool_of({"a": [1]})
    pool.task(now=0.0)
    assert pool.refused(CreateTask(task_type="a"), 500.0) == "no-capacity"


def test_a_shorter_lease_counts_from_the_next_heartbeat() -> None:
    pool = pool_of({"a": [1]}, lease=1_000.0)
    body = pool.task(now=0.0)
    pool.ok(PutPool(settings=PoolSettings(lease=10.0)), 1.0)
    assert pool.ok(Heartbeat(assignment=body.assignment_id), 5.0).deadline == 15.0
    pool.ok(Tick(), 15.0)
    assert assignment_body(pool.state, body.assignment_id).state == "lost"


def test_a_server_wraps_up_before_it_is_free() -> None:
    pool = pool_of({"a": [1], "b": [1]}, {"b": {"wrap_up": 0.0}}, wrap_up=5.0)
    body = pool.ok(Complete(assignment=pool.task(now=0.0).assignment_id), 10.0)
    assert (body.state, body.task_state, body.deadline) == ("wrapping", "in_service", 15.0)
    problem = pool.do(CreateTask(task_type="a"), 12.0).problem
    assert problem is not None
    again = pool.do(Complete(assignment="p.a1"), 12.0)
    assert again.repeated
    body = pool.task("b", 15.0)
    assert assignment_body(pool.state, "p.a1").state == "completed"
    assert pool.ok(Complete(assignment=body.assignment_id), 16.0).state == "completed"
    assert pool.free == ["s0"]


# ------------------------------------------------------------------------------ servers


def test_removing_a_server_rescinds_its_offers_only() -> None:
    pool = offering()
    a = pool.task()
    b = pool.task()
    pool.ok(Accept(assignment=b.assignment_id))
    pool.ok(RemoveServer(server="s0"))
    body = assignment_body(pool.state, a.assignment_id)
    assert names(body, "rescinded") == ["s0"]
    assert names(body, "offered") == ["s2"]
    pool.ok(RemoveServer(server="s1"))
    assert assignment_body(pool.state, b.assignment_id).state == "accepted"
    assert pool.do(RemoveServer(server="s1")).repeated
    assert pool.refused(RemoveServer(server="s9")) == "not-found"
    assert pool.refused(ServerHeartbeat(server="s1")) == "not-found"


def test_a_draining_server_finishes_and_takes_nothing_new() -> None:
    pool = pool_of({"a": [1]})
    body = pool.task()
    state = pool.ok(PutServer(settings=ServerSettings(id="s0", drain=True))).state
    assert state == "draining"
    pool.ok(Complete(assignment=body.assignment_id))
    answer = pool.do(CreateTask(task_type="a"))
    assert answer.problem is not None
    assert answer.problem.body.why.excluded[0].reason == "draining"
    pool.ok(PutServer(settings=ServerSettings(id="s0")))
    pool.task()


def test_a_server_of_capacity_two_is_two_slots_at_most_one_a_task() -> None:
    pool = pool_of({"a": [9, 1]}, k=2)
    pool.ok(PutServer(settings=ServerSettings(id="s0", capacity=2)))
    pool.ok(PutServer(settings=ServerSettings(id="s1", capacity=2)))
    first, second = pool.task(), pool.task()
    assert set(names(first)) == set(names(second)) == {"s0", "s1"}
    assert pool.refused(CreateTask(task_type="a")) == "no-capacity"
    pool.ok(PutServer(settings=ServerSettings(id="s0", capacity=1)))
    pool.ok(Complete(assignment=first.assignment_id))
    assert pool.free == ["s1"]
    assert server_body(pool.state, "s0").open_slots == 1


def test_three_failures_in_a_row_put_a_server_into_quarantine() -> None:
    pool = pool_of({"a": [1]}, quarantine_after=3, quarantine_backoff=60.0)
    for now in (1.0, 2.0, 3.0):
        assert pool.free == ["s0"]
        pool.ok(Fail(assignment=pool.task(now=now).assignment_id), now)
    assert server_body(pool.state, "s0").state == "quarantined"
    problem = pool.do(CreateTask(task_type="a"), 4.0).problem
    assert problem is not None
    assert problem.expected_free == 63.0
    assert problem.body.why.excluded[0].reason == "quarantined"
    answer = pool.do(Tick(), 63.0)
    assert [type(event) for event in answer.events] == [QuarantineEnded]
    for now in (64.0, 65.0, 66.0):
        pool.ok(Fail(assignment=pool.task(now=now).assignment_id), now)
    assert server_body(pool.state, "s0").quarantined_until == 66.0 + 120.0
    pool.ok(ClearQuarantine(server="s0"))
    assert pool.do(ClearQuarantine(server="s0")).repeated
    assert pool.free == ["s0"]


def test_a_completion_ends_the_row_and_a_decline_is_no_failure() -> None:
    pool = offering(quarantine_after=2)
    for kind in (Fail, Complete, Fail):
        body = pool.task()
        pool.ok(Accept(assignment=body.assignment_id))
        pool.ok(kind(assignment=body.assignment_id))
    for _ in range(3):
        body = pool.task()
        assert names(body) == ["s0"]
        pool.ok(Decline(assignment=body.assignment_id))
        pool.ok(CancelTask(task=body.task_id))
    assert server_body(pool.state, "s0").strikes == 1


def test_offers_that_time_out_count_towards_quarantine() -> None:
    pool = offering(quarantine_after=1, offer_timeout=5.0)
    pool.task(now=0.0)
    answer = pool.do(Tick(), 5.0)
    assert any(isinstance(event, QuarantineStarted) for event in answer.events)
    assert server_body(pool.state, "s0").state == "quarantined"


def test_a_server_without_heartbeat_gets_no_offers_until_it_is_heard_again() -> None:
    pool = pool_of({"a": [2, 1]}, heartbeat_timeout=10.0)
    pool.ok(ServerHeartbeat(server="s1"), 8.0)
    answer = pool.do(Tick(), 10.0)
    assert [event.server for event in answer.events if isinstance(event, ServerSilent)] == ["s0"]
    assert names(pool.task(now=11.0)) == ["s1"]
    pool.ok(ServerHeartbeat(server="s0"), 12.0)
    assert pool.free == ["s0"]
    pool.ok(Tick(), 30.0)
    assert pool.free == []


# ------------------------------------------------------------------------------ outcomes


def test_outcomes_may_come_late_again_and_revised() -> None:
    pool = pool_of({"a": [1]})
    body = pool.task()
    name = body.assignment_id
    pool.ok(Complete(assignment=name))
    first = pool.do(ReportOutcome(subject=name, value=1.0))
    assert first.created
    assert pool.do(ReportOutcome(subject=body.decision_id, value=1.0)).repeated
    assert pool.refused(ReportOutcome(subject=name, value=2.0)) == "conflict"
    revised = pool.ok(ReportOutcome(subject=name, value=2.0, revision=5))
    assert (revised.value, revised.revision) == (2.0, 5)
    older = pool.do(ReportOutcome(subject=name, value=9.0, revision=3))
    assert older.repeated
    assert older.body.value == 2.0
    assert pool.state.reward == 2.0
    pool.ok(ReportOutcome(subject=name, value=None, revision=6))
    assert pool.state.reward == 0.0
    pool.ok(ReportOutcome(subject=name, value=0.0, revision=7))
    assert pool.state.counts["outcomes"] == 4
    assert pool.refused(ReportOutcome(subject="p.d99", value=1.0)) == "not-found"
    assert pool.refused(ReportOutcome(subject="p.t1", value=1.0)) == "not-found"


def test_a_drop_has_no_outcome() -> None:
    pool = pool_of({"a": [1]})
    pool.task()
    drop = pool.do(CreateTask(task_type="a")).problem
    assert drop is not None
    assert pool.refused(ReportOutcome(subject=drop.body.decision_id, value=1.0)) == "conflict"


# ------------------------------------------------------------------------------ reading


def test_a_decision_can_be_explained_as_long_as_its_task_is_kept() -> None:
    pool = pool_of({"a": [4, 3, 2, 1]}, context=["topic"], retain=100)
    body = pool.task(conflicts=["s0"], context={"topic": "x", "secret": "y"})
    why = decision_body(pool.state, body.decision_id)
    assert [pick.server for pick in why.picks] == ["s1"]
    assert [(one.server, one.reason) for one in why.why.excluded] == [("s0", "conflict")]
    assert [pick.server for pick in why.why.alternates] == ["s2", "s3"]
    assert (why.why.n_permitted, why.why.n_free) == (4, 3)
    assert task_body(pool.state, body.task_id).context == {"topic": "x"}
    for _ in range(101):
        pool.ok(Complete(assignment=pool.task().assignment_id))
    assert decision_body(pool.state, body.decision_id) is not None  # it still runs
    assert decision_body(pool.state, "p.d2") is None
    assert task_body(pool.state, "p.t2") is None
    assert len(pool.state.decisions) == 101


def test_a_pool_that_was_not_created_knows_nothing() -> None:
    state = empty_state("q")
    assert pool_body(state, 0.0) is None
    for command in (Tick(), CreateTask(task_type="a"), PutTaskType(settings=TYPE)):
        answer = engine.decide(state, command, 0.0, [1])
        assert answer.problem is not None
        assert answer.problem.code == "not-found"
        assert answer.events == []


TYPE = TaskTypeSettings(id="a")


def test_the_same_settings_again_are_repeated() -> None:
    pool = pool_of({"a": [1]})
    for command in (
        PutPool(settings=PoolSettings()),
        PutTaskType(settings=TaskTypeSettings(id="a", mean_duration=5.0)),
        PutServer(settings=ServerSettings(id="s0")),
    ):
        answer = pool.do(command)
        assert answer.repeated
        assert answer.events == []


def test_timers_do_not_pile_up() -> None:
    """A lease of a day is over long after its task: its timer must not stay until then."""
    pool = pool_of({"a": [1, 1]}, retain=100)
    for i in range(2_000):
        body = engine.decide(pool.state, CreateTask(task_type="a"), float(i), [1]).body
        engine.decide(pool.state, Complete(assignment=body.assignment_id), i + 0.5, [1])
    assert len(pool.state.timers) < 200
    assert len(pool.state.tasks) == 100
