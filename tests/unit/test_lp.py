"""The two solvers behind one door: signs of duals, statuses, options."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import highspy
import numpy as np
import pytest

from opportune.errors import SolverError
from opportune.pricing import lp
from opportune.pricing.lp import INTERIOR, SIMPLEX, Program, least_squares, solve


def program(**changed: Any) -> Program:
    """Max 3 x + 2 y with x + y <= 4, x + 3 y <= 9, x - y >= -2, 0 <= x <= 3: x = 3, y = 1."""
    one = Program(
        cost=np.array([3.0, 2.0]),
        lower=np.zeros(2),
        upper=np.array([3.0, np.inf]),
        row_lower=np.array([-np.inf, -np.inf, -2.0]),
        row_upper=np.array([4.0, 9.0, np.inf]),
        row=np.array([2, 0, 1, 0, 1, 2]),
        column=np.array([0, 0, 0, 1, 1, 1]),
        value=np.array([1.0, 1.0, 1.0, 1.0, 3.0, -1.0]),
    )
    return replace(one, **changed)


def test_it_maximizes() -> None:
    solution = solve(program(upper=np.array([2.5, np.inf])), "a test")
    assert solution.x == pytest.approx([2.5, 1.5])
    assert solution.value == pytest.approx(10.5)
    assert solution.solver.startswith("highs ")
    assert solution.solver.endswith(SIMPLEX)


def test_row_duals_are_derivatives_of_the_value() -> None:
    """By moving each bound a little; for a <= row they are >= 0, for a >= row <= 0."""
    for one in (
        program(),
        program(upper=np.array([1.2, np.inf])),
        program(cost=np.array([-1.0, 2.0])),
        program(cost=np.array([-1.0, -2.0]), row_lower=np.array([1.0, -np.inf, -2.0])),
        program(row_lower=np.array([3.5, -np.inf, -2.0]), row_upper=np.array([3.5, 9.0, np.inf])),
    ):
        base = solve(one, "a test")
        for i in range(3):
            step = np.zeros(3)
            step[i] = 1e-4
            moved = replace(one, row_lower=one.row_lower + step, row_upper=one.row_upper + step)
            slope = (solve(moved, "a test").value - base.value) / 1e-4
            assert base.row_dual[i] == pytest.approx(slope, abs=1e-6)


def test_both_methods_have_one_value() -> None:
    tied = program(cost=np.array([1.0, 1.0]))
    simplex, interior = solve(tied, "a test", SIMPLEX), solve(tied, "a test", INTERIOR)
    assert simplex.value == pytest.approx(interior.value, rel=1e-7)
    assert simplex.value == pytest.approx(4.0, rel=1e-12)
    assert min(abs(simplex.x[0] - end) for end in (1.5, 3.0)) < 1e-9
    assert 1.6 < interior.x[0] < 2.9  # inside the optimal edge
    assert interior.solver.endswith(INTERIOR)


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"row_lower": np.array([5.0, -np.inf, 4.5])}, "Infeasible"),
        ({"row_lower": np.array([-np.inf, -np.inf, 3.5])}, "Infeasible"),
        (
            {
                "row_upper": np.full(3, np.inf),
                "upper": np.full(2, np.inf),
            },
            "nbounded",
        ),
    ],
)
@pytest.mark.parametrize("method", [SIMPLEX, INTERIOR])
def test_another_status_raises_with_its_name(
    changed: dict[str, Any], status: str, method: str
) -> None:
    with pytest.raises(SolverError, match="while solving a test") as caught:
        solve(program(**changed), "a test", method)
    assert status in caught.value.status or caught.value.status == "Unknown"


def test_a_status_that_is_not_optimal_gives_no_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unknown:
        """A solver that stops early with numbers attached."""

        setOptionValue = passModel = run = lambda self, *_: None  # noqa: N815

        def getModelStatus(self) -> Any:  # noqa: N802
            return highspy.HighsModelStatus.kUnknown

        def modelStatusToString(self, _: Any) -> str:  # noqa: N802
            return "Unknown"

        def getSolution(self) -> Any:  # noqa: N802
            raise AssertionError("its numbers were read")

    stub = SimpleNamespace(
        _core=SimpleNamespace(_Highs=Unknown),
        HighsModelStatus=highspy.HighsModelStatus,
        HighsLp=highspy.HighsLp,
        MatrixFormat=highspy.MatrixFormat,
    )
    monkeypatch.setattr(lp, "highspy", stub)
    with pytest.raises(SolverError, match="'Unknown' while solving a test"):
        solve(program(), "a test")


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    solve(program(), "a test")
    solve(program(), "a test", INTERIOR)
    least_squares(program(), np.ones(2), "a test")
    assert capfd.readouterr() == ("", "")


def test_least_squares_is_the_nearest_point() -> None:
    """min (x^2 + 4 y^2) / 2 with x + y = 3, y >= 0, x <= 2: x = 2, y = 1 (free: x = 2.4)."""
    one = Program(
        cost=np.zeros(2),
        lower=np.zeros(2),
        upper=np.array([10.0, 10.0]),
        row_lower=np.array([3.0, -np.inf]),
        row_upper=np.array([3.0, 2.0]),
        row=np.array([0, 0, 1]),
        column=np.array([0, 1, 0]),
        value=np.ones(3),
    )
    curvature = np.array([1.0, 4.0])
    assert least_squares(one, curvature, "a test") == pytest.approx([2.0, 1.0], abs=1e-10)
    free = replace(one, row_upper=np.array([3.0, 9.0]))
    assert least_squares(free, curvature, "a test") == pytest.approx([2.4, 0.6], abs=1e-10)
    pulled = replace(free, cost=np.array([0.0, 5.0]))  # x - 4 y + 5 = 0 and x + y = 3
    assert least_squares(pulled, curvature, "a test") == pytest.approx([1.4, 1.6], abs=1e-10)


def test_least_squares_without_a_feasible_point_raises() -> None:
    empty = program(row_lower=np.array([-np.inf, -np.inf, 3.5]))
    with pytest.raises(SolverError, match="while solving a test"):
        least_squares(empty, np.ones(2), "a test")
