"""examples/llm-router: every mode answers every request once, also when the service is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "llm-router" / "drive.py"


def drive(*words: str) -> list[dict[str, Any]]:
    """The rows of a short run."""
    command = [sys.executable, str(SCRIPT), "--json", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def check(row: dict[str, Any]) -> None:
    """Every request has one answer, every good answer is counted once."""
    assert row["answers"] == row["sent"] == row["requests"] > 0
    assert row["answered"] + row["refused"] == row["sent"]
    assert row["failed"] == 0
    assert 0 < row["good"] <= row["answered"]


def test_modes_that_count_in_the_gateway() -> None:
    rank, best = drive("--seconds", "8", "--speed", "4", "--modes", "rank", "--modes", "best-score")
    check(rank)
    check(best)
    assert (rank["booked"]["created"], rank["booked"]["open"]) == (0, 0)  # nothing was stored


def test_assignments_survive_the_service_being_killed() -> None:
    (row,) = drive("--seconds", "16", "--speed", "4", "--modes", "assignments", "--restart")
    check(row)
    booked = row["booked"]
    assert booked["created"] == row["sent"]
    assert (booked["done"], booked["dropped"]) == (row["answered"], row["refused"])
    assert (booked["outcomes"], booked["reward"]) == (row["answered"], row["good"])
    assert (booked["open"], booked["capacity_mismatch"]) == (0, 0)
