"""What a split pool earns live beside one owner, and beside what was simulated.

The live side is the service's own engine and its own commands, one state a sub-pool, moved along
by the clock of the simulated stream: the same tasks, the same durations, the same deals. Moves
arrive at once; what it costs that they take a moment is measured by the clock, over a node with
its owners, in the second half.
"""

from __future__ import annotations

import asyncio
import heapq
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.instances import review_instance
from benchmarks.sections import Effort, Report, Row, Say, Section
from opportune.errors import InputError
from opportune.kernels.allocate import index_below
from opportune.kernels.loss import Trace
from opportune.kernels.split import ROUTE
from opportune.kernels.streams import words
from opportune.model.catalog import catalog_instance
from opportune.model.loss import LossInstance
from opportune.model.streams import BLOCK, draw_block, loss_law, stream_key
from opportune.policies.base import Plan, loss_policy
from opportune.pricing.occupancy import price
from opportune.service import commands, engine
from opportune.service.answers import Answer
from opportune.service.dealing import (
    declared_of,
    on_their_way,
    places_by_deal,
    servers_to_deal,
    sub_pools,
)
from opportune.service.dealing_pools import place_of, places_of
from opportune.service.events import Offered, TaskDropped
from opportune.service.node import Node
from opportune.service.planning import plan_document
from opportune.service.resources import PoolSettings
from opportune.service.seeding import pool_commands
from opportune.service.settings import ServiceSettings
from opportune.service.state import State, capacity_mismatch, empty_state
from opportune.simulate.loss import Run, default_warm_up
from opportune.simulate.split import Split, simulate_split

WHOLE = "hot"
DRAWS = (1, 2, 3, 4)


@dataclass
class Found:
    """What a run came to, after the warm-up."""

    reward: float = 0.0
    arrived: int = 0
    dropped: int = 0
    assigned: dict[tuple[int, str], int] = field(default_factory=dict)


class Live:
    """A pool and its sub-pools, driven by a clock of steps.

    Args:
        instance: What it serves.
        plan: The plan of the whole; a list without ties.
        split: Into how many, and how often dealt.
        run: Which stream.
    """

    def __init__(self, instance: LossInstance, plan: Plan, split: Split, run: Run) -> None:
        self.instance, self.split, self.window = instance, split, run
        self.key = stream_key(run.seed, run.replication)
        self.found = Found()
        self.places = [WHOLE, *sub_pools(WHOLE, split.subpools)]
        self.states: dict[str, State] = {place: empty_state(place) for place in self.places}
        self._serving: list[tuple[int, str, str]] = []
        document = plan_document("lag-1", plan, price(instance))
        for command in pool_commands(instance, 1.0):
            self.do(WHOLE, _shorter(command, split.subpools), 0)
        self.do(WHOLE, commands.PutPlan(plan=document, activate=True), 0)
        declared = declared_of(self.states[WHOLE])
        for place in self.places[1:]:
            self.do(place, commands.PutPool(settings=declared.settings), 0)
            self.do(place, commands.Follow(declared=declared), 0)

    def do(self, place: str, command: commands.Command, now: int) -> Answer:
        """Ask a place; who leaves it is taken in where it goes, at once."""
        answer = engine.decide(self.states[place], command, float(now), DRAWS)
        for event in answer.events:
            if isinstance(event, Offered | TaskDropped):
                self._count(event, now)
        left = any(type(event).__name__ == "ServersLeft" for event in answer.events)
        if left:
            for target, movers in on_their_way(self.states[place]).items():
                self.do(target, commands.TakeIn(servers=movers), now)
        return answer

    def _count(self, event: Offered | TaskDropped, now: int) -> None:
        if not self.window.warm_up <= now:
            return
        self.found.arrived += 1
        if isinstance(event, TaskDropped):
            self.found.dropped += 1
            return
        for pick in event.picks:
            self.found.reward += pick.score or 0.0

    def deal(self, number: int, now: int) -> None:
        """The deal of a period, as the whole's node does it."""
        servers = servers_to_deal(self.states[WHOLE])._replace(key=self.key)
        to = places_by_deal(servers, number, self.split.subpools)
        command = commands.DealServers(deal=number + 1, partitions=self.split.subpools, to=to)
        for place in self.places:
            self.do(place, command, now)

    def run(self) -> Found:
        """All tasks of the stream."""
        number, horizon = -1, self.window.warm_up + self.window.steps
        for i, (at, v, duration) in enumerate(tasks(self.instance, self.key, horizon)):
            while self._serving and self._serving[0][0] <= at:
                ended, place, name = heapq.heappop(self._serving)
                self.do(place, commands.Complete(assignment=name), ended)
            due = at // self.split.redeal if self.split.redeal is not None else 0
            if due != number and self.split.subpools > 1:
                number = due
                self.deal(number, at)
            place = self._place(i)
            name = self.instance.task_types[v]
            answer = self.do(place, commands.CreateTask(task_type=name), at)
            if answer.problem is None:
                body = answer.body
                heapq.heappush(self._serving, (at + duration + 1, place, body.assignment_id))
                if at >= self.window.warm_up:
                    for slot in body.servers:
                        pair = (v, slot.id)
                        self.found.assigned[pair] = self.found.assigned.get(pair, 0) + 1
        if any(capacity_mismatch(state) for state in self.states.values()):
            raise ValueError("the ledgers do not add up")
        return self.found

    def _place(self, i: int) -> str:
        """The sub-pool that the simulator sends task i to."""
        m = self.split.subpools
        if m == 1:
            return WHOLE
        fraction, _, _, _ = words(self.key, ROUTE, np.uint64(i))
        return self.places[1 + int(index_below(np.uint32(fraction), m))]


def _shorter(
    command: commands.Command, partitions: int, period: float | None = None
) -> commands.Command:
    """The pool with a short memory, split."""
    if isinstance(command, commands.PutPool):
        own = PoolSettings(
            k=command.settings.k, partitions=partitions, deal_period=period, retain=100, lease=1e9
        )
        return commands.PutPool(settings=own)
    return command


def tasks(
    instance: LossInstance, key: tuple[np.uint64, np.uint64], horizon: int
) -> Iterator[tuple[int, int, int]]:
    """Step, type and duration of every task of a stream."""
    law, at, block = loss_law(instance), -1, 0
    while True:
        drawn = draw_block(key, block, law, int(instance.servers_per_task.max()))
        for i in range(BLOCK):
            at += int(drawn.gap[i])
            if at >= horizon:
                return
            yield at, int(drawn.task_type[i]), int(drawn.duration[i])
        block += 1


async def by_the_clock(
    instance: LossInstance, plan: Plan, split: Split, run: Run, step: float
) -> Found:
    """The same stream in real time, against a node with one owner a sub-pool and SQLite.

    Args:
        instance: What it serves.
        plan: The plan of the whole.
        split: Into how many, and how often dealt.
        run: Which stream.
        step: Seconds of a step.
    """
    found = Found()
    with tempfile.TemporaryDirectory() as folder:
        node = Node(ServiceSettings(database=Path(folder) / "hot.db"))
        node.load()
        node.start()
        owner = node.owner_or_new(WHOLE)
        period = None if split.redeal is None else split.redeal * step
        for command in pool_commands(instance, step):
            await owner.ask(_shorter(command, split.subpools, period))
        document = plan_document("lag-1", plan, price(instance), (step, None))
        await owner.ask(commands.PutPlan(plan=document, activate=True))
        await node.dealing.followed(owner, 10.0)
        start, waiting = time.monotonic(), set()

        async def serve(place: str, name: str, seconds: float) -> None:
            await asyncio.sleep(max(seconds, 0.0))
            await node.owner(place).ask(commands.Complete(assignment=name))

        key = stream_key(run.seed, run.replication)
        horizon = run.warm_up + run.steps
        for i, (at, v, duration) in enumerate(tasks(instance, key, horizon)):
            await asyncio.sleep(max(start + at * step - time.monotonic(), 0.0))
            task = commands.CreateTask(task_type=instance.task_types[v], external_id=f"t{i}")
            place = place_of(node, WHOLE, task.external_id, None)
            reply = await node.owner(place).ask(task)
            counts = at >= run.warm_up
            found.arrived += counts
            if reply.status == 409:
                found.dropped += counts
                continue
            body = msgspec.json.decode(reply.body)
            found.reward += counts * sum(slot["score"] for slot in body["servers"])
            ends = start + (at + duration + 1) * step - time.monotonic()
            work = asyncio.create_task(serve(place, body["assignment_id"], ends))
            waiting.add(work)
            work.add_done_callback(waiting.discard)
        await asyncio.gather(*waiting)
        for place in places_of(node, WHOLE):
            if capacity_mismatch(node.owner(place).state):
                raise ValueError(f"the ledger of {place} does not add up")
        await node.close()
    return found


CASES = (("priority-v1", 20), ("bank-v1", 0), ("review-10x30", 0))
"""Instances at load 0.7, and steps between deals; 0: a tenth of the longest mean service."""

CLOCKED = "review-10x30"
"""The instance that is also served in real time, its mean service in ``SERVICE`` seconds."""

SERVICE = 0.5


def measure(effort: Effort, say: Say) -> Report:
    """All rows of the section."""
    rows: list[Row] = []
    steps, replications = effort.choose(20_000, 500), effort.n_rounds(4, 1)
    left_out = []
    for name, redeal in CASES:
        try:
            instance = _instance(name)
        except InputError:
            left_out.append(f"{name} is left out: OPPORTUNE_DATA names no folder")
            continue
        case = Case(instance, redeal or max(1, round(float(instance.pair_mean.max()) / 10)))
        for m in (1, 2, 4, 8):
            if instance.n_servers // m >= int(instance.servers_per_task.max()):
                say(f"hot-pools: {name}, {m} sub-pools")
                rows += _stepped(case, m, (steps, replications))
    case = Case(_instance(CLOCKED), round(float(_instance(CLOCKED).pair_mean.max())))
    for m in (1, 2, 4, 8)[: effort.choose(4, 1)]:
        say(f"hot-pools: {m} sub-pools by the clock")
        rows += _clocked(case, m, effort.choose(2_000, 100))
    notes = (
        f"{steps:,} steps after the warm-up, {replications} replications, load 0.7, LAG; live is "
        "the service's engine on the simulator's stream, and picks the same servers",
        f"by the clock: a node with one owner a sub-pool on SQLite, mean service {SERVICE} s, a "
        "deal in each; tasks go to sub-pools by hash, so the simulated figure is of other draws",
        *left_out,
    )
    return Report(tuple(rows), notes)


@dataclass(frozen=True)
class Case:
    """An instance, and steps between deals."""

    instance: LossInstance
    redeal: int

    def split(self, m: int) -> Split:
        """Into m sub-pools."""
        return Split(m, None if m == 1 else self.redeal)


def _instance(name: str) -> LossInstance:
    if name.startswith("review"):
        return review_instance(10, 30)
    return catalog_instance(name, 0.7)


def _simulated(case: Case, plan: Plan, m: int, run: Run) -> tuple[Trace, float]:
    """The trace of a split pool, and its share of one owner's reward in percent."""
    alone = simulate_split(case.instance, [plan], Split(), run)[0]
    trace = simulate_split(case.instance, [plan], case.split(m), run)[0]
    return trace, 100 * float(trace.reward.sum() / alone.reward.sum())


def _stepped(case: Case, m: int, size: tuple[int, int]) -> list[Row]:
    """Live and simulated on the same tasks, deals and routes."""
    steps, replications = size
    plan = loss_policy("lag").plan(case.instance)
    shares, drops, expected = [], [], []
    for replication in range(replications):
        run = Run(steps, default_warm_up(case.instance, steps), 1, replication)
        live = Live(case.instance, plan, case.split(m), run).run()
        trace, share = _simulated(case, plan, m, run)
        if live.dropped != trace.blocked.sum() or live.arrived != trace.arrived.sum():
            raise ValueError("the service and the simulator disagree")
        shares.append(share * live.reward / float(trace.reward.sum()))
        expected.append(share)
        drops.append(100 * live.dropped / live.arrived)
    unit, name = "% of one owner", case.instance.name
    return [
        Row(f"{name}, m={m}, live", unit, tuple(shares)),
        Row("  simulated", unit, tuple(expected)),
        Row("  dropped", "%", tuple(drops)),
    ]


def _clocked(case: Case, m: int, steps: int) -> list[Row]:
    """Live in real time beside the simulation."""
    plan = loss_policy("lag").plan(case.instance)
    mean = float(case.instance.pair_mean.max())
    run = Run(steps, round(5 * mean))
    live = asyncio.run(by_the_clock(case.instance, plan, case.split(m), run, SERVICE / mean))
    trace, share = _simulated(case, plan, m, run)
    shares = (share * live.reward / float(trace.reward.sum()),)
    blocked = 100 * float(trace.blocked.sum() / trace.arrived.sum())
    return [
        Row(f"by the clock, m={m}", "% of one owner", shares),
        Row("  simulated", "% of one owner", (share,)),
        Row("  dropped", "%", (100 * live.dropped / live.arrived,)),
        Row("  dropped, simulated", "%", (blocked,)),
    ]


SECTION = Section("hot-pools", "Split pools, live beside simulated", 46, measure)
