"""Slow twins of the evaluation of policies on a log: exact fractions, written from the rules."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.allocate import SAMPLE, PlanTables


def chance_of(tables: PlanTables, free: Sequence[bool], v: int, h: int) -> list[Fraction]:
    """Probability of each server for a task of one server (the docstring of ``PlanTables``)."""
    order = [int(r) for r in tables.order[v, h, : tables.n_allowed[v]]]
    levels = [int(one) for one in tables.level[v, h, : tables.n_allowed[v]]]
    there = [(r, level) for r, level in zip(order, levels, strict=True) if free[r]]
    chance = [Fraction(0)] * len(free)
    if not there:
        return chance
    if tables.rule == SAMPLE:
        weight = {r: Fraction(float(tables.weight[v, r])) for r, _ in there}
        if sum(weight.values()) > 0:
            for r, w in weight.items():
                chance[r] = w / sum(weight.values())
            return chance
    best = there[0][1]
    tied = [r for r, level in there if level == best]
    for r in tied:
        chance[r] = Fraction(1, len(tied))
    return chance


def among(
    tables: PlanTables, free: Sequence[bool], place: tuple[int, int], k: int
) -> list[Fraction]:
    """Probability that each server is among the k that a list picks one after another."""
    v, h = place
    found = [Fraction(0)] * len(free)
    ways: list[tuple[tuple[int, ...], Fraction]] = [((), Fraction(1))]
    for _ in range(k):
        further: list[tuple[tuple[int, ...], Fraction]] = []
        for picked, way in ways:
            left = [one and r not in picked for r, one in enumerate(free)]
            for r, chance in enumerate(chance_of(tables, left, v, h)):
                if chance > 0:
                    further.append(((*picked, r), way * chance))
                    found[r] += way * chance
        ways = further
    return found


def estimates(
    chance: Sequence[Sequence[Fraction]],
    taken: Sequence[tuple[int, Fraction, Fraction]],
    guess: Sequence[Sequence[Fraction]],
) -> tuple[Fraction, Fraction, Fraction]:
    """IPS, SNIPS and DR from their formulas; ``taken`` is server, propensity, outcome."""
    n = len(taken)
    weight = [chance[i][a] / p for i, (a, p, _) in enumerate(taken)]
    weighted = [w * r for w, (_, _, r) in zip(weight, taken, strict=True)]
    direct = [sum(c * g for c, g in zip(chance[i], guess[i], strict=True)) for i in range(n)]
    doubly = [direct[i] + weight[i] * (r - guess[i][a]) for i, (a, _, r) in enumerate(taken)]
    return sum(weighted) / n, sum(weighted) / sum(weight), sum(doubly) / Fraction(n)


def serve(
    order: Sequence[Sequence[int]],
    tasks: Sequence[tuple[int, int, int]],
    n_servers: int,
    k: int,
) -> list[list[int]]:
    """Who serves each task (step, type, duration) by lists without ties; -1 where turned away."""
    free_again = [0] * n_servers
    found = []
    for step, v, duration in tasks:
        picks = [r for r in order[v] if free_again[r] <= step][:k]
        if len(picks) < k:
            picks = [-1] * k
        for r in picks:
            if r >= 0:
                free_again[r] = step + duration + 1
        found.append(picks)
    return found


def free_servers(services: Sequence[tuple[float, float, int]], n_servers: int) -> NDArray[np.bool_]:
    """(m, R) who is free when each service (start, end, server) begins; earlier ones first."""
    free = np.ones((len(services), n_servers), dtype=np.bool_)
    for i, (start, _, _) in enumerate(services):
        for j, (other, end, r) in enumerate(services):
            before = other < start or (other == start and j < i)
            if r >= 0 and before and end > start:
                free[i, r] = False
    return free
