"""Cases from the field, section B: the linear program and its prices.

Each test is named after the issue in which the fault was seen; the inputs are those of the table.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import highspy
import numpy as np
import pytest

from opportune.errors import InputError, OverloadError, SolverError
from opportune.experiments.comparison import compare
from opportune.experiments.metrics import half_width
from opportune.experiments.settings import Settings
from opportune.model.catalog import catalog_instance
from opportune.model.duration import Deterministic, Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.policies.base import loss_policies_by_id, loss_policy
from opportune.pricing import certificate, lp
from opportune.pricing.demand import FULL, Demand
from opportune.pricing.feasibility import feasibility
from opportune.pricing.lp import INTERIOR, SIMPLEX, solve
from opportune.pricing.occupancy import price
from opportune.pricing.program import occupancy_program
from opportune.simulate.loss import Run, simulate_plans
from tests import textbook


def test_cvxpy_1426_the_sign_of_the_prices() -> None:
    """Duals of the opposite sign: V=1, R=2, S=[[1, .5]], lambda=.1, D=2, k=1."""
    prices = price(loss_instance([[1.0, 0.5]], [0.1], Deterministic(2)))
    assert prices.value == pytest.approx(0.0916667, abs=5e-8)
    assert prices.demand_price == pytest.approx([0.5])
    assert prices.capacity_price == pytest.approx([0.0416667, 0.0], abs=5e-8)
    assert prices.index[0] == pytest.approx([0.4166667, 0.0], abs=5e-8)
    total = 1 * 0.1 * prices.demand_price[0] + prices.capacity_price.sum()
    assert total == pytest.approx(prices.value, rel=1e-12)


def test_scipy_22592_prices_may_be_negative() -> None:
    """Variables that are silently non-negative: Specialist at .7, and a worthless type."""
    specialist = price(catalog_instance("specialist-v1", 0.7))
    assert specialist.demand_price == pytest.approx(np.full(6, -0.6125), abs=1e-9)
    worthless = loss_instance([[1.0, 0.9], [0.0, 0.0]], [0.15, 0.05], Deterministic(2))
    prices = price(worthless)
    assert prices.demand_price == pytest.approx([0.897857, -0.023571], abs=5e-7)


@pytest.fixture
def tied(data: Path) -> LossInstance:
    """Ten papers, thirty reviewers, bids of four levels, two equal columns."""
    with np.load(data / "aamas_bids" / "aamas2015.npz") as archive:
        bids = next(archive[name] for name in archive.files if archive[name].ndim == 2)
    rng = np.random.default_rng(121)
    rows = rng.choice(bids.shape[0], 10, replace=False)
    columns = rng.choice(bids.shape[1], 30, replace=False)
    score = np.asarray(bids[np.ix_(rows, columns)], dtype=np.float64)
    score = (score - score.min()) / max(float(np.ptp(score)), 1.0)
    score[:, 7] = score[:, 3]
    assert len(np.unique(score)) <= 4
    return loss_instance(score, np.full(10, 0.001), Deterministic(43), 3).with_load(0.7)


def test_highs_3311_several_optimal_duals(tied: LossInstance) -> None:
    """Interior point and simplex agree on the value; one method repeats itself to the bit."""
    program = occupancy_program(tied, FULL).linear
    simplex, interior = solve(program, "a test", SIMPLEX), solve(program, "a test", INTERIOR)
    assert simplex.value == pytest.approx(interior.value, rel=1e-7)
    first, second = price(tied), price(tied)
    assert first.value == pytest.approx(-textbook.occupancy(tied).fun, rel=1e-7)
    assert first.demand_price.tobytes() == second.demand_price.tobytes()
    for policy in ("lag", "lag-cheapest"):
        plans = [loss_policy(policy).plan(tied, prices) for prices in (first, second)]
        assert plans[0].digest == plans[1].digest
    assert first.capacity_price[7] == first.capacity_price[3]
    assert first.tie_weight[:, 7] == pytest.approx(first.tie_weight[:, 3], abs=1e-9)
    assert first.gap < 1e-9
    assert first.residuals.worst < 1e-9


def test_highs_3311_the_reward_of_either_solution_is_within_noise(tied: LossInstance) -> None:
    """LAG at our prices and at the interior point's: other optimal duals, about the same reward."""
    own = price(tied)
    program = occupancy_program(tied, FULL)
    interior = solve(program.linear, "a test", INTERIOR)
    demand_price = program.demand_price(interior.row_dual, tied)
    capacity = certificate.capacity_price(tied, demand_price)
    index = certificate.index(tied, demand_price, capacity)
    other = replace(
        own,
        demand_price=demand_price,
        capacity_price=capacity,
        index=np.where(np.abs(index) < 1e-7, 0.0, index),
        tie_weight=program.matrix(interior.x, tied.n_types, tied.n_servers),
    )
    assert certificate.dual_value(tied, FULL, demand_price) == pytest.approx(own.value, rel=1e-6)
    plans = [loss_policy("lag").plan(tied, prices) for prices in (own, other)]
    percent = []
    for replication in range(4):
        traces = simulate_plans(tied, plans, Run(50_000, 500, 1, replication))
        percent.append([100 * trace.reward.sum() / 50_000 / own.value for trace in traces])
    difference = np.diff(np.array(percent), axis=1)[:, 0]
    assert abs(difference.mean()) < half_width(difference) + 1.0


@pytest.mark.parametrize(
    ("load", "feasible"),
    [(0.9, True), (0.9 + 1e-9, True), (0.9 + 1e-6, False), (0.91, False)],
)
def test_highs_1530_and_2511_the_last_feasible_load(load: float, feasible: bool) -> None:
    """Our own arithmetic decides between .9 and .9 + 1e-6, not a solver's presolve."""
    rng = np.random.default_rng(122)
    instance = loss_instance(rng.random((10, 30)), np.full(10, 0.001), Deterministic(43), 3)
    instance = instance.with_load(load)
    assert feasibility(instance).feasible == feasible
    if feasible:
        prices = price(instance)
        assert prices.gap < 1e-9
        assert np.all(np.isfinite(prices.demand_price))
        return
    with pytest.raises(OverloadError, match=r"is above 1 - k/R = 0\.90 \(R=30, k=3\)"):
        price(instance)


def stub(status: Any, text: str) -> SimpleNamespace:
    """A solver that ends with a status and numbers attached."""

    class Solver:
        """Every call does nothing; the solution is all ones."""

        setOptionValue = passModel = run = lambda self, *_: None  # noqa: N815

        def getModelStatus(self) -> Any:  # noqa: N802
            return status

        def modelStatusToString(self, _: Any) -> str:  # noqa: N802
            return text

        def getSolution(self) -> Any:  # noqa: N802
            return SimpleNamespace(col_value=[1.0] * 99, row_dual=[1.0] * 99)

        def version(self) -> str:
            return "0"

    return SimpleNamespace(
        _core=SimpleNamespace(_Highs=Solver),
        HighsModelStatus=highspy.HighsModelStatus,
        HighsLp=highspy.HighsLp,
        MatrixFormat=highspy.MatrixFormat,
    )


@pytest.mark.parametrize(
    ("status", "text"), [("kUnknown", "Unknown"), ("kSolveError", "Solve error")]
)
def test_highs_2108_a_status_that_is_not_optimal_makes_no_policy(
    status: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers attached to another status never become prices; what there was stays as it was."""
    instance = catalog_instance("priority-v1", 0.7)
    before = loss_policy("lag").plan(instance)
    digest = before.digest
    broken = stub(getattr(highspy.HighsModelStatus, status), text)
    with monkeypatch.context() as patch:
        patch.setattr(lp, "highspy", broken)
        for attempt in (
            lambda: price(instance),
            lambda: price(instance, Demand(0.1)),
            lambda: loss_policy("lag").plan(instance),
            lambda: loss_policy("alg-sc-lp").plan(instance),
            lambda: compare(instance, Settings(("lag",), 100, 1)),
        ):
            with pytest.raises(SolverError, match=text) as caught:
                attempt()
            assert caught.value.status == text
            assert "the previous plan, if any, stays in force" in str(caught.value)
    assert before.digest == digest
    assert loss_policy("lag").plan(instance).digest == digest


def test_ortools_3947_whatever_is_asked_of_a_failed_plan_raises_the_same_error() -> None:
    """Load .95 with R=30, k=3: there is no object to read a price, a bound or a rate from."""
    rng = np.random.default_rng(123)
    instance = loss_instance(rng.random((10, 30)), np.full(10, 0.001), Deterministic(43), 3)
    instance = instance.with_load(0.95)
    told = set()
    for attempt in (
        lambda: price(instance).index,
        lambda: price(instance).dual_value,
        lambda: price(instance).assignment_rate,
        lambda: price(instance).opportunity_cost,
        lambda: loss_policy("lag").plan(instance).index,
        lambda: loss_policy("lag-cheapest").plan(instance).tables,
        lambda: feasibility(instance).require(),
    ):
        with pytest.raises(OverloadError) as caught:
            attempt()
        told.add((str(caught.value), caught.value.max_load))
    ((text, most),) = told
    assert text == (
        "load 0.95 is above 1 - k/R = 0.90 (R=30, k=3): lower the arrival rate by 5.3 % "
        "(rounded up), or add 2 servers"
    )
    assert most == pytest.approx(0.9)


def test_openreview_matcher_103_supply_below_demand() -> None:
    """Load 1.3: the largest load and the binding limit are named, a simulation still runs."""
    rng = np.random.default_rng(124)
    instance = loss_instance(rng.random((3, 10)), np.full(3, 0.01), Geometric(20), 2).with_load(1.3)
    with pytest.raises(OverloadError, match=r"load 1\.3 is above 1 - k/R = 0\.80") as caught:
        price(instance)
    assert caught.value.max_load == pytest.approx(0.8)
    result = compare(instance, Settings(("lag", "greedy"), 20_000, 3))
    assert result.priced_at == "blocking"
    assert "overload: load 1.3 is above" in result.warnings[0]
    for row in result.policies:
        assert 0.2 < row.blocking < 0.5
        assert row.percent_of_bound <= 100 + row.half_width


def test_openreview_370_planning_ends_in_seconds_or_says_why() -> None:
    """18 x 17 with an all-zero row; with a fully conflicted row it is refused by name."""
    rng = np.random.default_rng(125)
    score = rng.integers(0, 4, (18, 17)) / 3
    score[2] = 0.0
    allowed = rng.random((18, 17)) < 0.8
    allowed[:, :2] = True
    begin = time.process_time()
    good = loss_instance(score, np.full(18, 0.005), Deterministic(5), 1, allowed=allowed)
    for name in ("lag", "greedy", "alg-sc-lp"):
        plan = loss_policies_by_id()[name].plan(good)
        assert np.all(plan.tables.n_allowed == allowed.sum(axis=1))
    allowed[4] = False
    with pytest.raises(InputError) as caught:
        replace(good, allowed=allowed)
    (problem,) = caught.value.problems
    text = str(problem)
    assert good.task_types[4] in text
    assert "no permitted server" in text
    assert time.process_time() - begin < 30.0
