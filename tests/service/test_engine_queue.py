"""Queue mode: who waits, in which order, and that nobody waits for ever."""

from __future__ import annotations

from typing import Any

import pytest

from opportune.service.commands import (
    CancelTask,
    ClearQuarantine,
    Complete,
    CreateTask,
    Fail,
    PutPool,
    PutScores,
    PutServer,
    PutTaskType,
    RemoveServer,
    Tick,
)
from opportune.service.reading import (
    assignment_body,
    present_body,
    server_body,
    task_body,
    waiting_tasks,
)
from opportune.service.resources import (
    PoolSettings,
    ScoreRow,
    ServerSettings,
    TaskTypeSettings,
)
from tests.service.pools import Pool, names, pool_of


def queue(scores: Any, **settings: Any) -> Pool:
    return pool_of(scores, mode="queue", **settings)


def state_of(pool: Pool, body: Any) -> str:
    return str(task_body(pool.state, body.task_id).state)


def test_a_task_that_cannot_start_waits_with_its_position() -> None:
    pool = queue({"a": [1]})
    first = pool.do(CreateTask(task_type="a"), 0.0)
    assert first.created
    second = pool.do(CreateTask(task_type="a"), 1.0)
    third = pool.do(CreateTask(task_type="a", priority=5.0), 2.0)
    assert second.waiting
    assert third.waiting
    assert second.body.position == 1  # as of its answer
    assert [body.task_id for body in waiting_tasks(pool.state)] == ["p.t3", "p.t2"]
    pool.ok(Complete(assignment="p.a1"), 3.0)
    assert state_of(pool, third.body) == "in_service"
    assert task_body(pool.state, "p.t2").position == 1
    pool.ok(Complete(assignment="p.a3"), 4.0)
    body = assignment_body(pool.state, "p.a2")
    assert (body.task_state, body.created_at, body.started_at) == ("in_service", 1.0, 4.0)
    pool.replayed()


def test_the_freed_server_goes_where_its_index_is_highest() -> None:
    """No age weight: the best match first, whoever came first."""
    pool = queue({"a": [1.0, 5.0], "b": [3.0, 1.0]})
    for name in ("a", "b"):
        pool.task(name, 0.0)
    a, b = pool.task("a", 1.0), pool.task("b", 2.0)
    pool.ok(Complete(assignment="p.a2"), 3.0)
    assert names(assignment_body(pool.state, "p.a2")) == ["s0"]
    assert state_of(pool, b) == "in_service"
    assert state_of(pool, a) == "queued"


def test_age_outweighs_the_index_in_the_end() -> None:
    pool = queue({"a": [1.0], "b": [3.0]}, age_weight=0.1)
    held = pool.task("b", 0.0)
    a, b = pool.task("a", 1.0), pool.task("b", 20.9)
    pool.ok(Complete(assignment=held.assignment_id), 30.0)
    assert state_of(pool, b) == "in_service"  # 3 + 0.1 x 9.1 > 1 + 0.1 x 29
    late = pool.task("b", 31.1)
    pool.ok(Complete(assignment="p.a3"), 40.0)
    assert state_of(pool, a) == "in_service"  # 1 + 0.1 x 39 > 3 + 0.1 x 8.9
    assert state_of(pool, late) == "queued"


def test_equal_tasks_go_in_the_order_in_which_they_came() -> None:
    pool = queue({"a": [1.0]})
    pool.task(now=0.0)
    waiting = [pool.task(now=1.0) for _ in range(5)]
    started = []
    for i in range(5):
        running = next(t for t in pool.state.tasks.values() if t.state == "in_service")
        pool.ok(Complete(assignment=f"p.a{running.number}"), 2.0 + i)
        started += [b.task_id for b in waiting if state_of(pool, b) == "in_service"]
    assert started == [b.task_id for b in waiting]


def test_a_small_task_may_pass_one_that_needs_more_servers() -> None:
    pool = queue({"a": [1.0, 1.0], "b": [1.0, 1.0]})
    held = pool.task("a", 0.0)
    pair = pool.task("a", 1.0, k=2)
    assert pair.state == "queued"
    small = pool.task("b", 2.0)
    assert small.task_state == "in_service"
    pool.ok(Complete(assignment=held.assignment_id), 3.0)
    assert state_of(pool, pair) == "queued"
    pool.ok(Complete(assignment=small.assignment_id), 4.0)
    assert state_of(pool, pair) == "in_service"


def test_a_task_that_waited_long_enough_keeps_the_freed_servers() -> None:
    """Small tasks keep coming; without a reserve the pair never finds two free servers."""
    started = {}
    for reserve in (None, 10.0):
        pool = queue({"a": [1.0, 1.0]}, reserve_after=reserve, start_within=10_000.0)
        running = [pool.task(now=0.0).assignment_id, pool.task(now=0.5).assignment_id]
        pair = pool.task(now=1.0, k=2)
        for step in range(2, 60):
            small = pool.task(now=float(step))
            if small.assignment_id:
                running.append(small.assignment_id)
            for number in [n for n, t in pool.state.tasks.items() if t.state == "in_service"][:1]:
                pool.ok(Complete(assignment=f"p.a{number}"), step + 0.5)
        body = task_body(pool.state, pair.task_id)
        started[reserve] = body.state in ("in_service", "done")
    assert started == {None: False, 10.0: True}


def test_only_the_oldest_task_reserves_so_two_cannot_block_each_other() -> None:
    pool = queue({"a": [1.0, 1.0, 1.0]}, reserve_after=5.0)
    held = [pool.task(now=0.0) for _ in range(3)]
    first, second = pool.task(now=1.0, k=2), pool.task(now=2.0, k=2)
    pool.ok(Complete(assignment=held[0].assignment_id), 10.0)
    assert task_body(pool.state, first.task_id).reserved == names(held[0])
    assert task_body(pool.state, second.task_id).reserved == []
    assert server_body(pool.state, names(held[0])[0]).state == "reserved"
    pool.ok(Complete(assignment=held[1].assignment_id), 11.0)
    assert state_of(pool, first) == "in_service"
    pool.ok(Complete(assignment=held[2].assignment_id), 12.0)
    assert task_body(pool.state, second.task_id).reserved == names(held[2])
    pool.restart()
    pool.ok(CancelTask(task=second.task_id))
    assert pool.free == names(held[2])


def test_a_reserve_begins_with_what_is_free_and_goes_on_when_it_is_due() -> None:
    pool = queue({"a": [1.0, 1.0], "b": [1.0, None]}, reserve_after=5.0)
    pool.task("b", 0.0)
    pair = pool.task("a", 1.0, k=2)
    assert pool.free == ["s1"]
    pool.ok(Tick(), 6.0)
    assert task_body(pool.state, pair.task_id).reserved == ["s1"]
    assert pool.free == []
    pool.ok(Complete(assignment="p.a1"), 7.0)
    assert state_of(pool, pair) == "in_service"


def test_nothing_is_kept_for_a_task_that_cannot_start_with_what_there_is() -> None:
    pool = queue({"a": [1.0, 1.0]}, reserve_after=5.0)
    held = pool.task(now=0.0)
    pair = pool.task(now=1.0, k=2)
    pool.ok(RemoveServer(server=names(held)[0]), 2.0)
    pool.ok(Tick(), 10.0)
    assert task_body(pool.state, pair.task_id).reserved == []
    assert pool.task(now=11.0).task_state == "in_service"


def test_a_reserved_pin_leaves_room_for_itself() -> None:
    pool = queue({"a": [3.0, 2.0, 1.0]}, reserve_after=0.0)
    held = pool.task(now=0.0)
    assert names(held) == ["s0"]
    pair = pool.task(now=1.0, k=2, pins=["s0"])
    assert task_body(pool.state, pair.task_id).reserved == ["s1"]
    assert pool.free == ["s2"]
    pool.ok(Complete(assignment=held.assignment_id), 2.0)
    assert set(names(assignment_body(pool.state, "p.a2"))) == {"s0", "s1"}


def test_a_task_that_does_not_start_in_time_expires() -> None:
    pool = queue({"a": [1.0]}, start_within=30.0)
    pool.task(now=0.0)
    late = pool.task(now=1.0)
    soon = pool.task(now=2.0, start_within=5.0)
    pool.ok(Tick(), 7.0)
    assert (state_of(pool, late), state_of(pool, soon)) == ("queued", "expired")
    pool.ok(Tick(), 31.0)
    assert state_of(pool, late) == "expired"
    assert pool.state.waiting.size == 0
    assert pool.refused(Complete(assignment="p.a2")) == "not-found"


def test_conflicts_of_one_task_do_not_hold_up_the_next() -> None:
    pool = queue({"a": [1.0, 1.0]})
    held = [pool.task(now=0.0), pool.task(now=0.0)]
    free = names(held[0])
    picky, plain = pool.task(now=1.0, conflicts=free), pool.task(now=2.0)
    pool.ok(Complete(assignment=held[0].assignment_id), 3.0)
    assert (state_of(pool, picky), state_of(pool, plain)) == ("queued", "in_service")
    pool.ok(Complete(assignment=held[1].assignment_id), 4.0)
    assert state_of(pool, picky) == "in_service"


@pytest.mark.parametrize("how", ["added", "undrained", "cleared", "scored", "allowed", "larger"])
def test_whatever_frees_a_server_starts_who_waits(how: str) -> None:
    pool = queue({"a": [1.0, None]}, quarantine_after=1)
    if how == "cleared":
        pool.ok(Fail(assignment=pool.task(now=0.0).assignment_id), 1.0)
    elif how == "undrained":
        pool.ok(PutServer(settings=ServerSettings(id="s0", drain=True)))
    else:
        pool.task(now=0.0)
    waiting = pool.task(now=2.0)
    assert waiting.state == "queued"
    command: Any = {
        "added": PutServer(settings=ServerSettings(id="s2")),
        "undrained": PutServer(settings=ServerSettings(id="s0")),
        "cleared": ClearQuarantine(server="s0"),
        "scored": PutScores(rows=[ScoreRow("a", "s1", 0.5)]),
        "allowed": PutPool(settings=PoolSettings(mode="queue", missing_score="zero")),
        "larger": PutServer(settings=ServerSettings(id="s0", capacity=2)),
    }[how]
    pool.ok(command, 3.0)
    if how == "added":
        assert state_of(pool, waiting) == "queued"  # it has no score yet
        pool.ok(PutScores(rows=[ScoreRow("a", "s2", 1.0)]), 3.5)
    assert state_of(pool, waiting) == "in_service"


def test_changed_eligibility_starts_who_waits() -> None:
    pool = pool_of({"a": [1.0, 1.0]}, {"a": {"eligible": ["s0"]}}, mode="queue")
    pool.task(now=0.0)
    waiting = pool.task(now=1.0)
    assert waiting.state == "queued"
    pool.ok(PutTaskType(settings=TaskTypeSettings(id="a")), 2.0)
    assert state_of(pool, waiting) == "in_service"


def test_a_queue_becomes_a_loss_pool_and_who_waits_is_served() -> None:
    pool = queue({"a": [1.0]})
    pool.task(now=0.0)
    waiting = pool.task(now=1.0)
    pool.ok(PutPool(settings=PoolSettings(mode="loss", age_weight=2.0)), 2.0)
    assert pool.refused(CreateTask(task_type="a"), 3.0) == "no-capacity"
    pool.ok(Complete(assignment="p.a1"), 4.0)
    assert state_of(pool, waiting) == "in_service"
    task = pool.state.tasks[2]
    assert present_body(pool.state, task).assignment_id == "p.a2"


def test_a_kept_server_that_is_not_needed_in_the_end_goes_to_the_next() -> None:
    pool = queue({"a": [3.0, 2.0, 1.0]}, reserve_after=5.0)
    held = pool.task(now=0.0, k=2)
    pair = pool.task(now=1.0, k=2)
    pool.ok(Tick(), 6.0)
    assert task_body(pool.state, pair.task_id).reserved == ["s2"]
    assert pool.task(now=8.0).state == "queued"
    pool.ok(Complete(assignment=held.assignment_id), 9.0)
    assert names(assignment_body(pool.state, "p.a2")) == ["s0", "s1"]
    assert names(assignment_body(pool.state, "p.a3")) == ["s2"]


def test_servers_kept_for_a_task_that_expires_go_to_the_next() -> None:
    pool = queue({"a": [3.0, 2.0], "b": [None, 1.0]}, reserve_after=5.0)
    pool.task("a", 0.0)
    pair = pool.task("a", 1.0, k=2, start_within=10.0)
    single = pool.task("b", 8.0)
    assert task_body(pool.state, pair.task_id).reserved == ["s1"]
    assert single.state == "queued"
    pool.ok(Tick(), 11.0)
    assert state_of(pool, pair) == "expired"
    assert state_of(pool, single) == "in_service"
