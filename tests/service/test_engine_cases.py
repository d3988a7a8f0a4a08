"""``cases.md`` section C: assignment, servers and time, as far as the engine is concerned."""

from __future__ import annotations

import itertools
import threading

import msgspec
import numpy as np
import pytest

from opportune.service import engine
from opportune.service.commands import (
    AnyCommand,
    CancelTask,
    Complete,
    CreateTask,
    PutServer,
    RemoveServer,
    Tick,
)
from opportune.service.resources import ServerSettings
from opportune.service.state import capacity_mismatch
from opportune.service.storing import state_hash
from tests.service.pools import Pool, names, pool_of


def test_more_servers_than_there_are_is_refused_when_asked_for() -> None:
    """r-simmer/simmer#36: k > R must not wait or be dropped for ever."""
    for mode in ("loss", "queue"):
        pool = pool_of({"a": [1, 1, 1]}, mode=mode)
        answer = pool.do(CreateTask(task_type="a", k=5))
        assert answer.problem is not None
        assert answer.problem.code == "invalid"
        assert "needs 5 servers and 3" in answer.problem.detail
        assert answer.events == []
        assert len(pool.task(k=3).servers) == 3


@pytest.mark.parametrize("k", ["0", "-1", "2.5", '"R"', '"inf"', "1e999", "true"])
def test_a_number_of_servers_that_is_none_is_refused_when_read(k: str) -> None:
    text = f'{{"command":"CreateTask","task_type":"a","k":{k}}}'
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=AnyCommand)


@pytest.mark.parametrize(
    "text",
    [
        '{"command":"PutServer","settings":{"id":"s","capacity":"inf"}}',
        '{"command":"PutServer","settings":{"id":"s","capacity":0}}',
        '{"command":"PutServer","settings":{"id":"s","capacity":1.5}}',
        '{"command":"PutTaskType","settings":{"id":"a","mean_duration":"3"}}',
        '{"command":"PutTaskType","settings":{"id":"a","mean_duration":0}}',
        '{"command":"PutTaskType","settings":{"id":"a","mean_duration":-3}}',
        '{"command":"PutTaskType","settings":{"id":"a","rate":"0,1"}}',
        '{"command":"PutTaskType","settings":{"id":"a","rate":-1}}',
        '{"command":"PutPool","settings":{"lease":"1h"}}',
        '{"command":"PutPool","settings":{"wrap_up":-1}}',
        '{"command":"PutPool","settings":{"wrap_up":NaN}}',
        '{"command":"CreateTask","task_type":"a","start_within":1e999}',
    ],
)
def test_numbers_given_as_text_or_out_of_range_are_refused_when_read(text: str) -> None:
    """CiwPython/Ciw#83, mongodb/mongo-python-driver#1758: text, zero and negative durations."""
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(text, type=AnyCommand)


def test_fewer_permitted_than_free_drops_one_task_and_no_other() -> None:
    """openreview/openreview-matcher#248: greedy ran out of permitted ones and gave up."""
    pool = pool_of({"a": [1, 1, None, None], "b": [1, 1, 1, 1]}, k=2)
    held = pool.task("b", k=1, conflicts=["s1", "s2", "s3"])
    assert names(held) == ["s0"]
    answer = pool.do(CreateTask(task_type="a"))
    assert answer.problem is not None
    assert answer.problem.code == "no-capacity"
    assert answer.problem.body.why.n_free == 1
    assert [(one.server, one.reason) for one in answer.problem.body.why.excluded] == [
        ("s0", "busy")
    ]
    assert pool.state.counts["dropped"] == 1
    assert len(pool.task("b").servers) == 2
    pool.ok(Complete(assignment=held.assignment_id))
    for _ in range(3):
        answer = pool.do(CreateTask(task_type="a"))
        chosen = names(answer.body) if answer.body else []
        assert set(chosen) <= {"s0", "s1"}


def test_every_task_has_exactly_k_distinct_free_permitted_servers() -> None:
    """openreview/openreview-matcher#101, over random steps; replay gives the same state."""
    rng = np.random.default_rng(7)
    allowed = rng.random((4, 12)) < 0.7
    scores = {
        f"t{v}": [float(rng.random()) if allowed[v, r] else None for r in range(12)]
        for v in range(4)
    }
    pool = pool_of(scores, k=3, retain=100)
    running: dict[str, list[str]] = {}
    accepted = 0
    for step in range(10_000):
        while running and rng.random() < 0.5:
            name = list(running)[int(rng.integers(len(running)))]
            engine.decide(pool.state, Complete(assignment=name), step, [1])
            del running[name]
        v = int(rng.integers(4))
        draws = rng.integers(0, 2**32, 3, dtype=np.uint32)
        body = engine.decide(pool.state, CreateTask(task_type=f"t{v}"), step, draws).body
        if body is None:
            continue
        accepted += 1
        chosen = names(body)
        busy = set(itertools.chain.from_iterable(running.values()))
        assert len(set(chosen)) == 3
        assert not busy & set(chosen)
        assert all(scores[f"t{v}"][int(name[1:])] is not None for name in chosen)
        running[body.assignment_id] = chosen
    assert capacity_mismatch(pool.state) == 0
    assert accepted == pool.state.counts["started"] > 3_000
    assert len(pool.state.tasks) <= 100 + len(running)


def test_the_end_of_an_old_generation_does_not_free_the_new_one() -> None:
    """llm-d/llm-d#1950: an endpoint left and came back under the same name."""
    pool = pool_of({"a": [1]})
    a = pool.task()
    pool.ok(RemoveServer(server="s0"))
    assert pool.refused(CreateTask(task_type="a")) == "invalid"
    again = pool.ok(PutServer(settings=ServerSettings(id="s0")))
    assert again.generation == 2
    b = pool.task()
    assert pool.free == []
    assert pool.ok(Complete(assignment=a.assignment_id)).state == "completed"
    assert pool.free == []
    assert pool.refused(CreateTask(task_type="a")) == "no-capacity"
    pool.ok(Complete(assignment=b.assignment_id))
    assert pool.free == ["s0"]
    assert pool.state.open_slots == 0
    pool.replayed()


def test_completing_what_never_began_changes_nothing() -> None:
    """BerriAI/litellm#39322: completions without a start drove a counter negative."""
    pool = pool_of({"a": [1, 1]})
    before = state_hash(pool.state)
    for name in ("nope", "p.a1", "p.a0", "p.t1", "other.a1", "p.a99999999999999999", "p.a1 "):
        assert pool.refused(Complete(assignment=name)) == "not-found"
    assert state_hash(pool.state) == before
    assert pool.free == ["s0", "s1"]


def test_the_second_completion_is_marked_and_counts_nothing() -> None:
    """restatedev/restate#1972: two completions for one waiter, also after a restart."""
    pool = pool_of({"a": [1, 1]})
    a = pool.task()
    first = pool.do(Complete(assignment=a.assignment_id, value=2.5), 3.0)
    assert not first.repeated
    for restart in (False, True):
        if restart:
            pool.restart()
        again = pool.do(Complete(assignment=a.assignment_id, value=2.5), 4.0)
        assert again.repeated
        assert again.events == []
        assert again.body == first.body
    assert pool.state.reward == 2.5
    assert pool.state.counts["done"] == 1


def test_canceling_a_task_returns_exactly_its_servers() -> None:
    """salabim/salabim#54: canceling a customer left the clerk occupied."""
    pool = pool_of({"a": [1] * 7}, k=3)
    first, second = pool.task(), pool.task()
    free = set(pool.free)
    assert len(free) == 1
    body = pool.ok(CancelTask(task=first.task_id))
    assert body.state == "cancelled"
    assert set(pool.free) == free | set(names(first))
    assert pool.do(CancelTask(task=first.task_id)).repeated
    assert pool.refused(Complete(assignment=first.assignment_id)) == "already-ended"
    assert not set(pool.free) & set(names(second))


def test_a_group_of_servers_returns_together_and_a_removed_one_does_not() -> None:
    """JuliaDynamics/ConcurrentSim.jl#7: two units taken by one, only one came back."""
    pool = pool_of({"a": [1, 1, 1]}, k=2)
    a = pool.task()
    gone, stays = names(a)
    pool.ok(RemoveServer(server=gone))
    pool.ok(Complete(assignment=a.assignment_id), 4.0)
    assert set(pool.free) == {"s0", "s1", "s2"} - {gone}
    assert stays in pool.free


def test_a_drop_says_when_servers_are_expected() -> None:
    """BerriAI/litellm#3646: with all backends cooling down no hint when to retry."""
    pool = pool_of({"a": [1, 1], "b": [1, 1]}, {"a": {"mean_duration": 7.0}})
    pool.task("a", 0.0)
    pool.task("b", 4.0)
    pool.restart(from_snapshot=True)
    for k, when in ((1, 7.0), (2, 9.0)):
        problem = pool.do(CreateTask(task_type="a", k=k), 5.0).problem
        assert problem is not None
        assert problem.expected_free == when
    problem = pool.do(CreateTask(task_type="a", k=2), 20.0).problem
    assert problem is not None
    assert problem.expected_free == 20.0  # overdue: any moment now
    pool.ok(PutServer(settings=ServerSettings(id="s1", drain=True)))
    problem = pool.do(CreateTask(task_type="a", k=2), 21.0).problem
    assert problem is not None
    assert problem.expected_free is None


def test_an_unknown_duration_gives_no_hint() -> None:
    pool = pool_of({"a": [1]}, {"a": {"mean_duration": None}})
    pool.task()
    problem = pool.do(CreateTask(task_type="a")).problem
    assert problem is not None
    assert problem.expected_free is None


def test_a_clock_that_is_set_back_is_clamped() -> None:
    """etcd-io/etcd#12291: negative time left after the wall clock was set back."""
    pool = pool_of({"a": [1]})
    pool.task("a", 100.0)
    body = pool.ok(Complete(assignment="p.a1"), 99.0)
    assert (body.started_at, body.ended_at) == (100.0, 100.0)
    assert pool.task("a", 98.0).created_at == 100.0
    times = [event.time for event in pool.log]
    assert times == sorted(times)


@pytest.mark.parametrize("now", [float("nan"), float("inf"), float("-inf")])
def test_a_time_that_is_none_is_refused(now: float) -> None:
    pool = pool_of({"a": [1]})
    before = state_hash(pool.state)
    answer = engine.decide(pool.state, CreateTask(task_type="a"), now, [1])
    assert answer.problem is not None
    assert answer.problem.code == "invalid"
    assert answer.events == []
    assert state_hash(pool.state) == before


def test_a_completion_in_the_same_instant_lasts_no_time_and_never_less() -> None:
    """mongodb/mongo-python-driver#1758: a measured duration came out below zero."""
    pool = pool_of({"a": [1]})
    pool.task("a", 10.0)
    body = pool.ok(Complete(assignment="p.a1"), 10.0)
    assert body.ended_at - body.started_at == 0.0
    assert pool.task("a", 10.0).created_at == 10.0


def test_unusual_names_survive_a_restart_with_tasks_in_service() -> None:
    """gensyn-ai/rl-swarm#461: integer keys became text, so every lookup missed."""
    pool = Pool()
    for name in ("1", "Zoë", "(1, 2)", "a b"):
        pool.ok(PutServer(settings=ServerSettings(id=name)))
    text = '{"command":"PutServer","settings":{"id":1}}'
    with pytest.raises(msgspec.ValidationError):  # 1 and "1" are not taken for one another
        msgspec.json.decode(text, type=AnyCommand)
    whole = pool_of({"a": [3, 2, 1, 0.5, 0.5, 0.25]}, k=2)
    twin = pool_of({"a": [3, 2, 1, 0.5, 0.5, 0.25]}, k=2)
    for one in (whole, twin):
        one.task("a", 1.0)
        one.task("a", 2.0)
    twin.restart()
    rng = np.random.default_rng(3)
    for step in range(1_000):
        draws = rng.integers(0, 2**32, 2, dtype=np.uint32)
        command = CreateTask(task_type="a") if step % 2 else Complete(assignment=f"p.a{step // 2}")
        answers = [engine.decide(p.state, command, 3.0 + step, draws) for p in (whole, twin)]
        assert answers[0] == answers[1]
    assert state_hash(whole.state) == state_hash(twin.state)


def test_busy_time_never_exceeds_the_time_there_is() -> None:
    """r-simmer/simmer#67: activity times exceeded the stay. One task a step, each one step."""
    pool = pool_of({"a": [1, 1]}, retain=100)
    busy: dict[str, float] = {"s0": 0.0, "s1": 0.0}
    for t in range(1_000):
        body = pool.task("a", float(t))
        done = engine.decide(pool.state, Complete(assignment=body.assignment_id), t + 1.0, [1])
        busy[names(body)[0]] += done.body.ended_at - done.body.started_at
    assert all(0 <= seconds <= 1_000 for seconds in busy.values())
    assert sum(busy.values()) == 1_000


def test_one_caller_at_a_time_and_no_server_twice() -> None:
    """BerriAI/litellm#871: each thread had its own idea of who is busy. One lock, one owner."""
    pool = pool_of({"a": [1] * 5}, retain=10_000)
    lock = threading.Lock()
    results: list[bool] = []

    def work(seed: int) -> None:
        for _ in range(500):
            with lock:
                answer = engine.decide(pool.state, CreateTask(task_type="a"), 1.0, [seed])
            if answer.body is not None:
                with lock:
                    done = engine.decide(
                        pool.state, Complete(assignment=answer.body.assignment_id), 1.0, [seed]
                    )
                results.append(done.problem is None and not done.repeated)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = pool.state.counts
    assert all(results)
    assert counts["created"] == 4_000 == counts["done"] + counts.get("dropped", 0)
    assert pool.free == ["s0", "s1", "s2", "s3", "s4"]
    assert capacity_mismatch(pool.state) == 0


def test_a_tick_with_nothing_due_is_nothing() -> None:
    pool = pool_of({"a": [1]})
    answer = pool.do(Tick(), 50.0)
    assert (answer.events, answer.body, answer.problem) == ([], None, None)
