"""Slow twin of learning with hidden scores: one step at a time, one server at a time.

Written from ``learned.md`` sections 1 and 2 and LAG section 1, not from the kernel. What a policy
believes is counted here from what has ended; the ranking itself comes from the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.learned import HiddenStreams, Ranking
from opportune.model.hidden import HiddenWorld

Float = NDArray[np.float64]


@dataclass
class Service:
    """A task at a server."""

    task: int
    slot: int
    started: int
    free_at: int


@dataclass
class Known:
    """What may be known before the next stretch."""

    n_tasks: int
    time: int
    success: Float
    trials: Float
    arrived: list[int]
    ended: list[int]
    in_service: list[int]


@dataclass
class Story:
    """What happened."""

    chosen: dict[int, list[int]] = field(default_factory=dict)
    start: dict[int, int] = field(default_factory=dict)
    reward: dict[int, float] = field(default_factory=dict)
    forced: set[int] = field(default_factory=set)
    known: list[Known] = field(default_factory=list)


class Shop:
    """Servers, those who wait, and the books."""

    def __init__(self, world: HiddenWorld, streams: HiddenStreams, mode: tuple[bool, bool]) -> None:
        self.world, self.streams = world, streams
        self.queue, self.fifo = mode
        self.serving: dict[int, Service] = {}
        self.waiting: list[int] = []
        self.story = Story()
        self.success = np.zeros((world.instance.n_types, world.n_models))
        self.trials = np.zeros_like(self.success)
        self.starts = 0
        self.past: list[tuple[int, int, int]] = []  # type, start, free again
        self.alike = len(set(world.instance.duration)) == 1
        self.arrived = 0

    def known(self, time: int) -> Known:
        """The books after the last arrival at ``time``."""
        n_types = self.world.instance.n_types
        ended, served = [0] * n_types, [0] * n_types
        for v, start, free_at in self.past:
            ended[v] += free_at <= time
            served[v] += min(free_at - 1, time) - start
        arrived = [0] * n_types
        for i in range(self.arrived):
            arrived[self.streams.task_type[i]] += 1
        return Known(
            self.arrived, time, self.success.copy(), self.trials.copy(), arrived, ended, served
        )

    def end(self, time: int) -> None:
        """Outcomes of services whose servers are free again at ``time``."""
        scores = self.world.scores
        for r in sorted(self.serving):
            service = self.serving[r]
            if service.free_at == time:
                i, m = service.task, self.world.model[r]
                value = scores.value[self.streams.row[i], m]
                if scores.drawn:
                    value = float(self.streams.outcome[i, service.slot] < value)
                v = self.streams.task_type[i]
                self.success[v, m] += value
                self.trials[v, m] += 1
                del self.serving[r]

    def free(self, i: int, number: int) -> list[int]:
        """Permitted servers that are idle and have joined before task ``number``."""
        allowed = self.world.instance.allowed[self.streams.task_type[i]]
        return [
            r
            for r in range(self.world.instance.n_servers)
            if allowed[r] and r not in self.serving and self.world.joins[r] <= number
        ]

    def picks(self, i: int, number: int, ranking: Ranking) -> tuple[list[int], float, float] | None:
        """The k best servers, one after another, and their total index and second key."""
        v = self.streams.task_type[i]
        row = self.streams.row[i] if ranking.by_context else v
        k = int(self.world.instance.servers_per_task[v])
        left = self.free(i, number)
        if len(left) < k:
            return None
        taken: list[int] = []
        total = seconds = 0.0
        for j in range(k):
            keys = {
                r: (
                    ranking.score[row, ranking.column[r]] - ranking.cost[v, r],
                    ranking.second[v, r],
                    -ranking.rank[r],
                )
                for r in left
            }
            best = max(keys.values())
            tied = [r for r in left if keys[r] == best]
            r = tied[int(float(self.streams.choice[i, j]) / 2**32 * len(tied))]
            taken.append(r)
            left.remove(r)
            total += best[0]
            seconds += best[1]
        return taken, total, seconds

    def forced_picks(self, i: int, number: int, ranking: Ranking) -> list[int] | None:
        """k servers drawn from the pairs of the forced share, if the task is forced."""
        v = self.streams.task_type[i]
        k = int(self.world.instance.servers_per_task[v])
        left = [r for r in self.free(i, number) if ranking.forced[v, r]]
        if not self.streams.explore[i] < ranking.share or len(left) < k:
            return None
        for j in range(k):
            other = j + int(self.streams.pick[i, j] * (len(left) - j))
            left[j], left[other] = left[other], left[j]
        return left[:k]

    def begin(self, i: int, time: int, servers: list[int]) -> None:
        """Take the servers."""
        place = self.starts if self.queue and self.alike else i
        self.starts += 1
        free_at = time + int(self.streams.duration[place]) + 1
        self.past.append((int(self.streams.task_type[i]), time, free_at))
        for slot, r in enumerate(servers):
            self.serving[r] = Service(i, slot, time, free_at)
        self.story.chosen[i] = servers
        self.story.start[i] = time
        values = self.world.scores.value[self.streams.row[i]]
        self.story.reward[i] = sum(values[self.world.model[r]] for r in servers)

    def begin_waiting(self, time: int, number: int, ranking: Ranking) -> None:
        """Waiting tasks start until none can."""
        while True:
            able = [(i, self.picks(i, number, ranking)) for i in self.waiting]
            ready = [(i, one) for i, one in able if one is not None]
            if not ready:
                return
            chosen = ready[0]
            for i, one in ready if not self.fifo else ():
                if one[1:] > chosen[1][1:]:
                    chosen = (i, one)
            self.waiting.remove(chosen[0])
            self.begin(chosen[0], time, chosen[1][0])


def serve(
    world: HiddenWorld,
    streams: HiddenStreams,
    mode: tuple[bool, bool],
    ranking_of: Callable[[Known], Ranking],
    stretches: list[int],
) -> Story:
    """Serve all tasks; a new ranking before each stretch, which ends before the task it names.

    Args:
        world: The truth.
        streams: Of this world.
        mode: Whether tasks wait, and whether by order of arrival.
        ranking_of: From what is known to a ranking.
        stretches: Numbers of tasks at which stretches end, the last one all of them.
    """
    shop = Shop(world, streams, mode)
    arrivals = {int(t): i for i, t in enumerate(np.cumsum(streams.gap) - 1)}
    last = max(arrivals)
    time, ends = 0, list(stretches)
    shop.story.known.append(shop.known(-1))
    ranking = ranking_of(shop.story.known[-1])
    number = 0
    while time <= last or shop.serving:
        shop.end(time)
        if shop.queue:
            shop.begin_waiting(time, number, ranking)
        if time in arrivals:
            i = arrivals[time]
            shop.arrived = i + 1
            forced = shop.forced_picks(i, number, ranking)
            found = shop.picks(i, number, ranking)
            if forced is not None:
                shop.begin(i, time, forced)
                shop.story.forced.add(i)
            elif found is not None:
                shop.begin(i, time, found[0])
            elif shop.queue:
                shop.waiting.append(i)
            if shop.arrived == ends[0] and shop.arrived < stretches[-1]:
                number = ends.pop(0)
                shop.story.known.append(shop.known(time))
                ranking = ranking_of(shop.story.known[-1])
                if shop.queue:
                    shop.begin_waiting(time, number, ranking)
        time += 1
    return shop.story
