"""Durations that depend on the server as well as on the task type."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog

from opportune.errors import InputError, OverloadError
from opportune.experiments.comparison import compare
from opportune.experiments.prices import blocking_of, choose_prices
from opportune.experiments.settings import Settings
from opportune.kernels.streams import DURATION
from opportune.model.day import Day
from opportune.model.duration import Deterministic, Empirical, Geometric
from opportune.model.files import check_instance, load_instance
from opportune.model.loss import LossInstance, loss_instance
from opportune.model.saving import save_instance
from opportune.model.server_durations import ServerDurations, server_durations
from opportune.model.streams import draw_block, loss_law, stream_key
from opportune.policies.base import loss_policy
from opportune.pricing.demand import AT_MOST, FULL, Demand
from opportune.pricing.feasibility import max_load
from opportune.pricing.gears import BARRIER, FULL_LP, SIFTING
from opportune.pricing.headcount import headcount_prices
from opportune.pricing.occupancy import price
from opportune.pricing.warm import replan
from opportune.simulate.day import simulate_day
from opportune.simulate.loss import Run, simulate_plans
from tests import naive
from tests.conftest import WriteInstance


def by_server(seed: int, shape: tuple[int, int] = (3, 6), forbidden: bool = False) -> LossInstance:
    """Random rewards, each pair one of five laws of different means, all three kinds."""
    rng = np.random.default_rng(seed)
    laws = (
        Geometric(30.0),
        Geometric(90.0),
        Deterministic(50),
        Deterministic(140),
        Empirical(np.array([10, 60, 200]), np.array([0.5, 0.3, 0.2])),
    )
    allowed = rng.random(shape) > (0.2 if forbidden else 0.0)
    allowed[:, :2] = True
    rate = rng.random(shape[0]) + 0.2
    made = loss_instance(
        rng.random(shape),
        rate / rate.sum(),
        Geometric(70.0),
        allowed=allowed,
        server_duration=ServerDurations(laws, rng.integers(0, 5, shape)),
    )
    return made.with_load(0.7 * max_load(made))


def textbook_value(instance: LossInstance, demand: Demand) -> float | None:
    """OCC-LP with E[D_vr] in (3), by scipy; None if infeasible."""
    assert instance.server_duration is not None
    n_types, n_servers = instance.match_reward.shape
    n, mean = n_types * n_servers, instance.server_duration.mean
    want = instance.arrival_rate * demand.servers_per_arrival(instance)
    serve, keep = np.zeros((n_types, n + n_servers)), np.zeros((n_servers, n + n_servers))
    take = np.zeros((n, n + n_servers))
    for v in range(n_types):
        for r in range(n_servers):
            place = v * n_servers + r
            serve[v, place], keep[r, place] = 1.0, mean[v, r]
            take[place, place], take[place, n + r] = 1.0, -instance.arrival_rate[v]
    keep[np.arange(n_servers), n + np.arange(n_servers)] = 1.0
    upper = [*np.where(instance.allowed, np.inf, 0.0).ravel(), *np.full(n_servers, np.inf)]
    loose = demand.at_most
    found = linprog(
        np.append(-instance.match_reward.ravel(), np.zeros(n_servers)),
        A_ub=np.vstack([take, serve]) if loose else take,
        b_ub=np.append(np.zeros(n), want) if loose else np.zeros(n),
        A_eq=keep if loose else np.vstack([serve, keep]),
        b_eq=np.ones(n_servers) if loose else np.append(want, np.ones(n_servers)),
        bounds=[(0, most) for most in upper],
    )
    return float(-found.fun) if found.status == 0 else None


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("forbidden", [False, True])
def test_prices_agree_with_the_program_as_written(seed: int, forbidden: bool) -> None:
    instance = by_server(seed, forbidden=forbidden)
    assert instance.server_duration is not None
    for demand in (FULL, Demand(0.2), AT_MOST):
        expected = textbook_value(instance, demand)
        for gear in (FULL_LP, SIFTING, BARRIER):
            found = price(instance, demand, gear=gear)
            assert found.value == pytest.approx(expected, rel=1e-8)
            assert found.dual_value == pytest.approx(expected, rel=1e-8)
            assert found.residuals.worst <= 1e-8
    mean, q = instance.server_duration.mean, found.capacity_price
    index = instance.match_reward - found.demand_price[:, None] - mean * q
    assert found.index[instance.allowed] == pytest.approx(index[instance.allowed], abs=1e-8)


def test_the_last_feasible_load_is_found_by_solving() -> None:
    for seed in range(4):
        base = by_server(seed, (3, 8))
        limit = max_load(base)
        assert textbook_value(base.with_load(limit * (1 - 1e-6)), FULL) is not None
        assert textbook_value(base.with_load(limit * (1 + 1e-3)), FULL) is None
        assert price(base.with_load(limit)).gap <= 2e-5
        with pytest.raises(OverloadError, match="largest feasible"):
            price(base.with_load(limit * 1.001))


def test_laws_that_do_not_depend_on_the_server_change_nothing() -> None:
    plain = loss_instance([[1.0, 0.6, 0.3], [0.4, 0.9, 0.2]], [0.05, 0.08], Geometric(6))
    same = replace(plain, server_duration=server_durations(plain.duration, {}, 3))
    assert same.load == pytest.approx(plain.load)
    one, two = price(plain), price(same)
    assert two.value == pytest.approx(one.value, rel=1e-12)
    assert np.allclose(two.demand_price, one.demand_price)
    plan = loss_policy("lag").plan(plain, one)
    first, second = (simulate_plans(x, [plan], Run(20_000, 100))[0] for x in (plain, same))
    assert first.arrived.tolist() == second.arrived.tolist()
    assert first.assigned.tolist() == second.assigned.tolist()
    assert first.busy_steps.tolist() == second.busy_steps.tolist()
    assert np.allclose(first.reward, second.reward)


def test_the_kernel_does_what_the_words_say() -> None:
    """Step by step with one number per task and each server's own quantile."""
    instance = replace(by_server(1, (2, 5)), servers_per_task=np.array([2, 1]))
    laws = instance.server_duration
    assert laws is not None
    plan = loss_policy("lag").plan(instance, price(instance, AT_MOST))
    run = Run(3000, 0, 5)
    (trace,) = simulate_plans(instance, [plan], run)
    streams = draw_block(stream_key(5, 0), 0, loss_law(instance), 2)
    busy_until, time, arrived = np.zeros(5, dtype=int), -1, 0
    assigned, blocked = np.zeros((2, 5), dtype=int), np.zeros(2, dtype=int)
    while True:
        time += int(streams.gap[arrived])
        if time >= run.steps:
            break
        v = int(streams.task_type[arrived])
        u = naive.unit(5, 0, DURATION, arrived)
        order = plan.tables.order[v, 0, : plan.tables.n_allowed[v]]
        free = [int(r) for r in order if busy_until[r] <= time][: instance.servers_per_task[v]]
        if len(free) < instance.servers_per_task[v]:
            blocked[v] += 1
        else:
            for r in free:
                assigned[v, r] += 1
                busy_until[r] = time + quantile(laws.laws[laws.which[v, r]], u) + 1
        arrived += 1
    assert trace.arrived.sum() == arrived
    assert trace.assigned.tolist() == assigned.tolist()
    assert trace.blocked.tolist() == blocked.tolist()
    assert trace.reward.sum() == pytest.approx(float((assigned * instance.match_reward).sum()))


def quantile(law: object, u: float) -> int:
    """The least d with P(D <= d) > u."""
    if isinstance(law, Deterministic):
        return law.steps
    if isinstance(law, Geometric):
        return naive.geometric(u, law.mean)
    assert isinstance(law, Empirical)
    total = np.cumsum([float(w) for w in law.weight]) / float(law.weight.sum())
    return int(law.steps[int(np.searchsorted(total, u, side="right"))])


def test_the_bound_is_at_most_and_holds() -> None:
    instance = by_server(2)
    found = compare(instance, Settings(("lag", "greedy", "random"), 20_000, 3))
    assert found.bound.name == "occ-lp-at-most"
    assert found.bound.label == "proven"
    assert "depend on the server" in found.blocking.note
    for row in found.policies:
        assert row.percent_of_bound <= 100 + row.half_width
    prices, told = choose_prices(instance.with_load(2 * max_load(instance)))
    assert prices.priced_at == "at-most"
    assert "OCC-LP(<=)" in told[0]
    assert blocking_of(instance).erlang_b is None


def test_blocking_depends_on_the_policy() -> None:
    """LAG Lemma 3.1 fails: a policy that takes the slow server first drops more."""
    slow_first = loss_instance(
        [[1.0, 0.9]],
        [0.3],
        Geometric(2),
        server_duration=ServerDurations((Deterministic(9), Deterministic(1)), np.array([[0, 1]])),
    )
    greedy, random = (loss_policy(one).plan(slow_first) for one in ("greedy", "random"))
    first, second = simulate_plans(slow_first, [greedy, random], Run(50_000, 100))
    assert first.blocked.sum() > 1.05 * second.blocked.sum()


def test_days_and_changes_go_with_them() -> None:
    instance = by_server(3)
    before = price(instance)
    again = replan(before, replace(instance, arrival_rate=instance.arrival_rate * 1.03))
    assert again.gap <= 1e-9
    day = Day(instance, 500, np.ones((2, 3)), np.array([[0, 100, 300]]), ("a", "b"))
    plan = loss_policy("lag").plan(instance, before)
    (trace,) = simulate_day(day, [[plan, plan]], 5, (1, 0))
    assert trace.arrived.sum() > 0


def test_policies_that_need_one_duration_refuse() -> None:
    instance = by_server(0)
    for name in ("whittle", "whittle-load-aware"):
        with pytest.raises(InputError, match="depend on the server"):
            loss_policy(name).plan(instance)
    with pytest.raises(InputError, match="depend on the server"):
        headcount_prices(instance)


HEAD = 'task_types = ["a", "b"]\nservers = ["x", {name = "y", count = 2}]\n'
HEAD += 'match_reward = [[1, 2], [3, 4]]\nduration = {kind = "geometric", mean = 5}\n'
LOG = "task,server,duration\na,x,2\na,x,4\nb,y,7\n"


@pytest.mark.parametrize(
    ("text", "mean"),
    [
        ('{kind = "geometric", mean = [[2, 3], [4, 5.5]]}', [[2, 3, 3], [4, 5.5, 5.5]]),
        ('{kind = "deterministic", steps = [[2, 3], [4, 2]]}', [[2, 3, 3], [4, 2, 2]]),
        ('{kind = "geometric", mean = {file = "m.csv"}}', [[2, 3, 3], [4, 5, 5]]),
        ('{kind = "empirical", file = "log.csv"}', [[3, 5, 5], [5, 7, 7]]),
        ('{kind = "empirical", file = "log.csv", per_step = 2}', [[1.5, 5, 5], [5, 4, 4]]),
        (
            '{laws = [{kind = "deterministic", steps = 3}, {kind = "geometric", mean = 9}], '
            "which = [[0, 1], [1, 1]]}",
            [[3, 9, 9], [9, 9, 9]],
        ),
    ],
)
def test_files(write_instance: WriteInstance, tmp_path: Path, text: str, mean: object) -> None:
    path = write_instance(
        HEAD + f"server_duration = {text}\n",
        m_csv="type,y,x\nb,5,4\na,3,2\n",
        log_csv=LOG,
    )
    instance = load_instance(path)
    assert instance.server_duration is not None
    assert np.allclose(instance.server_duration.mean, mean)
    assert "by type and server" in check_instance(path).summary
    save_instance(instance, tmp_path / "again.toml")
    assert load_instance(tmp_path / "again.toml") == instance


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("3", "server_duration: 3"),
        ("{mean = [[1]]}", "kind = one of"),
        ('{kind = "gamma"}', "kind = one of"),
        ('{kind = "geometric"}', "server_duration.mean: missing"),
        ('{kind = "geometric", mean = [[1, 2]]}', r"shape \(1, 2\)"),
        ('{kind = "geometric", mean = [[1, 2], [0.5, 2]]}', r"mean\[1,0\]: 0.5"),
        ('{kind = "geometric", mean = [[1, 2], [nan, 2]]}', "nan"),
        ('{kind = "deterministic", steps = [[1, 2], [3, 2.5]]}', r"steps\[1,1\]: 2.5"),
        ('{kind = "empirical", file = "none.csv"}', "looked for in"),
        ('{kind = "empirical", file = "odd.csv"}', "unknown server 'q'"),
        ('{kind = "empirical", file = "odd.csv", agent = "x"}', "id you mean 'server'"),
        ("{laws = [], which = [[0, 0], [0, 0]]}", "a list of durations"),
        ('{laws = [{kind = "deterministic", steps = 3}]}', "which: missing"),
        ('{laws = [{kind = "deterministic", steps = 3}], which = [[0, 1], [0, 0]]}', "0 to 1"),
        ('{laws = [{kind = "deterministic", steps = 0}], which = [[0, 0], [0, 0]]}', "at least 1"),
    ],
)
def test_slips_are_named(write_instance: WriteInstance, text: str, told: str) -> None:
    path = write_instance(
        HEAD + f"server_duration = {text}\n", odd_csv="task,server,duration\na,q,2\n"
    )
    with pytest.raises(InputError, match=told):
        load_instance(path)


def test_shapes_are_checked() -> None:
    laws = (Deterministic(3),)
    with pytest.raises(InputError, match="the shape of match_reward"):
        loss_instance(
            [[1.0, 2.0]],
            [0.1],
            Geometric(3),
            server_duration=ServerDurations(laws, np.zeros((2, 2), dtype=int)),
        )
    with pytest.raises(InputError, match="positions from 0 to 0"):
        ServerDurations(laws, np.ones((1, 2), dtype=int))
    with pytest.raises(InputError, match="another kind"):
        ServerDurations((3,), np.zeros((1, 2), dtype=int))  # type: ignore[arg-type]
