"""The occupancy LP: our gears beside HiGHS, Clarabel and PDLP on the same LP in the same run."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from benchmarks.instances import LOAD, review_instance
from benchmarks.occupancy_cases import CASES, QUICK
from benchmarks.peers import linprog_occupancy
from benchmarks.peers.lp_ours import problem_of
from benchmarks.peers.lp_task import Answer, Task, write_task
from benchmarks.peers.processes import ROOT, neighbors_python, neighbors_versions
from benchmarks.rounds import interleaved, ratios, timed
from benchmarks.sections import Effort, Report, Row, Say, Section, Target
from opportune.model.loss import LossInstance
from opportune.pricing.occupancy import price
from opportune.pricing.warm import replan

PRICED = {(10, 30): (9, 3), (30, 100): (9, 3), (100, 300): (5, 0)}
"""Size (V, R) -> rounds of ``price``, full and quick; 0 leaves it out."""

AGREEMENT = 1e-7
"""Relative difference of the two values up to which they solve the same LP."""

PEERS = {
    "HiGHS simplex": ("lp_highs", "simplex", "highspy"),
    "HiGHS ipm": ("lp_highs", "ipm", "highspy"),
    "Clarabel": ("lp_clarabel", "", "clarabel"),
    "PDLP": ("lp_pdlp", "", "ortools"),
}
"""Name -> program, method, package."""

TARGETS = {
    "random 100 x 300": Target(0.5, at_most=True),
    "random 500 x 1000": Target(8.0, at_most=True),
    "random 1000 x 2000": Target(15.0, at_most=True),
    "ICLR whole": Target(60.0, at_most=True),
}
"""Seconds."""

TIMES_FASTER = {
    "random 100 x 300": Target(5.0),
    "rank-one 100 x 300": Target(1.0),
}
BOUNDS = {
    "random 100 x 300": Target(20.0, at_most=True),
    "random 1000 x 2000": Target(1000.0, at_most=True),
}
"""Milliseconds until a bound is certified within ``NEAR`` of the optimum."""

NEAR = 2e-5
MOST_MEMORY = {"random 1000 x 2000": Target(300.0, at_most=True)}
REPLANNED = Target(100.0, at_most=True)
CHANGE = 0.05
"""Largest relative change of a rate before prices are found again."""

OURS_ROUNDS = 3
OURS_SECONDS = 300.0


@dataclass
class _Solved:
    """Rounds of one solver on one case."""

    answers: list[Answer] = field(default_factory=list)
    gap: float = np.nan

    @property
    def seconds(self) -> tuple[float, ...]:
        return tuple(one.seconds for one in self.answers)


def measure(effort: Effort, say: Say) -> Report:
    """All rows of the section."""
    rows, notes = _price_rows(effort, say)
    versions = neighbors_versions(tuple({package for _, _, package in PEERS.values()}))
    missing = sorted(name for name, version in versions.items() if version is None)
    if missing:
        notes.append(f"not installed where peers run, left out: {', '.join(missing)}")
    notes.append(
        f"LPs at load {LOAD:g} in scaled variables, one thread, processor time; a gap is (our "
        "closed-form dual value of the solver's prices - its objective) / dual value: below 0 the "
        f"rates are not feasible; neighbors: {versions}"
    )
    for name in QUICK if effort.quick else CASES:
        make, limit = CASES[name]
        task = make()
        if isinstance(task, str):
            notes.append(f"{name}: left out, {task}")
            continue
        say(f"pricing: {name}")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "task.npz"
            write_task(task, path)
            found = [peer for peer, (_, _, package) in PEERS.items() if versions[package]]
            more, told = _case(name, (task, path), (limit, found), effort)
        rows += more
        notes += told
    return Report(tuple(rows), tuple(notes))


def _price_rows(effort: Effort, say: Say) -> tuple[list[Row], list[str]]:
    """``price`` with all it does beside ``linprog``, and pricing again after a change of rates."""
    rows: list[Row] = []
    gaps, apart = [0.0], [0.0]
    for (n_types, n_servers), (full, quick) in PRICED.items():
        name, rounds = f"{n_types} x {n_servers}", effort.n_rounds(full, quick)
        if effort.choose(full, quick) == 0:
            continue
        say(f"pricing: price, {name}")
        instance = review_instance(n_types, n_servers)
        ours, theirs = price(instance), _linprog(instance)
        gaps.append(ours.gap)
        apart.append(abs(theirs - ours.dual_value) / ours.dual_value)
        if not apart[-1] <= AGREEMENT:
            raise ValueError(f"{name}: HiGHS finds {theirs!r}, ours is {ours.dual_value!r}")
        change = 1.0 + CHANGE * np.random.default_rng(1).uniform(-1.0, 1.0, n_types)
        changed = replace(instance, arrival_rate=instance.arrival_rate * change)
        jobs = {
            "opportune price": timed(lambda i=instance: price(i)),  # type: ignore[misc]
            "opportune replan, rates changed by up to 5 %": timed(
                lambda p=ours, i=changed: replan(p, i)  # type: ignore[misc]
            ),
            "scipy linprog (HiGHS)": timed(lambda i=instance: _linprog(i)),  # type: ignore[misc]
        }
        seconds = interleaved(jobs, rounds)
        large = (n_types, n_servers) == (100, 300)
        targets = (Target(500.0, at_most=True), REPLANNED) if large else (None, None)
        for (job, values), target in zip(seconds.items(), (*targets, None), strict=True):
            rows.append(Row(f"{name}: {job}", "ms", tuple(1000 * one for one in values), target))
        both = seconds["scipy linprog (HiGHS)"], seconds["opportune price"]
        rows.append(Row(f"  {name}: linprog takes longer by", "x", ratios(*both)))
    notes = [
        f"price: OCC-LP(0) at load {LOAD:g}, k = 3, uniform scores, with the feasibility check, "
        "unique rates by least squares and the certificate; linprog the solve alone, unscaled",
        f"price: largest relative gap {max(gaps):.1e}; values agree to {max(apart):.1e}",
    ]
    return rows, notes


def _linprog(instance: LossInstance) -> float:
    return linprog_occupancy.solve(
        instance.match_reward,
        instance.arrival_rate,
        instance.mean_duration,
        instance.servers_per_task,
    )


def _case(
    name: str, given: tuple[Task, Path], peers: tuple[float, list[str]], effort: Effort
) -> tuple[list[Row], list[str]]:
    """All solvers on one LP."""
    task, path = given
    limit, found = peers
    ours, others = _Solved(), {peer: _Solved() for peer in found}
    bounds: list[float] = []
    rounds = effort.n_rounds(OURS_ROUNDS, 1)
    for number in range(rounds):
        ours.answers.append(_solve(path, "lp_ours", OURS_SECONDS, ""))
        ours.gap = _gap(task, path, ours.answers[-1])
        bounds.append(_milliseconds_to_bound(path, ours.answers[-1]))
        for peer, solved in others.items():
            program, method, _ = PEERS[peer]
            if number == 0 or (solved.answers[-1].status == "solved" and limit >= 60.0):
                solved.answers.append(_solve(path, program, limit, method))
                solved.gap = _gap(task, path, solved.answers[-1])
    rows = [
        Row(f"{name}: opportune", "s", ours.seconds, TARGETS.get(name)),
        Row(f"  {name}: its memory", "MB", _megabytes(ours), MOST_MEMORY.get(name)),
        Row(f"  {name}: a bound within 2e-5 after", "ms", tuple(bounds), BOUNDS.get(name)),
    ]
    notes = [_told(name, "opportune", ours, limit)]
    for peer, solved in others.items():
        if solved.answers[-1].status == "solved":
            rows.append(Row(f"{name}: {peer}", "s", solved.seconds))
        notes.append(_told(name, peer, solved, limit))
    fastest = [s.seconds for s in others.values() if s.answers[-1].status == "solved"]
    if fastest:
        best = min(fastest, key=statistics.median)
        longer = tuple(statistics.median(best) / one for one in ours.seconds)
        label = f"  {name}: the fastest other takes longer by"
        rows.append(Row(label, "x", longer, TIMES_FASTER.get(name)))
    return rows, notes


def _solve(path: Path, program: str, seconds: float, method: str) -> Answer:
    """One solve in a process of its own; a peer gets ten seconds and half again to give up."""
    python = sys.executable if program == "lp_ours" else neighbors_python()
    command = [python, "-m", f"benchmarks.peers.{program}", str(path), str(seconds)]
    command += [method] if method else []
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, timeout=10.0 + 1.5 * seconds
        )
    except subprocess.TimeoutExpired:
        return Answer("did not stop in time", None, seconds, None)
    if done.returncode != 0:
        return Answer(f"ended with code {done.returncode}", None, seconds, None)
    return Answer(**json.loads(done.stdout.splitlines()[-1]))


def _gap(task: Task, path: Path, answer: Answer) -> float:
    """(D(l) - objective) / D(l) by our closed form, in the merged problem."""
    if answer.objective is None:
        return float("nan")
    problem = problem_of(task)
    prices = np.load(path.with_suffix(".prices.npy"))
    bound = problem.dual_value(prices, np.zeros(problem.n_servers))
    return (bound - answer.objective) / bound


def _milliseconds_to_bound(path: Path, answer: Answer) -> float:
    """Processor time until the dual value was within NEAR of the final value."""
    bounds = json.loads(path.with_suffix(".bounds.json").read_text(encoding="utf-8"))
    assert answer.objective is not None
    most = answer.objective * (1.0 + NEAR)
    return 1000.0 * next(seconds for seconds, bound in bounds if bound <= most)


def _megabytes(solved: _Solved) -> tuple[float, ...]:
    return tuple((one.memory or 0) / 2**20 for one in solved.answers)


def _told(name: str, solver: str, solved: _Solved, limit: float) -> str:
    last = solved.answers[-1]
    if last.objective is None:
        return f"{name}: {solver} not solved in {limit:g} s ({last.status})"
    return (
        f"{name}: {solver} objective {last.objective:.10g}, gap {solved.gap:.1e}, "
        f"{_megabytes(solved)[-1]:.0f} MB"
    )


SECTION = Section("pricing", "Occupancy LP", 30, measure)
