"""Plans are made, shadowed, put in force and rolled back under load: nothing is lost or doubled."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import cycle
from pathlib import Path

import msgspec

from opportune.service.journal import Journal
from opportune.service.replaying import replay
from opportune.service.sqlite import SqliteJournal
from opportune.service.sqlite_file import backup_file
from opportune.service.stress import PLAN, Load, StressSettings, declare, run_load
from opportune.service.stress_target import Target
from opportune.service.wire import Address

LOAD = StressSettings(
    pool="loaded", servers=60, types=8, connections=8, seconds=2.0, rate=300.0, open_share=0.8
)
BASE = f"/v1/pools/{LOAD.pool}"
CHANGES = ("activate", "rollback", "shadow")


async def changed(address: Address, stop: asyncio.Event, done: Counter[str]) -> None:
    """Change plans without a pause until told to stop, counting how often each was done."""
    connection = await address.connect()

    async def ask(method: str, path: str, body: object = None, *also: int) -> msgspec.Raw:
        content = b"" if body is None else msgspec.json.encode(body)
        answered = await connection.send(address.request(method, BASE + path, content))
        assert answered.status < 300 or answered.status in also, answered.body
        what = path.rpartition(":")[2] if ":" in path else method
        done[what] += 1
        return msgspec.Raw(answered.body)

    try:
        types = [
            {"id": f"type-{v + 1}", "rate": 30.0, "mean_duration": 0.2} for v in range(LOAD.types)
        ]
        await ask("PUT", "/task-types", types)
        await ask("POST", "/plans", {"id": "second"})
        for number in cycle(range(1_000_000)):
            if stop.is_set():
                break
            if number % 20 == 0:
                await ask("POST", "/plans", {"wait": False, "activate": False, "policy": "greedy"})
            await ask("POST", f"/plans/{PLAN}:activate")
            await ask("POST", "/plans/second:shadow")
            await asyncio.sleep(0.01)
            await ask("POST", "/plans/second:activate")
            await ask("POST", "/plans:rollback")
            await ask("POST", f"/plans/{PLAN}:shadow", None, 409)  # it is in force
    finally:
        connection.close()


async def loaded(address: Address) -> tuple[Load, dict[str, int]]:
    """The load, until there was enough of it and of changes; the pool's counts afterwards."""
    await declare(address, LOAD)
    stop, done, load = asyncio.Event(), Counter[str](), Load()
    changes = asyncio.create_task(changed(address, stop, done))
    while not changes.done() and (
        len(load.decided) <= 100 or min(done[what] for what in CHANGES) < 5
    ):
        one = await run_load(address, LOAD, warm_up=0.2)
        load.decided += one.decided
        load.failed |= one.failed
        load.mismatch = (load.mismatch or 0) + (one.mismatch or 0)
    stop.set()
    await changes
    connection = await address.connect()
    answered = await connection.send(address.request("GET", BASE))
    connection.close()
    await asyncio.sleep(0)  # let transports close
    pool = msgspec.json.decode(answered.body)
    assert (pool["tasks_open"], pool["slots_open"], pool["capacity_mismatch"]) == (0, 0, 0)
    return load, pool["counts"]


def test_plans_change_under_load_and_nothing_is_lost(tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with Target() as target:
        host, _, port = target.address.removeprefix("http://").rpartition(":")
        load, counts = asyncio.run(loaded(Address(host, int(port))))
        backup_file(target.folder / "stress.db", copy)
    assert (load.failed, load.mismatch) == ({}, 0)
    assert counts["created"] == counts["done"] + counts.get("dropped", 0)
    assert counts["shadow_agreed"] + counts["shadow_differed"] > 0
    journal: Journal = SqliteJournal(copy)
    found = replay(journal, LOAD.pool)
    journal.close()
    assert (found.different, found.capacity_mismatch, found.problems) == (0, 0, [])
    assert found.decisions == counts["created"]
