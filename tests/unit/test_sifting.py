"""The barrier over pairs, and sifting: directions, centers, columns, merging, recovery."""

from __future__ import annotations

import math

import numpy as np
import pytest

from opportune.kernels.barrier import Aim, Interior, assemble, center, correct, move, products
from opportune.kernels.barrier import recover as recover_step
from opportune.kernels.cholesky import factor, solve
from opportune.model.duration import Deterministic, Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.pricing.certificate import capacity_price, index
from opportune.pricing.demand import AT_MOST, FULL, Demand
from opportune.pricing.dual import COLD, HOT, descend, first_prices
from opportune.pricing.interior import find_center
from opportune.pricing.occupancy import price
from opportune.pricing.pairs import (
    PairProblem,
    all_columns,
    columns_at,
    expand,
    merge_equal,
    near_columns,
    pair_problem,
)
from opportune.pricing.recovery import offer_feasible, served_by
from opportune.pricing.search import Search, Stop
from opportune.pricing.sifting import choose_columns, sift
from tests import naive_arms
from tests.instances import Shape, random_instance
from tests.unit.test_dual import random_pairs

DEMANDS = [FULL, Demand(0.25), AT_MOST]


def random_point(rng: np.random.Generator, pairs: naive_arms.Pairs, loose: bool) -> Interior:
    """Everything positive, nothing on any path."""
    n, n_servers = len(pairs.reward), len(pairs.start) - 1
    n_types = int(pairs.task_type.max()) + 1
    free = 0.5 + rng.random(n_servers)
    server = np.repeat(np.arange(n_servers), np.diff(pairs.start))
    rate = free[server] * (0.1 + 0.8 * rng.random(n))
    return Interior(
        rng.random(n_types) + 0.1,
        rng.random(n_types if loose else 0) + 0.1,
        rng.random(n_servers) * 0.1,
        free,
        rate,
        free[server] - rate,
        rng.random(n) + 0.05,
        rng.random(n) + 0.05,
    )


def blank(point: Interior) -> Interior:
    return Interior(*(np.zeros_like(part) for part in point))


@pytest.mark.parametrize("loose", [False, True])
@pytest.mark.parametrize("kind", ["sparse", "wide"])
def test_the_direction_is_newtons_on_all_equations_at_once(loose: bool, kind: str) -> None:
    """The elimination to V equations against one dense system in all unknowns."""
    rng = np.random.default_rng(21)
    tried = 0
    while tried < 12:
        sparse = kind == "sparse"  # few types a server: the other way to add up the matrix
        pairs, market = random_pairs(rng, *(((14, 25), 0.15) if sparse else ()))
        n_types = len(market.demand)
        if len(set(pairs.task_type.tolist())) < n_types:
            continue  # a type without pairs has no equation
        if sparse != (3 * int(np.diff(pairs.start).max()) < n_types):
            continue
        tried += 1
        point = random_point(rng, pairs, loose)
        n = len(pairs.reward)
        loosened = rng.normal(0.0, 1e-3, n_types if loose else 0)
        part = 0.5 + rng.random(n_types)
        aim = Aim(0.01, part, rng.normal(0.0, 1e-3, n), rng.normal(0.0, 1e-3, n), loosened)
        H, right, sums = (
            np.empty((n_types, n_types)),
            np.empty(n_types),
            np.empty((len(point.free), 5)),
        )
        assemble(pairs, market, point, aim, (H, right, sums), True)
        step, scale = blank(point), np.empty(n_types)
        assert factor(H, scale, 0.0) == -1
        step.price[:] = right
        solve(H, scale, step.price)
        longest = recover_step(pairs, market, point, aim, sums, step)
        twin = naive_arms.newton_direction(pairs, market, point, aim)
        for name, expected in twin.items():
            assert getattr(step, name) == pytest.approx(expected, rel=1e-7, abs=1e-9), name
        server = np.repeat(np.arange(len(point.free)), np.diff(pairs.start))
        assert step.rest == pytest.approx(step.free[server] - step.rate, abs=1e-12)
        positive = (point.slack, point.rate, point.rest), (point.low, point.high)
        steps = (step.slack, step.rate, step.rest), (step.low, step.high)
        for side, (values, changes) in enumerate(zip(positive, steps, strict=True)):
            whole, change = np.concatenate(values), np.concatenate(changes)
            if side == 1 and loose:
                whole, change = np.append(whole, point.price), np.append(change, step.price)
            falls = change < 0
            expected = float(np.min(-whole[falls] / change[falls])) if falls.any() else 1e30
            assert longest[side] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("loose", [False, True])
def test_the_start_has_the_products_asked_for(loose: bool) -> None:
    rng = np.random.default_rng(22)
    for _ in range(20):
        pairs, market = random_pairs(rng)
        if len(pairs.reward) == 0:
            continue
        point = random_point(rng, pairs, False)
        n_types = len(market.demand)
        point = point._replace(
            price=rng.normal(0.3, 0.5, n_types), slack=np.zeros(n_types if loose else 0)
        )
        part = 0.5 + rng.random(n_types)
        center(pairs, market, point, 1e-3, part)
        product = 1e-3 * part[pairs.task_type]
        assert point.low * point.rate == pytest.approx(product)
        assert point.high * point.rest == pytest.approx(product)
        loosely = point.slack * point.price[: len(point.slack)]
        assert loosely == pytest.approx(1e-3 * part[: len(point.slack)])
        server = np.repeat(np.arange(len(point.free)), np.diff(pairs.start))
        level = (
            pairs.reward
            - point.price[pairs.task_type]
            - market.mean_duration[pairs.task_type] * point.capacity[server]
        )
        assert point.high - point.low == pytest.approx(level, abs=1e-5 / point.free.min())
        assert point.rate + point.rest == pytest.approx(point.free[server])
        work = (market.arrival_rate * market.mean_duration)[pairs.task_type] * point.rate
        busy = np.bincount(server, weights=work, minlength=len(point.free))
        assert point.free + busy == pytest.approx(np.ones(len(busy)), abs=1e-4)


def test_products_corrections_and_moves() -> None:
    rng = np.random.default_rng(23)
    pairs, market = random_pairs(rng)
    point, step = random_point(rng, pairs, True), random_point(rng, pairs, True)
    rate = market.arrival_rate[: len(point.price)]
    market = market._replace(arrival_rate=rate)
    server = np.repeat(np.arange(len(point.free)), np.diff(pairs.start))
    weight = rate[pairs.task_type] * market.copies[server]

    def total(a: float, b: float) -> float:
        y, z = point.rate + a * step.rate, point.rest + a * step.rest
        low, high = point.low + b * step.low, point.high + b * step.high
        slack = (point.slack + a * step.slack) * (point.price + b * step.price)
        return float(weight @ (low * y + high * z) + rate @ slack)

    assert products(pairs, market, point, step, (0.3, 0.6)) == pytest.approx(total(0.3, 0.6))
    after = total(0.3, 0.6)
    part = 0.5 + rng.random(len(rate))
    aim = Aim(0.0, part, *(np.zeros_like(one) for one in (point.low, point.high, point.slack)))
    correct(pairs, step, aim, 0.2)
    cut = 0.2 * part[pairs.task_type]
    assert aim.low == pytest.approx(np.clip(step.low * step.rate, -cut, cut))
    assert aim.high == pytest.approx(np.clip(step.high * step.rest, -cut, cut))
    cut = 0.2 * part
    assert aim.slack == pytest.approx(np.clip(step.price * step.slack, -cut, cut))
    move(point, step, (0.3, 0.6))
    assert products(pairs, market, point, blank(point), (1.0, 1.0)) == pytest.approx(after)


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
