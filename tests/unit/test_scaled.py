"""The (m,n)-scaled system: against its slow twin, and against the ordinary simulator."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from opportune.errors import InputError
from opportune.kernels.allocate import round_largest_remainder
from opportune.kernels.hypergeometric import Urn, hypergeometric
from opportune.kernels.scaled import PARTITION, ScaledTrace, round_state
from opportune.model.catalog import catalog_instance
from opportune.model.duration import Deterministic, Empirical
from opportune.model.loss import LossInstance, loss_instance
from opportune.model.streams import draw_block, loss_law, stream_key
from opportune.policies.base import loss_policy
from opportune.policies.waterfill import lag_tables, list_tables
from opportune.pricing.fluid import fixed_point
from opportune.pricing.occupancy import price
from opportune.simulate.loss import Run, simulate_plans
from opportune.simulate.scaled import (
    ScaledRun,
    default_copies,
    default_steps,
    scaled_warm_up,
    simulate_scaled,
)
from tests.instances import Shape, random_instance
from tests.naive_scaled import Rule, Scaled, View, random_rules, tables_of

LEVEL = 1e-4
"""Error probability of each chi-square test below, if the kernel is right (seeds are fixed)."""


def small_instance(rules: list[Rule], n_servers: int, rate: list[float]) -> LossInstance:
    """Rewards do not matter to the twin; durations of 1, 2 and 5 steps."""
    rng = np.random.default_rng(0)
    duration = Empirical(np.array([1, 2, 5]), np.array([0.5, 0.3, 0.2]))
    allowed = np.array([[index is not None for index in rule.index] for rule in rules])
    k = [rule.k for rule in rules]
    return loss_instance(rng.random((2, n_servers)), rate, duration, k, allowed=allowed)


def drawn_view(key: tuple[np.uint64, np.uint64], n: int, positions: list[int]) -> View:
    """What dispatchers see, by the kernel's draws at these positions of the stream."""

    def view(turn: int, unseen: int, free: int) -> int:
        if unseen == n:
            return free
        urn = Urn(unseen, free, n)
        return int(hypergeometric(key, PARTITION, np.uint64(positions[turn]), urn))

    return view


def twin_path(
    instance: LossInstance, rules: list[Rule], run: ScaledRun
) -> tuple[list[list[int]], Scaled]:
    """Free servers at the beginning of every step, on the kernel's own arrivals and draws."""
    key = stream_key(run.seed, run.replication)
    streams = draw_block(key, 0, loss_law(instance), 0)
    at = np.cumsum(streams.gap) - 1
    system, path, arrival = Scaled.empty(run.m, run.n, rules), [], 0
    for time in range(run.steps):
        path.append(system.free())
        slots: list[tuple[int, int] | None] = [None] * run.m
        first = arrival
        while at[arrival] < (time + 1) * run.m:
            task = (int(streams.task_type[arrival]), int(streams.duration[arrival]))
            slots[int(at[arrival]) - time * run.m] = task
            arrival += 1

        looking = [j for j, task in enumerate(slots) if task is not None]
        groups = []
        for r in range(instance.n_servers):
            turns = [j for j in looking if instance.allowed[slots[j][0], r]]  # type: ignore[index]
            at_arrivals = [(first + looking.index(j)) * instance.n_servers + r for j in turns]
            groups.append(system.told_of(r, turns, drawn_view(key, run.n, at_arrivals)))
        system.step(slots, groups)
    return path, system


@pytest.mark.parametrize("forbid", [False, True])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 5), (3, 1), (2, 3), (5, 16)])
def test_the_kernel_is_its_twin_step_by_step(m: int, n: int, forbid: bool) -> None:
    """Same arrivals, same numbers of free servers seen: the same paths, exactly."""
    blocked = 0
    for case in range(12):
        rng = random.Random(100 * m + 10 * n + case)
        n_servers = rng.randint(2, 5)
        rules = random_rules(rng, n_servers, forbid)
        instance = small_instance(rules, n_servers, [0.35, 0.25])
        run = ScaledRun(n, m, 40, 0, seed=case)
        trace = simulate_scaled(instance, tables_of(rules), run, path=True)
        path, system = twin_path(instance, rules, run)
        assert trace.free_path.tolist() == path
        taken = {vr: int(x) for vr, x in np.ndenumerate(trace.assigned) if x}
        assert taken == {vr: x for vr, x in system.taken.items() if x}
        assert int(trace.blocked.sum()) == system.blocked
        busy = run.copies * run.steps - np.array(path).sum(axis=0)
        assert trace.busy_steps.tolist() == busy.tolist()
        blocked += system.blocked
    assert blocked > 0


@pytest.mark.parametrize(("m", "n", "forbid"), [(2, 2, False), (3, 2, True), (2, 6, False)])
def test_the_kernel_is_its_twin_in_law(m: int, n: int, forbid: bool) -> None:
    """Free servers at every twelfth step (durations are at most five): two-sample chi-square."""
    rng = random.Random(17 * m + n)
    rules = random_rules(rng, 3, forbid)
    instance = small_instance(rules, 3, [0.3, 0.25])
    run = ScaledRun(n, m, 240_000, 24)
    trace = simulate_scaled(instance, tables_of(rules), run, path=True)
    kernel = Counter(tuple(row) for row in trace.free_path[::12].tolist())
    assert two_sample_p(kernel, twin_law(m, n, rules, rng)) > LEVEL


def test_a_partition_that_is_not_drawn_again_is_found() -> None:
    """The test above can fail: dispatchers that keep their servers have another law."""
    rng = random.Random(36)
    rules = random_rules(rng, 3, forbid=False)
    redrawn, kept = (twin_law(2, 2, rules, rng, redraw) for redraw in (True, False))
    assert two_sample_p(redrawn, kept) < LEVEL


def twin_law(
    m: int, n: int, rules: list[Rule], rng: random.Random, redraw: bool = True
) -> Counter[tuple[int, ...]]:
    """Free servers of the twin at every twelfth step."""
    states: Counter[tuple[int, ...]] = Counter()
    system = Scaled.empty(m, n, rules)
    durations = [1] * 5 + [2] * 3 + [5] * 2
    groups = system.shuffled(rng)
    for time in range(24 + 12 * 2500):
        if time >= 24 and time % 12 == 0:
            states[tuple(system.free())] += 1
        arrivals = []
        for _ in range(m):
            u = rng.random()
            v = 0 if u < 0.3 else 1 if u < 0.55 else None
            arrivals.append(None if v is None else (v, rng.choice(durations)))
        groups = system.shuffled(rng) if redraw else groups
        system.step(arrivals, groups)
    return states


def two_sample_p(one: Counter[tuple[int, ...]], other: Counter[tuple[int, ...]]) -> float:
    """p of the hypothesis that both samples come from one law; rare outcomes are pooled."""
    both = one + other
    share = min(one.total(), other.total()) / both.total()
    common = sorted(state for state in both if both[state] * share >= 8)
    table = [[sample[state] for state in common] for sample in (one, other)]
    for row, sample in zip(table, (one, other), strict=True):
        row.append(sample.total() - sum(row))
    cells = np.array(table)
    return float(chi2_contingency(cells[:, cells.sum(axis=0) > 0]).pvalue)


# ------------------------------------------------------------ one copy: the ordinary system


def assert_equal_runs(instance: LossInstance, policy: str, seed: int, steps: int) -> int:
    prices = price(instance)
    plan = loss_policy(policy).plan(instance, prices)
    tables = lag_tables(prices) if policy == "lag" else list_tables(plan)
    warm_up = scaled_warm_up(instance)
    scaled = simulate_scaled(instance, tables, ScaledRun(1, 1, steps, warm_up, seed, 2))
    (ordinary,) = simulate_plans(instance, [plan], Run(steps, warm_up, seed, 2))
    for name in ("assigned", "busy_steps", "arrived", "blocked"):
        assert getattr(scaled, name).tolist() == getattr(ordinary, name).tolist(), name
    assert scaled.reward == pytest.approx(ordinary.reward, rel=1e-12)
    return int(ordinary.blocked.sum())


@pytest.mark.parametrize("policy", ["lag", "lag-cheapest"])
@pytest.mark.parametrize(
    "name", ["specialist-v1", "priority-v1", "unfriendly-v1", "lowrank-v1", "iclr-v1", "tmlr-v1"]
)
def test_one_copy_is_the_ordinary_simulator(
    name: str, policy: str, request: pytest.FixtureRequest
) -> None:
    """Empty start, same warm-up, same streams: the same run task by task, k = 1 and k = 3."""
    if name in ("iclr-v1", "tmlr-v1"):
        request.getfixturevalue("data")
    assert assert_equal_runs(catalog_instance(name, 0.8), policy, seed=5, steps=30_000) > 0


@pytest.mark.parametrize("seed", range(25))
def test_one_copy_is_the_ordinary_simulator_on_random_instances(seed: int) -> None:
    """Tied scores, forbidden pairs, k and durations per type."""
    rng = np.random.default_rng(seed)
    shape = Shape(scores="levels", forbidden=seed % 2 == 1, per_type=seed % 3 == 1)
    instance = random_instance(rng, replace(shape, duration="mixed"), load=0.9)
    assert_equal_runs(instance, "lag" if seed % 5 else "lag-cheapest", seed, 5000)


# ---------------------------------------------------------------------------- the start


def test_rounding_a_state_keeps_sums_and_means() -> None:
    x = np.array([[0.25, 0.75, 0.0], [1 / 3, 1 / 3, 1 / 3], [0.05, 0.9, 0.05]])
    mean = np.zeros_like(x)
    for i in range(3000):
        counts = np.zeros(x.shape, dtype=np.int64)
        round_state((np.uint64(3), np.uint64(i)), 10, x, counts)
        assert counts.sum(axis=1).tolist() == [10, 10, 10]
        assert np.all(np.abs(counts - 10 * x) <= 2)
        assert counts[0, 2] == 0
        mean += counts / 3000
    assert mean == pytest.approx(10 * x, abs=5 * 0.5 / 3000**0.5)


def test_a_run_starts_in_the_state_given() -> None:
    instance = loss_instance([[1.0, 0.5]], [1e-300], Deterministic(3))
    start = np.array([[0.5, 0.25, 0.0, 0.25], [0.0, 0.0, 1.0, 0.0]])
    tables = lag_tables(price(instance))
    trace = simulate_scaled(instance, tables, ScaledRun(2, 2, 5, 0), start, path=True)
    assert trace.free_path.tolist() == [[2, 0], [3, 0], [3, 4], [4, 4], [4, 4]]


def test_without_arrivals_nothing_happens() -> None:
    instance = loss_instance([[1.0, 0.5]], [0.0], Deterministic(3))
    trace = simulate_scaled(instance, lag_tables(price(instance)), ScaledRun(2, 2, 50, 10))
    assert trace.busy_steps.tolist() == [0, 0]
    assert trace.arrived.tolist() == [0]


def test_a_fixed_point_start_is_stationary_from_the_first_step() -> None:
    """Specialist at n = 4096: free servers of the first 50 steps are phi on average."""
    instance = catalog_instance("specialist-v1", 0.8)
    prices = price(instance)
    free = np.zeros(instance.n_servers)
    for i in range(20):
        run = ScaledRun(4096, 64, 50, 0, replication=i)
        start = fixed_point(prices)
        trace = simulate_scaled(instance, lag_tables(prices), run, start, path=True)
        free += trace.free_path.mean(axis=0) / run.copies / 20
    assert free == pytest.approx(prices.free_fraction, abs=0.02)


def test_forbidden_servers_are_never_used() -> None:
    rules = random_rules(random.Random(3), 4, forbid=True)
    instance = small_instance(rules, 4, [0.4, 0.3])
    trace: ScaledTrace = simulate_scaled(instance, tables_of(rules), ScaledRun(6, 3, 4000, 0))
    assert np.all(trace.assigned[~instance.allowed] == 0)
    assert np.all(
        trace.assigned.sum(axis=1)
        == 6 * instance.servers_per_task * (trace.arrived - trace.blocked)
    )


def test_remainders_that_differ_by_rounding_only_are_equal() -> None:
    counts = np.zeros(2, dtype=np.int64)
    for noise in (1e-12, -1e-12):
        amount = np.array([2.5 + noise, 0.5 - noise])
        round_largest_remainder(amount, 1, 3, np.array([1, 0]), counts)
        assert counts.tolist() == [2, 1]


def test_weights_that_differ_in_their_last_digits_only_are_made_equal() -> None:
    """Otherwise a solver's noise, not pi, would decide who gets the servers left by rounding."""
    prices = price(catalog_instance("unfriendly-v1", 0.8))
    tables = lag_tables(prices)
    noisy = 0
    for v, weight in enumerate(tables.weight):
        tied = tables.group[v] == 1
        for r in np.flatnonzero(tied):
            alike = tied & (np.abs(weight - weight[r]) < 1e-10)
            assert np.all(weight[alike] == weight[r])
            noisy += int(np.ptp(prices.tie_weight[v, alike]) > 0)
        assert weight == pytest.approx(np.where(tied, prices.tie_weight[v], 0.0), abs=1e-11)
    assert noisy > 0


# ------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"n": 0}, "n"),
        ({"n": 2.5}, "n"),
        ({"m": True}, "m"),
        ({"steps": 0}, "steps"),
        ({"warm_up": -1}, "warm_up"),
        ({"n": 2**30, "m": 2**20}, "m * n * steps"),
    ],
)
def test_bad_runs_are_refused(options: dict[str, int], field: str) -> None:
    with pytest.raises(InputError) as caught:
        ScaledRun(**{"n": 1, "m": 1, "steps": 100, "warm_up": 0, **options})
    assert [problem.field for problem in caught.value.problems] == [field]


def test_a_start_of_another_shape_is_refused() -> None:
    instance = loss_instance([[1.0, 0.5]], [0.1], Deterministic(3))
    tables = lag_tables(price(instance))
    with pytest.raises(InputError, match=r"shape \(2, 4\)"):
        simulate_scaled(instance, tables, ScaledRun(1, 1, 5, 0), np.ones((2, 3)))


def test_a_plan_that_is_no_list_has_no_tables() -> None:
    instance = loss_instance([[1.0, 1.0]], [0.1], Deterministic(3))
    with pytest.raises(InputError, match="lag-cheapest"):
        list_tables(loss_policy("random").plan(instance))


def test_default_sizes_are_the_papers() -> None:
    assert [default_copies(n) for n in (1, 3, 4, 15, 16, 65536)] == [1, 1, 2, 3, 4, 256]
    assert [default_steps(m) for m in (1, 2, 64, 100, 256)] == [100_000, 50_000, 1562, 1000, 1000]
