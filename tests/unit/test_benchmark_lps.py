"""The LP peers of the benchmark solve the program that we solve. No times."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog

from benchmarks.instances import LOAD
from benchmarks.occupancy_cases import (
    CASES,
    QUICK,
    clustered_case,
    dense,
    random_case,
    rank_one_case,
    sparse_case,
)
from benchmarks.peers import lp_highs, lp_ours
from benchmarks.peers.lp_task import Task, program_of, read_task, write_task
from opportune.model.duration import Geometric
from opportune.model.loss import loss_instance
from opportune.pricing.gears import run
from opportune.pricing.occupancy import price
from opportune.pricing.pairs import merge_equal
from opportune.pricing.recovery import served_by
from opportune.pricing.search import Search, Stop


@pytest.mark.parametrize("make", [random_case, clustered_case, rank_one_case])
def test_cases_have_the_load_and_at_most_one_arrival_a_step(make: type) -> None:
    task: Task = make(8, 25)
    assert len(task.reward) == 200
    assert task.reward.max() <= 1.0
    assert float((task.rate * task.mean * task.demand).sum()) / 25 == pytest.approx(LOAD)
    assert task.rate.sum() <= 1.0


def test_a_sparse_case_is_lists_only() -> None:
    task = sparse_case(50, 120, 0.1)
    assert np.diff(task.start).tolist() == [5] * 120
    for r in range(120):
        own = task.task_type[task.start[r] : task.start[r + 1]].astype(int)
        assert np.all(np.diff(own) > 0)


def test_a_task_is_read_as_it_was_written(tmp_path: Path) -> None:
    task = random_case(3, 7)._replace(at_most=True)
    write_task(task, tmp_path / "task.npz")
    again = read_task(tmp_path / "task.npz")
    assert again.at_most is True
    for one, other in zip(task[:-1], again[:-1], strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("at_most", [False, True])
def test_all_solve_the_same_program(
    at_most: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours, HiGHS as a peer, HiGHS through another interface, and ``price``."""
    rng = np.random.default_rng(61)
    reward, share = rng.random((6, 15)), rng.random(6) + 0.5
    allowed = rng.random((6, 15)) < 0.8
    task = dense(reward, share, 2, allowed, at_most)
    monkeypatch.setattr("sys.argv", ["peer", str(tmp_path / "task.npz")])
    ours = lp_ours.solve(task, 60.0, "")
    assert not isinstance(ours, str)
    bounds = json.loads((tmp_path / "task.bounds.json").read_text(encoding="utf-8"))
    assert bounds[-1][1] == pytest.approx(ours.objective * task.rate.max(), rel=1e-9)
    program = program_of(task)
    equal = np.isfinite(program.lower)
    rows = program.matrix.tocsr()
    found = linprog(
        -program.cost,
        A_ub=rows[~equal],
        b_ub=program.upper[~equal],
        A_eq=rows[equal],
        b_eq=program.upper[equal],
        bounds=(0.0, 1.0),
    )
    assert ours.objective == pytest.approx(-found.fun, rel=1e-9)
    for method in ("simplex", "ipm"):
        peer = lp_highs.solve(task, 60.0, method)
        assert not isinstance(peer, str)
        assert peer.objective == pytest.approx(ours.objective, rel=1e-8)
        assert peer.demand_dual == pytest.approx(ours.demand_dual, abs=1e-6)
    if not at_most:
        instance = loss_instance(reward, task.rate, Geometric(15), 2, allowed=allowed)
        value = price(instance).value
        assert value == pytest.approx(ours.objective * task.rate.max(), rel=1e-9)


def test_a_peer_that_runs_out_of_time_says_so() -> None:
    assert lp_highs.solve(random_case(30, 80), 1e-3, "simplex") == "Time limit reached"


def test_real_cases_say_why_they_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPPORTUNE_DATA", raising=False)
    for name in ("AAMAS bids", "ICLR whole"):
        assert CASES[name][0]() == "OPPORTUNE_DATA is not set"
    assert set(QUICK) <= set(CASES)


@pytest.mark.parametrize("name", ["AAMAS bids", "ICLR whole"])
def test_real_cases_are_solved_to_the_end(name: str, data: Path) -> None:
    """Half a minute and more for other solvers, or no end at all; a few seconds here."""
    task = CASES[name][0]()
    assert isinstance(task, Task)
    assert data.is_dir()
    problem = merge_equal(lp_ours.problem_of(task))
    search = Search(problem, Stop())
    assert run(search) == "gap"
    assert search.gap <= 1e-9
    served = served_by(problem, search.columns, search.rate)
    asked = problem.market.demand
    assert np.all(served <= asked + 1e-9)
    assert task.at_most or served == pytest.approx(asked, rel=1e-9)
    whole = lp_ours.problem_of(task)  # the bound again, nothing merged
    bound = whole.dual_value(problem.prices(search.price), np.zeros(whole.n_servers))
    assert bound == pytest.approx(search.dual_value, rel=1e-11)
