"""Replay a day of a call center against the live service; compare with bound and simulator.

    python examples/call-center-live/replay.py --speed 60
    python examples/call-center-live/replay.py --flat --speed 60

See the README beside this file. Exit code 0 if the live figure is inside the simulator's interval
(or each call went to the same agent as there) and no invariant is broken, 1 otherwise.
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
from day_world import DayPart, make_day
from flat_world import make_flat
from live import Plans, Replay, Tally, declare
from world import World

from opportune.cli.output import print_note, print_table, progress_bar
from opportune.client import AsyncClient
from opportune.errors import OpportuneError, Problem
from opportune.service.answers import PoolBody

MARK = "serving "
LINES = 20
"""Lines of progress where standard error is no terminal."""

BEARABLE = 0.1
"""Share of a call's mean duration by which the slowest answers may be late: more changes who is
free."""


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """What is replayed, how fast, and where.

    Attributes:
        flat: Hours of one rate in place of a day.
        instance: A day of the catalog, or an instance file with a profile (with --flat any
            instance); default: bank-day-v1@Wed (bank-v1) if OPPORTUNE_DATA is set, else day.toml
            beside this file (examples/call-center).
        step: Seconds of a step of the instance, where it is another one.
        load: Load; of a day its mean.
        begin: Period of the day to begin with; default: the first in which anything can happen.
        hours: Hours of the call center, of a day whole periods.
        everyone: All agents are there all day, whatever the shifts say.
        plans: Of a day: one for each period; or the service plans by itself (replan); or one for
            the mean day.
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

    flat: Annotated[bool, Parameter(negative=())] = False
    instance: str | None = None
    step: float | None = None
    load: float = 0.7
    begin: str | None = None
    hours: float = 10.0
    everyone: Annotated[bool, Parameter(negative=())] = False
    plans: Plans = "period"
    speed: float = 60.0
    seed: int = 2
    stretches: int = 1000
    url: str | None = None
    api_key: str | None = None
    port: int = 0
    database: Path | None = None
    pool: str = "call-center"
    json: Annotated[bool, Parameter(negative=())] = False

    def world(self) -> World:
        """What is replayed.

        Raises:
            InputError: If a value is out of range.
        """
        if self.flat:
            return make_flat(self.instance, self.step, self.load, self.hours, self.seed)
        part = DayPart(self.instance, self.step, self.load, self.begin, self.hours, self.everyone)
        return make_day(part, self.seed, by_period=self.plans != "one")

    @property
    def source(self) -> Plans:
        """Where plans come from."""
        return "one" if self.flat else self.plans


DEFAULT = Options()


def main(options: Options = DEFAULT) -> int:
    """Replay a day of a call center against the live service."""
    world = options.world()
    hours = world.steps * world.step / 3600
    periods = list(dict.fromkeys(turn.period for turn in world.turns))
    name = world.instance.name.removesuffix(" (mean of the day)")
    print_note(
        f"{name}: {len(world.calls.at)} calls in {hours:g} hours"
        + (f" ({len(periods)} periods from {periods[0]} on)" if periods else "")
        + f", in {hours * 3600 / options.speed:.0f} s at {options.speed:g} times the speed"
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
    summary = summarize(world, tally, pool, options.stretches)
    summary |= {"plans_by": options.source, "speed": options.speed}
    summary["bound_per_second_served"] = None if bound is None else bound / options.speed
    if checked is not None:
        summary["decisions_verified"] = sum(one["decisions"] for one in checked["pools"])
        summary["decisions_different"] = sum(one["different"] for one in checked["pools"])
        summary["invariants_hold"] &= bool(checked["ok"])
    if options.json:
        print(json.dumps(summary, allow_nan=False))
    else:
        _print(summary)
        for told in notes(summary):
            print_note(told)
    return 0 if summary["as_simulated"] and summary["invariants_hold"] else 1


async def _play(url: str, world: World, options: Options) -> tuple[Tally, PoolBody, float | None]:
    """Run it; what happened, the pool afterwards, the first plan's bound per real second."""
    async with AsyncClient(url, api_key=options.api_key) as client:
        bound = await declare(client, options.pool, world, options.speed, options.source)
        print_note(f"service: {url}  dashboard: {url}/dashboard/{options.pool}")
        run = Replay(client, options.pool, world, options.speed, options.source)
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


def summarize(world: World, tally: Tally, pool: PoolBody, stretches: int) -> dict[str, Any]:
    """The figures.

    Args:
        world: What was played.
        tally: What happened.
        pool: The pool afterwards.
        stretches: Simulated stretches for the interval.
    """
    steps = max(tally.steps, 1)
    expected, bound = world.expect(steps, stretches), world.bound(steps)
    share = tally.reward / bound
    servers = world.instance.servers
    names = [None if r < 0 else servers[r] for r in expected.chosen]
    answered = len(tally.servers)
    same = sum(i in tally.servers and tally.servers[i] == name for i, name in enumerate(names))
    inside = bool(expected.share[0] <= share <= expected.share[2])
    late = tally.answer_seconds or [0.0]
    return {
        "hours": tally.steps * world.step / 3600,
        "calls": answered,
        "dropped": tally.blocked,
        "blocking": tally.blocked / max(answered, 1),
        "blocking_simulated": expected.blocking,
        "reward": tally.reward,
        "bound": bound,
        "certified": world.certified,
        "bound_per_second": bound / (steps * world.step),
        "reward_over_bound": share,
        "simulated": expected.share,
        "stretches": expected.stretches,
        "inside": inside,
        "same_calls_simulated": expected.same_share,
        "same_servers": same,
        "as_simulated": inside or same == answered,
        "answer_ms_p50": 1000 * float(np.quantile(late, 0.5)),
        "answer_ms_p99": 1000 * float(np.quantile(late, 0.99)),
        "call_seconds": float(world.calls.duration.mean()) * world.step,
        "plans": tally.plans,
        "degraded": sorted(tally.degraded),
        "looks": tally.looks,
        "mismatches": len(tally.mismatches),
        "invariants_hold": _holds(tally, pool),
    }


def _holds(tally: Tally, pool: PoolBody) -> bool:
    """Whether the pool's books are whole, and agree with what its caller saw."""
    counts, answered = pool.counts, len(tally.servers)
    dropped = counts.get("dropped", 0)
    return (
        not tally.mismatches
        and pool.capacity_mismatch == 0
        and pool.slots_open == 0
        and counts.get("created", 0) == answered
        and dropped == tally.blocked
        and counts.get("done", 0) + dropped == answered
        and abs(pool.reward - tally.reward) < 1e-6 * max(tally.reward, 1.0)
    )


def notes(found: dict[str, Any]) -> list[str]:
    """What chance and this machine have to do with the figures; nothing if all is usual."""
    told = []
    if found["as_simulated"] and not found["inside"]:
        told.append(
            "these calls are among the one in twenty outside of the interval: the simulator sends "
            "each of them to the same agent. Another --seed has other calls."
        )
    late = found["answer_ms_p99"] / 1000 * found["speed"]
    bearable = BEARABLE * found["call_seconds"]
    if late <= bearable:
        return told
    better = float(f"{found['speed'] * bearable / late:.1g}")
    return [
        *told,
        f"this machine lags at {found['speed']:g} times the speed: 1 % of the answers came "
        f"{late:.0f} s of the call center late or more, where a call takes "
        f"{found['call_seconds']:.0f} s; some calls met other agents than they would have. "
        f"--speed {better:g} would do.",
    ]


def _print(found: dict[str, Any]) -> None:
    low, middle, high = (f"{100 * x:.2f}" for x in found["simulated"])
    fewest, usual, most = (f"{100 * x:.2f}" for x in found["blocking_simulated"])
    verified = (
        f"{found['decisions_verified']} decisions, {found['decisions_different']} different"
        if "decisions_verified" in found
        else "not asked: the service is not its own"
    )
    plans = ", ".join(f"{name} {n}" for name, n in found["plans"].items())
    simulated = "simulator, 95 % of stretches"
    if found["plans_by"] == "replan":
        simulated = "simulator with a plan by period, 95 % of stretches"
    rows = [
        ("hours of the call center", f"{found['hours']:.2f}"),
        ("calls", f"{found['calls']}"),
        ("dropped", f"{found['dropped']} ({100 * found['blocking']:.2f} %)"),
        (f"  {simulated}", f"{fewest} to {most} %, half below {usual} %"),
        ("reward", f"{found['reward']:.2f}"),
        ("certified bound", f"{found['bound']:.2f}"),
        ("  on what", found["certified"]),
        ("reward over bound", f"{100 * found['reward_over_bound']:.2f} %"),
        (f"  {simulated}", f"{low} to {high} %, half below {middle} %"),
        ("  inside", "yes" if found["inside"] else "NO"),
        ("  same calls in the simulator", f"{100 * found['same_calls_simulated']:.2f} %"),
        ("  same server as there", f"{found['same_servers']} of {found['calls']} calls"),
        ("plans and their calls", plans),
        ("decided without a fresh plan", ", ".join(found["degraded"]) or "never"),
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
