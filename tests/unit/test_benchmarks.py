"""Benchmarks measure what they say: peers serve the same arrivals to the same reward. No times."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from benchmarks.instances import review_instance
from benchmarks.loss import draw_replay, repeated_by_headcount, require_agreement, serve
from benchmarks.peers import linprog_occupancy, plain_loss
from benchmarks.peers.processes import NEIGHBORS_VARIABLE, Peer
from benchmarks.peers.replay import Outcome, read_arrivals, write_arrivals
from benchmarks.rounds import interleaved, rates, ratios, timed
from benchmarks.sections import Effort, Report, Row, Section, Target, sections_by_name
from benchmarks.tables import as_json, print_tables
from opportune.model.loss import LossInstance
from opportune.policies.base import loss_policy
from opportune.pricing.occupancy import price
from opportune.simulate.loss import Run, simulate_plans

N = 1500


@pytest.fixture(scope="module")
def instance() -> LossInstance:
    return review_instance(10, 30)


@pytest.mark.parametrize("policy", ["lag", "greedy"])
def test_plain_python_earns_our_reward(instance: LossInstance, policy: str) -> None:
    plan = loss_policy(policy).plan(instance)
    arrivals, streams = draw_replay(instance, [plan], N)
    ours = serve(instance, plan, streams)
    assert 0 < ours.dropped < N / 4
    require_agreement(ours, plain_loss.replay(arrivals, arrivals.orders[policy]), "plain Python")


@pytest.mark.parametrize("peer", ["simpy_loss", "simpy_flags_loss", "ciw_loss"])
def test_a_neighbor_earns_our_reward(
    instance: LossInstance, peer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = peer.partition("_")[0]
    pytest.importorskip(package, reason=f"{package} is not installed; `make bench` checks the same")
    monkeypatch.delenv(NEIGHBORS_VARIABLE, raising=False)
    plan = loss_policy("lag").plan(instance)
    arrivals, streams = draw_replay(instance, [plan], N)
    write_arrivals(arrivals, tmp_path / "arrivals.json")
    with Peer(peer, tmp_path / "arrivals.json") as process:
        for _ in range(2):
            require_agreement(serve(instance, plan, streams), process.replay("lag"), peer)


def test_a_peer_that_serves_otherwise_is_found(instance: LossInstance) -> None:
    plans = [loss_policy(policy).plan(instance) for policy in ("lag", "greedy")]
    arrivals, streams = draw_replay(instance, plans, N)
    ours = serve(instance, plans[0], streams)
    early = arrivals._replace(duration=[duration - 1 for duration in arrivals.duration])
    for other in (
        plain_loss.replay(arrivals, arrivals.orders["greedy"]),
        plain_loss.replay(early, arrivals.orders["lag"]),
        ours._replace(dropped=ours.dropped + 1),
        ours._replace(reward=float("nan")),
    ):
        with pytest.raises(ValueError, match="a peer disagrees"):
            require_agreement(ours, other, "a peer")


def test_a_peer_runs_as_a_process_and_reports_its_end(
    instance: LossInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(NEIGHBORS_VARIABLE, raising=False)
    plan = loss_policy("lag").plan(instance)
    arrivals, streams = draw_replay(instance, [plan], N)
    path = tmp_path / "arrivals.json"
    write_arrivals(arrivals, path)
    assert read_arrivals(path) == arrivals
    with Peer("plain_loss", path) as peer:
        require_agreement(serve(instance, plan, streams), peer.replay("lag"), "plain Python")
        for _ in range(2):
            with pytest.raises(RuntimeError, match="plain_loss ended with code 1"):
                peer.replay("no such order")


def test_orders_by_headcount_decide_the_same(instance: LossInstance) -> None:
    plan = loss_policy("lag").plan(instance)
    more = repeated_by_headcount(plan, 11)
    assert more.tables.order.shape == (10, 11, 30)
    one, other = simulate_plans(instance, [plan, more], Run(5000, 0))
    assert np.array_equal(one.assigned, other.assigned)


def test_linprog_solves_the_same_program(instance: LossInstance) -> None:
    value = linprog_occupancy.solve(
        instance.match_reward,
        instance.arrival_rate,
        instance.mean_duration,
        instance.servers_per_task,
    )
    assert value == pytest.approx(price(instance).dual_value, rel=1e-9)


def test_a_bigger_instance_has_the_same_load_and_at_most_one_arrival_a_step() -> None:
    big = review_instance(100, 300)
    assert big.load == pytest.approx(0.7)
    assert big.arrival_rate.sum() < 0.5


def test_sections_are_found_in_order() -> None:
    found = sections_by_name()
    assert list(found)[:3] == ["loss", "start", "pricing"]
    assert all(name == section.name for name, section in found.items())


def test_rounds_are_interleaved_and_ratios_taken_inside_a_round() -> None:
    calls: list[str] = []

    def job(name: str, seconds: list[float]) -> float:
        calls.append(name)
        return seconds.pop(0)

    a, b = [1.0, 2.0], [3.0, 8.0]
    seconds = interleaved({"a": lambda: job("a", a), "b": lambda: job("b", b)}, 2)
    assert calls == ["a", "b", "a", "b"]
    assert ratios(seconds["b"], seconds["a"]) == (3.0, 4.0)
    assert rates(6.0, seconds["a"]) == (6.0, 3.0)


def test_a_job_is_timed_by_the_given_clock_for_one_repeat() -> None:
    now = [0.0]

    def work() -> None:
        now[0] += 2.0

    assert timed(work, repeat=5, clock=lambda: now[0])() == 2.0


def test_results_print_as_a_table_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    rows = (
        Row("fast", "x", (90.0, 120.0, 300.0), Target(100)),
        Row("slow", "s", (2.0,), Target(1, at_most=True)),
        Row("other", "ms", (0.5,)),
    )
    section = Section("one", "A section", 1, lambda effort, say: Report(rows, ("a note",)))
    results = {"one": (section, section.measure(Effort(), print))}
    print_tables({"cores": 2}, results, Console(width=120, color_system=None))
    text = capsys.readouterr().out
    for part in ("A section", ">= 100 met", "<= 1 MISSED", "- a note", "cores 2", "300"):
        assert part in text
    document = json.loads(as_json({"cores": 2}, results))
    first, second, third = document["sections"][0]["rows"]
    assert (first["median"], first["min"], first["max"]) == (120.0, 90.0, 300.0)
    assert (first["met"], second["met"], third["met"]) == (True, False, None)
    assert first["values"] == [90.0, 120.0, 300.0]


def test_effort_chooses_sizes_and_rounds() -> None:
    assert Effort().choose(5, 1) == 5
    assert Effort(quick=True).n_rounds(5, 1) == 1
    assert Effort(quick=True, rounds=3).n_rounds(5, 1) == 3


def test_outcomes_equal_to_rounding_agree() -> None:
    require_agreement(Outcome(1e6, 3, 0.0), Outcome(1e6 * (1 + 1e-12), 3, 9.9), "a peer")
