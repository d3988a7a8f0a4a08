"""examples/call-center-live: half an hour of the generated day, and one that is interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "examples" / "call-center-live" / "replay.py"
SPEEDS = (600, 150, 40)


def start(*words: str) -> subprocess.Popen[str]:
    """The script on the example's own instance, whatever data there are."""
    own = {name: value for name, value in os.environ.items() if name != "OPPORTUNE_DATA"}
    command = [sys.executable, str(SCRIPT), "--json", "--stretches", "200", *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=own, stdout=pipe, stderr=pipe, text=True)


def summary(process: subprocess.Popen[str]) -> Any:
    """What it printed; its exit code says whether the figure is inside and invariants hold."""
    said, told = process.communicate(timeout=600)
    assert said, told
    found = json.loads(said)
    assert process.returncode == (0 if found["inside"] and found["invariants_hold"] else 1), told
    return found


def test_half_an_hour_is_inside_of_what_the_simulator_says() -> None:
    """Slower where the machine is too busy: who is answered late may find others free."""
    for speed in SPEEDS:
        found = summary(start("--hours", "0.5", "--speed", str(speed), "--seed", "2"))
        if found["inside"] and found["same_servers"] >= 0.8 * found["calls"]:
            break
    assert found["hours"] == pytest.approx(0.5)
    assert found["calls"] > 20
    assert found["invariants_hold"]
    assert found["inside"]
    low, middle, high = found["simulated"]
    assert low < middle < high
    assert found["mismatches"] == 0 < found["looks"]
    assert (found["decisions_verified"], found["decisions_different"]) == (found["calls"], 0)
    assert found["bound_per_second_served"] == pytest.approx(found["bound_per_second"], rel=1e-6)
    assert found["reward"] == pytest.approx(found["reward_over_bound"] * found["bound"])
    assert found["same_servers"] >= 0.8 * found["calls"]
    assert (found["plans"], found["degraded"]) == (["plan-1"], [])


def test_an_interrupted_run_tells_what_it_has() -> None:
    process = start("--hours", "10", "--speed", "600")
    assert process.stderr is not None
    for line in process.stderr:
        if "calls," in line and " 0 calls" not in line:
            break
    process.send_signal(signal.SIGINT)
    found = summary(process)
    assert 0 < found["hours"] < 10
    assert 0 < found["calls"] < 600
    assert found["invariants_hold"]
    assert (found["decisions_verified"], found["decisions_different"]) == (found["calls"], 0)
