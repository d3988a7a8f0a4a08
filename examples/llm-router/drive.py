"""Send the same requests through the gateway in each of its modes, and compare.

    python examples/llm-router/drive.py --seconds 240 --speed 2

Starts the service, the backends and a gateway by mode, all on this machine. ``--restart`` kills the
service with SIGKILL in the middle of the runs that use it, and starts it again.
"""

from __future__ import annotations

import asyncio
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import cyclopts
import httpx
from cyclopts import Parameter
from gateway import POOL
from sending import http_client
from world import PROMPTS, arrivals, mean_seconds

from opportune.cli.output import print_note, print_table
from opportune.client import AsyncClient
from opportune.errors import OpportuneError, Problem

HERE = Path(__file__).parent
MODES = ("assignments", "rank", "best-score", "round-robin")
ASKING = MODES[:2]
"""Modes that ask the service."""

MARK = "serving "

BEARABLE = 0.1
"""Share of an answer's time by which places may be held longer: more changes who is refused."""


@contextmanager
def running(command: list[str], stream: str = "stdout") -> Iterator[tuple[Any, str]]:
    """A process that says where it serves, and its address."""
    pipes: dict[str, Any] = {stream: subprocess.PIPE}
    process = subprocess.Popen([sys.executable, *command], text=True, **pipes)
    try:
        line = ""
        for line in getattr(process, stream):
            if line.startswith(MARK):
                break
        if not line.startswith(MARK):
            told = f"{command[0]} {command[1]}"
            raise OpportuneError(Problem(told, "it ended", "it to serve", "see its message above"))
        yield process, line.removeprefix(MARK).split()[0]
    finally:
        process.terminate()
        process.communicate()


class Service:
    """The live service: it can be killed, and comes back at the same address."""

    def __init__(self, database: Path) -> None:
        self._words = ["-m", "opportune", "serve", "--database", str(database), "--log", "error"]
        self._context = running([*self._words, "--port", "0"], "stderr")
        self.process, self.url = self._context.__enter__()

    def restart(self) -> None:
        """SIGKILL, and start again."""
        self.process.kill()
        self.process.wait()
        port = self.url.rpartition(":")[2]
        self._context = running([*self._words, "--port", port], "stderr")
        self.process, _ = self._context.__enter__()

    def stop(self) -> None:
        """End it well."""
        self._context.__exit__(None, None, None)


async def send(
    url: str, plan: list[tuple[float, str]], speed: float, name: str
) -> tuple[int, list[float]]:
    """Send the requests when they are due; how many were answered, and by how much each was late.

    A late request is late by this machine's fault: its time is that of the sender's own loop.
    """
    async with http_client(url) as http:
        clock = asyncio.get_running_loop().time
        start, late = clock() + 0.2, []

        async def one(number: int, at: float, kind: str) -> int:
            await asyncio.sleep(start + at / speed - clock())
            late.append(clock() - start - at / speed)
            key = f"{name}-{number}"
            body = {"model": "auto", "messages": [{"role": "user", "content": PROMPTS[kind]}]}
            named = {"idempotency-key": key}
            try:
                answer = await http.post("/v1/chat/completions", json=body, headers=named)
            except httpx.TransportError:  # whatever became of it, the key carries it out once
                answer = await http.post("/v1/chat/completions", json=body, headers=named)
            if answer.status_code == 200:
                told = {"id": key, "good": answer.json()["good"]}
                (await http.post("/v1/feedback", json=told)).raise_for_status()
            return answer.status_code

        codes = await asyncio.gather(*(one(i, *due) for i, due in enumerate(plan)))
        return sum(code in (200, 503) for code in codes), late


async def run_mode(
    mode: str, url: str, plan: list[tuple[float, str]], speed: float, service: Service | None
) -> dict[str, Any]:
    """One run; ``service`` is killed in its middle if it is given."""
    name = "request"  # the same in all modes: lengths and luck hang on it
    sending = asyncio.create_task(send(url, plan, speed, name))
    if service is not None:
        await asyncio.sleep(plan[-1][0] / speed / 2)
        await asyncio.to_thread(service.restart)
    answers, late = await sending
    async with httpx.AsyncClient(base_url=url) as http:
        counts: dict[str, Any] = (await http.get("/counts")).json()
    held = counts.pop("held_seconds") / max(counts.pop("answer_seconds"), 1e-9)
    late_p99 = statistics.quantiles([0.0, *late], n=100)[-1]
    return {
        "mode": mode,
        "sent": len(plan),
        "answers": answers,
        **counts,
        "held": held,
        "late_ms_p99": 1000 * late_p99,
    }


async def booked(service: Service) -> dict[str, Any]:
    """What the service has in its books."""
    async with AsyncClient(service.url) as client:
        pool = await client.get_pool(POOL)
    names = ("created", "done", "dropped", "outcomes")
    found: dict[str, Any] = {name: pool.counts.get(name, 0) for name in names}
    found |= {"reward": pool.reward, "open": pool.slots_open}
    return found | {"capacity_mismatch": pool.capacity_mismatch}


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """What is sent, and how.

    Attributes:
        seconds: Length of the stream of requests, before the speed-up.
        load: Load of the models.
        speed: How many times as fast as they were the requests come and are answered.
        seed: Of the requests.
        modes: Which modes.
        restart: Kill the service in the middle of each run that uses it.
        json: Print the rows as JSON.
    """

    seconds: float = 240.0
    load: float = 0.75
    speed: float = 2.0
    seed: int = 1
    modes: tuple[str, ...] = MODES
    restart: Annotated[bool, Parameter(negative=())] = False
    json: Annotated[bool, Parameter(negative=())] = False


DEFAULT = Options()


def main(options: Options = DEFAULT) -> int:
    """Compare the gateway's modes on the same requests."""
    speed, modes = options.speed, options.modes
    plan = arrivals(options.seconds, options.load, options.seed)
    print_note(f"{len(plan)} requests in {options.seconds / speed:.0f} s, {len(modes)} times")
    rows = []
    with running([str(HERE / "backends.py"), "--port", "0", "--speed", str(speed)]) as (_, models):
        for mode in modes:
            with tempfile.TemporaryDirectory() as folder:
                pace = (options.load, speed)
                rows.append(_run(mode, models, plan, pace, (options.restart, Path(folder))))
    _print(rows, options)
    return 0 if all(row["answers"] == row["sent"] for row in rows) else 1


def _run(
    mode: str,
    models: str,
    plan: list[tuple[float, str]],
    pace: tuple[float, float],
    how: tuple[bool, Path],
) -> dict[str, Any]:
    """A mode, with a service of its own if it asks one."""
    restart, folder = how
    service = Service(folder / "router.db") if mode in ASKING else None
    command = [str(HERE / "gateway.py"), "--port", "0", "--mode", mode, "--backends", models]
    command += ["--load", str(pace[0]), "--speed", str(pace[1])]
    try:
        command += ["--service", service.url] if service is not None else []
        with running(command) as (_, url):
            killed = service if restart else None
            row = asyncio.run(run_mode(mode, url, plan, pace[1], killed))
            if service is not None:
                row["booked"] = asyncio.run(booked(service))
    finally:
        if service is not None:
            service.stop()
    return row


def _print(rows: list[dict[str, Any]], options: Options) -> None:
    if options.json:
        print(json.dumps(rows, allow_nan=False))
        return
    base = next((row["good"] for row in rows if row["mode"] == "round-robin"), 0)
    table = [
        (
            row["mode"] + ("" if row["held"] <= 1.0 + BEARABLE else " *"),
            f"{row['answered']}",
            f"{row['refused']}",
            f"{row['good']}",
            f"{100 * row['good'] / max(row['sent'], 1):.1f}",
            f"{100 * (row['good'] / base - 1):+.1f}" if base else "-",
            f"{100 * (row['held'] - 1):+.0f}",
        )
        for row in rows
    ]
    columns = (
        "mode",
        "answered",
        "refused",
        "good answers",
        "per 100 requests",
        "% to round-robin",
        "% held too long",
    )
    print_table(f"{rows[0]['sent']} requests, the same in every mode", columns, table)
    for told in notes(rows, options.load, options.speed):
        print_note(told)


def notes(rows: list[dict[str, Any]], load: float, speed: float) -> list[str]:
    """What this machine has to do with the figures, in words; nothing if it kept up.

    Args:
        rows: By mode.
        load: Load of the models, as asked for.
        speed: As asked for.
    """
    told = []
    slow = [row for row in rows if row["held"] > 1.0 + BEARABLE]
    if slow:
        worst = max(slow, key=lambda row: row["held"])
        named = ", ".join(row["mode"] for row in slow)
        busy, most = load * worst["held"], 100 * (worst["held"] - 1)
        verdict = "does not carry" if busy >= 1.0 else "lags at"
        told.append(
            f"* this machine {verdict} {speed:g} times the speed: in {named} places were held up "
            f"to {most:.0f} % longer than the answers took, while programs waited for each other. "
            f"That is a load of {busy:.2f} in place of {load:g}, so more is refused than who picks "
            f"is to blame for. --speed {rounded(speed * BEARABLE / (worst['held'] - 1))} would do."
        )
    late = max(row["late_ms_p99"] for row in rows)
    if late / 1000 > BEARABLE * mean_seconds() / speed:
        told.append(
            f"the sender itself was late: 1 % of the requests by {late:.0f} ms and more, where an "
            f"answer takes {1000 * mean_seconds() / speed:.0f} ms on average"
        )
    return told


def rounded(speed: float) -> str:
    """Down to one digit."""
    digit = 10.0 ** math.floor(math.log10(speed))
    return f"{math.floor(speed / digit) * digit:g}"


if __name__ == "__main__":
    app = cyclopts.App(help=main.__doc__, version_flags=[])
    app.default(main)
    try:
        sys.exit(app())
    except OpportuneError as error:
        print_note(f"error: {error}")
        sys.exit(1)
