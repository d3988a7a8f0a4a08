"""Replay hours of a call center against the live service, and compare with bound and simulator.

    python examples/call-center-live/replay.py --speed 60

See the README beside this file. Exit code 0 if the live figure is inside the simulator's interval
and no invariant is broken, 1 otherwise.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import cyclopts
import numpy as np
from cyclopts import Parameter
from live import Replay, Tally, declare
from world import Expected, World, expect, make_world

from opportune.cli.output import print_note, print_table, progress_bar
from opportune.client import AsyncClient
from opportune.errors import OpportuneError, Problem
from opportune.service.answers import PoolBody

MARK = "serving "
LINES = 20
"""Lines of progress where standard error is no terminal."""


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """What is replayed, how fast, and where.

    Attributes:
        instance: Instance file or id; default: bank-v1 if OPPORTUNE_DATA is set, else the example
            examples/call-center.
        step: Seconds of a step of the instance, where it is another one.
        load: Load.
        hours: Hours of the call center.
        speed: Seconds of the call center per real second.
        seed: Of arrivals and durations.
        stretches: Simulated stretches that the interval comes from.
        url: A running service; default: one of its own.
        api_key: Key for that service.
        port: Port of its own service; 0 takes a free one.
        database: Journal of its own service; default: a temporary file.
        pool: Name of the pool.
        json: Print the summary as JSON.
    """

    instance: str | None = None
    step: float | None = None
    load: float = 0.7
    hours: float = 10.0
    speed: float = 60.0
    seed: int = 1
    stretches: int = 1000
    url: str | None = None
    api_key: str | None = None
    port: int = 0
    database: Path | None = None
    pool: str = "call-center"
    json: Annotated[bool, Parameter(negative=())] = False


DEFAULT = Options()


def main(options: Options = DEFAULT) -> int:
    """Replay hours of a call center against the live service."""
    world = make_world(options.instance, options.step, options.load, options.hours, options.seed)
    print_note(
        f"{world.instance.name}: {len(world.at)} calls in {options.hours:g} hours, in "
        f"{options.hours * 3600 / options.speed:.0f} s at {options.speed:g} times the speed"
    )
    checked: dict[str, Any] | None = None
    with tempfile.TemporaryDirectory() as folder:
        database = options.database or Path(folder) / "live.db"
        if options.url is not None:
            tally, pool, bound = asyncio.run(_play(options.url, world, options))
        else:
            with _service(database, options.port) as url:
                tally, pool, bound = asyncio.run(_play(url, world, options))
            checked = _verify(database)
    summary = _summary(world, tally, (pool, bound / options.speed), options.stretches)
    if checked is not None:
        summary["decisions_verified"] = sum(one["decisions"] for one in checked["pools"])
        summary["decisions_different"] = sum(one["different"] for one in checked["pools"])
        summary["invariants_hold"] &= bool(checked["ok"])
    if options.json:
        print(json.dumps(summary, allow_nan=False))
    else:
        _print(summary)
    return 0 if summary["inside"] and summary["invariants_hold"] else 1


async def _play(url: str, world: World, options: Options) -> tuple[Tally, PoolBody, float]:
    """Run it; what happened, the pool afterwards, the plan's bound per real second."""
    async with AsyncClient(url, api_key=options.api_key) as client:
        bound = await declare(client, options.pool, world, options.speed)
        print_note(f"service: {url}  pool: {url}/v1/pools/{options.pool}")
        run = Replay(client, options.pool, world, options.speed)
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, run.stop)
        with progress_bar("replaying") as bar:
            shown = -1

            def progress(share: float, text: str) -> None:
                nonlocal shown
                bar(share, text)
                if not sys.stderr.isatty() and int(share * LINES) > shown:
                    shown = int(share * LINES)
                    print_note(f"{100 * share:3.0f} %: {text}")

            tally = await run.run(progress)
        return tally, await client.get_pool(options.pool), bound


@contextmanager
def _service(database: Path, port: int) -> Iterator[str]:
    """A service of its own; Ctrl-C does not reach it."""
    command = [sys.executable, "-m", "opportune", "serve", "--database", str(database)]
    command += ["--port", str(port), "--log", "error"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        said = ""
        for line in process.stderr or ():
            said += line
            if line.startswith(MARK):
                yield line.removeprefix(MARK).split()[0]
                break
        else:
            raise OpportuneError(Problem("opportune serve", said.strip(), "it to start"))
    finally:
        process.terminate()
        process.communicate()


def _verify(database: Path) -> dict[str, Any]:
    """What ``opportune verify`` says of the journal."""
    command = [sys.executable, "-m", "opportune", "verify", "--database", str(database)]
    done = subprocess.run([*command, "--format", "json"], capture_output=True, check=False)
    if not done.stdout:
        print_note(f"opportune verify: {done.stderr.decode(errors='replace')}")
        return {"ok": False, "pools": []}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _summary(
    world: World, tally: Tally, served: tuple[PoolBody, float], stretches: int
) -> dict[str, Any]:
    """The figures, with a bound per second of the call center."""
    pool, served_bound = served
    steps = max(tally.steps, 1)
    expected: Expected = expect(world, steps, stretches)
    share = tally.reward / (world.bound * steps)
    names = [None if r < 0 else world.instance.servers[r] for r in expected.chosen]
    answered = len(tally.servers)
    counts = pool.counts
    dropped = counts.get("dropped", 0)
    holds = (
        not tally.mismatches
        and pool.capacity_mismatch == 0
        and pool.slots_open == 0
        and counts.get("created", 0) == answered
        and dropped == tally.blocked
        and counts.get("done", 0) + dropped == answered
        and abs(pool.reward - tally.reward) < 1e-6 * max(tally.reward, 1.0)
    )
    return {
        "hours": tally.steps * world.step / 3600,
        "calls": answered,
        "dropped": tally.blocked,
        "blocking": tally.blocked / max(answered, 1),
        "blocking_simulated": expected.blocking,
        "reward": tally.reward,
        "bound": world.bound * steps,
        "bound_gap": world.gap,
        "bound_per_second": world.bound / world.step,
        "bound_per_second_served": served_bound,
        "reward_over_bound": share,
        "simulated": expected.share,
        "stretches": expected.stretches,
        "inside": bool(expected.share[0] <= share <= expected.share[2]),
        "same_calls_simulated": expected.same_share,
        "same_servers": sum(
            i in tally.servers and tally.servers[i] == name for i, name in enumerate(names)
        ),
        "answer_ms_p50": 1000 * float(np.quantile(tally.answer_seconds or [0.0], 0.5)),
        "answer_ms_p99": 1000 * float(np.quantile(tally.answer_seconds or [0.0], 0.99)),
        "plans": sorted(tally.plans),
        "degraded": sorted(tally.degraded),
        "looks": tally.looks,
        "mismatches": len(tally.mismatches),
        "invariants_hold": holds,
    }


def _print(found: dict[str, Any]) -> None:
    low, middle, high = (f"{100 * x:.2f}" for x in found["simulated"])
    fewest, usual, most = (f"{100 * x:.2f}" for x in found["blocking_simulated"])
    verified = (
        f"{found['decisions_verified']} decisions, {found['decisions_different']} different"
        if "decisions_verified" in found
        else "not asked: the service is not its own"
    )
    rows = [
        ("hours of the call center", f"{found['hours']:.2f}"),
        ("calls", f"{found['calls']}"),
        ("dropped", f"{found['dropped']} ({100 * found['blocking']:.2f} %)"),
        ("  simulator, 95 % of stretches", f"{fewest} to {most} %, half below {usual} %"),
        ("reward", f"{found['reward']:.2f}"),
        ("certified bound", f"{found['bound']:.2f} (relative gap {found['bound_gap']:.0e})"),
        ("reward over bound", f"{100 * found['reward_over_bound']:.2f} %"),
        ("  simulator, 95 % of stretches", f"{low} to {high} %, half below {middle} %"),
        ("  inside", "yes" if found["inside"] else "NO"),
        ("  same calls in the simulator", f"{100 * found['same_calls_simulated']:.2f} %"),
        ("  same server as there", f"{found['same_servers']} of {found['calls']} calls"),
        ("answers", f"p50 {found['answer_ms_p50']:.1f} ms, p99 {found['answer_ms_p99']:.1f} ms"),
        ("capacity_mismatch other than 0", f"{found['mismatches']} of {found['looks']} looks"),
        ("opportune verify", verified),
        ("invariants", "hold" if found["invariants_hold"] else "BROKEN"),
    ]
    print_table("Live against bound and simulator", ("figure", "value"), rows)


if __name__ == "__main__":
    app = cyclopts.App(help=main.__doc__, version_flags=[])
    app.default(main)
    try:
        sys.exit(app())
    except OpportuneError as error:
        print_note(f"error: {error}")
        sys.exit(1)
