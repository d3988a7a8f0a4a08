"""The section on queue learners: peers learn our tries, and an exact refit ends at our optimum."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers.processes import NEIGHBORS_VARIABLE, Peer
from benchmarks.peers.replay import Outcome
from benchmarks.peers.tries import Tries, read_tries, write_tries
from benchmarks.queue import (
    LEARNERS,
    first,
    plan_of,
    require_same_optimum,
    rows_of,
    summed_logits,
    tries_of,
)
from benchmarks.sections import sections_by_name
from opportune.model.queue_generator import QueueGenerator
from opportune.model.queue_streams import queue_streams
from opportune.simulate.queue import queue_path


@pytest.fixture(scope="module")
def tries() -> Tries:
    world = QueueGenerator(0.7, 3, 4, True, 0.1, 50.0, 120)
    streams = queue_streams(world, 120, 1, 0)
    log = queue_path(streams, plan_of("optimistic", world, 120, {}))
    found = tries_of(streams, log)
    assert len(found.server) == log.counts[0]
    assert sum(found.departed) == log.counts[2]
    return found


def test_tries_survive_a_file(tries: Tries, tmp_path: Path) -> None:
    write_tries(tries, tmp_path / "tries.json")
    assert read_tries(tmp_path / "tries.json") == tries
    assert len(first(tries, 7).features) == 7


@pytest.mark.parametrize(
    ("peer", "package"),
    [
        ("sklearn_refit", "sklearn"),
        ("contextualbandits_refit", "contextualbandits"),
        ("river_linucb", "river"),
    ],
)
def test_a_learner_learns_all_of_them(
    tries: Tries, peer: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(package, reason=f"{package} is not installed; `make bench` checks the same")
    monkeypatch.delenv(NEIGHBORS_VARIABLE, raising=False)
    write_tries(first(tries, 60), tmp_path / "tries.json")
    with Peer(peer, tmp_path / "tries.json") as process:
        outcome = process.replay("all")
    assert outcome.dropped == 60
    if peer == "sklearn_refit":
        require_same_optimum(outcome, summed_logits(first(tries, 60)))


def test_another_optimum_is_found_out(tries: Tries) -> None:
    ours = summed_logits(tries)
    assert ours != 0
    require_same_optimum(Outcome(ours * (1 + 1e-6), 0, 0.0), ours)
    for other in (ours * 1.01, float("nan"), -ours):
        with pytest.raises(ValueError, match="another optimum"):
            require_same_optimum(Outcome(other, 0, 0.0), ours)


def test_rows_are_rates_and_ratios_of_them() -> None:
    section = sections_by_name()["queue"]
    assert section.title
    seconds = dict.fromkeys(LEARNERS, (0.5,))
    seconds["river LinUCB"] = (5.0,)
    rows = {row.label: row for row in rows_of(seconds, 101, {"river LinUCB": 100})}
    assert rows[next(iter(LEARNERS))].values == (200.0,)
    assert rows["river LinUCB"].values == (20.0,)
    assert np.isclose(rows["  river LinUCB: slower by"].values[0], 10.0)
