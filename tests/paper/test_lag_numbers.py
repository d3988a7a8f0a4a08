"""The LAG paper's numbers beside ours: fresh cells, the stored full run, and causes."""

from __future__ import annotations

from dataclasses import replace

import generate_lag_results
import numpy as np
import pytest

from opportune.experiments.comparison import compare
from opportune.experiments.papers.lag import published
from opportune.experiments.papers.lag.causes import (
    ASSUMED_STEPS,
    CLOSE,
    COMPARABLE,
    Compared,
    cause_of,
    implied_steps,
    mean_of,
    single_run,
)
from opportune.experiments.papers.lag.instances import INSTANCES
from opportune.experiments.settings import Settings
from opportune.model.files import load_instance

SPECIFIED = ("specialist", "priority", "unfriendly", "lowrank")


# ---------------------------------------------------------------- what the paper published


def test_both_published_tables_agree_at_load_07() -> None:
    assert len(published.load_sweep()) == 52 * 5
    for (instance, policy), value in published.summary().items():
        assert published.load_sweep()[instance, 0.7, policy] == value


def test_published_numbers_are_percentages_of_known_instances_and_policies() -> None:
    names = {one.name for one in INSTANCES}
    assert {name for name, _, _ in published.load_sweep()} == names
    assert {one.instance for one in published.convergence()} == names
    assert all(20 < value < 100 for value in published.load_sweep().values())
    assert published.loads_of("priority") == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)


def test_the_tie_rule_decides_lag_on_priority_at_load_02() -> None:
    """The one cell far from the paper's; the lower capacity price first reaches its number."""
    policies = ("lag", "lag-cheapest")
    result = compare(
        load_instance("priority-v1", 0.2), Settings(policies, steps=400_000, replications=5)
    )
    paper = published.load_sweep()["priority", 0.2, "lag"]
    assert result.row("lag").percent_of_bound < paper - 5
    cheapest = result.row("lag-cheapest")
    assert abs(cheapest.percent_of_bound - paper) < 1.5 + cheapest.half_width


# ------------------------------------------------------------------- the stored full run


def test_the_results_page_shows_the_stored_run() -> None:
    page = generate_lag_results.PAGE.read_text(encoding="utf-8")
    assert page == generate_lag_results.render(), "run: make docs"


def test_the_stored_run_agrees_with_the_paper_but_for_one_cell() -> None:
    table = [
        row
        for row in generate_lag_results.stored("table3")
        if row["instance"] in SPECIFIED and row["policy"] in COMPARABLE
    ]
    assert len(table) == 34 * len(COMPARABLE)
    apart = [row for row in table if abs(float(row["difference"])) > CLOSE]
    assert [(row["instance"], row["load"], row["policy"]) for row in apart] == [
        ("priority", "0.2", "lag")
    ]


def test_the_stored_run_ends_where_the_papers_convergence_does() -> None:
    """Within half a point, by as many trials as the paper's."""
    ends = [row for row in generate_lag_results.stored("figure6") if row["n"] == "65536"]
    assert {row["instance"] for row in ends} == {one.name for one in INSTANCES}
    for row in ends:
        assert row["first_trials"] == "3"
        if row["instance"] in SPECIFIED:
            assert abs(float(row["first_outside"])) < 0.5, row


def test_the_stored_run_has_the_papers_blocking_and_fixed_points() -> None:
    for row in generate_lag_results.stored("blocking"):
        low, high = (0.009, 0.011) if row["instance"] == "lowrank" else (0.103, 0.134)
        assert low < float(row["measured"]) < high
        if row["exact"]:
            assert abs(float(row["measured"]) - float(row["exact"])) < 1.5 * float(
                row["half_width"]
            )
    for row in generate_lag_results.stored("fluid"):
        assert float(row["residual"]) < 1e-9
        assert row["arrived"] == row["starts"] == "100"


# ------------------------------------------------------------------------------- causes


def cell(**changes: object) -> Compared:
    """A cell that agrees with the paper, changed."""
    plain = Compared("priority", "priority-v1", 0.4, "greedy", 70.0, 0.2, 70.1, 1.0)
    return replace(plain, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "rebuilt", "cheapest", "cause"),
    [
        ({}, False, None, ""),
        ({"paper": 70.25}, False, None, ""),  # the interval and the rounding
        ({"paper": 70.26}, False, None, "noise"),
        ({"paper": 71.0}, False, None, "noise"),
        ({"paper": 69.0}, True, None, "matrix"),
        ({"paper": 72.0, "policy": "alg-sc-lp"}, False, None, "interior"),
        ({"paper": 72.0, "policy": "lag"}, False, 71.5, "ties"),
        ({"paper": 72.0, "policy": "lag"}, False, 70.0, "unknown"),
        ({"paper": 72.0, "policy": "whittle"}, False, 72.0, "unknown"),
        ({"paper": 72.0, "paper_half_width": None, "half_width": None}, False, None, "unknown"),
        ({"paper": None}, False, None, ""),
    ],
)
def test_the_cause_of_a_difference(
    changes: dict[str, object], rebuilt: bool, cheapest: float | None, cause: str
) -> None:
    assert cause_of(cell(**changes), rebuilt, cheapest) == cause


def test_a_single_run_is_as_wide_as_its_length_says() -> None:
    """Four replications of 25,000 steps are one run of the assumed length, but for t and 1.96."""
    width = single_run(1.0, 4, ASSUMED_STEPS // 4)
    assert width == pytest.approx(np.hypot(1.96 / 3.1824, 0.05), rel=1e-3)
    assert mean_of(3, 1.0, 4) == pytest.approx(np.hypot(2 * 1.96 / 3.1824 / 3**0.5, 0.05), rel=1e-3)
    assert single_run(None, 4, 1000) is None
    assert single_run(1.0, 1, 1000) is None


def test_the_length_of_the_papers_runs_is_found_from_its_noise() -> None:
    """Cells made with runs of a known length give that length back, within its own error."""
    generator = np.random.default_rng(5)
    n, steps, length, t = 20, 1_000_000, 60_000, 2.093
    cells = []
    for _ in range(2_000):
        deviation = generator.uniform(100, 400)  # of one step
        ours = deviation * generator.standard_normal() / np.sqrt(n * steps)
        paper = round(deviation * generator.standard_normal() / np.sqrt(length), 1)
        width = t * deviation / np.sqrt(n * steps)
        cells.append(cell(ours=ours, paper=paper, half_width=width))
    found = implied_steps(cells, n, steps)
    assert found == pytest.approx(length, rel=0.1)
    assert implied_steps([cell(policy="lag")], n, steps) is None
