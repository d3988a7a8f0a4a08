"""Off-policy estimates: exact on small cases, and as sure as they say on logs of known truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from opportune.errors import InputError
from opportune.experiments.judging import JudgeRules, trained
from opportune.experiments.off_policy import OffPolicy, chances, off_policy, off_policy_record
from opportune.experiments.settings import Settings
from opportune.kernels.allocate import SAMPLE
from opportune.kernels.chances import fill_chances
from opportune.learning.evaluation.decisions import decisions_of
from opportune.learning.evaluation.estimates import Estimates, block_mean, estimate
from opportune.learning.fit.columns import columns_of
from opportune.learning.fit.instance import FitSettings, fit_log
from opportune.learning.fit.log import read_log
from tests import naive_evaluation as naive
from tests.fit_logs import write_log
from tests.instances import Shape, random_instance, static_plans
from tests.unit.test_fit import small_world

Float = NDArray[np.float64]
SETTINGS = Settings(policies=("lag", "greedy", "random"))


def known_log(path: Path, seed: int, n: int = 600, certain: bool = False) -> Path:
    """A log of the small world's scores, choices at random, propensities and free servers told."""
    rng = np.random.default_rng(seed)
    score = small_world().match_reward
    free_at, now, rows = np.zeros(4), 0.0, []
    for _ in range(n):
        now += rng.exponential(10.0)
        v = int(rng.random() < 0.4)
        free = np.flatnonzero(free_at <= now)
        if not len(free):
            rows.append(f"{now!r},{'blue' if v == 0 else 'red'},,,,,")
            continue
        weight = rng.random(len(free)) + 0.3
        chance = np.zeros(len(free))
        chance[0] = 1.0
        chance = chance if certain else weight / weight.sum()
        place = rng.choice(len(free), p=chance)
        r, took = free[place], float(rng.exponential(12.0)) + 0.01
        free_at[r] = now + took
        won = int(rng.random() < score[v, r])
        told = ";".join("abcd"[one] for one in free)
        kind = "blue" if v == 0 else "red"
        rows.append(f"{now!r},{kind},{'abcd'[r]},{took!r},{won},{float(chance[place])!r},{told}")
    header = "time,task_type,server,duration,outcome,propensity,free"
    return write_log(path, header, *rows)


def pairs_log(path: Path, seed: int, n: int = 600, in_turn: bool = False) -> Path:
    """Tasks of two servers of the small world: half of them any two, half the first two free."""
    rng = np.random.default_rng(seed)
    score = small_world().match_reward
    free_at, now, rows = np.zeros(4), 0.0, []
    for i in range(n):
        now += rng.exponential(16.0)
        v = int(rng.random() < 0.4)
        free = np.flatnonzero(free_at <= now)
        kind, told = ("blue", "red")[v], ";".join("abcd"[one] for one in free)
        if len(free) < 2:
            rows.append(f"{now!r},t{i},{kind},,,,,")
            continue
        first = free[:2] if rng.random() < 0.5 else rng.choice(free, 2, replace=False)
        took = float(rng.exponential(12.0)) + 0.01
        for place, r in enumerate(first):
            chance = 0.5 * (r in free[:2]) + 1.0 / len(free)
            chance = 1.0 / (len(free) - place) if in_turn else chance
            free_at[r] = now + took
            won = int(rng.random() < score[v, r])
            rows.append(f"{now!r},t{i},{kind},{'abcd'[r]},{took!r},{won},{chance!r},{told}")
    header = "time,task,task_type,server,duration,outcome,propensity,free"
    return write_log(path, header, *rows)


def judged(path: Path, rules: JudgeRules | None = None, **settings: object) -> OffPolicy:
    fit = fit_log(read_log(path))
    rules = rules or JudgeRules()
    chosen = replace(SETTINGS, **settings)  # type: ignore[arg-type]
    found = off_policy(fit, trained(fit, chosen, rules.train), rules)
    assert found is not None
    return found


@pytest.mark.parametrize("scores", ["smooth", "levels"])
def test_chances_are_those_of_the_rule(scores: str) -> None:
    rng = np.random.default_rng(3)
    instance = random_instance(rng, Shape(scores=scores, forbidden=True, k=1))
    n = 40
    free = rng.random((n, instance.n_servers)) < 0.5
    task_type = rng.integers(0, instance.n_types, n)
    for plan in static_plans(instance):
        chance = np.full(free.shape, np.nan)
        none, one = np.zeros(n, dtype=np.int64), np.ones(n, dtype=np.int64)
        fill_chances(plan.tables, free, task_type, none, one, chance)
        for i in range(n):
            exact = naive.chance_of(plan.tables, free[i].tolist(), int(task_type[i]), 0)
            assert chance[i] == pytest.approx([float(one) for one in exact], abs=1e-12)


@pytest.mark.parametrize("k", [2, 3])
def test_chances_of_several_are_those_of_being_among_them(k: int) -> None:
    rng = np.random.default_rng(4)
    instance = random_instance(rng, Shape(scores="levels", forbidden=True, k=k))
    n = 12
    free = rng.random((n, instance.n_servers)) < 0.7
    task_type = rng.integers(0, instance.n_types, n)
    for plan in static_plans(instance):
        if plan.tables.rule == SAMPLE:
            continue
        chance, none = np.full(free.shape, np.nan), np.zeros(n, dtype=np.int64)
        fill_chances(plan.tables, free, task_type, none, np.full(n, k), chance)
        for i in range(n):
            exact = naive.among(plan.tables, free[i].tolist(), (int(task_type[i]), 0), k)
            assert chance[i] == pytest.approx([float(one) for one in exact], abs=1e-12)


def test_estimates_of_several_servers_are_exact_on_average() -> None:
    """Every set of two of four servers, and as often the first two: all that could happen."""
    sets = [*combinations(range(4), 2), *[(0, 1)] * 6]
    worth, policy = np.array([0.3, 0.9, 0.5, 0.1]), np.array([1.0, 0.0, 0.7, 0.3])
    among = np.array([sum(r in one for one in sets) / len(sets) for r in range(4)])
    server = np.array(sets).ravel()
    decision = np.repeat(np.arange(len(sets)), 2)
    chance, guess = np.tile(policy, (len(sets), 1)), np.tile([0.2, 0.4, 0.6, 0.8], (len(sets), 1))
    taken = (server, among[server], worth[server])
    found = estimate(chance, taken, guess, decision=decision)
    truth = float((policy * worth).sum())
    told = (found.ips.value, found.dr.value, found.snips.value, found.weight.value)
    assert told == pytest.approx((truth, truth, truth, 1.0))
    wrong = estimate(chance, (server, among[server] / 2, worth[server]), guess, decision=decision)
    assert wrong.weight.value == pytest.approx(2.0)


def test_estimates_are_their_formulas() -> None:
    chance = [[Fraction(1), Fraction(0)], [Fraction(1, 4), Fraction(3, 4)], [Fraction(1), 0]]
    taken = [(0, Fraction(1, 2), Fraction(1)), (1, Fraction(1, 4), Fraction(1, 2))]
    taken.append((1, Fraction(1, 3), Fraction(1)))
    guess = [[Fraction(1, 2), Fraction(1, 5)], [Fraction(1, 3), Fraction(1)], [Fraction(1), 0]]
    exact = naive.estimates(chance, taken, guess)  # type: ignore[arg-type]
    assert exact == (Fraction(7, 6), Fraction(7, 10), Fraction(11, 18))  # by hand
    arrays = (
        np.array([a for a, _, _ in taken]),
        np.array([float(p) for _, p, _ in taken]),
        np.array([float(r) for _, _, r in taken]),
    )
    found = estimate(np.array(chance, float), arrays, np.array(guess, float))
    told = (found.ips.value, found.snips.value, found.dr.value)
    assert told == pytest.approx([float(one) for one in exact])
    assert found.effective == pytest.approx(5.0**2 / 13.0)
    assert found.weight.value == pytest.approx(5.0 / 3.0)
    cut = estimate(np.array(chance, float), arrays, np.array(guess, float), clip=2.0)
    assert cut.ips.value == pytest.approx((2.0 + 1.0) / 3.0)
    assert cut.clipped == pytest.approx(1 / 3)


def synthetic(seed: int, wrong: bool = False) -> Estimates:
    """400 independent decisions of two servers; the policy always takes the second (worth .7)."""
    rng = np.random.default_rng(seed)
    first = rng.random(400) * 0.6 + 0.2  # probability of the first server
    server = (rng.random(400) >= first).astype(np.int64)
    propensity = np.where(server == 0, first, 1.0 - first)
    outcome = (rng.random(400) < np.where(server == 0, 0.4, 0.7)).astype(np.float64)
    chance = np.tile([0.0, 1.0], (400, 1))
    guess = np.tile([0.5, 0.6], (400, 1))
    shown = np.full(400, 0.4) if wrong else propensity
    return estimate(chance, (server, shown, outcome), guess)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    def coverage(wrong: bool) -> list[float]:
        held = []
        for seed in range(400):
            found = synthetic(seed, wrong)
            means = (found.ips, found.snips, found.dr)
            held.append([abs(one.value - 0.7) <= one.half_width for one in means])
        return np.mean(held, axis=0).tolist()

    right, wrong = coverage(False), coverage(True)
    assert all(0.92 <= share <= 0.985 for share in right), right
    assert wrong[0] < 0.5  # propensities that are not true are not forgiven
    assert wrong[1] > 0.9  # SNIPS forgives a common factor


@pytest.mark.parametrize(("make", "logs"), [(known_log, 30), (pairs_log, 24)])
def test_intervals_on_logs_with_busy_servers(
    make: Callable[[Path, int, int], Path], logs: int, tmp_path: Path
) -> None:
    """The truth at the log's states is known: the true score of whom the policy would take."""
    score, held = small_world().match_reward, []
    for seed in range(logs):
        fit = fit_log(read_log(make(tmp_path / f"{seed}.csv", seed, 800)))
        made = trained(fit, SETTINGS, 0.5)
        found = off_policy(fit, made, JudgeRules())
        assert found is not None
        every = decisions_of(fit.log, several=True)
        decisions = every.rows(made.judged[every.task])
        for plan, row in zip(made.plans, found.rows, strict=True):
            chance = chances(plan, decisions, fit.task_type)
            truth = (chance * score[fit.task_type[decisions.task]]).sum(axis=1).mean()
            means = (row.estimates.ips, row.estimates.snips, row.estimates.dr)
            held.append([abs(one.value - truth) <= one.half_width for one in means])
    assert (np.mean(held, axis=0) >= 0.87).all(), np.mean(held, axis=0)


def test_what_tasks_of_several_servers_need_is_told(tmp_path: Path) -> None:
    good = judged(pairs_log(tmp_path / "good.csv", 2))
    told = "\n".join(good.cautions)
    assert f"{good.n} decisions took several servers" in told
    assert "same outcome" not in told
    assert "no true propensities" not in told
    drawn = judged(pairs_log(tmp_path / "good.csv", 2), policies=("lag", "alg-sc-lp"))
    assert [row.policy for row in drawn.rows] == ["lag"]
    assert "alg-sc-lp: draws by weight, judged off-policy by tasks of one" in str(drawn.cautions)
    turn = judged(pairs_log(tmp_path / "turn.csv", 2, in_turn=True))
    assert "off-policy random: the mean weight is" in "\n".join(turn.cautions)
    lines = (tmp_path / "good.csv").read_text().splitlines()
    alike = [",".join([*line.split(",")[:5], "0.4", *line.split(",")[6:]]) for line in lines[1:]]
    alike = [row.replace(",0.4,", ",,") if ",,," in row else row for row in alike]
    path = write_log(tmp_path / "alike.csv", lines[0], *alike)
    assert "all servers of a task have the same outcome" in "\n".join(judged(path).cautions)


def test_blocks_see_what_neighbors_share() -> None:
    rng = np.random.default_rng(1)
    alike = np.repeat(rng.normal(size=200), 10)
    alone = rng.normal(size=2000)
    assert block_mean(alike).half_width > 2 * block_mean(alone).half_width
    assert block_mean(alone).half_width == pytest.approx(1.96 / np.sqrt(2000), rel=0.1)
    assert block_mean(np.ones(5)).half_width == np.inf


def test_a_log_without_choice_supports_no_other_policy(tmp_path: Path) -> None:
    found = judged(known_log(tmp_path / "log.csv", 4, certain=True))
    rows = {row.policy: row.estimates for row in found.rows}
    assert not rows["random"].supported
    told = "\n".join(found.cautions)
    assert "off-policy random: no support: about" in told
    record = {row["policy"]: row for row in off_policy_record(found)["policies"]}
    assert record["random"]["supported"] is False
    assert record["random"]["dr"] is None
    assert record["random"]["mean_weight"] == rows["random"].weight.value


def test_who_was_free_without_the_column(tmp_path: Path) -> None:
    """Services of the log say who was at work; exactly so when all of them are in it."""
    path = known_log(tmp_path / "log.csv", 6, 200)
    log = read_log(path)
    told = decisions_of(log)
    own = decisions_of(replace(log, free=None))
    assert (told.source, own.source) == ("log", "services")
    assert np.array_equal(told.free, own.free)
    assert np.array_equal(own.headcount, 4 - own.free.sum(axis=1))
    assert own.overlaps == 0


def test_services_that_begin_together_or_never_end(tmp_path: Path) -> None:
    rows = ("0,x,5", "0,y,3", "1,z,9", "3,y,1", "5,x,", "6,y,2", "7,z,2")
    path = write_log(
        tmp_path / "log.csv", "time,server,duration,outcome", *(f"{r},1" for r in rows)
    )
    log = read_log(path)
    found = decisions_of(log, with_propensity=False)
    spans = [(0, 5, 0), (0, 3, 1), (1, 10, 2), (3, 4, 1), (5, 99, 0), (6, 8, 1), (7, 9, 2)]
    free = naive.free_servers([(float(a), float(b), r) for a, b, r in spans], 3)
    assert not free[6, 2]
    assert found.overlaps == 1  # the last one takes a server that is at work
    free[6, 2] = True
    assert np.array_equal(found.free, free)


def test_what_is_left_out_is_told(tmp_path: Path) -> None:
    rows = [f"{9 * i},t{i},{'xy'[i % 2]},3,1,0.5" for i in range(40)]
    rows += ["400,two,x,3,1,0.5", "400,two,y,3,1,0.5", "410,t3x,x,3,,0.5", "420,t4x,y,3,1,"]
    path = write_log(tmp_path / "log.csv", "time,task,server,duration,outcome,propensity", *rows)
    log = read_log(path)
    alone, together = decisions_of(log), decisions_of(log, several=True)
    assert alone.left_out == {
        "of tasks with several servers": 2,
        "without a propensity": 1,
        "without an outcome": 1,
    }
    assert (together.n, len(together.server)) == (41, 42)
    assert together.wanted.tolist() == [1] * 40 + [2]
    start = np.where(log.server == 1, 405.0, log.start)
    apart = decisions_of(replace(log, start=start), several=True)
    assert apart.left_out["that began after another of the same task"] == 1
    assert apart.left_out["beside one of these"] == 1


def test_cautions_tell_how_the_estimates_were_made(tmp_path: Path) -> None:
    path = known_log(tmp_path / "log.csv", 8, 300)
    told = judged(path, JudgeRules(train=0.0, clip=1.5))
    text = "\n".join(told.cautions)
    assert "plans are judged by the outcomes that they were made from" in text
    assert "of the weights were cut" in text
    assert told.n > judged(path).n


def test_bad_rules_and_columns(tmp_path: Path) -> None:
    for wrong in ({"train": 1.0}, {"train": -0.1}, {"train": float("nan")}, {"clip": 0.0}):
        with pytest.raises(InputError, match="--"):
            JudgeRules(**wrong)
    path = write_log(tmp_path / "log.csv", "time,server,duration,free", "1,x,2,y;z", "3,y,2,y")
    with pytest.raises(InputError, match="the server was not free"):
        read_log(path)


def test_guesses_go_by_context_where_scores_do(tmp_path: Path) -> None:
    """Server x is good for large numbers, y for small ones: one type, two kinds of tasks."""
    rng = np.random.default_rng(5)
    rows = []
    for i in range(600):
        x, server = float(rng.normal()), "xy"[int(rng.random() < 0.5)]
        good = 1.0 / (1.0 + np.exp(-3.0 * x * (1 if server == "x" else -1)))
        rows.append(f"{9 * i},{server},3,{int(rng.random() < good)},0.5,x;y,{x!r}")
    header = "time,server,duration,outcome,propensity,free,size"
    path = write_log(tmp_path / "log.csv", header, *rows)
    roles = {name: name for name in header.split(",")[:-1]} | {"context": ["size"]}
    fit = fit_log(read_log(path, columns_of(roles)), FitSettings(types=1, model="server"))
    made = trained(fit, SETTINGS, 0.5)
    assert fit.log.context is not None
    size = fit.log.context[:, 0]
    assert made.guess[size > 1, 0].min() > 0.6 > 0.4 > made.guess[size > 1, 1].max()
    table = replace(made, guess=np.tile(made.instance.match_reward, (600, 1)))
    found, plain = (off_policy(fit, one, JudgeRules()) for one in (made, table))
    assert found is not None
    assert plain is not None
    own, other = found.rows[2].estimates, plain.rows[2].estimates  # the policy random
    assert own.dr.value == pytest.approx(other.dr.value, abs=2 * other.dr.half_width)
    assert own.dr.half_width < other.dr.half_width
