"""examples/call-center-live: short stretches against a service, and what is compared with them.

How long a machine takes to answer decides who is free, so what is played live is checked against
the books only; the comparison itself is checked on calls that the simulator serves.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.service.answers import PoolBody
from tests.examples.modules import EXAMPLES, modules_of

SCRIPT = EXAMPLES / "call-center-live" / "replay.py"


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples' own call center, whatever data there are."""
    monkeypatch.delenv("OPPORTUNE_DATA", raising=False)


@pytest.fixture(scope="module")
def example() -> Iterator[SimpleNamespace]:
    """The example's modules."""
    with modules_of("call-center-live") as load:
        names = ("world", "flat_world", "day_world", "live", "replay")
        yield SimpleNamespace(**{name: load(name) for name in names})


def start(*words: str) -> subprocess.Popen[str]:
    """The script."""
    command = [sys.executable, str(SCRIPT), "--json", "--stretches", "100", *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=dict(os.environ), stdout=pipe, stderr=pipe, text=True)


def summary(process: subprocess.Popen[str]) -> Any:
    """What it printed: nothing is lost, and the exit code tells whether it is as simulated."""
    said, told = process.communicate(timeout=300)
    assert said, told
    found = json.loads(said)
    assert found["invariants_hold"], found
    assert process.returncode == (0 if found["as_simulated"] else 1), told
    assert found["mismatches"] == 0 < found["looks"]
    assert (found["decisions_verified"], found["decisions_different"]) == (found["calls"], 0)
    assert sum(found["plans"].values()) + found["dropped"] == found["calls"]
    assert found["reward"] == pytest.approx(found["reward_over_bound"] * found["bound"])
    assert found["degraded"] == []
    return found


def test_half_an_hour_of_one_rate() -> None:
    found = summary(start("--flat", "--hours", "0.5", "--speed", "600", "--seed", "2"))
    assert found["hours"] == pytest.approx(0.5)
    assert found["calls"] > 20
    assert list(found["plans"]) == ["plan-1"]
    assert found["bound_per_second_served"] == pytest.approx(found["bound_per_second"], rel=1e-6)


def test_two_hours_of_a_day_have_a_plan_each() -> None:
    found = summary(start("--hours", "2", "--speed", "900"))
    assert found["hours"] == pytest.approx(2.0)
    assert found["calls"] > 60
    assert list(found["plans"]) == ["from-08:00", "from-09:00"]


def test_the_service_may_plan_by_itself() -> None:
    found = summary(start("--hours", "1", "--speed", "900", "--plans", "replan"))
    assert next(iter(found["plans"])) == "plan-1"


def test_an_interrupted_run_tells_what_it_has() -> None:
    process = start("--flat", "--hours", "10", "--speed", "600")
    assert process.stderr is not None
    for line in process.stderr:
        if "calls," in line and " 0 calls" not in line:
            break
    process.send_signal(signal.SIGINT)
    found = summary(process)
    assert 0 < found["hours"] < 10
    assert 0 < found["calls"] < 600


def served(world: Any, calls: Any) -> list[int]:
    """Who takes each call, slowly: the first of the period's list who is there and free."""
    day, free_at = world.day, [0] * world.instance.n_servers
    absent = {(int(r), t) for r, first, end in day.off_duty for t in range(first, end)}
    chosen = []
    for at, kind, duration in zip(*(one.tolist() for one in calls), strict=True):
        tables = world.own[at // day.period_steps].tables
        order = tables.order[kind, 0, : tables.n_allowed[kind]].tolist()
        free = [r for r in order if free_at[r] <= at and (r, at) not in absent]
        chosen.append(free[0] if free else -1)
        if free:
            free_at[free[0]] = at + duration + 1
    return chosen


def tally_of(example: SimpleNamespace, world: Any, chosen: list[int]) -> tuple[Any, PoolBody]:
    """What a run says in which these agents took the calls, and the pool afterwards."""
    tally = example.live.Tally(steps=world.steps, looks=1, answer_seconds=[0.01] * len(chosen))
    for i, r in enumerate(chosen):
        tally.servers[i] = None if r < 0 else world.instance.servers[r]
        if r >= 0:
            tally.reward += float(world.instance.match_reward[world.calls.task_type[i], r])
    n, dropped = len(chosen), tally.blocked
    counts = {"created": n, "dropped": dropped, "done": n - dropped}
    pool = SimpleNamespace(capacity_mismatch=0, slots_open=0, counts=counts, reward=tally.reward)
    return tally, pool  # type: ignore[return-value]


@pytest.mark.parametrize("kind", ["day", "one plan", "flat"])
def test_calls_served_as_simulated_are_inside(example: SimpleNamespace, kind: str) -> None:
    if kind == "flat":
        world = example.flat_world.make_flat(None, None, 0.7, 3.0, 2)
        chosen = world.expect(world.steps, 1).chosen.tolist()
    else:
        part = example.day_world.DayPart(hours=10.0)
        world = example.day_world.make_day(part, 2, by_period=kind == "day")
        chosen = served(world, world.calls)
    tally, pool = tally_of(example, world, chosen)
    found = example.replay.summarize(world, tally, pool, 100)
    assert found["invariants_hold"]
    assert found["inside"]
    assert found["same_servers"] == found["calls"] == len(world.calls.at)
    assert found["same_calls_simulated"] == pytest.approx(found["reward_over_bound"], rel=1e-12)
    low, middle, high = found["simulated"]
    assert low < middle < min(high, 1.0)
    worse = example.live.Tally(**{**vars(tally), "reward": 0.5 * tally.reward})
    found = example.replay.summarize(world, worse, pool, 100)
    assert not found["inside"]
    assert not found["invariants_hold"]  # the pool's books say something else


def test_a_day_begins_where_it_is_told_and_ends_with_a_period(example: SimpleNamespace) -> None:
    make, part = example.day_world.make_day, example.day_world.DayPart
    world = make(part(begin="15:00", hours=1.5), 1)
    assert [turn.period for turn in world.turns] == ["15:00", "16:00"]
    assert world.turns[0].leave == ()
    assert world.turns[1].leave == tuple(f"billing team/{i}" for i in (1, 2, 3, 4))
    assert world.steps == 240
    assert set(world.plans) == {"from-15:00", "from-16:00"}
    assert np.all(np.diff(world.calls.at) > 0)
    assert world.bound(120) < world.bound(240) < len(world.calls.at) * 1.5
    longer = make(part(begin="16:00", hours=10.0, everyone=True), 1)
    assert (longer.steps, [turn.leave for turn in longer.turns]) == (240, [(), ()])
    with pytest.raises(InputError, match="one of 08:00, 09:00"):
        make(part(begin="7"), 1)
    with pytest.raises(InputError, match="seconds of a step"):
        make(part(name=str(EXAMPLES / "call-center" / "instance.toml")), 1)


def test_a_machine_that_is_too_slow_is_told(example: SimpleNamespace) -> None:
    found = {"answer_ms_p99": 20.0, "speed": 60.0, "call_seconds": 300.0}
    found |= {"inside": True, "as_simulated": True}
    assert example.replay.notes(found) == []
    (told,) = example.replay.notes(found | {"answer_ms_p99": 1500.0})
    assert "90 s of the call center late" in told
    assert "--speed 20 would do" in told


def test_a_day_that_is_rare_by_chance_is_told(example: SimpleNamespace) -> None:
    world = example.flat_world.make_flat(None, None, 0.7, 3.0, 2)
    chosen = world.expect(world.steps, 1).chosen.tolist()
    tally, pool = tally_of(example, world, chosen)
    pool.reward = tally.reward = 0.5 * tally.reward
    found = example.replay.summarize(world, tally, pool, 100)
    assert (found["inside"], found["as_simulated"]) == (False, True)
    (told,) = example.replay.notes(found | {"speed": 60.0})
    assert "the simulator sends each of them to the same agent" in told
    tally.servers[0] = "somebody else"
    found = example.replay.summarize(world, tally, pool, 100)
    assert not found["as_simulated"]
    assert example.replay.notes(found | {"speed": 60.0}) == []
