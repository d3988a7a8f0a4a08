"""Charts: valid, complete, true to the numbers, and readable for color-blind eyes."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import combinations
from typing import Any

import altair as alt
import numpy as np
import pytest
import vl_convert
from jsonschema import ValidationError

from opportune.experiments import chart_bars, chart_matrices, chart_sweeps, charts, wording
from opportune.experiments.chart_style import CONFIG, OWN_COLOR, SPARE_COLORS, Chart, color_of
from opportune.experiments.comparison import Bound, Comparison, compare
from opportune.experiments.excerpt import excerpt
from opportune.experiments.settings import Settings
from opportune.model.catalog import catalog_instance
from opportune.model.duration import Deterministic
from opportune.model.loss import LossInstance, loss_instance

SETTINGS = Settings(("lag", "greedy", "random"), steps=2000, replications=3)


def forbidden() -> LossInstance:
    """A small instance with two servers per task and one forbidden pair."""
    allowed = np.array([[True, True, True, True], [True, False, True, True]])
    score = [[1.0, 0.5, 0.2, 0.1], [0.3, 0.0, 0.9, 0.4]]
    return loss_instance(score, [0.05, 0.1], Deterministic(4), 2, allowed=allowed, name="small")


@cache
def found(load: float, pairs: str = "all") -> Comparison:
    instance = catalog_instance("specialist-v1", load)
    return compare(instance if pairs == "all" else forbidden().with_load(load), SETTINGS)


def panel_charts(comparison: Comparison) -> list[Chart]:
    cut = excerpt(comparison)
    prices = comparison.prices.demand_price
    words = ("demand", "Task type", "caption")
    shown = [
        charts.reward_chart(comparison, "reward"),
        charts.difference_chart(comparison, "difference"),
        charts.blocking_chart(comparison, "blocking"),
        chart_matrices.cost_chart(comparison, cut, "cost"),
        chart_matrices.index_chart(comparison, cut, "index"),
        chart_matrices.assigned_chart(comparison, cut, "lag", "assigned"),
        chart_bars.price_bars("Price", "reward", prices, comparison.instance.task_types, words),
        chart_bars.price_bars(
            "Price", "reward", np.arange(20.0), list("abcdefghijklmnopqrst"), words
        ),
        chart_bars.utilization_chart(comparison, cut, "busy"),
    ]
    return [one for one in shown if one is not None]


def sweep_charts(comparisons: list[Comparison]) -> list[Chart]:
    return [
        chart_sweeps.sweep_share_chart(comparisons, "share"),
        chart_sweeps.sweep_reward_chart(comparisons, "reward"),
        chart_sweeps.sweep_blocking_chart(comparisons, "blocking"),
    ]


def single_run() -> Comparison:
    return compare(forbidden(), Settings(("greedy", "lag"), steps=500, replications=1))


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(lambda: panel_charts(found(0.7)), id="panel"),
        pytest.param(lambda: panel_charts(found(0.4, "forbidden")), id="forbidden"),
        pytest.param(lambda: panel_charts(single_run()), id="one-replication"),
        pytest.param(lambda: sweep_charts([found(0.5), found(0.7)]), id="sweep"),
        pytest.param(
            lambda: sweep_charts([found(x, "forbidden") for x in (0.2, 0.4)]), id="sweep-forbidden"
        ),
    ],
)
def test_every_chart_is_valid_and_can_be_drawn(shown: Any) -> None:
    for chart in shown():
        alt.LayerChart.from_dict(chart.spec, validate=True)
        assert "config" not in chart.spec
        assert chart.spec["width"] == "container"
        drawn = vl_convert.vegalite_to_svg({**chart.spec, "width": 500, "config": CONFIG})
        assert drawn.count("<path") + drawn.count("<text") > 4, chart.title
        assert len(chart.text) > 40


def test_the_shared_config_is_valid() -> None:
    alt.Config.from_dict(CONFIG, validate=True)


def test_a_wrong_spec_would_be_found() -> None:
    spec = dict(charts.reward_chart(found(0.7), "reward").spec)
    spec["layer"] = [{"mark": "blob"}]
    with pytest.raises(ValidationError, match="blob"):
        alt.LayerChart.from_dict(spec, validate=True)


def rows(chart: Chart) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = chart.spec["datasets"]["rows"]
    return shown


def test_rewards_and_differences_are_those_of_the_table() -> None:
    comparison = found(0.7)
    by_name = {wording.short_name(row.policy): row for row in comparison.policies}
    shown = rows(charts.reward_chart(comparison, "reward"))
    assert [row["percent"] for row in shown] == sorted(
        (row["percent"] for row in shown), reverse=True
    )
    for row in shown:
        wanted = by_name[row["policy"]]
        assert row["percent"] == pytest.approx(wanted.percent_of_bound, rel=1e-5)
        assert row["high"] - row["low"] == pytest.approx(2 * wanted.half_width, rel=1e-3)
    chart = charts.difference_chart(comparison, "difference")
    assert chart is not None
    assert "LAG" not in [row["policy"] for row in rows(chart)]
    for row in rows(chart):
        wanted = by_name[row["policy"]]
        assert row["at"] == pytest.approx(wanted.difference, rel=1e-5)
        spread = row["high"] - row["low"]
        assert spread == pytest.approx(2 * wanted.difference_half_width, rel=1e-3, abs=1e-9)


def test_one_policy_has_no_differences() -> None:
    alone = replace(found(0.7), policies=found(0.7).policies[:1])
    assert charts.difference_chart(alone, "difference") is None


def test_what_lies_far_off_is_an_arrow_at_the_edge() -> None:
    comparison = found(0.7)
    lag, greedy, random = comparison.policies

    def edges(last: float) -> tuple[list[str], list[float]]:
        far = replace(random, difference=last, difference_half_width=1.0)
        near = replace(greedy, difference=-2.0, difference_half_width=0.5)
        middle = replace(near, policy="whittle", difference=-1.0)
        moved = replace(comparison, policies=(lag, near, middle, far))
        chart = charts.difference_chart(moved, "difference")
        assert chart is not None
        point = next(one for one in chart.spec["layer"] if "shape" in one["encoding"])
        domain: list[float] = point["encoding"]["x"]["scale"]["domain"]
        return [row["beyond"] for row in rows(chart)], domain

    assert edges(-40.0)[0] == ["no", "no", "left"]
    assert edges(40.0)[0] == ["no", "no", "right"]
    beyond, domain = edges(-4.0)
    assert beyond == ["no", "no", "no"]
    assert domain[0] < -5.0
    assert domain[1] > 0.0


def test_the_tightest_bound_is_marked() -> None:
    comparison = found(0.7)
    tight = Bound("hc-lp", 0.95 * comparison.bound.value, None, 0.0, "proven")
    guess = replace(tight, value=0.5 * tight.value, label="surrogate")
    chart = charts.reward_chart(replace(comparison, bounds=(comparison.bound, tight, guess)), "x")
    assert chart.spec["datasets"]["limit"] == [{"at": pytest.approx(95.0)}]
    assert "the tightest bound, 95.0" in chart.caption
    alone = replace(comparison, bounds=(comparison.bound,))
    assert "limit" not in charts.reward_chart(alone, "x").spec["datasets"]


def test_assignments_add_up_to_what_was_served() -> None:
    comparison = found(0.4, "forbidden")
    taken, rate = chart_matrices.assigned(comparison, excerpt(comparison), "greedy")
    runs = comparison.runs
    place = wording.policies(comparison).index("greedy")
    arrived, blocked = (x[:, place].sum(axis=0) for x in (runs.arrived, runs.blocked))
    assert taken.sum(axis=1) == pytest.approx(100 * 2 * (arrived - blocked) / arrived)
    assert rate.sum() == pytest.approx(2 * (arrived - blocked).sum() / (3 * runs.steps))


def test_utilization_is_busy_time() -> None:
    comparison = found(0.7)
    shown = rows(chart_bars.utilization_chart(comparison, excerpt(comparison), "busy"))
    busy = comparison.runs.busy_steps[:, 0].sum(axis=0) / (3 * comparison.runs.steps)
    assert sorted(row["value"] for row in shown if row["policy"] == "LAG") == pytest.approx(
        sorted(100 * busy), rel=1e-5
    )


def test_blocking_has_one_row_where_policies_cannot_differ() -> None:
    alike = [row["policy"] for row in rows(charts.blocking_chart(found(0.7), "blocking"))]
    assert alike == ["Measured, every policy", "Exact", "Erlang-B, for reference"]
    apart = [row["policy"] for row in rows(charts.blocking_chart(found(0.4, "forbidden"), "x"))]
    assert apart[:3] == ["LAG", "Greedy", "Random"]


def test_heat_maps_of_prices_show_the_prices() -> None:
    comparison = found(0.7)
    cut = excerpt(comparison)
    cost = np.array([row["value"] for row in rows(chart_matrices.cost_chart(comparison, cut, "c"))])
    assert cost == pytest.approx(comparison.prices.opportunity_cost, rel=1e-3, abs=1e-8)
    index = [row["value"] for row in rows(chart_matrices.index_chart(comparison, cut, "i"))]
    score = comparison.instance.match_reward
    assert np.array(index) == pytest.approx(score - cost, rel=1e-3, abs=1e-3)


def test_prices_are_sorted_and_equal_ones_keep_their_order() -> None:
    noisy = np.array([0.1, 0.3 + 1e-16, 0.3, -0.2])
    chart = chart_bars.price_bars("Price", "reward", noisy, list("abcd"), ("n", "Server", "c"))
    assert [row["label"] for row in rows(chart)] == ["b", "c", "a", "d"]


def test_the_base_policy_has_one_color_everywhere() -> None:
    for chart in [*panel_charts(found(0.7)), *sweep_charts([found(0.5), found(0.7)])]:
        for layer in chart.spec["layer"]:
            scale = layer["encoding"].get("color", {}).get("scale", {})
            colors = dict(zip(scale.get("domain", []), scale.get("range", []), strict=False))
            assert colors.get("LAG", "var(--lag)") == "var(--lag)"
        assert all(one.color == "var(--lag)" for one in chart.key if one.name == "LAG")


# ----------------------------------------------------------------------- color-blind eyes

PROTAN = [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
          [-0.003882, -0.048116, 1.051998]]  # fmt: skip
DEUTAN = [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
          [-0.011820, 0.042940, 0.968881]]  # fmt: skip
EYES = {"usual": np.eye(3), "protan": np.array(PROTAN), "deutan": np.array(DEUTAN)}
"""Linear RGB as people with a missing cone see it (Machado, Oliveira and Fernandes 2009)."""

TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def palettes() -> list[dict[str, np.ndarray]]:
    """The light and the dark colors by name, in linear RGB."""
    css = files("opportune.experiments").joinpath("report.css").read_text(encoding="utf-8")
    parts = css.partition("@media")
    found = []
    for part in (parts[0], parts[2]):
        colors = {}
        for name, text in re.findall(r"--([\w-]+): #([0-9a-f]{6});", part):
            value = np.array([int(text[i : i + 2], 16) for i in (0, 2, 4)]) / 255
            low, high = value / 12.92, ((value + 0.055) / 1.055) ** 2.4
            colors[name] = np.where(value <= 0.04045, low, high)
        found.append(colors)
    return found


def lab(linear: np.ndarray) -> np.ndarray:
    """CIE L*a*b*, in which equal steps look about equal."""
    x, y, z = TO_XYZ @ np.clip(linear, 0, 1) / [0.9505, 1.0, 1.089]
    fx, fy, fz = (np.cbrt(t) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return np.array([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)])


@pytest.mark.parametrize("palette", palettes(), ids=["light", "dark"])
def test_policies_can_be_told_apart_by_color(palette: dict[str, np.ndarray]) -> None:
    for matrix in EYES.values():
        for one, other in combinations(OWN_COLOR, 2):
            apart = np.linalg.norm(lab(matrix @ palette[one]) - lab(matrix @ palette[other]))
            assert apart > 15, (one, other)


@pytest.mark.parametrize("palette", palettes(), ids=["light", "dark"])
def test_colors_stand_out_from_the_page(palette: dict[str, np.ndarray]) -> None:
    light = {name: float(TO_XYZ[1] @ color) + 0.05 for name, color in palette.items()}

    def contrast(one: str, other: str) -> float:
        return max(light[one], light[other]) / min(light[one], light[other])

    spare = [f"spare-{i + 1}" for i in range(SPARE_COLORS)]
    assert min(contrast(name, "card") for name in (*OWN_COLOR, *spare, "price")) >= 3
    for ground in ("page", "card", "note"):
        assert min(contrast(name, ground) for name in ("ink", "ink-soft")) >= 4.5


def test_an_unknown_policy_has_a_color() -> None:
    spare = {f"var(--spare-{i + 1})" for i in range(SPARE_COLORS)}
    assert color_of("something-new") in spare
    assert color_of("lag") == "var(--lag)"
