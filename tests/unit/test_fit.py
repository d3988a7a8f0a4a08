"""From a log to an instance: what was simulated is found again, within the intervals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import opportune
from opportune.errors import InputError
from opportune.experiments.fit_limits import limit_cautions
from opportune.learning.fit.columns import columns_of, read_columns
from opportune.learning.fit.instance import Fit, FitSettings, fit_log
from opportune.learning.fit.log import LogRules, read_log
from opportune.learning.fit.steps import choose_step
from opportune.model.duration import Geometric
from opportune.model.loss import LossInstance
from tests.fit_logs import order_of, simulated_log, write_log

KNOWN = (("specialist-v1", 0.7), ("priority-v1", 0.5), ("unfriendly-v1", 0.7))


def with_chances(instance: LossInstance) -> LossInstance:
    """The instance with rewards that can be the chances of an outcome."""
    return replace(instance, match_reward=instance.match_reward / instance.match_reward.max())


def small_world(k: int = 1) -> LossInstance:
    """Two types, four servers, geometric and uniform durations."""
    return opportune.loss_instance(
        [[0.9, 0.7, 0.5, 0.3], [0.2, 0.4, 0.6, 0.8]],
        [0.06, 0.04],
        [Geometric(9.0), opportune.Empirical(np.arange(1, 16), np.ones(15))],
        k,
        task_types=["blue", "red"],
        servers=["a", "b", "c", "d"],
    )


def fitted(instance: LossInstance, folder: Path, steps: int, seed: int, **settings: object) -> Fit:
    path = simulated_log(instance, folder / f"log{seed}.csv", steps, seed)
    return fit_log(read_log(path), FitSettings(**settings))  # type: ignore[arg-type]


def covered(fit: Fit, truth: LossInstance) -> tuple[list[bool], list[bool], list[bool]]:
    """Which intervals of rates, mean durations and scores hold the truth."""
    types = order_of(truth.task_types, fit.instance.task_types)
    servers = order_of(truth.servers, fit.instance.servers)
    rate, mean = truth.arrival_rate[types], truth.mean_duration[types]
    score = truth.match_reward[np.ix_(types, servers)]
    low = np.array([one.low for one in fit.services.types])
    high = np.array([one.high for one in fit.services.types])
    assert fit.scores is not None
    table = fit.scores.table
    return (
        ((fit.arrivals.low <= rate) & (rate <= fit.arrivals.high)).tolist(),
        ((low <= mean) & (mean <= high)).tolist(),
        ((table.low <= score) & (score <= table.high)).ravel().tolist(),
    )


def test_catalog_instances_are_found_again(tmp_path: Path) -> None:
    """95 % intervals of rates, durations and scores over three instances, two logs of each."""
    found: list[list[bool]] = [[], [], []]
    for name, load in KNOWN:
        truth = with_chances(opportune.load_instance(name, load))
        for seed in range(2):
            fit = fitted(truth, tmp_path, 15_000, seed)
            assert fit.step.length == 1.0
            assert fit.instance.load == pytest.approx(truth.load, rel=0.08)
            assert (fit.instance.servers_per_task == truth.servers_per_task[0]).all()
            for part, values in zip(found, covered(fit, truth), strict=True):
                part += values
    for part in found:
        assert sum(part) >= stats.binom.ppf(0.001, len(part), 0.93)


def test_intervals_hold_the_truth_as_often_as_they_say(tmp_path: Path) -> None:
    truth = small_world()
    found: list[list[bool]] = [[], [], []]
    for seed in range(40):
        fit = fitted(truth, tmp_path, 6_000, seed)
        for part, values in zip(found, covered(fit, truth), strict=True):
            part += values
    for part in found:
        n = len(part)
        assert stats.binom.ppf(0.001, n, 0.94) <= sum(part)


def test_several_servers_a_task(tmp_path: Path) -> None:
    fit = fitted(small_world(2), tmp_path, 20_000, 1)
    assert fit.instance.servers_per_task.tolist() == [2, 2]
    assert fit.instance.load == pytest.approx(small_world(2).load, rel=0.06)
    assert fit.arrivals.count.sum() < len(fit.log.task)
    assert fit.drifted == []


def test_types_may_need_different_numbers_of_servers(tmp_path: Path) -> None:
    rows = []
    for i in range(300):
        kind, k = ("one", 1) if i % 2 else ("two", 2)
        k = 1 if i % 50 == 0 else k
        rows += [f"{i},{10 * i},{kind},s{j},{1 + i % 7},1" for j in range(k)]
    path = write_log(tmp_path / "log.csv", "task,time,task_type,server,duration,outcome", *rows)
    fit = fit_log(read_log(path))
    assert dict(zip(fit.instance.task_types, fit.instance.servers_per_task, strict=True)) == {
        "one": 1,
        "two": 2,
    }
    assert any("another number of servers" in text and "6 tasks" in text for text in fit.findings)


def test_a_fit_is_the_same_twice_whatever_the_order_of_rows(tmp_path: Path) -> None:
    path = simulated_log(small_world(), tmp_path / "log.csv", 4_000, 3)
    header, *rows = path.read_text().splitlines()
    turned = write_log(tmp_path / "turned.csv", header, *reversed(rows))
    one, two = (fit_log(read_log(each)) for each in (path, turned))
    assert one.instance == two.instance
    assert one.instance == fit_log(read_log(path)).instance


def test_a_rate_that_changes_within_the_day_makes_a_profile(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    busy = np.sort(
        np.concatenate(
            [
                day * 1000 + np.concatenate([rng.uniform(0, 500, 150), rng.uniform(500, 1000, 50)])
                for day in range(12)
            ]
        )
    )
    rows = [f"{t:.3f},s{rng.integers(3)},{rng.exponential(8):.3f},1" for t in busy]
    path = write_log(tmp_path / "log.csv", "time,server,duration,outcome", *rows)
    log = read_log(
        path,
        columns_of(
            {
                "time": "time",
                "server": "server",
                "duration": "duration",
                "outcome": "outcome",
                "day": 1000,
            }
        ),
    )
    fit = fit_log(log, FitSettings(step=0.5, periods=4))
    assert fit.arrivals.multiplier is not None
    np.testing.assert_allclose(fit.arrivals.multiplier[:, 0], [1.5, 1.5, 0.5, 0.5], atol=0.15)
    assert fit.arrivals.period_steps == 500
    assert any("rates change over the day" in text for text in fit.cautions)
    flat = fit_log(log, FitSettings(step=0.5, periods=1))
    assert flat.arrivals.multiplier is None
    with pytest.raises(InputError, match="does not divide a period"):
        fit_log(log, FitSettings(step=0.3, periods=4))


def test_equal_rates_all_day_make_no_profile(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    rows = [f"{t:.3f},s,{rng.exponential(8):.3f},1" for t in np.sort(rng.uniform(0, 12_000, 2400))]
    path = write_log(tmp_path / "log.csv", "time,server,duration,outcome", *rows)
    roles = {role: role for role in ("time", "server", "duration", "outcome")}
    fit = fit_log(read_log(path, columns_of({**roles, "day": 1000})), FitSettings(step=0.5))
    assert fit.arrivals.multiplier is None
    assert fit.arrivals.p_profile is not None
    assert fit.arrivals.p_profile > 0.01


def test_drift_is_noticed_and_where(tmp_path: Path) -> None:
    first = simulated_log(small_world(), tmp_path / "one.csv", 10_000, 1)
    worse = replace(small_world(), match_reward=small_world().match_reward * [[1, 1, 1, 0.2]])
    second = simulated_log(worse, tmp_path / "two.csv", 10_000, 2)
    rows = first.read_text().splitlines()
    late = []
    for row in second.read_text().splitlines()[1:]:
        cells = row.split(",")
        cells[0] = f"late{cells[0]}"
        cells[1] = str(int(cells[1]) + 10_001)
        cells[4] = str(int(cells[4]) + 10_001) if cells[4] else ""
        late.append(",".join(cells))
    log = read_log(write_log(tmp_path / "both.csv", rows[0], *rows[1:], *late))
    fit = fit_log(log)
    names = [test.what for test in fit.drifted]
    assert "outcomes of d" in names
    assert "outcomes of a" not in names
    worst = next(test for test in fit.drifted if test.what == "outcomes of d")
    assert worst.place == pytest.approx(0.5, abs=0.1)
    assert any(text.startswith("drift: outcomes of d changed") for text in fit.cautions)


def test_collapsed_exploration_and_propensities_are_told(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = []
    for i in range(400):
        kind = "ab"[i % 2]
        server = "x" if kind == "a" else "xy"[rng.integers(2)]
        rows.append(f"{i},{kind},{server},2,1,{1.0 if kind == 'a' else 0.5}")
    path = write_log(
        tmp_path / "log.csv", "time,task_type,server,duration,outcome,propensity", *rows
    )
    text = "\n".join(fit_log(read_log(path)).cautions)
    assert "collapsed exploration: 100% of the services of type a went to x" in text
    assert "50% of the choices were certain" in text
    assert "1 pair of 4 never seen with an outcome (a by y)" in text


def test_unseen_pairs_can_be_forbidden(tmp_path: Path) -> None:
    path = write_log(
        tmp_path / "log.csv",
        "time,task_type,server,duration,outcome",
        *(f"{3 * i},{'ab'[i % 2]},{'xy'[i % 2]},2,1" for i in range(50)),
    )
    assert fit_log(read_log(path)).instance.allowed.all()
    forbidden = fit_log(read_log(path), FitSettings(unseen="forbid")).instance
    assert forbidden.allowed.tolist() == [[True, False], [False, True]]


def test_the_load_is_told_by_the_time_that_servers_were_there(tmp_path: Path) -> None:
    """Two servers, a quarter of each day at work and busy for nine tenths of that."""
    rows = [f"{100 * day + 5 * i},{'xy'[i % 2]},9,1" for day in range(10) for i in range(6)]
    path = write_log(tmp_path / "log.csv", "time,server,duration,outcome", *rows)
    columns = read_columns("time=time,server=server,duration=duration,outcome=outcome,day=100")
    fit = limit_cautions(fit_log(read_log(path, columns), FitSettings(periods=1)))
    told = "\n".join(fit.cautions)
    share = 10 * 29 / 925  # of the time from the first to the last arrival
    load = float(fit.instance.arrival_rate.sum()) * 9 / (2 * share)
    assert 0.9 < load < 0.94
    assert f"by the time that they were it is {load:.2g}" in told
    assert f"counted by the time that servers were seen at work, the load is {load:.3g}" in told


def test_a_load_near_the_limit_is_told(tmp_path: Path) -> None:
    rows = (f"{i},s{i % 2},{1 + (i % 8 > 1)},1" for i in range(300))
    path = write_log(tmp_path / "log.csv", "time,server,duration,outcome", *rows)
    fit = limit_cautions(fit_log(read_log(path)))
    assert "is above 0.5, the largest at which every task can be served" in fit.cautions[0]
    rows = (f"{4 * i},s{i % 2},{3 + i % 2},1" for i in range(300))
    path = write_log(tmp_path / "log.csv", "time,server,duration,outcome", *rows)
    near = limit_cautions(fit_log(read_log(path)))
    assert 0.43 < near.instance.load < 0.45
    assert not any("near" in text for text in near.cautions)


# -------------------------------------------------------------------------------- the step


def test_a_log_of_whole_numbers_is_in_steps_already(tmp_path: Path) -> None:
    fit = fitted(small_world(), tmp_path, 2_000, 1)
    assert fit.step.length == 1.0
    assert fit.step.lengthened == 0.0


@pytest.mark.parametrize(("scale", "length"), [(1.0, 0.5), (1000.0, 500.0), (1e-3, 5e-4)])
def test_a_step_follows_the_unit(tmp_path: Path, scale: float, length: float) -> None:
    rng = np.random.default_rng(4)
    time = np.cumsum(rng.exponential(4.0, 3000)) * scale
    rows = (f"{t!r},s,{rng.exponential(20) * scale!r}" for t in time.tolist())
    log = read_log(write_log(tmp_path / "log.csv", "time,server,duration", *rows))
    step = choose_step(log)
    assert step.length == pytest.approx(length)
    assert step.peak <= 0.3
    assert 0 < step.lengthened <= 0.02


@pytest.mark.parametrize("periods", [1, 24, 48, 90])
def test_a_chosen_step_divides_a_period_of_the_day(tmp_path: Path, periods: int) -> None:
    rng = np.random.default_rng(6)
    time = np.cumsum(rng.exponential(900.0, 2000))
    rows = (f"{t:.3f},s,{rng.exponential(18_000):.3f}" for t in time.tolist())
    path = write_log(tmp_path / "log.csv", "time,server,duration", *rows)
    roles = {role: role for role in ("time", "server", "duration")}
    step = choose_step(read_log(path, columns_of({**roles, "day": 86_400})), None, periods)
    steps = 86_400 / periods / step.length
    assert steps == pytest.approx(round(steps))
    assert 60 <= step.length <= 270


def test_a_step_that_is_too_long_is_refused(tmp_path: Path) -> None:
    path = simulated_log(small_world(), tmp_path / "log.csv", 2_000, 1)
    with pytest.raises(InputError, match=r"holds 5\.\d+ arrivals on average"):
        fit_log(read_log(path), FitSettings(step=50.0))
    with pytest.raises(InputError, match="a length of time above 0"):
        fit_log(read_log(path), FitSettings(step=0.0))


# ---------------------------------------------------------------------- what a log may lack


def test_what_a_log_must_have(tmp_path: Path) -> None:
    cases = {
        "time,server,duration": ("1,x,2", "2,x,3", "no outcome of any service"),
        "time,server,outcome": ("1,x,1", "2,x,0", "no service that ended"),
        "time,server,duration,outcome": ("1,,,", "2,,,", "nobody served any task"),
    }
    for header, (first, second, message) in cases.items():
        path = write_log(tmp_path / "log.csv", header, first, second)
        log = read_log(path)
        with pytest.raises(InputError, match=message):
            fit_log(log)
    path = write_log(tmp_path / "log.csv", "time,server,duration,outcome", "1,x,2,1", "2,x,1,-1")
    with pytest.raises(InputError, match="1 negative outcomes"):
        fit_log(read_log(path))
    path = write_log(tmp_path / "log.csv", "time,server,duration,outcome", "1,x,2,1")
    with pytest.raises(InputError, match="at least two tasks"):
        fit_log(read_log(path))


def test_scores_without_outcomes(tmp_path: Path) -> None:
    rows = (f"{5 * i},{'xy'[i % 2]},{4 if i % 2 else 2}" for i in range(200))
    log = read_log(write_log(tmp_path / "log.csv", "time,server,duration", *rows))
    speed = fit_log(log, FitSettings(score="speed"))
    assert speed.instance.match_reward[0, 0] == 1.0 > speed.instance.match_reward[0, 1]
    assert any("made up" in text for text in speed.cautions)
    plain = fit_log(log, FitSettings(score="none"))
    assert (plain.instance.match_reward == 1.0).all()


def test_a_duration_can_be_given_where_the_log_has_none(tmp_path: Path) -> None:
    rows = (f"{9 * i},x,{i % 2}" for i in range(60))
    log = read_log(write_log(tmp_path / "log.csv", "time,server,outcome", *rows))
    own = columns_of({"duration": {"kind": "geometric", "mean": 4}}).duration
    fit = fit_log(log, FitSettings(duration=own))
    assert fit.instance.duration == (Geometric(4.0),)


def test_types_are_made_of_contexts(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    rows = []
    for i in range(1200):
        kind, server = rng.integers(2), rng.integers(2)
        won = int(rng.random() < (0.9 if kind == server else 0.2))
        x = 5 * kind + rng.normal()
        rows.append(f"{7 * i},s{server},{rng.geometric(0.2)},{won},{x:.4f},{rng.normal():.4f}")
    path = write_log(tmp_path / "log.csv", "time,server,duration,outcome,x,y", *rows)
    roles = {role: role for role in ("time", "server", "duration", "outcome")}
    log = read_log(path, columns_of({**roles, "context": ["x", "y"]}))
    fit = fit_log(log)
    assert fit.instance.task_types == ("cluster 1", "cluster 2")
    best = fit.instance.match_reward.max(axis=1)
    np.testing.assert_allclose(best, 0.9, atol=0.06)
    assert len(fit_log(log, FitSettings(types=3)).instance.task_types) == 3
    plain = read_log(path)
    with pytest.raises(InputError, match="no context columns"):
        fit_log(plain, FitSettings(types=3))
    assert fit_log(plain).instance.task_types == ("task",)
    mute = read_log(
        path,
        columns_of({"time": "time", "server": "server", "duration": "duration", "context": ["x"]}),
    )
    with pytest.raises(InputError, match="how many types there are"):
        fit_log(mute, FitSettings(score="speed"))


def test_a_hostile_log_ends_in_a_message(tmp_path: Path) -> None:
    rows = ("1,a,x,1e300,1", "2,a,x,1,1", "1e300,a,x,1,1")
    path = write_log(tmp_path / "log.csv", "time,task_type,server,duration,outcome", *rows)
    with pytest.raises(InputError) as caught:
        read_log(path)
    assert [one.field for one in caught.value.problems] == ["log.time", "log.duration"]
    rows = ("1,a,x,1e14,1", "2,a,x,1,1", "3,a,x,1,1")
    path = write_log(tmp_path / "log.csv", "time,task_type,server,duration,outcome", *rows)
    with pytest.raises(InputError, match="makes a duration of 1e"):
        fit_log(read_log(path))
    path = write_log(tmp_path / "log.csv", "time,server,duration,outcome", "1,x,2,1", "1,x,2,1")
    with pytest.raises(InputError, match="one time for all tasks"):
        fit_log(read_log(path, None, LogRules()))
