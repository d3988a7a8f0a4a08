"""Learning in a queue: rounds per second with exact and online estimates, beside other learners."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.processes import Peer, neighbors_versions
from benchmarks.peers.replay import Outcome
from benchmarks.peers.tries import Tries, write_tries
from benchmarks.rounds import Job, interleaved, rates, ratios, timed
from benchmarks.sections import Effort, Report, Row, Say, Section, Target
from opportune.kernels.queue import QueueLog, QueueStreams
from opportune.learning.estimator import RIDGE, fit_logistic
from opportune.model.queue_generator import QueueGenerator, QueueWorld
from opportune.model.queue_streams import queue_streams
from opportune.policies.base import QueuePlan, queue_policy
from opportune.simulate.queue import queue_path

HORIZON, DIMENSION, SERVERS = 2000, 10, 5
SEED = 1
ROUNDS = "rounds/s"

LEARNERS = {
    "exact refit every round": ("optimistic", {"estimator": "exact"}, Target(8_000)),
    "exact refit, V and confidence radius": ("cqb-opt", {"estimator": "exact"}, None),
    "online, exact refit at 20 % more data": ("optimistic", {}, Target(300_000)),
    "online only": ("optimistic", {"estimator": "online"}, None),
    "CQB-eta-2, online": ("cqb-eta-2", {"scale": 0.01}, None),
    "ACQB, Thompson sampling, online": ("acqb-ts", {}, None),
    "oracle: the queue alone": ("oracle", {}, None),
}

PEERS = {
    "sklearn_refit": ("scikit-learn, refit every round", "scikit-learn", HORIZON),
    "contextualbandits_refit": (
        "contextualbandits, refit (200 rounds)",
        "contextualbandits",
        200,
    ),
    "river_linucb": ("river LinUCB", "river", HORIZON),
}
"""Name, package, and how many of the tries it gets: a refit costs more in every round."""

AGREEMENT = 1e-4
"""Relative difference of summed logits up to which two optima are the same."""


def measure(effort: Effort, say: Say) -> Report:
    """All rows of the section."""
    world = QueueGenerator(0.7, SERVERS, DIMENSION, True, 0.1, 50.0, HORIZON)
    horizon = effort.choose(HORIZON, 400)
    streams = queue_streams(world, horizon, SEED, 0)
    say("queue: the kernel")
    jobs: dict[str, Job] = {}
    for label, (policy, knobs, _) in LEARNERS.items():
        plan = plan_of(policy, world, horizon, knobs)
        queue_path(streams, plan)  # compile
        jobs[label] = timed(playing(streams, plan), effort.choose(3, 1))
    tries = tries_of(streams, queue_path(streams, plan_of("optimistic", world, horizon, {})))
    packages = tuple(package for _, package, _ in PEERS.values())
    versions = neighbors_versions(packages)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sizes = {}
        for module, (label, package, most) in PEERS.items():
            if versions[package] is None:
                continue
            sizes[label] = min(most, len(tries.server))
            path = folder / f"{module}.json"
            write_tries(first(tries, sizes[label]), path)
            process = stack.enter_context(Peer(module, path))
            expected = summed_logits(first(tries, sizes[label]))
            jobs[label] = peer_job(process, module, expected)
        say(f"queue: the kernel beside {', '.join(sizes) or 'nobody'}")
        seconds = interleaved(jobs, effort.n_rounds(7, 2))
    return Report(rows_of(seconds, horizon, sizes), notes_of(versions, horizon))


def plan_of(policy: str, world: QueueWorld, horizon: int, knobs: dict[str, Any]) -> QueuePlan:
    """The plan of a policy with knobs."""
    known: Any = queue_policy(policy)
    plan: QueuePlan = replace(known, **knobs).plan(world, horizon)
    return plan


def playing(streams: QueueStreams, plan: QueuePlan) -> Any:
    """One replication on given streams."""
    return lambda: queue_path(streams, plan)


def tries_of(streams: QueueStreams, log: QueueLog) -> Tries:
    """The tries of a run, as plain lists."""
    played = log.pair[:, 0, 0] >= 0
    played[0] = False
    task, server = log.pair[played, 0].T
    return Tries(
        features=streams.features[task].tolist(),
        server=server.tolist(),
        departed=log.flag[played, 0, 0].tolist(),
        ridge=RIDGE,
    )


def first(tries: Tries, n: int) -> Tries:
    """The first n tries."""
    return Tries(tries.features[:n], tries.server[:n], tries.departed[:n], tries.ridge)


def summed_logits(tries: Tries) -> float:
    """Sum of the logits of all pairs by our exact fit to all tries."""
    features, server = np.array(tries.features), np.array(tries.server)
    found = fit_logistic(features[np.arange(len(server)), server], tries.departed, tries.ridge)
    return float(found.logit(features).sum())


def peer_job(process: Peer, module: str, expected: float) -> Job:
    """The peer learns all its tries once; an exact refit must end at our optimum."""

    def job() -> float:
        outcome = process.replay("all")
        if module == "sklearn_refit":
            require_same_optimum(outcome, expected)
        return outcome.seconds

    return job


def require_same_optimum(outcome: Outcome, expected: float) -> None:
    """Stop if a peer has found another optimum.

    Raises:
        ValueError: With both sums of logits.
    """
    if not abs(outcome.reward - expected) <= AGREEMENT * abs(expected):
        raise ValueError(f"another optimum: summed logits {outcome.reward!r}, ours {expected!r}")


def rows_of(
    seconds: dict[str, tuple[float, ...]], horizon: int, sizes: dict[str, int]
) -> tuple[Row, ...]:
    """Ours, the peers, then how many times slower each peer is."""
    speed = {label: rates(sizes.get(label, horizon - 1), seconds[label]) for label in seconds}
    ours = [Row(label, ROUNDS, speed[label], LEARNERS[label][2]) for label in LEARNERS]
    theirs = [Row(label, ROUNDS, speed[label]) for label in sizes]
    exact, _, online = list(LEARNERS)[:3]
    slower = [
        Row(
            f"  {label}: slower by",
            "x",
            ratios(speed[exact if "refit" in label else online], speed[label]),
        )
        for label in sizes
    ]
    return (*ours, *theirs, *slower)


def notes_of(versions: dict[str, str | None], horizon: int) -> tuple[str, ...]:
    """What a reader must know of the comparison."""
    found = ", ".join(f"{name} {number}" for name, number in versions.items() if number)
    notes = [
        f"T = {horizon}, d = {DIMENSION}, K = {SERVERS}, arrival rate .7, slack .1, one "
        "replication; a round of ours also runs the queue and scans every waiting task",
        f"peers run on {found}; they score one task and learn the tries of our run; "
        "contextualbandits gets the first 200 only (a refit costs more in every round)",
        "scikit-learn must end at our optimum, or the run stops; contextualbandits fits a model a "
        "server and river a linear model: other estimates, the same kind of work",
    ]
    missing = [package for _, package, _ in PEERS.values() if versions[package] is None]
    if missing:
        names = ", ".join(missing)
        notes.append(f"not installed where peers run, so left out: {names} (make bench has them)")
    return tuple(notes)


SECTION = Section("queue", "Learning in a queue", 50, measure)
