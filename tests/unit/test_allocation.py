"""Who gets the task: every rule against its slow twin, ties and samples exactly."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from opportune.kernels.allocate import (
    PRIORITY,
    PRIORITY_TIES,
    SAMPLE,
    PlanTables,
    Task,
    index_below,
    pick,
    round_largest_remainder,
    waterfill,
)
from tests import naive

CELLS = [np.uint32(2**32 * i // 60 + 1) for i in range(60)]
"""One fraction in each sixtieth of [0, 1): 60 is a multiple of 2, 3, 4, 5 and 6."""


def random_tables(rng: np.random.Generator, rule: int, n_servers: int, levels: int) -> PlanTables:
    """Two types, ``levels`` headcounts; forbidden servers at the end of the lists."""
    n_allowed = rng.integers(1, n_servers + 1, 2).astype(np.int32)
    order = np.empty((2, levels, n_servers), dtype=np.uint32)
    level = np.empty((2, levels, n_servers), dtype=np.int32)
    for v in range(2):
        permitted = rng.permutation(n_servers)
        for h in range(levels):
            mixed = rng.permutation(n_allowed[v])
            order[v, h] = np.append(permitted[mixed], permitted[n_allowed[v] :])
            steps = rng.integers(0, 2, n_servers) if rule != PRIORITY else np.ones(n_servers)
            level[v, h] = np.cumsum(steps)
    weight = np.zeros((2, 0))
    if rule == SAMPLE:
        weight = np.where(rng.random((2, n_servers)) < 0.5, 0.0, rng.integers(1, 9, (2, n_servers)))
    return PlanTables(order, level, n_allowed, weight, rule)


def picked(tables: PlanTables, task: Task, busy_until: np.ndarray, choice: np.ndarray) -> list[int]:
    """What the kernel picks, in row 1 of the choices; [] where the task is dropped."""
    picks = np.full(len(busy_until) + 1, -7, dtype=np.int64)
    rows = np.vstack([np.zeros_like(choice), choice])
    found = pick(tables, busy_until, task, rows, 1, picks)
    assert found <= task.k
    return [int(r) for r in picks[:found]] if found == task.k else []


@pytest.mark.parametrize("rule", [PRIORITY, PRIORITY_TIES, SAMPLE])
@pytest.mark.parametrize("levels", [1, 3])
def test_picks_are_those_of_the_twin(rule: int, levels: int) -> None:
    rng = np.random.default_rng(rule + 10 * levels)
    dropped = 0
    for _ in range(1500):
        n_servers = int(rng.integers(1, 9))
        tables = random_tables(rng, rule, n_servers, levels)
        v, k, h = int(rng.integers(2)), int(rng.integers(1, 4)), int(rng.integers(levels))
        busy_until = rng.integers(8, 13, n_servers)
        choice = rng.integers(0, 2**32, k, dtype=np.uint32)
        free = {r for r in range(n_servers) if busy_until[r] <= 10}
        want = naive.pick(tables, v, k, free, [int(c) for c in choice], h)
        got = picked(tables, Task(10, v, h, k), busy_until, choice)
        dropped += want is None
        assert sorted(got) == sorted(want or [])
    assert 100 < dropped < 1400


def tie(n: int, rule: int = PRIORITY_TIES, weight: list[float] | None = None) -> PlanTables:
    """All of n servers tied, one type."""
    return PlanTables(
        order=np.arange(n, dtype=np.uint32)[None, None],
        level=np.zeros((1, 1, n), dtype=np.int32),
        n_allowed=np.array([n], dtype=np.int32),
        weight=np.array([weight]) if weight else np.zeros((1, 0)),
        rule=rule,
    )


@pytest.mark.parametrize(("n", "k"), [(2, 1), (5, 1), (3, 2), (5, 2), (4, 3), (4, 4)])
def test_of_a_tie_every_set_of_servers_is_as_likely(n: int, k: int) -> None:
    """Exactly: over one fraction in each sixtieth, every subset comes up equally often."""
    free = np.zeros(n, dtype=np.int64)
    counts: Counter[tuple[int, ...]] = Counter()
    cells = CELLS if n == 5 else CELLS[::5]  # twelfths will do
    for fractions in itertools.product(cells, repeat=k if k < n else 1):
        choice = np.resize(np.array(fractions, dtype=np.uint32), k)
        counts[tuple(sorted(picked(tie(n), Task(0, 0, 0, k), free, choice)))] += 1
    assert sorted(counts) == list(itertools.combinations(range(n), k))
    assert len(set(counts.values())) == 1


def test_only_the_tie_that_is_too_large_is_drawn_from() -> None:
    tables = tie(5)._replace(level=np.array([[[0, 1, 1, 1, 2]]], dtype=np.int32))
    free, task = np.zeros(5, dtype=np.int64), Task(0, 0, 0, 2)
    seen = {
        tuple(sorted(picked(tables, task, free, np.array([a, b], dtype=np.uint32))))
        for a in CELLS
        for b in CELLS
    }
    assert seen == {(0, 1), (0, 2), (0, 3)}
    busy = np.array([1, 0, 1, 1, 0])  # of the tie only server 1 is left
    assert picked(tables, task, busy, np.array([CELLS[-1]] * 2)) == [1, 4]


def test_the_last_fraction_takes_the_last_server_of_a_tie() -> None:
    free = np.zeros(5, dtype=np.int64)
    top, zero = np.array([2**32 - 1], dtype=np.uint32), np.zeros(1, dtype=np.uint32)
    for rule in (PRIORITY_TIES, SAMPLE):
        tables = tie(5, rule, [1.0] * 5 if rule == SAMPLE else None)
        assert picked(tables, Task(0, 0, 0, 1), free, top) == [4]
        assert picked(tables, Task(0, 0, 0, 1), free, zero) == [0]


def test_at_the_edge_of_a_share_the_next_server_is_taken() -> None:
    """Shares are half open: u = 1/2 of two equal weights is the second, u = 0 never a zero."""
    free, half = np.zeros(3, dtype=np.int64), np.array([2**31], dtype=np.uint32)
    zero = np.zeros(1, dtype=np.uint32)
    assert picked(tie(2, SAMPLE, [1.0, 1.0]), Task(0, 0, 0, 1), free[:2], half) == [1]
    assert picked(tie(3, SAMPLE, [0.0, 1.0, 1.0]), Task(0, 0, 0, 1), free, zero) == [1]
    assert picked(tie(3, SAMPLE, [1.0, 0.0, 1.0]), Task(0, 0, 0, 1), free, half) == [2]


def test_one_server_is_drawn_in_proportion_to_weight() -> None:
    tables = tie(5, SAMPLE, [2.0, 0.0, 1.0, 3.0, 0.0])
    counts: Counter[int] = Counter()
    for fraction in CELLS:
        choice = np.array([fraction], dtype=np.uint32)
        counts.update(picked(tables, Task(0, 0, 0, 1), np.zeros(5, dtype=np.int64), choice))
    assert counts == {0: 20, 2: 10, 3: 30}


def test_two_servers_are_drawn_one_after_the_other_without_replacement() -> None:
    weight = [1.0, 2.0, 3.0]
    counts: Counter[tuple[int, ...]] = Counter()
    for a, b in itertools.product(CELLS, repeat=2):
        choice = np.array([a, b], dtype=np.uint32)
        tables = tie(3, SAMPLE, weight)
        counts[tuple(picked(tables, Task(0, 0, 0, 2), np.zeros(3, dtype=np.int64), choice))] += 1
    for first, second in itertools.permutations(range(3), 2):
        share = Fraction(int(weight[first]), 6) * Fraction(int(weight[second]))
        share /= 6 - int(weight[first])
        assert counts[first, second] == 3600 * share


def test_without_weight_the_list_decides() -> None:
    tables = tie(4, SAMPLE, [0.0, 0.0, 5.0, 0.0])
    tables = tables._replace(
        order=np.array([[[3, 2, 1, 0]]], dtype=np.uint32),
        level=np.array([[[0, 1, 2, 3]]], dtype=np.int32),
    )
    free = np.zeros(4, dtype=np.int64)
    top = np.full(3, 2**32 - 1, dtype=np.uint32)
    assert picked(tables, Task(0, 0, 0, 3), free, top) == [2, 3, 1]
    assert picked(tables, Task(0, 0, 0, 2), np.array([0, 0, 9, 0]), top) == [3, 1]


def test_a_server_is_free_from_its_step_on() -> None:
    tables, choice = tie(1, PRIORITY), np.zeros(1, dtype=np.uint32)
    assert picked(tables, Task(4, 0, 0, 1), np.array([5]), choice) == []
    assert picked(tables, Task(5, 0, 0, 1), np.array([5]), choice) == [0]


def test_index_below_is_the_floor_and_never_n() -> None:
    for n in (1, 2, 3, 7, 1000, 2**20):
        assert index_below(np.uint32(2**32 - 1), n) == n - 1
        assert index_below(np.uint32(0), n) == 0
        for fraction in (1, 12345678, 2**31 - 1, 2**31, 3 * 10**9):
            assert index_below(np.uint32(fraction), n) == fraction * n // 2**32


# ---------------------------------------------------------------------------- Appendix A


def filled(
    budget: Fraction, capacity: list[Fraction], index: list[int], weight: list[Fraction]
) -> tuple[np.ndarray, float, np.ndarray]:
    """The kernel's amounts, what is left, and the order handed to it (P, T, N; pi by position)."""
    n = len(capacity)
    group = [2 if index[r] > 0 else int(index[r] == 0 and weight[r] > 0) for r in range(n)]
    order = np.array(sorted(range(n), key=lambda r: (-group[r], -index[r], r)))
    amount = np.full(n, -5.0)
    left = waterfill(
        float(budget),
        np.array(capacity, dtype=np.float64),
        np.array(group, dtype=np.int8),
        order,
        np.array(weight, dtype=np.float64),
        amount,
    )
    return amount, left, order


def test_waterfill_is_appendix_a() -> None:
    """2,000 random cases: fractional capacities, tied indices and weights, budgets too large."""
    rng = np.random.default_rng(3)
    for _ in range(2000):
        n, copies = int(rng.integers(1, 8)), int(rng.integers(1, 7))
        capacity = [Fraction(int(c), copies) for c in rng.integers(0, copies + 1, n)]
        index = [int(x) for x in rng.integers(-2, 3, n)]
        weight = [Fraction(int(w), 4) for w in rng.integers(0, 5, n)]
        budget = Fraction(int(rng.integers(1, 6)))
        want = naive.waterfill(budget, capacity, index, weight, list(range(n)))
        assert sum(want) == min(budget, sum(capacity))
        got, left, order = filled(budget, capacity, index, weight)
        assert got == pytest.approx([float(a) for a in want], abs=1e-12)
        assert left == pytest.approx(float(budget - sum(want)), abs=1e-12)
        if sum(want) < budget:
            continue
        counts = np.full(n, -5, dtype=np.int64)
        round_largest_remainder(got, copies, int(budget * copies), np.arange(n), counts)
        exact = naive.round_largest_remainder(want, copies, int(budget * copies), list(range(n)))
        assert sum(exact) == budget * copies
        assert counts.tolist() == exact
        assert sorted(order.tolist()) == list(range(n))


def test_equal_remainders_go_by_the_order_of_ties() -> None:
    counts = np.zeros(4, dtype=np.int64)
    halves = np.array([0.5, 1.0, 0.5, 0.5])
    round_largest_remainder(halves, 1, 2, np.array([3, 2, 1, 0]), counts)
    assert counts.tolist() == [0, 1, 0, 1]
    round_largest_remainder(halves, 2, 5, np.arange(4), counts)
    assert counts.tolist() == [1, 2, 1, 1]


def test_rounding_forgives_the_last_bits() -> None:
    counts = np.zeros(2, dtype=np.int64)
    almost = np.array([0.1 + 0.2, 0.7])  # 0.30000000000000004
    round_largest_remainder(almost, 10, 10, np.arange(2), counts)
    assert counts.tolist() == [3, 7]
    round_largest_remainder(np.array([2.9999999999, 0.0]), 1, 3, np.arange(2), counts)
    assert counts.tolist() == [3, 0]
