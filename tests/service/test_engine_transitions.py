"""Offers, declines, refills, tokens and repeats: what may follow what."""

from __future__ import annotations

from typing import Any

import pytest

from opportune.service.commands import (
    Accept,
    CancelTask,
    Complete,
    CreateTask,
    Decline,
    Fail,
    Heartbeat,
    Release,
    Tick,
)
from opportune.service.events import (
    SlotsMoved,
)
from opportune.service.reading import (
    assignment_body,
    task_body,
)
from tests.service.pools import Pool, names, pool_of


def offering(**settings: Any) -> Pool:
    """Four servers of scores 4, 3, 2, 1 that are asked first."""
    return pool_of({"a": [4, 3, 2, 1]}, auto_accept=False, **settings)


# ------------------------------------------------------------------------ offers and refills


def test_an_offered_server_is_busy_until_it_declines() -> None:
    pool = offering(offer_timeout=10.0)
    body = pool.task(now=1.0)
    assert (body.state, body.task_state, body.deadline) == ("offered", "offering", 11.0)
    assert names(body) == ["s0"]
    assert pool.free == ["s1", "s2", "s3"]
    body = pool.ok(Decline(assignment=body.assignment_id, reason="no time"), 2.0)
    assert names(body, "declined") == ["s0"]
    assert names(body, "offered") == ["s1"]
    assert pool.free == ["s0", "s2", "s3"]


def test_a_declined_slot_is_refilled_without_touching_the_others() -> None:
    pool = offering(k=2)
    body = pool.task()
    pool.ok(Accept(assignment=body.assignment_id, server="s0"))
    before = {slot.id: slot for slot in assignment_body(pool.state, body.assignment_id).servers}
    body = pool.ok(Decline(assignment=body.assignment_id, server="s1"))
    after = {slot.id: slot for slot in body.servers}
    assert after["s0"] == before["s0"]
    assert names(body, "accepted") == ["s0"]
    assert names(body, "offered") == ["s2"]
    assert pool.refused(Complete(assignment=body.assignment_id)) == "conflict"
    assert pool.refused(Complete(assignment=body.assignment_id, server="s0")) == "conflict"
    body = pool.ok(Accept(assignment=body.assignment_id))
    assert (body.state, body.task_state) == ("accepted", "in_service")
    assert pool.free == ["s1", "s3"]


def test_nobody_is_asked_twice_for_one_task() -> None:
    pool = offering()
    body = pool.task()
    for expected in (["s1"], ["s2"], ["s3"], []):
        body = pool.ok(Decline(assignment=body.assignment_id))
        assert names(body, "offered") == expected
    assert body.task_state == "offering"
    assert pool.free == ["s0", "s1", "s2", "s3"]
    pool.ok(Tick(), 4_000.0)
    assert task_body(pool.state, body.task_id).state == "expired"


@pytest.mark.parametrize("restart", [False, True])
def test_a_short_task_gets_the_next_server_that_is_freed(restart: bool) -> None:
    pool = pool_of({"a": [2, 1]}, auto_accept=False)
    first, second = pool.task(), pool.task()
    assert names(second) == ["s1"]
    body = pool.ok(Decline(assignment=second.assignment_id))
    assert names(body, "offered") == []
    if restart:
        pool.restart(from_snapshot=True)
    pool.ok(CancelTask(task=first.task_id))
    body = assignment_body(pool.state, second.assignment_id)
    assert names(body, "offered") == ["s0"]


def test_what_cannot_be_refilled_by_its_deadline_releases_the_accepted_ones() -> None:
    pool = pool_of({"a": [2, 1]}, k=2, auto_accept=False, start_within=30.0)
    body = pool.task(now=0.0)
    pool.ok(Accept(assignment=body.assignment_id, server="s0"), 1.0)
    pool.ok(Decline(assignment=body.assignment_id, server="s1"), 2.0)
    pool.ok(Tick(), 29.9)
    assert pool.free == ["s1"]
    pool.ok(Tick(), 30.0)
    assert pool.free == ["s0", "s1"]
    body = assignment_body(pool.state, body.assignment_id)
    assert (body.state, body.task_state) == ("rescinded", "expired")
    assert names(body, "released") == ["s0"]


def test_or_it_starts_with_fewer_if_the_pool_allows() -> None:
    pool = pool_of({"a": [3, 2, 1]}, k=3, min_servers=2, auto_accept=False, start_within=30.0)
    body = pool.task(now=0.0)
    pool.ok(Accept(assignment=body.assignment_id, server="s0"), 1.0)
    pool.ok(Accept(assignment=body.assignment_id, server="s1"), 1.0)
    pool.ok(Tick(), 30.0)
    body = assignment_body(pool.state, body.assignment_id)
    assert (body.state, body.task_state, body.started_at) == ("accepted", "in_service", 30.0)
    assert names(body, "rescinded") == ["s2"]
    assert pool.free == ["s2"]
    assert pool.ok(Complete(assignment=body.assignment_id), 31.0).task_state == "done"


def test_an_offer_that_is_not_answered_goes_to_another_server() -> None:
    pool = offering(offer_timeout=10.0)
    body = pool.task(now=0.0)
    pool.ok(Tick(), 10.0)
    body = assignment_body(pool.state, body.assignment_id)
    assert names(body, "timed_out") == ["s0"]
    assert names(body, "offered") == ["s1"]
    assert body.deadline == 20.0
    late = Accept(assignment=body.assignment_id, server="s0")
    assert pool.refused(late) == "already-ended"


def test_a_command_after_the_deadline_finds_it_passed() -> None:
    """Timers fire before the command, whoever comes first."""
    pool = offering(offer_timeout=10.0)
    body = pool.task(now=0.0)
    answer = pool.do(Accept(assignment=body.assignment_id, server="s0"), 10.5)
    assert answer.problem is not None
    assert answer.problem.code == "already-ended"
    assert [event.state for event in answer.events if isinstance(event, SlotsMoved)] == [
        "timed_out"
    ]
    assert pool.replayed()


def test_a_pinned_server_that_declines_ends_the_task() -> None:
    pool = offering(k=2)
    body = pool.task(pins=["s3"])
    assert set(names(body)) == {"s3", "s0"}
    pool.ok(Accept(assignment=body.assignment_id, server="s0"))
    body = pool.ok(Decline(assignment=body.assignment_id, server="s3"))
    assert body.task_state == "expired"
    assert pool.free == ["s0", "s1", "s2", "s3"]


def test_an_accepted_server_may_leave_before_the_task_began() -> None:
    pool = offering(k=2)
    body = pool.task()
    pool.ok(Accept(assignment=body.assignment_id, server="s0"))
    body = pool.ok(Release(assignment=body.assignment_id, server="s0"))
    assert names(body, "offered") == ["s1", "s2"]
    assert pool.refused(Complete(assignment=body.assignment_id)) == "conflict"


# -------------------------------------------------------------------------- tokens and repeats


def test_a_refill_makes_the_old_token_stale_but_not_that_of_the_others() -> None:
    pool = offering(k=2)
    body = pool.task()
    old = body.lease
    pool.ok(Accept(assignment=body.assignment_id, server="s0", lease=old))
    body = pool.ok(Decline(assignment=body.assignment_id, server="s1", lease=old))
    assert body.lease > old
    assert pool.refused(Accept(assignment=body.assignment_id, lease=old)) == "stale-lease"
    new = next(slot.lease for slot in body.servers if slot.id == "s2")
    assert pool.refused(Accept(assignment=body.assignment_id, server="s2", lease=old)) == (
        "stale-lease"
    )
    pool.ok(Accept(assignment=body.assignment_id, server="s2", lease=new))
    pool.ok(Complete(assignment=body.assignment_id, server="s0", lease=old))
    assert pool.ok(Complete(assignment=body.assignment_id, lease=new)).task_state == "done"


@pytest.mark.parametrize("kind", [Accept, Decline, Fail, Release])
def test_the_same_command_again_is_repeated_with_the_same_body(kind: Any) -> None:
    pool = offering()
    body = pool.task()
    if kind in (Fail,):
        pool.ok(Accept(assignment=body.assignment_id))
    command = kind(assignment=body.assignment_id, server="s0")
    first, again = pool.do(command), pool.do(command)
    assert first.problem is None
    assert not first.repeated
    assert again.repeated
    assert again.body == first.body


def test_an_assignment_that_is_over_does_not_move() -> None:
    pool = pool_of({"a": [1]})
    body = pool.task()
    pool.ok(Complete(assignment=body.assignment_id))
    for kind in (Accept, Decline, Fail, Release, Heartbeat):
        answer = pool.do(kind(assignment=body.assignment_id))
        assert answer.problem is not None
        assert answer.problem.code == "already-ended"
        assert answer.problem.body.state == "completed"
        assert answer.events == []


def test_a_server_without_a_slot_is_not_found() -> None:
    pool = pool_of({"a": [2, 1]})
    body = pool.task()
    for server in ("s1", "s9"):
        assert pool.refused(Complete(assignment=body.assignment_id, server=server)) == "not-found"


def test_an_external_id_is_one_task() -> None:
    pool = pool_of({"a": [2, 1]})
    command = CreateTask(task_type="a", external_id="paper-7", context={"x": 1})
    first, again = pool.do(command), pool.do(command)
    assert first.created
    assert again.repeated
    assert again.body == first.body
    other = CreateTask(task_type="a", external_id="paper-7", context={"x": 2})
    assert pool.refused(other) == "conflict"
    pool.ok(Complete(assignment=first.body.assignment_id))
    assert pool.do(command).body.state == "completed"


def test_the_name_of_a_dropped_task_may_be_used_again() -> None:
    pool = pool_of({"a": [1]})
    held = pool.task()
    command = CreateTask(task_type="a", external_id="x")
    assert pool.refused(command) == "no-capacity"
    pool.ok(Complete(assignment=held.assignment_id))
    assert pool.do(command).created
    pool.restart()
    assert pool.do(command).repeated
