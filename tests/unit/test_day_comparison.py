"""A day planned per period, for its mean and by other policies; the command and its page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from opportune.cli import run
from opportune.errors import InputError
from opportune.experiments.day import DaySettings, compare_day
from opportune.experiments.records import day_record
from opportune.experiments.report_day import report_html
from opportune.model.catalog_days import DAYS, greedy_shifts
from opportune.model.day import Day
from opportune.model.duration import Geometric
from opportune.model.files import load_day
from opportune.model.loss import loss_instance
from opportune.model.saving import save_day
from opportune.pricing.day import price_day
from opportune.pricing.occupancy import price

BASE = loss_instance(
    [[1.0, 0.3, 0.2], [0.9, 0.8, 0.1]], [0.08, 0.08], Geometric(8), servers=("ann", "bo", "cy")
)
NOBODY = np.zeros((0, 3), dtype=np.int64)
SHORT = DaySettings(days=3, replications=2)


def swinging_day() -> Day:
    """Type 1 in the morning, type 2 in the evening, nobody there at night; bo has one shift."""
    mix = np.array([[2.0, 0.2], [0.2, 2.0], [0.5, 0.5]])
    off = [(r, 800, 1200) for r in range(3)] + [(1, 0, 400)]
    return Day(BASE, 400, mix, np.array(off), ("morning", "evening", "night"))


def test_every_period_is_priced_as_if_it_lasted() -> None:
    day = swinging_day()
    found = price_day(day)
    assert found.periods[2] is None
    assert found.of_period(2) is found.mean
    for p in range(2):
        own = found.of_period(p)
        cold = price(day.period(p), own.demand)
        assert own.value == pytest.approx(cold.value, rel=1e-9)
        assert own.gap <= 1e-9
        assert own.instance.on_duty.tolist() == day.on_duty[p].tolist()
    assert found.mean.instance.load == pytest.approx(day.mean_day.load)


def test_overload_of_a_period_is_priced_at_blocking() -> None:
    day = replace(swinging_day(), multiplier=np.array([[4.0, 4.0], [0.2, 0.2], [0.5, 0.5]]))
    found = price_day(day)
    assert found.of_period(0).priced_at in ("blocking", "at-most")
    assert found.of_period(1).priced_at == "zero"


def test_a_plan_per_period_wins_where_periods_differ() -> None:
    """Two servers of three that should swap their work between morning and evening."""
    base = loss_instance(
        [[1.0, 0.9, 0.0], [0.8, 0.0, 0.75]], [0.1, 0.1], Geometric(4), servers=("u", "v", "w")
    )
    mix = np.array([[2.5, 0.1], [0.1, 2.5]])
    day = Day(base, 2000, mix, NOBODY, ("am", "pm"))
    found = compare_day(day, DaySettings(("lag", "greedy", "random"), days=20, replications=2))
    assert [row.name for row in found.rows] == ["lag", "lag (mean day)", "greedy", "random"]
    mean = found.row("lag (mean day)")
    assert mean.difference + mean.difference_half_width < 0
    assert found.row("random").difference < 0
    for row in found.rows:
        assert row.reward == pytest.approx(row.reward_by_period.sum())
    assert found.rows[2].plans == "all day"


def test_the_same_seed_gives_the_same_day() -> None:
    one, two = (compare_day(swinging_day(), SHORT) for _ in range(2))
    first, second = day_record(one), day_record(two)
    for record in (first, second):
        record.pop("seconds")
        for period in [record["mean_day"], *(p["prices"] for p in record["periods"])]:
            if period is not None:
                period.pop("seconds")
    assert first == second
    other = compare_day(swinging_day(), replace(SHORT, seed=2))
    assert other.rows[0].reward != one.rows[0].reward


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"days": 0}, "days: 0"),
        ({"days": 2.5}, "days: 2.5"),
        ({"replications": True}, "replications"),
        ({"seed": -1}, "seed: -1"),
        ({"policies": ()}, "none"),
        ({"policies": ("lag", "lag")}, "every policy once"),
        ({"policies": ("lga",)}, "lga"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        DaySettings(**change)  # type: ignore[arg-type]


def test_a_policy_that_needs_everybody_is_refused() -> None:
    with pytest.raises(InputError, match="on duty"):
        compare_day(swinging_day(), DaySettings(("headcount",), 1, 1))


def test_the_command_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "swing.toml"
    save_day(swinging_day(), path)
    words = ["day", str(path), "--days", "2", "--replications", "2"]
    page = tmp_path / "day.html"
    assert run([*words, "--report", str(page)]) == 0
    out, err = capsys.readouterr()
    assert "morning" in out
    assert "lag (mean day)" in out
    assert "nobody is on duty in night" in err
    assert "Prices over the day" in page.read_text(encoding="utf-8")
    assert run([*words, "--format", "json"]) == 0
    got = json.loads(capsys.readouterr().out)
    assert [one["period"] for one in got["periods"]] == ["morning", "evening", "night"]
    assert got["periods"][2]["prices"] is None
    assert run([*words, "--format", "csv", "--everyone", "--load", "0.3"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("policy,plans,reward")
    assert "nobody" not in err
    assert run(["day", "no-such-day"]) == 1
    assert "bank-day-v1" in capsys.readouterr().err


def test_the_page_says_the_result_in_words() -> None:
    found = compare_day(swinging_day(), SHORT)
    text = report_html(found, "A day", "opportune day swing.toml")
    assert "one plan for the mean day" in text
    assert "a plan per period" in text
    assert found.day.digest in text


def test_a_catalog_instance_is_a_day_of_one_period() -> None:
    day = load_day("priority-v1", 0.5)
    assert day.periods == ("all day",)
    assert day.mean_day.load == pytest.approx(0.5)
    with pytest.raises(InputError, match="load"):
        load_day("priority-v1")


def test_shifts_follow_the_work() -> None:
    work = np.array([0.0, 1.0, 4.0, 4.0, 1.0, 0.0])
    starts = greedy_shifts(work, 10, 2)
    there = np.zeros(6)
    for _, start in starts:
        there[start : start + 2] += 1
    assert len(starts) == 10
    assert there[2] > there[1] > there[0]


@pytest.mark.parametrize("day_id", list(DAYS))
def test_real_days(data: Path, day_id: str) -> None:
    for weekday in DAYS[day_id][1]:
        day = load_day(f"{day_id}@{weekday}", 0.6)
        assert day.mean_day.load == pytest.approx(0.6)
        assert (day.base.arrival_rate * day.multiplier).sum(axis=1).max() <= 0.6
        assert day.on_duty.sum(axis=1).max() <= day.base.n_servers
    found = compare_day(day, DaySettings(days=2, replications=1))
    assert found.row("greedy").reward > 0
    everyone = load_day(day_id, 0.6, shifts=False)
    assert everyone.mean_day.load == pytest.approx(0.6)
    assert (everyone.on_duty == 1).all()
    with pytest.raises(InputError, match="one of Mon"):
        load_day(f"{day_id}@Xyz", 0.6)
    with pytest.raises(InputError, match="load"):
        load_day(day_id)


def test_real_days_need_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPPORTUNE_DATA", raising=False)
    with pytest.raises(InputError, match="OPPORTUNE_DATA"):
        load_day("bank-day-v1@Wed", 0.6)
