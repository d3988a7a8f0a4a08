"""Sweeps over two workers of this machine: threads, processes, Ray, beside one worker."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.instances import review_instance
from benchmarks.machine import all_cores
from benchmarks.rounds import Job as Timed
from benchmarks.rounds import interleaved, ratios
from benchmarks.sections import Effort, Report, Row, Say, Section
from opportune.experiments.backends import BACKENDS, EXTRAS
from opportune.experiments.runs import Job, Runs, run_grid
from opportune.experiments.settings import Settings
from opportune.policies.base import loss_policy

WORKERS = 2
LOADS = (0.3, 0.5, 0.7, 0.85)
POLICIES = ("lag", "whittle", "greedy", "random")


def measure(effort: Effort, say: Say) -> Report:
    """All rows of the section; on all cores, by the clock."""
    instance = review_instance(10, 30)
    jobs = []
    for load in LOADS:
        one = instance.with_load(load)
        jobs.append(Job(one, [loss_policy(policy).plan(one) for policy in POLICIES]))
    steps = effort.choose(4_000_000, 100_000)
    backends = [name for name in BACKENDS if name != "ray" or importlib.util.find_spec("ray")]
    alone, many = Settings(POLICIES, steps, 4), {}
    for name in backends:
        many[name] = Settings(POLICIES, steps, 4, workers=WORKERS, backend=name)
    bits: set[str] = set()
    with all_cores() as cores, _ray_cluster(backends):
        work: dict[str, Timed] = {"one": _timed(jobs, alone, bits)}
        work |= {name: _timed(jobs, settings, bits) for name, settings in many.items()}
        for name, job in work.items():
            say(f"sweeps: first run of {name}")
            job()  # starts the workers and compiles there
        say("sweeps: rounds")
        seconds = interleaved(work, effort.n_rounds(5, 1))
    if len(bits) != 1:
        raise ValueError("backends disagree: the same sweep has given different bits")
    rows = [Row("one worker", "s", seconds["one"])]
    for name in backends:
        rows.append(Row(f"{WORKERS} workers, {name}", "s", seconds[name]))
        speed = ratios(seconds["one"], seconds[name])
        rows.append(Row("  times as fast as one worker", "x", speed))
    notes = [
        f"{len(LOADS)} loads x 4 replications x {steps:,} steps of review-10x30, four policies; "
        f"every run gave the same bits; {cores} cores, not pinned, by the clock",
        "loky keeps its processes between runs, and Ray's cluster is started before",
        "where others use the cores too, Linux may give a session one share of them however many "
        "workers it has (sched_autogroup_enabled): measure on an idle machine",
    ]
    if "ray" not in backends:
        notes.append("Ray is left out: it is not installed (pip install 'opportune[ray]')")
    return Report(tuple(rows), tuple(notes))


@contextmanager
def _ray_cluster(backends: Sequence[str]) -> Iterator[None]:
    """Ray's cluster for all runs, if it is measured."""
    if "ray" not in backends:
        yield
        return
    with importlib.import_module(EXTRAS["ray"]).cluster(WORKERS):
        yield


def _timed(jobs: list[Job], settings: Settings, bits: set[str]) -> Timed:
    def job() -> float:
        start = time.perf_counter()
        found = run_grid(jobs, settings)
        seconds = time.perf_counter() - start
        bits.add(_digest(found))
        return seconds

    return job


def _digest(found: list[Runs]) -> str:
    state = hashlib.sha256()
    for runs in found:
        state.update(runs.assigned.tobytes() + runs.reward.tobytes() + runs.blocked.tobytes())
    return state.hexdigest()


SECTION = Section("sweeps", "Sweeps over two workers", 40, measure)
