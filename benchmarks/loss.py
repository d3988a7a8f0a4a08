"""The loss kernel: arrivals per second, alone, with its streams, and beside other simulators."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.instances import LOAD, K, review_instance
from benchmarks.peers.processes import Peer, neighbors_versions
from benchmarks.peers.replay import Arrivals, Outcome, write_arrivals
from benchmarks.rounds import Job, interleaved, rates, ratios, timed
from benchmarks.sections import Effort, Report, Row, Say, Section, Target
from opportune.kernels.loss import Window, World, run_arrivals
from opportune.kernels.streams import LossStreams, draw_arrivals
from opportune.model.loss import LossInstance
from opportune.model.streams import BLOCK, draw_block, empty_block, loss_law, stream_key
from opportune.policies.base import Plan, loss_policy
from opportune.simulate.loss import MAX_STEPS, Run, empty_state, empty_trace, simulate_plans

N_TYPES, N_SERVERS = 10, 30
POLICIES = ("lag", "whittle", "greedy", "random", "alg-sc-lp")
REPLAYED = ("lag", "greedy")
"""Policies that are a plain list per type here, so that any simulator can follow them."""

PEERS = {
    "plain_loss": "plain Python",
    "simpy_flags_loss": "SimPy with flags",
    "simpy_loss": "SimPy",
    "ciw_loss": "Ciw",
}
PACKAGES = {"simpy_flags_loss": "simpy", "simpy_loss": "simpy", "ciw_loss": "ciw"}
SIMPY = ("simpy_flags_loss", "simpy_loss")
SHARE = {"ciw_loss": 8}
"""A slow peer gets the first part of the arrivals only: one in so many."""

AGREEMENT = 1e-9
"""Relative difference up to which two total rewards are equal: only the order of adding differs."""

REPEAT = 20
"""A replay of ours takes milliseconds; it is timed over so many."""

SEED = 1
MILLION = "million arrivals/s"


def measure(effort: Effort, say: Say) -> Report:
    """All rows of the section."""
    instance = review_instance(N_TYPES, N_SERVERS)
    plans = [loss_policy(policy).plan(instance) for policy in POLICIES]
    notes = (
        f"R = {N_SERVERS}, k = {K}, V = {N_TYPES}, load {LOAD:g}, uniform scores, durations of "
        f"{instance.mean_duration[0]:.1f} steps on the mean from a histogram",
        f"five policies serving n arrivals each in T seconds are 5 n / T arrivals/s a policy; "
        f"the five are {', '.join(POLICIES)}",
        "the speeds of one and of five policies include drawing the stream; by headcount: the same "
        "decisions from orders of shape (V, H, R) with H = 11",
    )
    own = _own_rows(instance, plans, effort, say)
    beside, more_notes = _peer_rows(instance, effort, say)
    return Report(own + beside, notes + more_notes)


# --------------------------------------------------------------------------------- alone


def _own_rows(
    instance: LossInstance, plans: list[Plan], effort: Effort, say: Say
) -> tuple[Row, ...]:
    """Five policies on one stream, the same by headcount, each alone, the drawing alone."""
    say("loss: the kernel")
    n_blocks = effort.choose(64, 8)
    steps = round(n_blocks * BLOCK / float(instance.arrival_rate.sum()))
    by_headcount = [repeated_by_headcount(plan, N_SERVERS // K + 1) for plan in plans]
    n = int(simulate_plans(instance, plans[:1], Run(steps, 0, SEED))[0].arrived.sum())
    five, headcount, drawing = "five policies", "five by headcount", "drawing"
    jobs = {
        five: _simulation(instance, plans, steps),
        headcount: _simulation(instance, by_headcount, steps),
        **{plan.policy: _simulation(instance, [plan], steps) for plan in plans},
        drawing: timed(lambda: _draw(instance, n_blocks)),
    }
    for job in jobs.values():
        job()  # compile, and warm up
    seconds = interleaved(jobs, effort.n_rounds(9, 2))
    many, one = n * len(plans) / 1e6, n / 1e6
    return (
        Row(
            "five policies on one stream, a policy",
            MILLION,
            rates(many, seconds[five]),
            Target(10),
        ),
        Row("the same with orders by headcount", MILLION, rates(many, seconds[headcount])),
        Row(
            "  speed by headcount / without",
            "x",
            ratios(seconds[five], seconds[headcount]),
            Target(0.5),
        ),
        *(Row(f"{plan.policy} alone", MILLION, rates(one, seconds[plan.policy])) for plan in plans),
        Row("drawing alone", MILLION, rates(n_blocks * BLOCK / 1e6, seconds[drawing])),
    )


def repeated_by_headcount(plan: Plan, levels: int) -> Plan:
    """The same decisions as an order per headcount: what such a plan costs in time."""
    tables = plan.tables
    return replace(
        plan,
        tables=tables._replace(
            order=np.repeat(tables.order, levels, axis=1),
            level=np.repeat(tables.level, levels, axis=1),
        ),
    )


def _simulation(instance: LossInstance, plans: Sequence[Plan], steps: int) -> Job:
    return timed(lambda: simulate_plans(instance, plans, Run(steps, 0, SEED)))


def _draw(instance: LossInstance, n_blocks: int) -> None:
    law, key = loss_law(instance), stream_key(SEED, 0)
    streams = empty_block(K)
    for block in range(n_blocks):
        draw_arrivals(key, block * BLOCK, law, streams)


# ---------------------------------------------------------------------------- beside peers


def draw_replay(
    instance: LossInstance, plans: Sequence[Plan], n: int
) -> tuple[Arrivals, LossStreams]:
    """The first n arrivals of the stream, as plain lists for peers and as arrays for us."""
    streams = draw_block(stream_key(SEED, 0), 0, loss_law(instance), K, size=n)
    orders = {plan.policy: plan.tables.order[:, 0, :].tolist() for plan in plans}
    arrivals = Arrivals(
        gap=streams.gap.tolist(),
        task_type=streams.task_type.tolist(),
        duration=streams.duration.tolist(),
        servers_per_task=K,
        match_reward=instance.match_reward.tolist(),
        orders=orders,
    )
    return arrivals, streams


def serve(instance: LossInstance, plan: Plan, streams: LossStreams) -> Outcome:
    """Our kernel on the arrivals; its seconds are not taken here."""
    trace = empty_trace(instance)
    run_arrivals(
        streams,
        plan.tables,
        World(instance.match_reward, instance.servers_per_task),
        Window(0, MAX_STEPS),
        empty_state(instance.n_servers),
        (trace, np.zeros((0, K), dtype=np.int32)),
    )
    return Outcome(float(trace.reward.sum()), int(trace.blocked.sum()), 0.0)


def require_agreement(ours: Outcome, theirs: Outcome, name: str) -> None:
    """Stop if a peer has simulated something else.

    Raises:
        ValueError: With both rewards and both counts of dropped tasks.
    """
    apart = abs(ours.reward - theirs.reward)
    if not apart <= AGREEMENT * abs(ours.reward) or ours.dropped != theirs.dropped:
        raise ValueError(
            f"{name} disagrees: reward {theirs.reward!r}, dropped {theirs.dropped}; "
            f"ours {ours.reward!r}, {ours.dropped}"
        )


def _peer_rows(
    instance: LossInstance, effort: Effort, say: Say
) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    n = effort.choose(1 << 16, 1 << 14)
    plans = {policy: loss_policy(policy).plan(instance) for policy in REPLAYED}
    versions = neighbors_versions(("simpy", "ciw"))
    missing = [peer for peer, package in PACKAGES.items() if versions[package] is None]
    jobs: dict[str, Job] = {}
    sizes: dict[str, int] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for peer in PEERS:
            if peer in missing:
                continue
            size = n // SHARE.get(peer, 1)
            arrivals, streams = draw_replay(instance, list(plans.values()), size)
            path = folder / f"{peer}.json"
            write_arrivals(arrivals, path)
            process = stack.enter_context(Peer(peer, path))
            for policy, plan in plans.items():
                expected = serve(instance, plan, streams)
                name = f"{PEERS[peer]}, {policy}"
                jobs[name] = _replay_job(process, policy, expected, name)
                sizes[name] = size
        _, streams = draw_replay(instance, list(plans.values()), n)
        for policy, plan in plans.items():
            jobs[policy] = timed(_serving(instance, plan, streams), REPEAT)
            steps = int(streams.gap.sum()) - 1  # the last arrival ends the run
            jobs[f"{policy}, drawn"] = _simulation(instance, [plan], steps)
            sizes[policy] = sizes[f"{policy}, drawn"] = n
        say(f"loss: the kernel beside {', '.join(PEERS.values())}")
        seconds = interleaved(jobs, effort.n_rounds(7, 2))
    speed = {name: rates(sizes[name] / 1e6, seconds[name]) for name in jobs}
    rows = tuple(
        row
        for policy in REPLAYED
        for row in _rows_of(policy, [peer for peer in PEERS if peer not in missing], speed)
    )
    return rows, _peer_notes(versions, missing, n)


def _serving(instance: LossInstance, plan: Plan, streams: LossStreams) -> Callable[[], Outcome]:
    return lambda: serve(instance, plan, streams)


def _replay_job(process: Peer, policy: str, expected: Outcome, name: str) -> Job:
    def job() -> float:
        outcome = process.replay(policy)
        require_agreement(expected, outcome, name)
        return outcome.seconds

    return job


def _rows_of(policy: str, peers: list[str], speed: dict[str, tuple[float, ...]]) -> tuple[Row, ...]:
    """Speeds on the same arrivals, then how many times slower each peer is."""
    ours, drawn = speed[policy], speed[f"{policy}, drawn"]
    rows = [Row(f"{policy}: opportune, given arrivals", MILLION, ours)]
    for peer in peers:
        theirs = speed[f"{PEERS[peer]}, {policy}"]
        rows.append(Row(f"{policy}: {PEERS[peer]}, given arrivals", MILLION, theirs))
    for peer in peers:
        theirs = speed[f"{PEERS[peer]}, {policy}"]
        target = Target(100) if peer in SIMPY else None
        rows.append(
            Row(f"  {policy}: {PEERS[peer]} is slower by", "x", ratios(ours, theirs), target)
        )
        if peer in SIMPY:
            label = f"  {policy}: the same, ours drawing them too"
            rows.append(Row(label, "x", ratios(drawn, theirs)))
    return tuple(rows)


def _peer_notes(versions: dict[str, str | None], missing: list[str], n: int) -> tuple[str, ...]:
    found = ", ".join(f"{name} {number}" for name, number in versions.items() if number)
    notes = [
        f"peers run on {found}, each in its own process on the same core; reading the arrivals is "
        "not timed",
        f"{n:,} arrivals, the same for all (Ciw: the first {n // SHARE['ciw_loss']:,}), no "
        f"warm-up; every replay earned our total reward to {AGREEMENT:g} and dropped as many tasks",
        "SimPy: a process a task, a Resource a server; with flags: the same without Resource, the "
        "fastest we found; Ciw: a batch of k customers a task, exact since k divides R",
    ]
    if missing:
        names = ", ".join(PEERS[peer] for peer in missing)
        notes.append(f"not installed where peers run, so left out: {names} (make bench has them)")
    return tuple(notes)


SECTION = Section("loss", "Loss simulation", 10, measure)
