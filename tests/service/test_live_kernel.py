"""``kernels.live`` against a slow twin, and its propensities against the draws themselves."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from opportune.kernels.allocate import PRIORITY, PRIORITY_TIES, SAMPLE, PlanTables, Task, pick
from opportune.kernels.live import N_NEXT, draw_words, explained_of, pick_explained
from opportune.kernels.streams import CHOICE, words


def tables_of(order: list[int], level: list[int], weight: list[float], rule: int) -> PlanTables:
    """Tables of one type and one headcount."""
    return PlanTables(
        order=np.array([[order]], dtype=np.uint32),
        level=np.array([[level]], dtype=np.int32),
        n_allowed=np.array([len(order)], dtype=np.int32),
        weight=np.array([weight], dtype=np.float64).reshape(1, len(weight)),
        rule=rule,
    )


def random_tables(rng: np.random.Generator, n: int) -> PlanTables:
    rule = int(rng.integers(0, 3))
    steps = np.ones(n - 1, dtype=np.int64) if rule == PRIORITY else rng.integers(0, 2, n - 1)
    level = np.concatenate([[0], np.cumsum(steps)])
    weight = rng.random(n) * (rng.random(n) < 0.6) if rule == SAMPLE else np.zeros(0)
    return tables_of(rng.permutation(n).tolist(), level.tolist(), weight.tolist(), rule)


def test_the_pick_is_the_simulators_and_the_lists_are_what_they_say() -> None:
    rng = np.random.default_rng(1)
    for _ in range(400):
        n = int(rng.integers(1, 9))
        tables = random_tables(rng, n)
        k = int(rng.integers(1, n + 1))
        closed = (rng.random(n) < 0.4).astype(np.int64)
        choice = rng.integers(0, 2**32, (1, k), dtype=np.uint32)
        explained = explained_of(n)
        task = Task(0, 0, 0, k)
        found = pick_explained(tables, closed, task, choice, explained)
        picks = np.zeros(n + 1, dtype=np.int64)
        assert found == pick(tables, closed, task, choice, 0, picks)
        order = tables.order[0, 0].tolist()
        free = [r for r in order if not closed[r]]
        chosen = picks[:k].tolist() if found == k else []
        assert explained.n_free[0] == len(free)
        assert explained.chosen.tolist() == [0] * n
        following = [r for r in free if r not in chosen][:N_NEXT]
        assert [r for r in explained.following.tolist() if r >= 0] == following
        last = max([order.index(r) for r in chosen], default=n)
        passed = [r for r in order[:last] if closed[r]][:N_NEXT]
        assert [r for r in explained.passed.tolist() if r >= 0] == passed
        if chosen:
            assert explained.picks[:k].tolist() == chosen
            chances = explained.propensity[:k]
            assert np.all((chances > 0) & (chances <= 1))
            if tables.rule == PRIORITY:
                assert chances.tolist() == [1.0] * k


def shares(
    tables: PlanTables, closed: list[int], k: int, grid: int
) -> dict[tuple[int, ...], float]:
    """Share of a grid of draws in which each sequence of servers is picked."""
    explained = explained_of(len(closed))
    counts: dict[tuple[int, ...], float] = {}
    mask = np.array(closed, dtype=np.int64)
    for cell in product(range(grid), repeat=k):
        draws = np.array([[(2 * i + 1) * 2**31 // grid for i in cell]], dtype=np.uint32)
        assert pick_explained(tables, mask, Task(0, 0, 0, k), draws, explained) == k
        picked = tuple(explained.picks[:k].tolist())
        counts[picked] = counts.get(picked, 0.0) + grid ** float(-k)
    return counts


def propensities(
    tables: PlanTables, closed: list[int], draws: list[int]
) -> tuple[list[int], list[float]]:
    explained = explained_of(len(closed))
    k = len(draws)
    pick_explained(
        tables,
        np.array(closed, dtype=np.int64),
        Task(0, 0, 0, k),
        np.array([draws], dtype=np.uint32),
        explained,
    )
    return explained.picks[:k].tolist(), explained.propensity[:k].tolist()


def test_of_a_tie_each_server_has_its_share() -> None:
    """Server 3 leads; two of the tied 0, 1, 2, 4 follow, 4 being busy: 2 of 3."""
    tables = tables_of([3, 0, 1, 2, 4], [0, 1, 1, 1, 1], [], PRIORITY_TIES)
    closed = [0, 0, 0, 0, 1]
    counts = shares(tables, closed, 3, 12)
    for r in (0, 1, 2):
        share = sum(value for picked, value in counts.items() if r in picked)
        assert share == pytest.approx(2 / 3, abs=0.01)
    picked, chances = propensities(tables, closed, [0, 0, 0])
    assert chances[picked.index(3)] == 1.0
    assert sorted(chances) == pytest.approx([2 / 3, 2 / 3, 1.0])


def test_by_weight_each_pick_has_its_share_of_what_is_left() -> None:
    """Weights 1, 2, 3 and 0: sequential shares, then the weightless by the list."""
    tables = tables_of([0, 1, 2, 3], [0, 1, 2, 3], [1.0, 2.0, 3.0, 0.0], SAMPLE)
    counts = shares(tables, [0, 0, 0, 0], 2, 60)
    for (first, second), share in counts.items():
        weight = [1.0, 2.0, 3.0, 0.0]
        exact = weight[first] / 6 * weight[second] / (6 - weight[first])
        assert share == pytest.approx(exact, abs=0.01)
    for draws in ([0, 0], [2**31, 7], [2**32 - 1, 2**32 - 1]):
        (first, second), chances = propensities(tables, [0, 0, 0, 0], draws)
        assert chances == pytest.approx(
            [[1, 2, 3][first] / 6, [1, 2, 3][second] / (6 - [1, 2, 3][first])]
        )
    picked, chances = propensities(tables, [0, 0, 1, 0], [0, 0, 0])
    assert picked == [0, 1, 3]
    assert chances == pytest.approx([1 / 3, 1.0, 1.0])


def test_where_no_weight_is_left_a_tie_has_its_share() -> None:
    tables = tables_of([0, 1, 2, 3], [0, 1, 1, 1], [4.0, 0.0, 0.0, 0.0], SAMPLE)
    picked, chances = propensities(tables, [0, 0, 0, 0], [0, 0, 0])
    assert picked[0] == 0
    assert chances == pytest.approx([1.0, 2 / 3, 2 / 3])


def test_words_are_those_of_the_stream() -> None:
    key = (np.uint64(11), np.uint64(3))
    drawn = np.zeros(12, dtype=np.uint32)
    draw_words(key, np.uint64(8), drawn)
    expected = [int(w) for at in (2, 3, 4) for w in words(key, CHOICE, np.uint64(at))]
    assert drawn.tolist() == expected
