"""The dual by servers and its rounded form: kernels against slow twins, bounds that hold."""

from __future__ import annotations

import numpy as np
import pytest

from opportune.kernels.arms import Market, Pairs, arm_values, mixing_room, near_pairs, top_rewards
from opportune.kernels.cholesky import (
    BLOCK,
    elimination_order,
    factor,
    solve,
    subtract_product,
)
from opportune.kernels.smoothing import Active, newton_step, smooth_arms
from opportune.pricing.certificate import capacity_price, dual_value
from opportune.pricing.demand import AT_MOST, FULL, Demand
from opportune.pricing.dual import COLD, HOT, descend, first_prices
from opportune.pricing.occupancy import price
from opportune.pricing.pairs import pair_problem
from opportune.pricing.recovery import offer_feasible, rounded_rates, served_by
from opportune.pricing.search import Search, Stop
from tests import naive_arms
from tests.instances import Shape, random_instance

SHAPES = [
    Shape(),
    Shape(scores="levels", forbidden=True),
    Shape(per_type=True, duration="mixed", forbidden=True),
]


def random_pairs(
    rng: np.random.Generator, size: tuple[int, int] = (5, 5), share: float = 0.7
) -> tuple[Pairs, Market]:
    """Up to ``size`` types and servers, this share of the pairs; one to three copies a server.

    Durations go by the type, or in one case of three by the pair.
    """
    n_types, n_servers = (int(rng.integers(1, most + 1)) for most in size)
    allowed = rng.random((n_servers, n_types)) < share
    server, task_type = np.nonzero(allowed)
    start = np.searchsorted(server, np.arange(n_servers + 1))
    market = Market(
        rng.random(n_types) * 0.2 + 1e-3,
        rng.integers(1, 3, n_types).astype(np.float64),
        rng.integers(1, 4, n_servers).astype(np.float64),
    )
    mean = 1.0 + 9.0 * rng.random(n_types)
    if rng.random() < 1 / 3:
        mean = 1.0 + 9.0 * rng.random((len(server), 1))
    return Pairs(start, task_type.astype(np.uint32), rng.random(len(server)), mean), market


def room_for(pairs: Pairs) -> Active:
    n = len(pairs.reward)
    return Active(
        np.zeros(len(pairs.start), dtype=np.int64),
        np.zeros(n, dtype=np.uint32),
        np.zeros(n, dtype=np.float32),
        np.zeros(n, dtype=np.float32),
        np.zeros(len(pairs.start) - 1),
        pairs.mean if pairs.mean.ndim == 1 else np.zeros((n, 1)),
    )


def test_an_arm_earns_the_best_of_all_sets_of_types() -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        pairs, market = random_pairs(rng)
        prices = rng.normal(0.2, 0.4, len(market.demand))
        capacity = rng.random(len(market.copies)) * 3.0  # any guess will do
        served = np.zeros(len(prices))
        total = arm_values(pairs, market, prices, capacity, served)
        twins = [naive_arms.arm_value(pairs, market, prices, r) for r in range(len(capacity))]
        assert capacity == pytest.approx(twins, abs=1e-14)
        assert total == pytest.approx(float(market.copies @ twins), rel=1e-13)


def test_served_is_minus_the_slope_of_the_arms() -> None:
    """d/dl_v sum_r q_r = -lambda_v sum_r phi_r over L > 0, where it exists."""
    rng = np.random.default_rng(2)
    for _ in range(40):
        pairs, market = random_pairs(rng)
        prices = rng.normal(0.2, 0.4, len(market.demand))
        served, other = np.zeros(len(prices)), np.zeros(len(prices))
        arm_values(pairs, market, prices, np.zeros(len(market.copies)), served)
        for v in range(len(prices)):
            step = np.zeros(len(prices))
            step[v] = 1e-7
            up = arm_values(pairs, market, prices + step, np.zeros(len(market.copies)), other)
            down = arm_values(pairs, market, prices - step, np.zeros(len(market.copies)), other)
            slope = (up - down) / 2e-7
            assert slope == pytest.approx(-market.arrival_rate[v] * served[v], abs=1e-7)


def test_the_kernel_and_the_certificate_agree() -> None:
    """Two ways to the same closed form: roots by Newton's method, prefixes by sorting."""
    rng = np.random.default_rng(3)
    for shape in SHAPES:
        for _ in range(20):
            instance = random_instance(rng, shape)
            for demand in (FULL, Demand(0.3), AT_MOST):
                problem = pair_problem(instance, demand)
                prices = rng.normal(0.0, 0.5, problem.n_types)
                whole = problem.prices(prices)
                value = problem.dual_value(prices, np.zeros(problem.n_servers)) * problem.unit
                assert value == pytest.approx(dual_value(instance, demand, whole), rel=1e-12)


def test_near_pairs_are_those_within_the_margin() -> None:
    rng = np.random.default_rng(4)
    for _ in range(30):
        pairs, market = random_pairs(rng)
        prices, q = rng.random(len(market.demand)) - 0.3, rng.random(len(market.copies)) * 0.1
        margin = rng.random(len(prices)) * 0.3
        expected = [
            p
            for p, pair in enumerate(naive_arms.pair_list(pairs))
            if pair.reward - prices[pair.task_type] - pair.mean * q[pair.server]
            >= -margin[pair.task_type]
        ]
        kept = np.full(len(expected), -1)
        assert near_pairs(pairs, market, (prices, q), margin, kept[:0]) == len(expected)
        assert near_pairs(pairs, market, (prices, q), margin, kept) == len(expected)
        assert kept.tolist() == expected


def test_the_threshold_leaves_about_the_wanted_servers_above() -> None:
    """To the width of a bin of the type's range."""
    rng = np.random.default_rng(5)
    reward = rng.random((4, 200))
    reward[3] = 0.5
    pairs = Pairs(
        np.arange(201) * 4,
        np.tile(np.arange(4, dtype=np.uint32), 200),
        reward.T.ravel().copy(),
        np.ones(4),
    )
    counts, ends = np.empty((4, 64)), np.empty((3, 4))
    wanted = np.array([1.0, 20.0, 1000.0, 5.0])
    top_rewards(pairs, np.ones(200), wanted, counts, ends)
    assert ends[1].tolist() == reward.min(axis=1).tolist()
    assert ends[2].tolist() == reward.max(axis=1).tolist()
    assert counts.sum(axis=1).tolist() == [200.0] * 4
    for v in (0, 1):
        inside = np.sort(reward[v])[::-1][int(wanted[v]) - 1]
        assert inside - 1 / 64 <= ends[0, v] <= inside
    assert ends[0, 2] == reward[2].min()
    assert ends[0, 3] == 0.5


def test_the_rounded_arms() -> None:
    """Value, slope and curvature against bisection, math and differences."""
    rng = np.random.default_rng(6)
    for _ in range(30):
        pairs, market = random_pairs(rng)
        prices, tau = rng.normal(0.2, 0.3, len(market.demand)), float(10.0 ** rng.uniform(-3, -1))
        q, slope = np.zeros(len(market.copies)), np.zeros((2, len(prices)))
        value = smooth_arms(pairs, market, (prices, q, tau), room_for(pairs), slope)
        twins = [naive_arms.rounded_arm(pairs, market, prices, tau, r) for r in range(len(q))]
        expected = sum(c * twin[0] for c, twin in zip(market.copies, twins, strict=True))
        assert value == pytest.approx(expected, abs=1e-6 * tau)
        for v in range(len(prices)):
            used = [
                (c * phi * share.get(v, 0.0), c * phi * share.get(v, 0.0) * (1 - share.get(v, 0.0)))
                for c, (_, share, phi) in zip(market.copies, twins, strict=True)
            ]
            assert slope[0, v] == pytest.approx(sum(u for u, _ in used), abs=5e-3)
            assert slope[1, v] == pytest.approx(sum(w for _, w in used) / tau, rel=0.02, abs=0.05)
        assert value >= arm_values(pairs, market, prices, q.copy(), np.zeros(len(prices))) - 1e-12


def test_the_step_solves_the_newton_equations() -> None:
    """The Hessian by differences of the slope; conjugate gradients until they have converged."""
    rng = np.random.default_rng(7)
    for _ in range(10):
        pairs, market = random_pairs(rng)
        n, tau = len(market.demand), 0.1
        prices = rng.normal(0.2, 0.2, n)
        active, slope = room_for(pairs), np.zeros((2, n))
        hessian = np.empty((n, n))
        for v in range(n):
            sides = []
            for sign in (1.0, -1.0):
                shifted = prices.copy()
                shifted[v] += sign * 1e-4
                q = np.zeros(len(market.copies))
                for _ in range(3):  # q to the last digit
                    smooth_arms(pairs, market, (shifted, q, tau), active, slope)
                sides.append(-market.arrival_rate * slope[0])
            hessian[:, v] = (sides[0] - sides[1]) / 2e-4
        q = np.zeros(len(market.copies))
        for _ in range(3):
            smooth_arms(pairs, market, (prices, q, tau), active, slope)
        gradient = rng.normal(0.0, 1e-3, n)
        extra = np.full(n, 1e-2) * market.arrival_rate
        step, diagonal = np.empty(n), market.arrival_rate * slope[1]
        for _ in range(6):  # each call stops at a tenth: solve for what is left
            part = np.empty(n)
            left = gradient if _ == 0 else gradient + (hessian + np.diag(extra)) @ step
            newton_step(active, market, tau, (left, extra, diagonal), part, 30)
            step = part if _ == 0 else step + part
        exact = np.linalg.solve(hessian + np.diag(extra), -gradient)
        assert step == pytest.approx(exact, rel=1e-3, abs=1e-3 * float(np.abs(exact).max()))


@pytest.mark.parametrize("demand", [FULL, Demand(0.2), AT_MOST])
def test_descending_ends_near_the_optimum_with_bounds_all_along(demand: Demand) -> None:
    rng = np.random.default_rng(8)
    for shape in SHAPES:
        for _ in range(8):
            instance = random_instance(rng, shape, load=0.7)
            best = price(instance, demand).dual_value
            problem = pair_problem(instance, demand)
            bounds = []
            for last in (HOT, COLD):
                search = Search(problem, Stop())
                prices, spread = first_prices(problem)
                tau = descend(search, prices, HOT * spread, last * spread)
                assert search.dual_value * problem.unit >= best * (1 - 1e-12)
                bounds.append(search.dual_value * problem.unit / best)
            assert tau == pytest.approx(COLD * spread)
            assert bounds[1] <= min(bounds[0], 1 + 2e-3)


@pytest.mark.parametrize("demand", [FULL, AT_MOST])
def test_rounded_rates_become_feasible_rates(demand: Demand) -> None:
    """Exactly feasible, below the optimum, and near it at a low temperature."""
    rng = np.random.default_rng(9)
    found = 0
    for shape in (Shape(types=8, servers=20), Shape(types=8, servers=20, forbidden=True)):
        for _ in range(10):
            instance = random_instance(rng, shape, load=0.5)
            problem = pair_problem(instance, demand)
            search = Search(problem, Stop())
            prices, spread = first_prices(problem)
            tau = descend(search, prices, HOT * spread, 1e-3 * spread)
            rates = rounded_rates(problem, search.rounding[:2], tau)
            if not offer_feasible(search, *rates):
                continue
            found += 1
            best = price(instance, demand).value
            assert search.value * problem.unit <= best * (1 + 1e-9)
            assert search.value * problem.unit >= best * 0.7
            served = served_by(problem, search.columns, search.rate)
            asked = problem.market.demand
            assert np.all(served <= asked * (1 + 1e-9))
            assert demand.at_most or served == pytest.approx(asked, rel=1e-9)
            work = problem.market.arrival_rate * problem.pairs.mean
            busy = np.bincount(
                search.columns.server,
                weights=work[search.columns.pairs.task_type] * search.rate,
                minlength=problem.n_servers,
            )
            assert np.all(search.rate <= 1.0 - busy[search.columns.server] + 1e-12)
            assert np.all(search.rate >= 0.0)
    assert found >= 15


def least_room(pairs: Pairs, work: np.ndarray, y: np.ndarray) -> float:
    """The least phi - y if every server serves type v at y_v."""
    listed = naive_arms.pair_list(pairs)
    busy = [
        sum(work[p.task_type] * y[p.task_type] for p in listed if p.server == r)
        for r in range(len(pairs.start) - 1)
    ]
    return float(min(1.0 - busy[p.server] - y[p.task_type] for p in listed))


def test_the_room_for_a_mixture() -> None:
    """At eta everything is feasible, a little above it is not."""
    rng = np.random.default_rng(10)
    bounded = 0
    for _ in range(50):
        pairs, market = random_pairs(rng)
        if len(pairs.reward) == 0:
            continue
        rate = market.arrival_rate
        alike, more = rng.random(len(rate)) * 0.3, rng.random(len(rate)) * 0.1
        eta = mixing_room(pairs, rate, alike, more)

        def least_room(
            at: float,
            pairs: Pairs = pairs,
            rate: np.ndarray = rate,
            both: tuple[np.ndarray, np.ndarray] = (alike, more),
        ) -> float:
            y = both[0] + at * both[1]
            listed = naive_arms.pair_list(pairs)
            busy = [
                sum(rate[p.task_type] * p.mean * y[p.task_type] for p in listed if p.server == r)
                for r in range(len(pairs.start) - 1)
            ]
            return min(1.0 - busy[p.server] - y[p.task_type] for p in listed)

        if eta < 0.0:
            assert least_room(0.0) < 0.0
        else:
            bounded += 1
            assert least_room(eta) == pytest.approx(0.0, abs=1e-12)
    assert bounded > 10


@pytest.mark.parametrize("n", [1, 2, 3, 5, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
def test_cholesky(n: int) -> None:
    """Against numpy, on entries of very different size."""
    rng = np.random.default_rng(n)
    root = rng.random((n, n))
    unit = root @ root.T + n * np.eye(n)
    size = 10.0 ** rng.uniform(-5, 5, n)
    matrix = unit * size[:, None] * size
    a, scale = np.tril(matrix), np.empty(n)
    assert factor(a, scale, 0.0) == -1
    x = rng.random(n) * size
    right = x.copy()
    solve(a, scale, x)
    assert x == pytest.approx(np.linalg.solve(unit, right / size) / size, rel=1e-9)
    left = right.copy()
    subtract_product(np.tril(matrix), x, left)
    assert np.abs(left / size).max() <= 1e-9 * np.abs(right / size).max()


def test_cholesky_tells_where_a_matrix_is_not_positive_definite() -> None:
    matrix = np.eye(40)
    matrix[35, 34] = 2.0
    assert factor(matrix, np.empty(40), 0.0) == 35
    assert factor(np.diag([1.0, 0.0]), np.empty(2), 0.0) == 1


def test_the_order_of_elimination_leaves_a_hub_for_last() -> None:
    """A star has no fill if its hub comes last; two stars with a bridge likewise."""
    lists = [[0, v] for v in range(1, 8)] + [[8, v] for v in range(9, 15)] + [[0, 8]]
    start = np.arange(len(lists) + 1) * 2
    order = elimination_order(start, np.array(lists, dtype=np.uint32).ravel(), 15)
    assert sorted(order.tolist()) == list(range(15))
    assert fill(lists, order) == 0
    assert fill(lists, np.arange(15)) > 0


def fill(lists: list[list[int]], order: np.ndarray) -> int:
    """Pairs that become joined when unknowns are eliminated in this order."""
    joined = {frozenset(pair) for pair in lists}
    before = len(joined)
    for place, v in enumerate(order.tolist()):
        later = [w for w in order[place + 1 :].tolist() if frozenset((v, w)) in joined]
        joined |= {frozenset((a, b)) for a in later for b in later if a < b}
    return len(joined) - before


def test_the_order_of_elimination_on_random_lists() -> None:
    rng = np.random.default_rng(12)
    for _ in range(10):
        lists = [sorted(rng.choice(80, 2, replace=False).tolist()) for _ in range(110)]
        start = np.arange(len(lists) + 1) * 2
        order = elimination_order(start, np.array(lists, dtype=np.uint32).ravel(), 80)
        assert sorted(order.tolist()) == list(range(80))
        assert fill(lists, order) < 0.6 * fill(lists, np.arange(80))
    whole = np.arange(9, dtype=np.uint32)
    assert elimination_order(np.array([0, 9]), whole, 9).tolist() == list(range(9))


def test_skipped_rows_change_nothing() -> None:
    """A matrix with few entries, in the order that keeps them few, against numpy."""
    rng = np.random.default_rng(13)
    matrix = np.eye(150) * 6.0
    for _ in range(200):
        a, b = rng.integers(0, 150, 2)
        matrix[a, b] = matrix[b, a] = matrix[a, b] + 0.5 * (a != b)
    kept, scale = np.tril(matrix), np.empty(150)
    assert factor(kept, scale, 0.0) == -1
    x = rng.random(150)
    expected = np.linalg.solve(matrix, x)
    solve(kept, scale, x)
    assert x == pytest.approx(expected, rel=1e-9)


def test_prices_of_a_single_server_by_hand() -> None:
    """V=1, R=2 of ``lag.md`` section 2 at its optimal price."""
    reward, mean = np.array([1.0, 0.5]), np.array([2.0])
    pairs = Pairs(np.array([0, 1, 2]), np.zeros(2, dtype=np.uint32), reward, mean)
    market = Market(np.array([0.1]), np.ones(1), np.ones(2))
    q, served = np.zeros(2), np.zeros(1)
    total = arm_values(pairs, market, np.array([0.5]), q, served)
    assert q == pytest.approx([0.05 / 1.2, 0.0])
    assert total + 0.1 * 0.5 == pytest.approx(0.0916667, abs=5e-8)


def test_capacity_prices_do_not_depend_on_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = random_instance(np.random.default_rng(11), Shape(types=6, servers=9))
    prices = np.linspace(-0.5, 0.5, instance.n_types)
    whole = capacity_price(instance, prices)
    monkeypatch.setattr("opportune.pricing.certificate.BLOCK", 2 * instance.n_types)
    assert capacity_price(instance, prices).tobytes() == whole.tobytes()
