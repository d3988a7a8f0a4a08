"""How numbers and results are said."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from opportune.experiments import wording
from opportune.experiments.comparison import Comparison, PolicyResult, compare
from opportune.experiments.settings import Settings
from opportune.model.catalog import catalog_instance
from opportune.policies.base import loss_policies_by_id

BASE = compare(
    catalog_instance("specialist-v1", 0.7), Settings(("lag", "greedy"), steps=200, replications=2)
)


def plain(text: str) -> str:
    return text.replace("\u00a0", " ").replace("\u2212", "-")


def result(policy: str, percent: float, width: float, difference: float = 0.0) -> PolicyResult:
    return PolicyResult(policy, 0.2, percent, width, 0.1, 100 - percent, difference, 0.3)


def comparison(*rows: PolicyResult, load: float = 0.7) -> Comparison:
    return replace(BASE, policies=rows, instance=BASE.instance.with_load(load))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.123456, "0.1235"),
        (-0.001234567, "-0.001235"),
        (12345.678, "12,346"),
        (3.0622e-6, "3.062 × 10⁻⁶"),
        (1.5e9, "1.500 × 10⁹"),
        (math.inf, "none"),
        (math.nan, "none"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert plain(wording.number(value)) == text


@pytest.mark.parametrize(
    ("value", "width", "text"),
    [
        (90.66, None, "90.7 %"),
        (0.0, None, "0.0 %"),
        (-0.0, None, "0.0 %"),
        (0.0312, None, "0.031 %"),
        (90.66, 0.42, "90.7 % ± 0.4"),
        (90.6666, 0.0123, "90.67 % ± 0.01"),
        (1.1491, 0.078, "1.15 % ± 0.08"),
        (3e-5, 2e-6, "0.000030 % ± 0.000002"),
        (-0.0001, 0.5, "0.0 % ± 0.5"),
        (90.66, 0.0, "90.7 % ± 0.0"),
        (90.66, math.inf, "90.7 % no interval"),
    ],
)
def test_percentages(value: float, width: float | None, text: str) -> None:
    assert plain(wording.percent(value, width)) == text


def test_points() -> None:
    assert plain(wording.points(9.31)) == "9.3 points"
    assert plain(wording.points(1.0)) == "1.0 point"


def test_the_headline_says_who_earns_what() -> None:
    found = comparison(result("greedy", 85.7, 0.5, -5.2), result("lag", 90.9, 0.4))
    assert plain(wording.headline(found)) == (
        "LAG earns at least 90.9 % ± 0.4 of the best possible reward; Greedy 85.7 %; "
        "at most 9.1 points are left to gain."
    )
    assert plain(wording.verdict(found)) == (
        "LAG is ahead of Greedy by 5.2 points (95 % interval 4.9 to 5.5)."
    )


def test_without_lag_the_first_policy_is_told_of() -> None:
    found = comparison(result("random", 50.0, math.inf), result("whittle", 60.0, 0.4, 10.0))
    assert plain(wording.headline(found)) == (
        "Random earns at least 50.0 % of the best possible reward; Whittle index 60.0 %; "
        "at most 50.0 points are left to gain."
    )
    assert "Random is behind Whittle index by 10.0 points" in plain(wording.verdict(found))


def test_noise_is_not_told_as_a_difference() -> None:
    found = comparison(
        result("lag", 100.4, 0.9), result("greedy", 100.2, 0.9, -0.2), result("random", 50, 1, -50)
    )
    assert wording.verdict(found) == "No clear difference between LAG and Greedy in this run."
    assert "More than 100 % is noise" in plain(wording.headline(found))


def test_a_better_policy_is_named() -> None:
    found = comparison(
        result("lag", 90, 1), result("greedy", 85, 1, -5), result("whittle", 92, 1, 2.0)
    )
    assert plain(wording.verdict(found)).endswith(
        "Whittle index earns more than LAG here: +2.0 points ± 0.3."
    )


def test_a_single_policy_has_no_rival() -> None:
    found = comparison(result("greedy", 85.7, 0.5))
    assert wording.rival_policy(found) is None
    assert wording.compared(found) == ["greedy"]
    assert wording.verdict(found) == ""


def test_the_headline_of_a_sweep() -> None:
    pairs = ((0.3, 95.0, -1.0), (0.6, 90.0, -6.0), (0.9, 92.0, -0.1))
    found = [
        comparison(result("lag", top, 0.4), result("greedy", top - 5, 0.4, gap), load=load)
        for load, top, gap in pairs
    ]
    assert plain(wording.sweep_headline(found)) == (
        "From load 0.3 to 0.9, LAG earns 90.0 % to 95.0 % of the best possible reward. "
        "Its lead over Greedy is largest at load 0.6: 6.0 points."
    )
    close = [
        replace(one, policies=(one.policies[0], result("greedy", 90, 1, 0.1))) for one in found
    ]
    assert wording.sweep_headline(close).endswith("no clear difference to Greedy at any load.")


def test_every_policy_has_a_short_name_of_its_own() -> None:
    names = [wording.short_name(policy) for policy in loss_policies_by_id()]
    assert len(names) == len(set(names))
    assert max(map(len, names)) <= wording.ROOM
    assert wording.short_name("lag") == "LAG"
    assert wording.explained("lag") == "Score minus opportunity cost"


@pytest.mark.parametrize(
    ("difference", "width", "text"),
    [
        (0.0, 0.0, "equal"),
        (0.6, 0.4, "+0.6 ± 0.4 points"),
        (-5.24, 0.3, "-5.2 ± 0.3 points"),
        (0.0047, 0.7, "0.0 ± 0.7 points"),
        (1.25, math.inf, "+1.2 no interval"),
    ],
)
def test_paired_differences(difference: float, width: float, text: str) -> None:
    row = replace(result("greedy", 80, 1, difference), difference_half_width=width)
    assert plain(wording.apart(row)) == text
