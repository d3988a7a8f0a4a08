"""Slow twin of the split pool, in plain Python: every server with its steps of service left.

Written from the description in ``kernels.split``: a deal is a shuffle, equal servers gathered in
the order of their first one, and one server to each sub-pool in turn; a task asks ``tries``
sub-pools one after another, the first of them at random.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from opportune.kernels.allocate import PlanTables
from opportune.kernels.split import DEAL, ROUTE
from opportune.kernels.streams import LossStreams
from opportune.model.loss import LossInstance
from tests import naive


@dataclass(frozen=True)
class Table:
    """A split pool: seed and replication, sub-pools, steps from deal to deal, sub-pools asked."""

    key: tuple[int, int]
    m: int
    period: int | None
    tries: int = 1

    def parts(self, instance: LossInstance, step: int) -> list[set[int]]:
        """The servers of each sub-pool at a step."""
        number = 0 if self.period is None else step // self.period
        n = instance.n_servers
        shuffled = list(range(n))
        for i in range(n):
            place = number * -(-n // 4) * 4 + i
            j = i + naive.choice(*self.key, DEAL, place) * (n - i) // 2**32
            shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
        gathered: dict[object, list[int]] = {}
        for r in shuffled:
            column = (*instance.match_reward[:, r].tolist(), *instance.allowed[:, r].tolist())
            gathered.setdefault(column, []).append(r)
        shuffled = list(itertools.chain.from_iterable(gathered.values()))
        return [set(shuffled[j :: self.m]) for j in range(self.m)]

    def asked(self, arrival: int) -> list[int]:
        """The sub-pools that a task asks, in order."""
        first = naive.words(*self.key, ROUTE, arrival)[0] * self.m // 2**32
        return [(first + i) % self.m for i in range(self.tries)]


def simulate(
    instance: LossInstance,
    tables: PlanTables,
    streams: LossStreams,
    window: tuple[int, int],
    table: Table,
) -> naive.Counts:
    """Every step from empty to the end of the window (warm_up, horizon)."""
    warm_up, horizon = window
    V, R = instance.n_types, instance.n_servers
    counts = naive.Counts([[0] * R for _ in range(V)], [0] * R, [0] * V, [0] * V, [0.0])
    left = [0] * R
    arrivals = iter(enumerate(itertools.accumulate(int(gap) for gap in streams.gap)))
    i, at = next(arrivals)
    for t in range(horizon):
        begun: dict[int, int] = {}
        if at - 1 == t:
            v, k = int(streams.task_type[i]), int(instance.servers_per_task[streams.task_type[i]])
            found = None
            for j in table.asked(i):
                free = {r for r in table.parts(instance, t)[j] if left[r] == 0}
                fraction = [int(c) for c in streams.choice[i]]
                found = found or naive.pick(tables, v, k, free, fraction)
            begun = dict.fromkeys(found or [], int(streams.duration[i]))
            if t >= warm_up:
                counts.arrived[v] += 1
                counts.blocked[v] += found is None
                for r in begun:
                    counts.assigned[v][r] += 1
                    counts.reward[0] += float(instance.match_reward[v, r])
            i, at = next(arrivals)
        for r in range(R):
            counts.busy_steps[r] += t >= warm_up and left[r] > 0
            left[r] = begun.get(r, max(left[r] - 1, 0))
    return counts
