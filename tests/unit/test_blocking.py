"""Blocking: exactly, by Erlang's formula, and the least at which a program can be solved."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from opportune.experiments.prices import blocking_of
from opportune.model.catalog import catalog_instance
from opportune.model.duration import Deterministic, Empirical, Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.policies.base import list_plan
from opportune.pricing import blocking
from opportune.pricing.blocking import erlang_b, exact_blocking, least_blocking
from opportune.simulate.loss import Run, simulate_plans
from tests import naive, textbook
from tests.instances import Shape, random_instance


def equal_servers(n: int, rate: float, duration: object, k: int = 1) -> LossInstance:
    """n servers of reward 1, one type."""
    return loss_instance(np.ones((1, n)), [rate], duration, k)  # type: ignore[arg-type]


@pytest.mark.parametrize(("servers", "k"), [(1, 1), (2, 1), (2, 2), (3, 2), (7, 1), (7, 2), (7, 3)])
def test_it_is_the_share_of_time_without_room(servers: int, k: int) -> None:
    for arrival, mean in ((Fraction(1, 4), 2), (Fraction(1, 64), 8), (Fraction(1), 4)):
        size = servers // k
        chain = naive.headcount_transition(size, arrival, Fraction(1, mean))
        want = float(naive.stationary(chain)[-1])
        instance = equal_servers(servers, float(arrival), Geometric(mean), k)
        assert exact_blocking(instance) == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize(("name", "want"), [("specialist-v1", 0.1330), ("priority-v1", 0.1308)])
def test_the_published_instances_at_load_08(name: str, want: float) -> None:
    """``lag.md`` section 4."""
    assert exact_blocking(catalog_instance(name, 0.8)) == pytest.approx(want, abs=5e-5)


@pytest.mark.parametrize("number", range(10))
def test_it_is_the_long_run_share_of_dropped_tasks(number: int) -> None:
    """Ten random instances, k = 1, 2, 3: 4 million steps, within 3 standard errors of 20 parts.

    By Student's law with 19 degrees a right value is this far off once in 135; the seed is fixed.
    """
    rng = np.random.default_rng(100 + number)
    k, exact = 1 + number % 3, 0.0
    while exact < 0.005:  # enough dropped tasks to count
        servers, mean = int(rng.integers(3, 13)), 2.0 + 15 * rng.random()
        rate = rng.random(3)
        instance = loss_instance(rng.random((3, servers)), rate / rate.sum(), Geometric(mean), k)
        instance = instance.with_load(min(0.3 + 0.6 * rng.random(), 0.95 * instance.load))
        exact = exact_blocking(instance) or 0.0
    plan = list_plan("x", instance, instance.match_reward, np.arange(servers))
    shares = []
    for replication in range(20):
        (trace,) = simulate_plans(instance, [plan], Run(200_000, 1_000, 1, replication))
        shares.append(trace.blocked.sum() / trace.arrived.sum())
    assert abs(np.mean(shares) - exact) < 3 * np.std(shares, ddof=1) / math.sqrt(20)


@pytest.mark.parametrize(("servers", "k"), [(4, 1), (9, 1), (9, 2), (9, 3)])
def test_erlang_b_is_approached_as_the_step_shrinks(servers: int, k: int) -> None:
    """With a step h times shorter the distance to Erlang-B falls about h times, to 1e-4."""
    distance = []
    for finer in (1, 10, 100, 1000):
        instance = equal_servers(servers, 0.4 / finer, Geometric(8.0 * finer), k)
        exact, limit = exact_blocking(instance), erlang_b(instance)
        assert exact is not None
        assert limit is not None
        distance.append(abs(exact - limit))
    ratios = [one / next_one for one, next_one in itertools.pairwise(distance)]
    assert ratios[-1] == pytest.approx(10, rel=0.02)
    assert distance[-1] < 1e-4


def test_a_certain_duration_is_another_chain() -> None:
    """D = 3 for certain: the pilot run meets the chain on the last three steps, not Geometric's."""
    instance = equal_servers(2, 0.3, Deterministic(3))
    want = naive.deterministic_blocking(2, 0.3, 3)
    got = blocking_of(instance)
    assert got.method == "simulated"
    assert abs(got.value - want) < 2 * got.half_width
    geometric = exact_blocking(equal_servers(2, 0.3, Geometric(3)))
    assert geometric is not None
    assert abs(geometric - want) > 5 * got.half_width


def test_one_step_is_memoryless() -> None:
    one_step = exact_blocking(equal_servers(1, 0.5, Deterministic(1)))
    assert one_step == exact_blocking(equal_servers(1, 0.5, Geometric(1)))
    assert one_step == pytest.approx(1 / 3)
    assert exact_blocking(equal_servers(1, 1.0, Deterministic(1))) == pytest.approx(0.5)
    assert exact_blocking(equal_servers(2, 1.0, Deterministic(1))) == 0.0  # r-simmer/simmer#67


def test_where_the_headcount_is_no_chain_there_is_none() -> None:
    two_types = np.ones((2, 3))
    rate = [0.1, 0.1]
    one = loss_instance(two_types, rate, Geometric(3))
    assert exact_blocking(one) is not None
    assert exact_blocking(loss_instance(two_types, rate, [Geometric(3), Geometric(4)])) is None
    assert exact_blocking(loss_instance(two_types, rate, Deterministic(3))) is None
    assert exact_blocking(loss_instance(two_types, rate, Empirical([2, 4], [1, 1]))) is None
    assert exact_blocking(loss_instance(two_types, rate, Geometric(3), [1, 2])) is None
    allowed = [[True, True, False], [True, True, True]]
    assert exact_blocking(loss_instance(two_types, rate, Geometric(3), allowed=allowed)) is None
    assert exact_blocking(loss_instance(two_types, [0.0, 0.0], Geometric(3))) == 0.0


def test_a_chain_that_is_too_large_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "MAX_CHAIN", 4)
    assert exact_blocking(equal_servers(4, 0.1, Geometric(3))) is not None
    assert exact_blocking(equal_servers(5, 0.1, Geometric(3))) is None
    assert exact_blocking(equal_servers(9, 0.1, Geometric(3), k=2)) is not None


def test_tiny_blocking_keeps_its_digits() -> None:
    instance = equal_servers(12, 2.0**-20, Geometric(4))
    chain = naive.headcount_transition(4, Fraction(1, 2**20), Fraction(1, 4))
    small = equal_servers(4, 2.0**-20, Geometric(4))
    assert exact_blocking(small) == pytest.approx(float(naive.stationary(chain)[-1]), rel=1e-12)
    value = exact_blocking(instance)
    assert value is not None
    assert 1e-90 < value < 1e-60


@pytest.mark.parametrize(("servers", "k"), [(1, 1), (4, 1), (9, 1), (4, 3), (9, 3)])
def test_erlang_b_is_its_formula(servers: int, k: int) -> None:
    instance = equal_servers(servers, 0.25, Geometric(14), k)
    n, offered = servers // k, 3.5
    terms = [offered**i / math.factorial(i) for i in range(n + 1)]
    assert erlang_b(instance) == pytest.approx(terms[-1] / sum(terms), rel=1e-13)


def test_erlang_b_at_the_ends() -> None:
    assert erlang_b(equal_servers(3, 0.0, Geometric(5))) == 0.0
    assert erlang_b(equal_servers(400, 1e-6, Geometric(2))) == 0.0
    assert erlang_b(loss_instance(np.ones((2, 3)), [0.1, 0.1], Geometric(2), [1, 2])) is None


def test_the_least_blocking_is_where_the_program_begins_to_have_a_solution() -> None:
    rng = np.random.default_rng(2)
    raised = 0
    for _ in range(40):
        one = random_instance(rng, Shape())
        rate = one.arrival_rate * min(1.0 / one.arrival_rate.sum(), 1.3 / one.load)
        k = int(one.servers_per_task[0])
        instance = loss_instance(one.match_reward, rate, one.duration[0], k)
        least = least_blocking(instance, 0.0)
        if least > 0.001:
            raised += 1
            assert textbook.occupancy(instance, least + 1e-6).status == 0
            assert textbook.occupancy(instance, least - 1e-4).status == 2
        else:
            assert least == 0.0 or textbook.occupancy(instance, least + 1e-6).status == 0
        assert least_blocking(instance, 0.9) == 0.9
    assert raised > 20
