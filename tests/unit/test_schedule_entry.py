"""The keys ``profile`` and ``availability``: every way to write them, and every slip."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.model.day import Day
from opportune.model.files import check_instance, load_day, load_instance
from opportune.model.saving import save_day, save_instance
from tests.conftest import WriteInstance

HEAD = """
task_types = ["a", "b"]
servers = ["x", {name = "y", count = 2}, "z"]
"""
PROFILE = "profile = {period_steps = 100, multiplier = [[1, 0.5], [2, 1.5]]}\n"


def day_of(write: WriteInstance, text: str, **files: str) -> Day:
    """The day of a file with two types and four servers."""
    return load_day(write(HEAD + text, **files))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("multiplier = [0.5, 2]", [[0.5, 0.5], [2, 2]]),
        ("multiplier = [[1, 0.5], [2, 1.5]]", [[1, 0.5], [2, 1.5]]),
        ('multiplier = {file = "long.csv"}', [[1, 0.5], [2, 1.5]]),
        ('multiplier = {file = "wide.csv"}', [[1, 0.5], [2, 1.5]]),
        ('multiplier = {file = "one.csv", value = "factor"}', [[1, 1], [2, 2]]),
        ('multiplier = {file = "other.csv", period = "h", task = "t", value = "m"}', None),
        ('multiplier = {file = "array.npz"}', [[1, 0.5], [2, 1.5]]),
    ],
)
def test_profiles(write_instance: WriteInstance, text: str, expected: object) -> None:
    path = write_instance(
        HEAD + f"[profile]\nperiod_steps = 100\n{text}\n",
        long_csv="period,task,value\nmorning,b,0.5\nmorning,a,1\nnoon,a,2\nnoon,b,1.5\n",
        wide_csv="period,b,a\nmorning,0.5,1\nnoon,1.5,2\n",
        one_csv="period,factor\nmorning,1\nnoon,2\n",
        other_csv="h,t,m\n7,a,1\n7,b,0.5\n8,a,2\n8,b,1.5\n",
        array_npz={"m": np.array([[1, 0.5], [2, 1.5]])},
    )
    if "one.csv" in text:
        with pytest.raises(InputError, match="column"):
            load_day(path)
        return
    day = load_day(path)
    assert day.multiplier.tolist() == (expected or [[1, 0.5], [2, 1.5]])
    assert day.period_steps == 100
    assert day.n_periods == 2
    if "long" in text or "wide" in text:
        assert day.periods == ("morning", "noon")
    elif "other" in text:
        assert day.periods == ("7", "8")
    else:
        assert day.periods == ("period-1", "period-2")


def test_periods_have_names_and_an_order(write_instance: WriteInstance) -> None:
    files = {"p_csv": "period,a,b\nnoon,2,2\nmorning,1,1\n"}
    text = 'profile = {period_steps = 9, periods = ["morning", "noon"], multiplier = '
    day = day_of(write_instance, text + '{file = "p.csv"}}', **files)
    assert day.periods == ("morning", "noon")
    assert day.multiplier.tolist() == [[1, 1], [2, 2]]
    assert day_of(write_instance, text + "[1, 2]}").periods == ("morning", "noon")


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("availability = 0.5", [0.5] * 4),
        ("availability = [1, 0.5, 0.25]", [1, 0.5, 0.5, 0.25]),
        ("availability = {x = 1, y = 0.5, z = 0.25}", [1, 0.5, 0.5, 0.25]),
        ('availability = {x = 1, "y/2" = 0.5, "y/1" = 0, z = 0.25}', [1, 0, 0.5, 0.25]),
        ('availability = {file = "share.csv"}', [1, 0.5, 0.5, 0.25]),
        ('availability = {file = "named.csv", server = "who", share = "fte"}', [1, 0.5, 0.5, 0.25]),
    ],
)
def test_shares(write_instance: WriteInstance, text: str, share: list[float]) -> None:
    path = write_instance(
        HEAD + text,
        share_csv="server,share\nz,0.25\nx,1\ny,0.5\n",
        named_csv="who,fte\nz,0.25\nx,1\ny,0.5\n",
    )
    assert load_instance(path).on_duty.tolist() == share
    assert np.allclose(load_day(path).on_duty, [share], atol=1e-3)


SHIFTS = "server,from,to\nx,0,150\ny,50,100\nz,100,200\ny/2,150,200\n"


@pytest.mark.parametrize(
    "text",
    [
        'availability = {file = "shifts.csv"}',
        'availability = {file = "minutes.csv", server = "who", from = "a", to = "b", per_step = 5}',
        'availability = {shifts = [["x", 0, 150], ["y", 50, 100], ["z", 100, 200], '
        '["y/2", 150, 200]]}',
    ],
)
def test_shifts(write_instance: WriteInstance, text: str) -> None:
    files = {"shifts_csv": SHIFTS}
    files["minutes_csv"] = "who,a,b\nx,0,750\ny,250,500\nz,500,1000\ny/2,750,1000\n"
    day = day_of(write_instance, PROFILE + text, **files)
    expected = [[1, 0.5, 0.5, 0], [0.5, 0, 0.5, 1]]
    assert np.allclose(day.on_duty, expected)
    assert np.allclose(day.mean_day.on_duty, np.mean(expected, axis=0))
    assert day.mean_day.load == pytest.approx(0.1 * 1.5 * 5 / 2.0 + 0.2 * 1.0 * 5 / 2.0)


def test_servers_without_a_shift_need_a_word(write_instance: WriteInstance) -> None:
    for word, share in (("always", 1.0), ("never", 0.0)):
        text = f'availability = {{missing = "{word}", shifts = [["x", 0, 100]]}}'
        day = day_of(write_instance, PROFILE + text)
        assert day.on_duty[:, 1:].tolist() == [[share] * 3] * 2
        assert day.on_duty[:, 0].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("profile = 3", "profile: 3"),
        ("profile = {period_steps = 10}", "profile.multiplier: missing"),
        ("profile = {multiplier = [1]}", "profile.period_steps: missing"),
        ("profile = {period_steps = 0, multiplier = [1]}", "profile.period_steps: 0"),
        ("profile = {period_steps = 1.5, multiplier = [1]}", "whole number"),
        ("profile = {period_steps = true, multiplier = [1]}", "whole number"),
        ("profile = {period_steps = 9, multiplier = []}", "profile.multiplier"),
        ("profile = {period_steps = 9, multiplier = [[1, 2], [1]]}", "equal rows"),
        ("profile = {period_steps = 9, multiplier = [[1, 2, 3]]}", "a column per type"),
        ("profile = {period_steps = 9, multiplier = [-1]}", r"multiplier\[0,0\]: -1"),
        ("profile = {period_steps = 9, multiplier = [1, nan]}", r"multiplier\[1,0\]: nan"),
        ("profile = {period_steps = 9, multiplier = [4]}", "1.2 arrivals per step"),
        ('profile = {period_steps = 9, multiplier = ["1"]}', "ext is not read"),
        ("profile = {steps = 9, multiplier = [1]}", "did you mean|Did you mean"),
        ("profile = {period_steps = 9, multiplier = [1], periods = ['a', 'b']}", "row per period"),
        ("profile = {period_steps = 9, multiplier = [1, 1], periods = ['a', 'a']}", "every name"),
        ("profile = {period_steps = 9, multiplier = {file = 'no.csv'}}", "looked for in"),
        ("profile = {period_steps = 9, multiplier = {file = 'bad.csv'}}", "unknown task type 'q'"),
        ("availability = 'all'", "a share of time"),
        ("availability = true", "a share of time"),
        ("availability = 1.5", "from 0 to 1"),
        ("availability = [1, 1, 1, 1]", "one per server, 3"),
        ("availability = [0, 0, 0]", "all zero"),
        ("availability = {x = 1, y = 1}", "nothing for server 'z'"),
        ("availability = {x = 1, Y = 1, z = 1}", "'Y' may mean 'y'"),
        ("availability = {file = 's.npz'}", "looked for in"),
        ("availability = {file = 'shifts.csv', every = 2}", "unknown key"),
        ("availability = {missing = 'never', shifts = [['x', 0, 9]]}", "profile: missing"),
        (PROFILE + "availability = {shifts = [['x', 0, 9]]}", "no shift for server 'y/1'"),
        (PROFILE + "availability = {shifts = [['x', 0]]}", r"\[server, from, to\]"),
        (PROFILE + "availability = {shifts = [['q', 0, 9]]}", "unknown server 'q'"),
        (PROFILE + "availability = {missing = 'never', shifts = [['x', 90, 9]]}", "midnight"),
        (PROFILE + "availability = {missing = 'never', shifts = [['x', 0, 9.5]]}", "whole steps"),
        (PROFILE + "availability = {missing = 'never', shifts = [['x', -1, 9]]}", "whole steps"),
        (PROFILE + "availability = {missing = 'never', shifts = [['x', 0, 201]]}", "200 steps"),
        (PROFILE + "availability = {missing = 'maybe', shifts = [['x', 0, 9]]}", "'maybe'"),
        (PROFILE + "availability = {per_step = 0, shifts = [['x', 0, 9]]}", "per_step: 0"),
        (PROFILE + "availability = {file = 'bad.csv'}", "unknown server 'noon'"),
        (PROFILE + "availability = {file = 'text.csv'}", "line 2"),
    ],
)
def test_slips_are_named(write_instance: WriteInstance, text: str, told: str) -> None:
    path = write_instance(
        HEAD + text,
        bad_csv="period,a,q\nnoon,1,1\n",
        shifts_csv=SHIFTS,
        text_csv="server,from,to\nx,early,late\n",
    )
    with pytest.raises(InputError, match=told):
        load_day(path)


def test_all_problems_come_at_once(write_instance: WriteInstance) -> None:
    text = "availability = 2\nprofile = {period_steps = 10}\nservers_per_task = 9\n"
    told = {problem.field for problem in check_instance(write_instance(HEAD + text)).problems}
    assert {"availability[0]", "profile.multiplier", "servers_per_task"} <= told


def test_a_load_is_that_of_the_mean_day(write_instance: WriteInstance) -> None:
    path = write_instance(HEAD + PROFILE + "availability = [1, 0.5, 0.5]\n")
    day = load_day(path, 0.6)
    assert day.mean_day.load == pytest.approx(0.6)
    assert load_instance(path, 0.6).load == pytest.approx(0.6)
    assert "mean of the day" in load_instance(path).name
    shares = "type_share = [1, 3]\n" + "profile = {period_steps = 100, multiplier = [0.1, 0.3]}\n"
    shared = write_instance(HEAD + shares)
    with pytest.raises(InputError, match="--load"):
        load_day(shared)
    assert load_day(shared, 0.5).mean_day.load == pytest.approx(0.5)
    steep = load_day(shared, 0.8)  # the base alone would have more than one arrival per step
    assert steep.base.arrival_rate.sum() <= 1.0
    assert steep.mean_day.load == pytest.approx(0.8)


def test_what_is_saved_is_read_back(write_instance: WriteInstance, tmp_path: Path) -> None:
    text = PROFILE + 'availability = {missing = "never", shifts = [["x", 10, 150], ["y", 0, 200]]}'
    day = day_of(write_instance, text)
    save_day(day, tmp_path / "saved.toml")
    again = load_day(tmp_path / "saved.toml")
    assert again.digest == day.digest
    assert again.off_duty.tolist() == day.off_duty.tolist()
    plain = day_of(write_instance, PROFILE)
    save_day(plain, tmp_path / "plain.toml")
    assert load_day(tmp_path / "plain.toml").digest == plain.digest
    instance = load_instance(write_instance(HEAD + "availability = [1, 0.3, 0.7]"))
    save_instance(instance, tmp_path / "one.toml")
    assert load_instance(tmp_path / "one.toml") == instance
