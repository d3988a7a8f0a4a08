"""Slow twin of the scaled kernel: every server on its own, written from LAG Definition 4.1.

A server is an entry of a list: its steps of service left, 0 if it is free. Two ways to split the
servers over the dispatchers: at random, by shuffling (to compare in law), or so that a dispatcher
sees as many free ones of each type as it is told (to compare step by step).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from opportune.kernels.allocate import WaterfillTables
from tests import naive

Arrival = tuple[int, int]
"""Task type and duration."""

View = Callable[[int, int, int], int]
"""(dispatcher's turn, servers not seen yet, free ones of them) -> free ones that it sees."""


@dataclass(frozen=True)
class Rule:
    """A policy as the paper states it: index and weights of one task type, and pi.

    Attributes:
        index: Index of each server type, None where the pair is forbidden.
        weight: Tie weights.
        pi: Server types in the order of ties.
        k: Servers per task (nk of them are taken).
    """

    index: list[int | None]
    weight: list[Fraction]
    pi: list[int]
    k: int


@dataclass
class Scaled:
    """The system: ``left[r][c]`` steps of service left of copy c of server type r."""

    m: int
    n: int
    rules: list[Rule]
    left: list[list[int]]
    blocked: int = 0
    taken: dict[tuple[int, int], int] = field(default_factory=dict)

    @classmethod
    def empty(cls, m: int, n: int, rules: list[Rule]) -> Scaled:
        """All servers free."""
        n_servers = len(rules[0].index)
        return cls(m, n, rules, [[0] * (m * n) for _ in range(n_servers)])

    def free(self) -> list[int]:
        """Free servers of each type."""
        return [copies.count(0) for copies in self.left]

    def step(self, arrivals: list[Arrival | None], groups: list[list[list[int]]]) -> None:
        """One step: ``groups[r][j]`` are the copies of type r that dispatcher j sees."""
        begun: dict[tuple[int, int], int] = {}
        for j, arrival in enumerate(arrivals):
            if arrival is not None:
                self._serve(arrival, [of_type[j] for of_type in groups], begun)
        for r, copies in enumerate(self.left):
            self.left[r] = [max(0, steps - 1) for steps in copies]
        for (r, copy), duration in begun.items():
            self.left[r][copy] = duration

    def _serve(
        self, arrival: Arrival, seen: list[list[int]], begun: dict[tuple[int, int], int]
    ) -> None:
        v, duration = arrival
        rule = self.rules[v]
        permitted = [r for r, index in enumerate(rule.index) if index is not None]
        free = {r: [c for c in seen[r] if self.left[r][c] == 0] for r in permitted}
        if sum(len(copies) for copies in free.values()) < self.n * rule.k:
            self.blocked += 1
            return
        amounts = naive.waterfill(
            Fraction(rule.k),
            [Fraction(len(free[r]), self.n) for r in permitted],
            [rule.index[r] for r in permitted],
            [rule.weight[r] for r in permitted],
            [permitted.index(r) for r in rule.pi if r in permitted],
        )
        pi = [permitted.index(r) for r in rule.pi if r in permitted]
        counts = naive.round_largest_remainder(amounts, self.n, self.n * rule.k, pi)
        for r, count in zip(permitted, counts, strict=True):
            self.taken[v, r] = self.taken.get((v, r), 0) + count
            for copy in free[r][:count]:
                begun[r, copy] = duration

    def shuffled(self, rng: random.Random) -> list[list[list[int]]]:
        """The copies of each type split uniformly into m groups of n."""
        groups = []
        for _ in self.left:
            copies = list(range(self.m * self.n))
            rng.shuffle(copies)
            groups.append([copies[j * self.n : (j + 1) * self.n] for j in range(self.m)])
        return groups

    def told_of(self, r: int, turns: list[int], view: View) -> list[list[int]]:
        """Groups of type r in which dispatchers see as many free copies as ``view`` says.

        ``turns`` are the dispatchers that look at type r, in order; the others get the rest.
        """
        free = [c for c, steps in enumerate(self.left[r]) if steps == 0]
        busy = [c for c, steps in enumerate(self.left[r]) if steps > 0]
        groups: list[list[int]] = [[] for _ in range(self.m)]
        for turn, j in enumerate(turns):
            here = view(turn, len(free) + len(busy), len(free))
            groups[j] = free[:here] + busy[: self.n - here]
            free, busy = free[here:], busy[self.n - here :]
        rest = free + busy
        for j in set(range(self.m)) - set(turns):
            groups[j], rest = rest[: self.n], rest[self.n :]
        return groups


def tables_of(rules: list[Rule]) -> WaterfillTables:
    """The same policy as the kernels take it."""
    order, group, weight, n_allowed = [], [], [], []
    for rule in rules:
        of = [
            0 if i is None else 2 if i > 0 else int(i == 0 and w > 0)
            for i, w in zip(rule.index, rule.weight, strict=True)
        ]

        def place(r: int, rule: Rule = rule, of: list[int] = of) -> tuple[bool, int, int, int]:
            index = rule.index[r]
            return index is None, -of[r], -(index or 0), rule.pi.index(r)

        order.append(sorted(range(len(of)), key=place))
        group.append(of)
        weight.append([float(w) for w in rule.weight])
        n_allowed.append(sum(i is not None for i in rule.index))
    return WaterfillTables(
        group=np.array(group, dtype=np.int8),
        order=np.array(order, dtype=np.int64),
        n_allowed=np.array(n_allowed, dtype=np.int64),
        weight=np.array(weight),
    )


def random_rules(rng: random.Random, n_servers: int, forbid: bool) -> list[Rule]:
    """Two task types with tied indices and weights, forbidden pairs and k of 1 and 2 if asked."""
    pi = list(range(n_servers))
    rng.shuffle(pi)
    rules = []
    for v in range(2):
        index: list[int | None] = [rng.randint(-1, 1) for _ in range(n_servers)]
        if forbid and n_servers > 2:
            index[rng.randrange(n_servers)] = None
        weight = [Fraction(rng.randint(0, 3), 4) for _ in range(n_servers)]
        rules.append(Rule(index, weight, pi, 1 + v if forbid else 1))
    return rules
