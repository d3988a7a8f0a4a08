"""The barrier over pairs, and sifting: directions, centers, columns, merging, recovery."""

from __future__ import annotations

import math

import numpy as np
import pytest

from opportune.errors import SolverError
from opportune.kernels.barrier import (
    Aim,
    Interior,
    Program,
    assemble,
    center,
    correct,
    products,
)
from opportune.kernels.barrier import recover as recover_step
from opportune.kernels.cholesky import factor, solve
from opportune.model.duration import Deterministic, Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.pricing.certificate import capacity_price, index
from opportune.pricing.demand import AT_MOST, FULL, Demand
from opportune.pricing.dual import COLD, HOT, descend, first_prices
from opportune.pricing.gears import certified_prices
from opportune.pricing.interior import find_center, move
from opportune.pricing.least_squares import least_squares_weights
from opportune.pricing.occupancy import price
from opportune.pricing.pairs import (
    PairProblem,
    all_columns,
    columns_at,
    expand,
    merge_equal,
    near_columns,
    pair_means,
    pair_problem,
)
from opportune.pricing.recovery import offer_feasible, served_by
from opportune.pricing.search import Search, Stop
from opportune.pricing.sifting import choose_columns, sift
from tests import naive_arms
from tests.instances import Shape, random_instance
from tests.unit.test_dual import random_pairs

DEMANDS = [FULL, Demand(0.25), AT_MOST]


def random_point(rng: np.random.Generator, program: Program) -> Interior:
    """Everything positive, nothing on any path; fixed pairs and tight types as they must be."""
    pairs, n_types = program.pairs, len(program.market.demand)
    n, n_servers = len(pairs.reward), len(pairs.start) - 1
    free = 0.5 + rng.random(n_servers)
    server = np.repeat(np.arange(n_servers), np.diff(pairs.start))
    fixed = program.fixed
    rate = np.where(fixed, free[server], free[server] * (0.1 + 0.8 * rng.random(n)))
    return Interior(
        rng.random(n_types) + 0.1,
        np.where(program.loose, rng.random(n_types) + 0.1, 0.0),
        rng.random(n_servers) * 0.1,
        free,
        rate,
        free[server] - rate,
        np.where(fixed, 0.0, rng.random(n) + 0.05),
        np.where(fixed, 0.0, rng.random(n) + 0.05),
    )


def random_program(
    rng: np.random.Generator, kind: str, size: tuple[int, int] = (5, 5), share: float = 0.7
) -> Program:
    """``plain``, ``at most``, or ``squares``: curved, with fixed pairs and some loose types."""
    while True:
        pairs, market = random_pairs(rng, size, share)
        if len(set(pairs.task_type.tolist())) == len(market.demand):  # each type has pairs
            break
    n, n_types = len(pairs.reward), len(market.demand)
    if kind != "squares":
        loose = np.full(n_types, kind == "at most")
        return Program(pairs, market, np.zeros(n_types), np.zeros(n, dtype=bool), loose)
    fixed = rng.random(n) < 0.3
    fixed[np.unique(pairs.task_type, return_index=True)[1]] = False  # one pair each to choose
    return Program(pairs, market, rng.random(n_types), fixed, rng.random(n_types) < 0.4)


def blank(point: Interior) -> Interior:
    return Interior(*(np.zeros_like(part) for part in point))


@pytest.mark.parametrize("kind", ["plain", "at most", "squares"])
@pytest.mark.parametrize("size", [(5, 5), (14, 25)], ids=["wide", "sparse"])
def test_the_direction_is_newtons_on_all_equations_at_once(
    kind: str, size: tuple[int, int]
) -> None:
    """The elimination to V equations against one dense system in all unknowns."""
    rng = np.random.default_rng(21)
    tried = 0
    while tried < 12:
        program = random_program(rng, kind, size, 0.7 if size == (5, 5) else 0.15)
        pairs, n_types = program.pairs, len(program.market.demand)
        few = 3 * int(np.diff(pairs.start).max()) < n_types  # another way to add up the matrix
        if few != (size == (14, 25)):
            continue
        tried += 1
        point, n = random_point(rng, program), len(pairs.reward)
        aside = [rng.normal(0.0, 1e-3, n) * ~program.fixed for _ in range(2)]
        part = 0.5 + rng.random(n_types)
        aim = Aim(0.01, part, *aside, rng.normal(0.0, 1e-3, n_types) * program.loose)
        system = (np.empty((n_types, n_types)), np.empty(n_types), np.empty((len(point.free), 5)))
        assemble(program, point, aim, system, True)
        step, scale = blank(point), np.empty(n_types)
        assert factor(system[0], scale, 0.0) == -1
        step.price[:] = system[1]
        solve(system[0], scale, step.price)
        longest = recover_step(program, point, aim, system[2], step)
        twin = naive_arms.newton_direction(program, point, aim)
        for name, expected in twin.items():
            ours, shown = getattr(step, name), np.ones(len(expected), dtype=bool)
            if name in ("low", "high"):  # those of fixed pairs are not kept
                shown = ~program.fixed
            assert ours[shown] == pytest.approx(expected[shown], rel=1e-7, abs=1e-9), name
        server = np.repeat(np.arange(len(point.free)), np.diff(pairs.start))
        assert step.rest == pytest.approx(step.free[server] - step.rate, abs=1e-12)
        barred, loose = ~program.fixed, program.loose
        sides = (
            (
                (point.slack, step.slack, loose),
                (point.rate, step.rate, barred),
                (point.rest, step.rest, barred),
            ),
            (
                (point.price, step.price, loose),
                (point.low, step.low, barred),
                (point.high, step.high, barred),
            ),
        )
        for side, given in zip(longest, sides, strict=True):
            values = np.concatenate([value[shown] for value, _, shown in given])
            changes = np.concatenate([change[shown] for _, change, shown in given])
            falls = changes < 0
            expected = float(np.min(-values[falls] / changes[falls])) if falls.any() else 1e30
            assert side == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", ["plain", "at most", "squares"])
def test_the_start_has_the_products_asked_for(kind: str) -> None:
    rng = np.random.default_rng(22)
    for _ in range(20):
        program = random_program(rng, kind)
        pairs, market, _, fixed, loose = program
        n_types = len(market.demand)
        point = random_point(rng, program)._replace(price=rng.normal(0.3, 0.5, n_types))
        part = 0.5 + rng.random(n_types)
        center(program, point, 1e-3, part)
        product = 1e-3 * part[pairs.task_type] * ~fixed
        assert point.low * point.rate == pytest.approx(product)
        assert point.high * point.rest == pytest.approx(product)
        assert point.slack * point.price == pytest.approx(1e-3 * part * loose)
        server = np.repeat(np.arange(len(point.free)), np.diff(pairs.start))
        level = (
            pairs.reward - point.price[pairs.task_type] - pair_means(pairs) * point.capacity[server]
        )
        assert (point.high - point.low)[~fixed] == pytest.approx(
            level[~fixed], abs=1e-5 / point.free.min()
        )
        assert point.rate + point.rest == pytest.approx(point.free[server])
        work = market.arrival_rate[pairs.task_type] * pair_means(pairs) * point.rate
        busy = np.bincount(server, weights=work, minlength=len(point.free))
        assert point.free + busy == pytest.approx(np.ones(len(busy)), abs=1e-4)


def test_products_corrections_and_moves() -> None:
    rng = np.random.default_rng(23)
    program = random_program(rng, "at most")
    pairs, market = program.pairs, program.market
    point, step = random_point(rng, program), random_point(rng, program)
    rate = market.arrival_rate
    server = np.repeat(np.arange(len(point.free)), np.diff(pairs.start))
    weight = rate[pairs.task_type] * market.copies[server]

    def total(a: float, b: float) -> float:
        y, z = point.rate + a * step.rate, point.rest + a * step.rest
        low, high = point.low + b * step.low, point.high + b * step.high
        slack = (point.slack + a * step.slack) * (point.price + b * step.price)
        return float(weight @ (low * y + high * z) + rate @ slack)

    assert products(program, point, step, (0.3, 0.6)) == pytest.approx(total(0.3, 0.6))
    after = total(0.3, 0.6)
    part = 0.5 + rng.random(len(rate))
    aim = Aim(0.0, part, *(np.zeros_like(one) for one in (point.low, point.high, point.slack)))
    correct(program, step, aim, 0.2)
    cut = 0.2 * part[pairs.task_type]
    assert aim.low == pytest.approx(np.clip(step.low * step.rate, -cut, cut))
    assert aim.high == pytest.approx(np.clip(step.high * step.rest, -cut, cut))
    cut = 0.2 * part
    assert aim.slack == pytest.approx(np.clip(step.price * step.slack, -cut, cut))
    move(point, step, (0.3, 0.6))
    assert products(program, point, blank(point), (1.0, 1.0)) == pytest.approx(after)


def twins(rng: np.random.Generator, demand: Demand) -> tuple[LossInstance, PairProblem]:
    """An instance with equal servers and equal types, at half its limit."""
    base = random_instance(rng, Shape(types=4, servers=6, scores="levels", k=2))
    types, servers = rng.integers(0, base.n_types, 7), rng.integers(0, base.n_servers, 12)
    instance = loss_instance(
        base.match_reward[np.ix_(types, servers)],
        rng.random(7) / 20,
        Geometric(6),
        1,
        allowed=rng.random((base.n_types, base.n_servers))[np.ix_(types, servers)] < 2.0,
    ).with_load(0.4)
    return instance, pair_problem(instance, demand)


def test_equal_servers_and_types_are_merged_and_expanded_back() -> None:
    rng = np.random.default_rng(24)
    merged = 0
    for _ in range(20):
        instance, problem = twins(rng, FULL)
        kinds = {row.tobytes() for row in instance.match_reward}
        groups = {column.tobytes() for column in instance.match_reward.T}
        assert problem.n_types == len(kinds)
        assert problem.n_servers == len(groups)
        merged += problem.n_types < 7 and problem.n_servers < 12
        assert problem.market.copies.sum() == 12
        assert problem.market.arrival_rate.sum() == pytest.approx(instance.arrival_rate.sum())
        for v in range(7):  # numbered as they first appear
            rows = instance.match_reward
            first = next(w for w in range(7) if rows[w].tobytes() == rows[v].tobytes())
            assert problem.class_of[v] == problem.class_of[first]
        dense = np.zeros_like(instance.match_reward)
        columns = all_columns(problem)
        types, servers, weight = expand(problem, columns, 1.0 + columns.pairs.reward)
        assert len(types) == instance.match_reward.size
        dense[types, servers] = weight
        assert dense == pytest.approx(1.0 + instance.match_reward / problem.unit)
        assert merge_equal(problem) is problem
    assert merged > 10


def test_types_that_differ_in_duration_or_demand_are_not_merged() -> None:
    reward = [[1.0, 0.5, 0.2]] * 4
    duration = [Deterministic(2), Deterministic(3), Deterministic(2), Deterministic(2)]
    instance = loss_instance(reward, [0.01] * 4, duration, [1, 1, 2, 1])
    assert pair_problem(instance, FULL).class_of.tolist() == [0, 1, 2, 0]
    blocked = Demand((0.0, 0.0, 0.0, 0.1))
    assert pair_problem(instance, blocked).class_of.tolist() == [0, 1, 2, 3]
    assert pair_problem(instance, Demand((0.0, 0.0, 1.0, 0.0))).class_of.tolist() == [0, 1, -1, 0]


def test_forbidden_pairs_take_no_room() -> None:
    rng = np.random.default_rng(25)
    instance = random_instance(rng, Shape(types=6, servers=9, forbidden=True))
    problem = pair_problem(instance, FULL)
    types, servers, weight = expand(problem, all_columns(problem), np.ones(problem.n_pairs))
    allowed = np.zeros_like(instance.allowed)
    allowed[types, servers] = True
    assert np.array_equal(allowed, instance.allowed)
    assert weight.tolist() == [1.0] * int(instance.allowed.sum())


def test_columns_are_the_pairs_at_their_places() -> None:
    rng = np.random.default_rng(26)
    problem = pair_problem(random_instance(rng, Shape(types=6, servers=9)), FULL)
    place = np.sort(rng.choice(problem.n_pairs, problem.n_pairs // 2, replace=False))
    columns, server = columns_at(problem, place), all_columns(problem).server
    assert columns.server.tolist() == server[place].tolist()
    assert columns.pairs.reward.tolist() == problem.pairs.reward[place].tolist()
    everything = near_columns(problem, np.zeros(problem.n_types), np.zeros(problem.n_servers), 9.0)
    assert everything.place is None


def test_chosen_columns_can_serve_every_type() -> None:
    """However small the margin, each type has servers enough near, or all it may use."""
    rng = np.random.default_rng(27)
    for _ in range(20):
        instance = random_instance(rng, Shape(types=8, servers=30, k=3), load=0.5)
        problem = pair_problem(instance, FULL)
        prices = price(instance)
        member = [int(np.argmax(problem.class_of == c)) for c in range(problem.n_types)]
        known = prices.demand_price[member] / problem.unit, np.zeros(problem.n_servers)
        problem.dual_value(*known)
        columns = choose_columns(problem, known, 1e-12)
        if columns.place is not None:
            count = np.bincount(columns.pairs.task_type, minlength=problem.n_types)
            assert np.all(count >= problem.market.demand)


@pytest.mark.parametrize("demand", DEMANDS)
def test_the_barrier_finds_the_optimum_over_all_pairs(demand: Demand) -> None:
    rng = np.random.default_rng(28)
    for shape in (Shape(), Shape(scores="levels"), Shape(per_type=True, duration="mixed")):
        for _ in range(10):
            instance = random_instance(rng, shape, load=0.1 + 0.85 * rng.random())
            best = price(instance, demand).value
            problem = pair_problem(instance, demand)
            search, columns = Search(problem, Stop()), all_columns(problem)
            start = np.zeros(problem.n_types), np.zeros(problem.n_servers)
            found = find_center(search, columns, start, 0.1)  # from nothing
            assert found.gap <= 1e-12
            assert found.missed <= 1e-10
            assert search.offer_price(found.price, found.capacity) * problem.unit == pytest.approx(
                best, rel=1e-9
            )
            assert offer_feasible(search, columns, found.rate)
            assert search.value * problem.unit == pytest.approx(best, rel=1e-9)
            served = served_by(problem, columns, found.rate)
            assert np.all(served <= problem.market.demand + 1e-9)


def test_sifting_looks_at_few_pairs_and_is_exact() -> None:
    """Pairs left out are priced out: no index of theirs is positive."""
    rng = np.random.default_rng(29)
    reward = rng.random((40, 120))
    instance = loss_instance(reward, rng.random(40) / 100, Geometric(50), 2).with_load(0.7)
    problem = pair_problem(instance, FULL)
    search = Search(problem, Stop())
    first, spread = first_prices(problem)
    tau = descend(search, first, HOT * spread, COLD * spread)
    bound = search.dual_value
    sift(search, 40.0 * tau, tau)
    assert search.gear == "sifting"
    assert search.gap <= 1e-11
    assert len(search.columns.pairs.reward) < problem.n_pairs / 5
    assert search.dual_value <= bound
    full = problem.prices(search.price)
    level = index(instance, full, capacity_price(instance, full))
    place = np.zeros(problem.n_pairs, dtype=bool)
    place[search.columns.place] = True
    outside = level.T.ravel()[~place]  # no equal servers or types here: pairs server by server
    assert outside.max() < 1e-9


def test_too_few_columns_are_noticed() -> None:
    """A start from bad prices with a tiny margin: rounds add what is missing."""
    rng = np.random.default_rng(30)
    for shape in (Shape(types=12, servers=30), Shape(types=12, servers=30, forbidden=True)):
        for _ in range(6):
            instance = random_instance(rng, shape, load=0.6)
            best = price(instance).value
            problem = pair_problem(instance, FULL)
            search = Search(problem, Stop())
            search.offer_price(rng.random(problem.n_types), np.zeros(problem.n_servers))
            sift(search, 1e-6, 1e-3)
            assert search.gap <= 1e-9
            assert search.value * problem.unit == pytest.approx(best, rel=1e-9)


def test_an_infinite_margin_is_the_barrier_over_all_pairs() -> None:
    instance = random_instance(np.random.default_rng(31), Shape(types=6, servers=9), load=0.6)
    problem = pair_problem(instance, FULL)
    search = Search(problem, Stop())
    search.offer_price(np.zeros(problem.n_types), np.zeros(problem.n_servers))
    sift(search, math.inf, 0.01)
    assert (search.gear, search.columns.place) == ("barrier", None)
    assert search.gap <= 1e-9


@pytest.mark.parametrize("demand", DEMANDS)
def test_the_least_squares_are_those_of_another_solver(demand: Demand) -> None:
    """Rates by the barrier against PIQP, on the tie pattern of optimal prices."""
    rng = np.random.default_rng(32)
    compared = 0
    for shape in (Shape(types=8, servers=16, scores="levels"), Shape(per_type=True)):
        for _ in range(15):
            instance = random_instance(rng, shape, load=0.1 + 0.8 * rng.random())
            prices = price(instance, demand)
            slack = demand.at_most & (prices.demand_price <= 0.0)
            weight, free = least_squares_weights(instance, demand, prices.index, slack)
            assert weight == pytest.approx(prices.tie_weight, abs=1e-8)
            assert free == pytest.approx(prices.free_fraction, abs=1e-8)
            compared += bool(np.any((prices.index == 0) & (weight > 1e-6)))
    assert compared > 15


def test_least_squares_of_many_ties_where_piqp_gives_up() -> None:
    """Four levels, 7,500 ties: feasible, optimal, and no optimal vertex has a smaller sum."""
    rng = np.random.default_rng(33)
    reward, rate = np.floor(rng.random((100, 300)) * 4) / 3, (rng.random(100) + 0.5) / 1e4
    instance = loss_instance(reward, rate, Geometric(300), 1).with_load(0.7)
    prices = price(instance)
    assert int((prices.index == 0).sum()) > 5000
    assert prices.gap <= 1e-12
    assert prices.residuals.worst <= 1e-12
    other = certified_prices(instance)
    squares = float(np.sum(prices.tie_weight**2))
    assert squares <= float(np.sum(other.weight**2)) * (1 + 1e-9)
    rows = {tuple(row) for row in np.round(prices.tie_weight, 9).tolist()}
    assert len(rows) > 1


def test_least_squares_raise_where_the_signs_admit_no_rates() -> None:
    instance = loss_instance(np.ones((1, 2)), [0.5], Geometric(4))
    with pytest.raises(SolverError, match="least-squares"):
        least_squares_weights(instance, FULL, np.full((1, 2), -1.0), np.zeros(1, dtype=bool))
