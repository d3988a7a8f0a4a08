"""Every gear gives the LP's value with a certificate, on anything; stops; restarts; scales."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from opportune.errors import InputError, OverloadError, SolverError
from opportune.model.catalog import catalog_instance
from opportune.model.duration import Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.policies.loss.lag import Lag
from opportune.pricing import gears, occupancy, shortfall
from opportune.pricing.certificate import dual_value
from opportune.pricing.demand import AT_MOST, FULL, Demand
from opportune.pricing.feasibility import feasibility, max_load
from opportune.pricing.gears import BARRIER, DUAL, FULL_LP, SIFTING, Certified, certified_prices
from opportune.pricing.lp import solve
from opportune.pricing.occupancy import price
from opportune.pricing.pairs import pair_problem
from opportune.pricing.program import occupancy_program
from opportune.pricing.search import Search, Stop
from tests.instances import Shape, random_instance

KINDS = ("smooth", "levels", "rank one", "clusters", "narrow", "skewed")
EDGES = (0.1, 0.5, 0.9, 0.99, 0.9999, 1 - 1e-6)
"""Shares of the last feasible load."""


def any_instance(rng: np.random.Generator, kind: str) -> LossInstance | None:
    """Up to 20 types and 30 servers; rare types, forbidden pairs, k and duration by type."""
    n_types, n_servers = int(rng.integers(1, 21)), int(rng.integers(2, 31))
    size, most = (n_types, n_servers), int(rng.integers(1, min(4, n_servers)))
    rate = (rng.random(n_types) + 0.01) / n_types / 2
    if rng.random() < 0.3:
        rate[rng.random(n_types) < 0.3] *= 1e-9 / rate.max()
    k = [most] * n_types
    if rng.random() < 0.3:
        k = [int(x) for x in rng.integers(1, most + 1, n_types)]
    means = 1.0 + 60.0 * rng.random(n_types if rng.random() < 0.4 else 1)
    allowed = np.ones(size, dtype=bool)
    if rng.random() < 0.4:
        allowed = rng.random(size) < float(rng.choice([0.3, 0.6, 0.9]))
        for v in range(n_types):
            missing = min(k[v] + 1, n_servers) - int(allowed[v].sum())
            if missing > 0:
                allowed[v, rng.permutation(np.flatnonzero(~allowed[v]))[:missing]] = True
    durations = [Geometric(float(mean)) for mean in means]
    instance = loss_instance(
        scores(rng, kind, size),
        rate,
        durations if len(durations) == n_types else durations[0],
        k,
        allowed=allowed,
    )
    limit = max_load(instance)
    try:
        return instance.with_load(limit * float(rng.choice(EDGES))) if limit > 0 else None
    except InputError:  # more than one arrival a step
        return instance if instance.load < 0.999 * limit else None


def scores(rng: np.random.Generator, kind: str, size: tuple[int, int]) -> np.ndarray:
    """Match rewards of a kind."""
    smooth = rng.random(size)
    if kind == "levels":
        return np.floor(smooth * 4) / 3
    if kind == "rank one":
        return np.outer(smooth[:, 0], smooth[0])
    if kind == "clusters":
        table = rng.random((4, 4))
        return table[rng.integers(0, 4, size[0])][:, rng.integers(0, 4, size[1])]
    if kind == "narrow":
        return 0.9 + 0.1 * smooth
    return smooth**8 if kind == "skewed" else smooth


def value_by_highs(instance: LossInstance, demand: Demand) -> float | None:
    """The whole LP by HiGHS; None where it says that there is no solution."""
    program = occupancy_program(instance, demand)
    try:
        return solve(program.linear, "the whole LP").value * program.unit
    except SolverError:
        return None


def rates_of(instance: LossInstance, found: Certified) -> np.ndarray:
    """(V, R) u."""
    rates = np.zeros_like(instance.match_reward)
    rates[found.pair_type, found.pair_server] = (
        instance.arrival_rate[found.pair_type] * found.weight
    )
    return rates


def assert_feasible(instance: LossInstance, demand: Demand, found: Certified) -> None:
    """(2) to (4) of the LP, and that value and dual value are what they are called."""
    u = rates_of(instance, found)
    phi = 1.0 - instance.mean_duration @ u
    want = demand.servers_per_arrival(instance)
    served = u.sum(axis=1) / instance.arrival_rate
    assert np.all(served <= want + 1e-8)
    assert demand.at_most or np.all(served >= want - 1e-8)
    assert np.all(u <= instance.arrival_rate[:, None] * (phi + 1e-9))
    assert np.all(u[~instance.allowed] == 0.0)
    assert found.value == pytest.approx(float(np.sum(instance.match_reward * u)), rel=1e-9)
    bound = dual_value(instance, demand, found.demand_price)
    assert found.dual_value == pytest.approx(bound, rel=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_the_value_is_that_of_highs_on_300_instances(kind: str) -> None:
    """Fifty of each kind; sifting and barrier to 1e-8, with feasible rates and Lemma B.1."""
    rng = np.random.default_rng(41)
    done, rare, forbidden, edge = 0, 0, 0, 0
    while done < 50:
        instance = any_instance(rng, kind)
        demand = (FULL, AT_MOST, Demand(0.1))[done % 3]
        best = None if instance is None else value_by_highs(instance, demand)
        if instance is None or best is None:
            continue
        done += 1
        rare += bool(instance.arrival_rate.min() < 1e-6 * instance.arrival_rate.max())
        forbidden += instance.has_forbidden_pairs
        edge += bool(demand == FULL and instance.load > 0.999 * max_load(instance))
        for gear in (SIFTING, BARRIER):
            found = certified_prices(instance, demand, gear=gear)
            assert found.value == pytest.approx(best, rel=1e-8)
            assert found.dual_value == pytest.approx(best, rel=1e-8)
            assert found.gap <= 1e-9
            assert found.ended == "gap"
            assert_feasible(instance, demand, found)
        prices = price(instance, demand, gear=SIFTING)
        assert prices.residuals.worst <= 1e-8
        assert prices.gap <= 1e-8
    assert min(rare, forbidden, edge) >= 3


@pytest.mark.parametrize("demand", [FULL, Demand(0.2), AT_MOST])
def test_all_gears_agree(demand: Demand) -> None:
    instance = catalog_instance("specialist-v1", 0.7)
    best = certified_prices(instance, demand, gear=FULL_LP)
    for gear in (SIFTING, BARRIER, DUAL):
        found = certified_prices(instance, demand, gear=gear)
        assert found.gear in (gear, BARRIER)  # few pairs: all of them are near
        assert found.dual_value >= best.value * (1 - 1e-12)
        assert found.value <= best.dual_value * (1 + 1e-12)
        assert_feasible(instance, demand, found)
        if gear != DUAL:
            assert found.gap <= 1e-9


def test_the_gear_goes_by_size_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = random_instance(np.random.default_rng(42), Shape(types=6, servers=9), load=0.5)
    small = certified_prices(instance)
    assert small.gear == FULL_LP
    assert small.solver.startswith("highs ")
    assert small.memory > 2**20
    monkeypatch.setattr(gears, "SMALL", 0)
    large = certified_prices(instance)
    assert large.gear in (SIFTING, BARRIER)
    assert "pairs" in large.solver
    assert large.value == pytest.approx(small.value, rel=1e-9)
    assert price(instance).solver == large.solver
    with pytest.raises(InputError, match=r"gear.*one of auto, full-lp"):
        certified_prices(instance, gear="simplex")


def large_instance(seed: int = 43, kind: str = "smooth") -> LossInstance:
    """Large enough for gears: 60 x 150, k = 2, load 0.7."""
    rng = np.random.default_rng(seed)
    rate = (rng.random(60) + 0.2) / 1000
    return loss_instance(scores(rng, kind, (60, 150)), rate, Geometric(150), 2).with_load(0.7)


def test_a_loose_gap_ends_early_with_a_certified_pair() -> None:
    instance = large_instance()
    best = certified_prices(instance)
    for gap in (0.1, 1e-2, 1e-3):
        found = certified_prices(instance, stop=Stop(gap=gap))
        assert found.gap <= gap
        assert found.ended == "gap"
        assert found.dual_value >= best.value * (1 - 1e-12)
        assert found.value <= best.value * (1 + 1e-12)
        assert_feasible(instance, FULL, found)
    assert certified_prices(instance, stop=Stop(gap=0.1)).gear == DUAL


def test_no_time_at_all_still_gives_a_certified_pair() -> None:
    instance = large_instance()
    best = certified_prices(instance)
    found = certified_prices(instance, stop=Stop(seconds=0.0))
    assert (found.ended, found.gear) == ("time", DUAL)
    assert found.dual_value >= best.value
    assert 0.5 * best.value <= found.value <= best.value
    assert_feasible(instance, FULL, found)
    prices = price(instance, stop=Stop(seconds=0.0))
    assert prices.gap == pytest.approx(found.gap, rel=0.5)
    assert prices.dual_value >= best.value
    assert prices.residuals.demand <= 1e-9


@pytest.mark.parametrize("after", [1, 4, 8])
def test_an_interrupt_returns_the_best_so_far(after: int) -> None:
    told: list[float] = []

    def progress(gap: float, text: str) -> None:
        told.append(gap)
        if len(told) == after:
            raise KeyboardInterrupt

    instance = large_instance()
    best = certified_prices(instance)
    found = certified_prices(instance, stop=Stop(progress=progress))
    assert found.ended == "interrupt"
    assert len(told) == after
    assert found.dual_value >= best.value * (1 - 1e-12)
    assert found.value <= best.value * (1 + 1e-12)
    assert found.gap < 1.0
    assert_feasible(instance, FULL, found)


def test_price_passes_an_interrupt_on_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(gears, "sift", interrupt)
    with pytest.raises(KeyboardInterrupt):
        price(large_instance())
    prices = price(large_instance(), stop=Stop())
    assert 1e-9 < prices.gap < 1.0
    assert prices.residuals.demand <= 1e-9


def test_an_interrupt_before_the_first_prices_is_an_interrupt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(gears, "first_prices", interrupt)
    with pytest.raises(KeyboardInterrupt):
        certified_prices(large_instance())


def test_progress_tells_the_gap_and_what_is_done() -> None:
    told: list[tuple[float, str]] = []
    certified_prices(large_instance(), stop=Stop(progress=lambda *one: told.append(one)))
    gaps = [gap for gap, _ in told]
    assert gaps[0] == math.inf
    assert gaps[-1] <= 1e-9
    assert gaps == sorted(gaps, reverse=True)
    assert told[0][1].startswith("dual: bound ")
    assert any(text.startswith("sifting: step ") for _, text in told)


@pytest.mark.parametrize("value", [-1.0, math.nan, "1", True])
def test_a_stop_is_checked(value: object) -> None:
    with pytest.raises(InputError, match=r"stop\.gap.*at least 0"):
        Stop(gap=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("factor", [1e-9, 1e-3, 1e12])
@pytest.mark.parametrize("kind", ["smooth", "rank one", "levels"])
def test_the_unit_of_reward_changes_no_order(kind: str, factor: float) -> None:
    instance = large_instance(kind=kind)
    scaled = replace(instance, match_reward=instance.match_reward * factor)
    one, other = price(instance), price(scaled)
    assert other.value == pytest.approx(factor * one.value, rel=1e-10)
    plans = [Lag().plan(p.instance, p).tables for p in (one, other)]
    assert np.array_equal(plans[0].order, plans[1].order)
    assert np.array_equal(plans[0].level, plans[1].level)


def test_the_same_bits_with_one_and_two_threads() -> None:
    """The library that adds up matrices may use both cores; no result depends on it."""
    program = (
        "import hashlib\n"
        "from opportune.pricing.occupancy import price\n"
        "from tests.unit.test_gears import large_instance\n"
        "p = price(large_instance())\n"
        "parts = p.assignment_rate, p.demand_price, p.capacity_price, p.index, p.free_fraction\n"
        "print(hashlib.sha256(b''.join(part.tobytes() for part in parts)).hexdigest())\n"
    )
    digests = set()
    for threads in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(done.stdout)
    assert len(digests) == 1


@pytest.mark.parametrize("kind", ["smooth", "levels", "rank one"])
def test_the_same_bits_every_time(kind: str) -> None:
    first, second = (price(large_instance(kind=kind)) for _ in range(2))
    for name in ("assignment_rate", "demand_price", "capacity_price", "index", "free_fraction"):
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes()


def test_equal_servers_and_types_get_equal_prices_and_rates() -> None:
    instance = large_instance(kind="levels")
    reward = np.repeat(instance.match_reward[:, :75], 2, axis=1)
    reward[1::2] = reward[::2]
    rate = np.repeat(instance.arrival_rate[::2], 2)
    twins = replace(instance, match_reward=reward, arrival_rate=rate).with_load(0.6)
    prices = price(twins)
    assert prices.gap <= 1e-9
    assert prices.demand_price[::2].tobytes() == prices.demand_price[1::2].tobytes()
    assert prices.capacity_price[::2].tobytes() == prices.capacity_price[1::2].tobytes()
    weight = prices.tie_weight
    assert weight[:, ::2] == pytest.approx(weight[:, 1::2], abs=1e-10)
    assert weight[::2] == pytest.approx(weight[1::2], abs=1e-10)


def test_pairs_alone_are_enough() -> None:
    """1 % of 400 x 1,000 pairs permitted: 4,000 pairs are kept, not 400,000."""
    rng = np.random.default_rng(46)
    allowed = rng.random((400, 1000)) < 0.01
    allowed[:, :3] = True
    rate = (rng.random(400) + 0.5) / 2000
    instance = loss_instance(rng.random((400, 1000)), rate, Geometric(80), 1, allowed=allowed)
    problem = pair_problem(instance, AT_MOST)
    assert problem.n_pairs <= int(allowed.sum())
    search = Search(problem, Stop())
    assert gears.run(search) == "gap"
    best = value_by_highs(instance, AT_MOST)
    assert search.value * problem.unit == pytest.approx(best, rel=1e-8)


@pytest.fixture
def no_small_instances(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything counts as too large for HiGHS."""
    for module in (gears, occupancy, shortfall):
        monkeypatch.setattr(module, "SMALL", 0)


@pytest.mark.usefixtures("no_small_instances")
def test_feasibility_with_forbidden_pairs_without_highs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest load, and which types fall short above it."""
    rng = np.random.default_rng(47)
    for _ in range(12):
        instance = random_instance(rng, Shape(types=6, servers=9, forbidden=True))
        limit = max_load(instance)
        monkeypatch.setattr(shortfall, "SMALL", 10**9)
        assert limit == pytest.approx(max_load(instance), rel=1e-7)
        monkeypatch.setattr(shortfall, "SMALL", 0)
        below = replace(
            instance, arrival_rate=instance.arrival_rate * (0.9 * limit / instance.load)
        )
        assert price(below).gap <= 1e-9
        above = (
            replace(
                instance,
                arrival_rate=instance.arrival_rate * min(1.05 * limit / instance.load, 5.0),
            )
            if instance.arrival_rate.sum() * 1.05 * limit / instance.load < 1
            else None
        )
        if above is not None and above.load > limit:
            assert not feasibility(above).feasible
            with pytest.raises(OverloadError):
                price(above)


@pytest.mark.usefixtures("no_small_instances")
def test_nothing_asked_and_nothing_to_earn() -> None:
    instance = loss_instance([[1.0, 0.5], [0.3, 0.2]], [0.1, 0.1], Geometric(4))
    prices = price(instance, Demand(1.0))
    assert (prices.value, prices.dual_value, prices.gap) == (0.0, 0.0, 0.0)
    assert np.all(prices.assignment_rate == 0.0)
    half = price(instance, Demand((0.0, 1.0)))
    alone = price(loss_instance([[1.0, 0.5]], [0.1], Geometric(4)))
    assert half.value == pytest.approx(alone.value, rel=1e-9)
    free = price(loss_instance(np.zeros((3, 5)), [0.1] * 3, Geometric(2)))
    assert (free.value, free.dual_value, free.gap) == (0.0, 0.0, 0.0)
    assert free.assignment_rate.sum(axis=1) == pytest.approx([0.1] * 3)


def test_overload_is_proven_by_a_dual_value_below_zero() -> None:
    instance = loss_instance(np.ones((2, 3)), [0.2, 0.2], Geometric(9))
    with pytest.raises(SolverError, match=r"Infeasible.*dual value is below 0"):
        certified_prices(instance, gear=SIFTING)
