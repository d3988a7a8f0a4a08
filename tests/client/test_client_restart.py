"""The service is killed in the middle of a run: every request is answered exactly once."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from opportune.client import (
    AssignmentBody,
    Client,
    CreateTask,
    PoolSettings,
    Retries,
    ServerSettings,
    TaskTypeSettings,
)
from opportune.service import events
from opportune.service.api.bodies import EventBody
from opportune.service.notes import is_note
from opportune.service.sqlite import SqliteJournal
from tests.client.serving import Losing, Served

CLIENTS, TASKS, KILLS = 4, 60, (40, 110, 180)
"""Client threads, tasks of each, and after how many completed tasks the service is killed."""

PATIENT = Retries(tries=10_000, seconds=300.0, first=0.02, longest=0.2)


class Run:
    """Clients at work, and what they were told."""

    def __init__(self, url: str) -> None:
        self.counting = Losing(lose=False)
        self.http = httpx.Client(transport=self.counting)
        self.client = Client(url, retries=PATIENT, http=self.http)
        self.names: dict[int, str] = {}
        self.followed: list[EventBody] = []
        self.progress = threading.Semaphore(0)

    def work(self, own: int) -> None:
        """One client: task after task. Every second one has no name of its own."""
        for number in range(own * TASKS, (own + 1) * TASKS):
            task = CreateTask(
                task_type="t",
                external_id=f"x{number}" if number % 2 else None,
                context={"n": number},
            )
            made = self.client.create_assignment("p", task)
            assert isinstance(made, AssignmentBody)
            assert (made.state, len(made.servers)) == ("accepted", 1)
            done = self.client.complete(made.assignment_id, value=1.0, lease=made.lease)
            assert (done.assignment_id, done.state) == (made.assignment_id, "completed")
            self.names[number] = made.assignment_id
            self.progress.release()

    def follow(self) -> None:
        """Events from the start, until the last outcome."""
        outcomes = 0
        for event in self.client.follow_events("p"):
            self.followed.append(event)
            outcomes += event.type == "OutcomeReported"
            if outcomes == CLIENTS * TASKS:
                return


def declare(client: Client) -> None:
    client.put_pool("p", PoolSettings(context=["n"]))
    client.put_servers("p", [ServerSettings(id=f"s{r}") for r in range(CLIENTS + 1)])
    client.put_task_type("p", TaskTypeSettings(id="t"))


def test_every_request_is_answered_exactly_once(tmp_path: Path) -> None:
    service = Served(tmp_path)
    try:
        run = Run(service.url)
        with run.http, ThreadPoolExecutor(CLIENTS + 1) as threads:
            declare(run.client)
            waiting = [threads.submit(run.work, own) for own in range(CLIENTS)]
            waiting.append(threads.submit(run.follow))
            completed = 0
            for kill_at in KILLS:
                while completed < kill_at:
                    assert run.progress.acquire(timeout=120.0)
                    completed += 1
                service.kill()
                service.start()
            for one in waiting:
                one.result(timeout=300.0)
            pool = run.client.get_pool("p")
    finally:
        service.kill()
    total = CLIENTS * TASKS
    assert sorted(run.names) == list(range(total))
    assert len(set(run.names.values())) == total
    counted = [pool.counts.get(name, 0) for name in ("created", "done", "dropped", "outcomes")]
    assert counted == [total, total, 0, total]
    assert (pool.reward, pool.slots_open, pool.capacity_mismatch) == (total, 0, 0)
    assert sum(tries > 1 for key, tries in run.counting.tries.items() if key) >= len(KILLS)
    check_journal(tmp_path / "opportune.db", run)


def check_journal(database: Path, run: Run) -> None:
    """Every task stands in the journal once; the stream brought every event once, in order."""
    journal = SqliteJournal(database)
    try:
        records = [
            (one.sequence, events.decode(one.data))
            for one in journal.read("p")
            if not is_note(one.data)
        ]
    finally:
        journal.close()
    created = [event for _, event in records if isinstance(event, events.TaskCreated)]
    assert sorted(event.context["n"] for event in created) == list(range(CLIENTS * TASKS))
    named = [event.external for event in created if event.external is not None]
    assert sorted(named) == sorted(f"x{number}" for number in range(1, CLIENTS * TASKS, 2))
    assert {event.context["n"]: f"p.a{event.task}" for event in created} == run.names
    moves = Counter(
        (type(event).__name__, event.task, getattr(event, "state", ""))
        for _, event in records
        if isinstance(event, events.Offered | events.SlotsMoved | events.OutcomeReported)
    )
    for event in created:
        for kind, state in (("Offered", ""), ("SlotsMoved", "completed"), ("OutcomeReported", "")):
            assert moves.pop((kind, event.task, state)) == 1
    assert not moves
    told = [(one.sequence, one.type) for one in run.followed]
    assert told == [(number, type(event).__name__) for number, event in records][: len(told)]
    assert len(told) >= len(records) - 4 * CLIENTS
