"""What a service needs: memory per pool, server and open task, and disk per task.

    python -m benchmarks.sizing

Starts a service on a database in a temporary folder, and reads its resident memory and the size of
the journal before and after. Linux only: it reads ``/proc``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from opportune.cli.output import print_table
from opportune.client import (
    AssignmentBody,
    Client,
    CreateTask,
    PoolSettings,
    ServerSettings,
    TaskTypeSettings,
)
from opportune.service.stress_target import Target

POOLS, SERVERS, TYPES, TASKS = 100, 5_000, 20, 20_000
THREADS = 32


def resident(pid: int) -> float:
    """Resident memory of a process in KB."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("VmRSS:")))


def written(folder: Path) -> float:
    """Size of the journal's files in KB."""
    return sum(file.stat().st_size for file in folder.iterdir()) / 1024


def declare(client: Client, pool: str, servers: int, types: int, capacity: int = 1) -> None:
    """A pool without a plan."""
    client.put_pool(pool, PoolSettings())
    names = [f"s{r}" for r in range(servers)]
    for first in range(0, servers, 1000):
        some = [ServerSettings(id=name, capacity=capacity) for name in names[first : first + 1000]]
        client.put_servers(pool, some)
    kinds = [f"t{v}" for v in range(types)]
    client.put_task_types(
        pool, [TaskTypeSettings(id=kind, rate=0.01, mean_duration=60.0) for kind in kinds]
    )
    for v, kind in enumerate(kinds):
        scores = [
            (kind, name, (r * 7919 + v * 104_729) % 1000 / 1000) for r, name in enumerate(names)
        ]
        client.put_scores(pool, scores)


def measure(target: Target, client: Client, pid: int) -> list[tuple[str, str, str]]:
    """What was measured, for how many, and KB of each."""
    rows = [("memory of an empty service", "1", f"{resident(pid):.0f}")]

    def row(what: str, count: int, size: Callable[[], float], work: Callable[[], object]) -> None:
        before = size()
        work()
        rows.append((what, f"{count}", f"{(size() - before) / count:.1f}"))

    def memory() -> float:
        return resident(pid)

    def disk() -> float:
        return written(target.folder)

    declare(client, "first", 10, 3)  # what is needed once is not a pool's

    def small() -> None:
        for i in range(POOLS):
            declare(client, f"small-{i}", 10, 3)

    def large() -> None:
        declare(client, "large", SERVERS, TYPES, 10)

    row("memory of a pool of 10 servers, 3 types", POOLS, memory, small)
    row(f"memory of a server in a pool of {TYPES} types", SERVERS, memory, large)
    made: list[str] = []

    def assign(number: int) -> str:
        task = CreateTask(task_type=f"t{number % TYPES}")
        answer = client.create_assignment("large", task)
        assert isinstance(answer, AssignmentBody)
        return answer.assignment_id

    with ThreadPoolExecutor(THREADS) as threads:
        before = disk()
        row(
            "memory of an open task",
            TASKS,
            memory,
            lambda: made.extend(threads.map(assign, range(TASKS))),
        )
        rows.append(("disk of an assignment", f"{TASKS}", f"{(disk() - before) / TASKS:.1f}"))
        row(
            "disk of a completion with its outcome",
            TASKS,
            disk,
            lambda: list(threads.map(lambda name: client.complete(name, value=1.0), made)),
        )
    return rows


def main() -> None:
    """Measure, and print a table."""
    with Target() as target:
        began = time.perf_counter()
        with Client(target.address) as client:
            rows = measure(target, client, target.pid)
        seconds = time.perf_counter() - began
    print_table(f"KB of each, measured in {seconds:.0f} s", ("what", "how many", "KB"), rows)


if __name__ == "__main__":
    main()
