"""The schedule of CQB-eta-2: its formulas, when it fits, and what is said when it does not."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from opportune.errors import InputError
from opportune.learning.confidence import paper_radius, radius_after
from opportune.learning.phases import (
    Phases,
    Setting,
    exact_ends,
    exact_phases,
    exploration_share,
    first_feasible,
    fractional_phases,
    samples_by_chernoff,
    samples_by_random_matrices,
)

EASY = Setting(
    dimension=5,
    curvature=4.4,
    norm_bound=0.62,
    ridge=1.0,
    arrival_rate=0.7,
    slack=0.1,
    diversity=0.2,
)


def test_samples_are_both_displays() -> None:
    """CQB 3.2."""
    horizon = 10**6
    beta = radius_after(paper_radius((5, 4.4, 1.0, 0.62), horizon**-4.0), horizon)
    widths = 128 * beta**2 / (0.2 * 0.1**2)
    root = 2.0 * math.sqrt(5) + 3.0 * math.sqrt(math.log(horizon**4))
    first = samples_by_random_matrices(EASY, horizon, (2.0, 3.0))
    assert first == pytest.approx((root / 0.2) ** 2 + widths)
    assert samples_by_chernoff(EASY, horizon) == pytest.approx(widths)
    wide = replace(EASY, scale=1e-6)
    least = 8 / 0.2 * math.log(5 * float(horizon) ** 4)
    assert samples_by_chernoff(wide, horizon) == pytest.approx(least)


def test_the_ends_are_those_of_the_notes() -> None:
    """CQB 3.7: tau_1 is about 1.6e8 at T = 1e6 and the schedule fits between 1e9 and 1e12."""
    phases = exact_ends(EASY, 1e6)
    assert phases.tau_1 == pytest.approx(1.6e8, rel=0.02)
    used = 4 * phases.tau_1 / 0.1 + 128 * math.log(1e6) / 0.01
    assert phases.tau_2 == pytest.approx(1e6 - used - 1)
    first = first_feasible(EASY)
    assert first is not None
    assert 1e9 < first < 1e12
    ends = exact_ends(EASY, first)
    assert ends.tau_1 < ends.tau_2
    below = exact_ends(EASY, first / 1.02)
    assert below.tau_1 >= below.tau_2
    hard = replace(EASY, dimension=10, curvature=50.0, norm_bound=3.87, diversity=0.1)
    assert exact_ends(hard, 1e6).tau_1 > 1.5e10
    alone = 128 * math.log(1.53e5) / 0.01  # the last term alone exceeds T until then
    assert alone == pytest.approx(1.53e5, rel=0.01)


def test_a_schedule_that_does_not_fit_says_from_when_on_it_does() -> None:
    with pytest.raises(InputError) as caught:
        exact_phases(EASY, 2000)
    text = str(caught.value)
    first = first_feasible(EASY)
    assert f"{first:.3g}" in text
    assert "tau_1 = 1.0" in text or "tau_1 =" in text
    assert "fractions" in text
    hopeless = replace(EASY, slack=1e-15)
    assert first_feasible(hopeless) is None
    with pytest.raises(InputError, match="no horizon that can be run"):
        exact_phases(hopeless, 2000)


def test_a_schedule_that_fits_is_given() -> None:
    """With a scale that is not the theory's it fits a horizon that can be run."""
    small = replace(EASY, scale=1e-4, slack=0.25)
    first = first_feasible(small)
    assert first is not None
    horizon = int(first * 1.1)
    phases = exact_phases(small, horizon)
    assert 0 < phases.tau_1 < phases.tau_2 < horizon
    assert phases == exact_ends(small, horizon)
    other = exact_phases(small, 10**9, (0.1, 0.1))
    assert 0 < other.tau_1 < other.tau_2 < 10**9


@pytest.mark.parametrize("name", ["slack", "arrival_rate", "diversity"])
def test_the_exact_schedule_needs_positive_numbers(name: str) -> None:
    with pytest.raises(InputError, match=name):
        replace(EASY, **{name: 0.0})


def test_fractions_of_the_horizon() -> None:
    assert fractional_phases((0.2, 0.3), 2000) == Phases(400, 600)
    assert fractional_phases((0, 1), 7) == Phases(0, 7)
    for wrong in ((0.3, 0.2), (-0.1, 0.2), (0.1, 1.1), (math.nan, 0.5), ("a", 1)):
        with pytest.raises(InputError, match="fractions"):
            fractional_phases(wrong, 100)  # type: ignore[arg-type]
    assert exploration_share(0.1) == 0.025
    assert exploration_share(-1.0) == 0.0
