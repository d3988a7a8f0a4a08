"""Lemma (ours): at one copy per server the waterfill of Appendix A is a static list.

For every free set F with at least k servers, waterfill with b = k and c_r = 1[r in F], rounded
by largest remainders, picks the first k free servers of: P by L descending, T by w descending,
N by L descending, ties by pi. Shown here by exact fractions on thousands of random cases, for
the list that ``policies/loss/lag.py`` makes and for the compiled waterfill.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from opportune.kernels.allocate import round_largest_remainder, waterfill
from opportune.model.catalog import catalog_instance
from opportune.model.duration import Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.policies.loss.lag import Lag, tie_order, waterfill_groups
from opportune.pricing.occupancy import price
from opportune.pricing.relaxation import Relaxation
from tests import naive

Fractions = list[Fraction]


def by_definition(
    index: Fractions, weight: Fractions, free: list[int], k: int, pi: list[int]
) -> list[int]:
    """The servers that Appendix A assigns, in exact arithmetic."""
    capacity = [Fraction(int(r in free)) for r in range(len(index))]
    allocation = naive.waterfill(Fraction(k), capacity, index, weight, pi)
    counts = naive.round_largest_remainder(allocation, 1, k, pi)
    assert sum(counts) == k
    assert all(counts[r] in (0, 1) for r in free)
    return [r for r in range(len(index)) if counts[r] == 1]


def first_free(order: list[int], free: list[int], k: int) -> list[int]:
    """The first k free servers of a list, sorted."""
    return sorted([r for r in order if r in free][:k])


def pi_of(instance: LossInstance) -> list[int]:
    """Ascending sum_v lambda_v s_vr, then position; exact for dyadic rates and rewards."""
    useful = instance.arrival_rate @ instance.match_reward
    return sorted(range(instance.n_servers), key=lambda r: (useful[r], r))


def made_up(rng: np.random.Generator) -> Relaxation:
    """Prices with random groups P, T, N, tied indices and weights of any size."""
    n_types, n_servers = int(rng.integers(1, 4)), int(rng.integers(2, 9))
    shape = (n_types, n_servers)
    instance = loss_instance(rng.integers(0, 3, shape) / 4, np.full(n_types, 0.0625), Geometric(1))
    prices = price(replace(instance, arrival_rate=instance.arrival_rate / 8))
    index = rng.choice([-0.5, -0.25, 0.0, 0.0, 0.0, 0.25, 0.5], shape)
    weight = rng.choice([0.0, 0.0, 0.125, 0.25, 0.25, 0.5, 0.875, 1.0], shape)
    return replace(prices, index=index, tie_weight=weight)


def test_the_list_of_lag_is_the_waterfill_of_the_appendix() -> None:
    """Free sets (all, or 80 of large ones) and every k of 150 made-up prices."""
    rng = np.random.default_rng(31)
    cases = 0
    for _ in range(150):
        prices = made_up(rng)
        pi = pi_of(prices.instance)
        tables = Lag().plan(prices.instance, prices).tables
        v = int(rng.integers(prices.instance.n_types))
        index = [Fraction(x) for x in prices.index[v].tolist()]
        weight = [Fraction(x) for x in prices.tie_weight[v].tolist()]
        order = [int(r) for r in tables.order[v, 0]]
        assert order == naive.lag_order(index, weight, pi)
        sets = list(itertools.product((False, True), repeat=len(index)))
        if len(index) > 6:
            sets = [sets[i] for i in rng.integers(len(sets), size=80)]
        for free_flags in sets:
            free = [r for r, one in enumerate(free_flags) if one]
            for k in range(1, len(free) + 1):
                cases += 1
                want = by_definition(index, weight, free, k, pi)
                assert first_free(order, free, k) == want
    assert cases > 15_000


@pytest.mark.parametrize("name", ["priority-v1", "specialist-v1", "unfriendly-v1"])
@pytest.mark.parametrize("load", [0.2, 0.4, 0.7])
def test_at_the_prices_of_real_instances(name: str, load: float) -> None:
    """The LP's own indices and weights, as fractions of nine digits, on random free sets."""
    rng = np.random.default_rng(32)
    instance = catalog_instance(name, load)
    prices = price(instance)
    tables = Lag().plan(instance, prices).tables
    pi = np.argsort(tie_order(instance)).tolist()
    for v in range(min(instance.n_types, 6)):
        index = [Fraction(round(x, 9)) for x in prices.index[v].tolist()]
        weight = [Fraction(round(x, 9)) for x in prices.tie_weight[v].tolist()]
        order = [int(r) for r in tables.order[v, 0]]
        for _ in range(25):
            free = np.flatnonzero(rng.random(instance.n_servers) < 0.7).tolist()
            for k in range(1, len(free) + 1):
                assert first_free(order, free, k) == by_definition(index, weight, free, k, pi)


def test_the_compiled_waterfill_picks_the_same_servers() -> None:
    rng = np.random.default_rng(33)
    for _ in range(300):
        prices = made_up(rng)
        tables = Lag().plan(prices.instance, prices).tables
        group = waterfill_groups(prices)
        rank = tie_order(prices.instance)
        for v in range(prices.instance.n_types):
            # within T by pi, as the definition of the rounding wants it
            within = np.where(group[v] == 1, 0.0, prices.index[v])
            order = np.lexsort((rank, -within, -group[v].astype(int)))
            free = rng.random(prices.instance.n_servers) < 0.7
            for k in range(1, int(free.sum()) + 1):
                amount = np.zeros(len(free))
                left = waterfill(
                    float(k), free.astype(float), group[v], order, prices.tie_weight[v], amount
                )
                counts = np.zeros(len(free), dtype=np.int64)
                round_largest_remainder(amount, 1, k, order, counts)
                assert left == pytest.approx(0.0, abs=1e-12)
                want = first_free(tables.order[v, 0].tolist(), np.flatnonzero(free).tolist(), k)
                assert np.flatnonzero(counts).tolist() == want


def test_the_tie_order_puts_the_less_useful_server_first() -> None:
    """By arrival-weighted mean score, not by plain mean, then by position."""
    reward = [[1.0, 0.0, 0.5, 0.0], [0.0, 1.0, 0.5, 1.0]]
    often_first = loss_instance(reward, [0.3, 0.1], Geometric(2))
    assert tie_order(often_first).tolist() == [3, 0, 2, 1]
    often_second = loss_instance(reward, [0.1, 0.3], Geometric(2))
    assert tie_order(often_second).tolist() == [0, 2, 1, 3]
    nothing = loss_instance(reward, [0.0, 0.0], Geometric(2))
    assert tie_order(nothing).tolist() == [0, 1, 2, 3]
    sums = loss_instance([[0.1 + 0.2, 0.3, 0.0]], [0.1], Geometric(2))
    assert tie_order(sums).tolist() == [1, 2, 0]  # equal up to rounding: by position


def test_zero_index_servers_without_weight_come_after_those_with() -> None:
    instance = loss_instance(np.full((1, 5), 0.5), [0.05], Geometric(2))
    prices = replace(
        price(instance),
        index=np.array([[-0.1, 0.0, 0.0, 0.2, 0.0]]),
        tie_weight=np.array([[0.9, 0.0, 0.3, 0.0, 4e-10]]),
    )
    assert waterfill_groups(prices).tolist() == [[0, 0, 1, 2, 0]]
    order = Lag().plan(instance, prices).tables.order[0, 0]
    assert order.tolist() == [3, 2, 1, 4, 0]
