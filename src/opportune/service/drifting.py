"""Does a pool need a new plan? What a plan was made from against what the pool is now.

Rates: the arrivals counted since the plan was made, at most over the pool's window, against the
plan's rates. The test: with n arrivals of a type where the plan expects mu, and index of
dispersion phi (variance over mean of the counts by bucket, at least 1: bursts are no drift), the
two-sided tail of a Poisson law at n / phi and mu / phi; times the number of looks in a window, and
corrected for the number of types (Holm, ``learning.fit.drift``). Besides, the load that the noticed
types bring must have changed by the pool's ``replan_change``: a change that is certain but small is
let be. What was counted before a plan is never held against it.

A rate is measured over the window, or from where it changed if the partial sums of its counts tell
so (``drift_test``).

Implements: Poisson test with Holm's correction (quoted); looks, dispersion, least change: ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaincc

from opportune.learning.fit.drift import Drift, drift_test, noticed
from opportune.service.arrivals import BUCKETS
from opportune.service.learned import durations_of, in_force, rates_of, scores_of
from opportune.service.resources import PlanDocument
from opportune.service.state import State

Float = NDArray[np.float64]
Int = NDArray[np.int64]

NO_PLAN = "there was no plan"
STALE_PLAN = "the plan was stale"

FEWEST = 20
"""Arrivals, counted or expected, below which rates are not tested."""


@dataclass(frozen=True)
class Basis:
    """What a plan was made from.

    Attributes:
        plan: Its id.
        servers, task_types: Names, those in the pool.
        score: (V, R) match rewards, 0 where there is none, in the pool's numbering.
        versions: Of the declared and of the learned scores.
        mean_duration: (V,) seconds, NaN where there was none.
        rate: (V,) declared rates, NaN where there was none.
    """

    plan: str
    servers: frozenset[str]
    task_types: frozenset[str]
    score: Float
    versions: tuple[int, int]
    mean_duration: Float
    rate: Float


def basis_of(state: State, plan: str) -> Basis:
    """What a plan made now is made from."""
    return Basis(
        plan,
        *_names(state),
        np.nan_to_num(scores_of(state), nan=0.0),
        _versions(state),
        _numbers(durations_of(state)),
        _numbers(rates_of(state)),
    )


def _names(state: State) -> tuple[frozenset[str], frozenset[str]]:
    servers = frozenset(server.settings.id for server in state.servers if server.present)
    return servers, frozenset(settings.id for settings in state.types)


def _versions(state: State) -> tuple[int, int]:
    learned = in_force(state)
    return state.score_version, 0 if learned is None else learned.version


def _numbers(values: list[float | None]) -> Float:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def baseline(state: State) -> PlanDocument | None:
    """The newest of the plans in force, in the shadow, and made by the service itself."""
    counted = {*state.history[-1:], state.shadow}
    for name, plan in reversed(state.plans.items()):
        if name in counted or state.made[name].reason:
            return plan
    return None


def declared_change(state: State, plan: PlanDocument, basis: Basis | None, least: float) -> str:
    """Whether servers, types, scores, durations or declared rates are no longer the plan's.

    Args:
        state: The pool.
        plan: The plan.
        basis: What it was made from, if that is known: not after a restart.
        least: Least relative change that counts.

    Returns:
        What has changed, empty for nothing.
    """
    servers, task_types = _names(state)
    if servers != frozenset(plan.servers):
        return "servers came or went"
    if task_types != frozenset(plan.task_types):
        return "task types came or went"
    if basis is None:
        changed = plan.score_version not in (None, state.score_version)
        return "scores changed" if changed else ""
    if basis.versions != _versions(state) and _scores_differ(state, basis, least):
        return "scores changed"
    for what, before, after in (
        ("mean durations", basis.mean_duration, _numbers(durations_of(state))),
        ("declared rates", basis.rate, _numbers(rates_of(state))),
    ):
        known = np.isfinite(before) & np.isfinite(after)
        if np.any(np.isfinite(before) != np.isfinite(after)) or np.any(
            np.abs(after - before)[known] > least * np.abs(before[known])
        ):
            return f"{what} changed"
    return ""


def _scores_differ(state: State, basis: Basis, least: float) -> bool:
    """Whether the sum of the changes is more than a share of the sum of the scores."""
    score = np.nan_to_num(scores_of(state), nan=0.0)
    old = np.zeros_like(score)
    old[: basis.score.shape[0], : basis.score.shape[1]] = basis.score
    return float(np.abs(score - old).sum()) > least * float(np.abs(old).sum())


def rate_drift(state: State, plan: PlanDocument, now: float, least: float) -> str:
    """Whether tasks arrive at other rates than the plan was made for; in words, or empty."""
    if state.arrivals is None or not plan.arrival_rate:
        return ""
    counts = state.arrivals.full(now, state.made[plan.id].created, len(state.types))
    seconds = len(counts) * state.arrivals.width
    rate = dict(zip(plan.task_types, plan.arrival_rate, strict=True))
    tests = []
    for v, settings in enumerate(state.types):
        if settings.id in rate:
            test = rate_test(settings.id, counts[:, v], rate[settings.id] * seconds)
            tests += [] if test is None else [test]
    drifted = noticed(tests)
    work = dict(zip(plan.task_types, plan.mean_duration or [1.0] * len(rate), strict=True))
    for settings, k in zip(state.types, state.servers_per_task, strict=True):
        work[settings.id] = work.get(settings.id, 0.0) * k
    load = sum(rate[name] * seconds * work[name] for name in rate)
    change = sum(abs(one.after - one.before) * work[one.what] for one in drifted)
    if not drifted or change <= least * load:
        return ""
    most = max(drifted, key=lambda one: abs(one.after - one.before) * work[one.what])
    told = f"rates drifted: {most.what} {most.after / seconds:.4g}/s, planned for "
    more = f" and {len(drifted) - 1} more" if len(drifted) > 1 else ""
    return f"{told}{most.before / seconds:.4g}/s{more}"


def rate_test(what: str, counts: Int, expected: float) -> Drift | None:
    """The test of one type; None with too few arrivals.

    Args:
        what: Its name.
        counts: (buckets,) arrivals.
        expected: How many the plan expects in all.
    """
    n = float(counts.sum())
    if max(n, expected) < FEWEST:
        return None
    spread = 1.0
    if len(counts) > 1 and n > 0:
        spread = max(1.0, float(counts.var(ddof=1) / counts.mean()))
    many, mean = n / spread, expected / spread
    if n > expected:
        tail = float(gammainc(many, mean)) if mean > 0 else 0.0
    else:
        tail = float(gammaincc(many + 1.0, mean))
    return Drift(what, len(counts), min(1.0, 2.0 * tail * BUCKETS), 1.0, expected, n)


def measured_rates(state: State, now: float) -> Float:
    """(V,) arrivals per second by type, over the window or since they changed.

    NaN for a type of which too few came, and too few were to be expected by the newest plan.
    """
    rate = np.full(len(state.types), np.nan)
    if state.arrivals is None:
        return rate
    counts = state.arrivals.full(now, state.arrivals.since, len(state.types))
    if len(counts) == 0:
        return rate
    plan, seconds = baseline(state), len(counts) * state.arrivals.width
    planned = {} if plan is None else dict(zip(plan.task_types, plan.arrival_rate, strict=False))
    found = [drift_test(str(v), counts[:, v].astype(np.float64)) for v in range(len(state.types))]
    begins = dict.fromkeys(range(len(state.types)), 0)
    for test in noticed([one for one in found if one is not None]):
        begins[int(test.what)] = round(test.place * test.n)
    for v, begin in begins.items():
        expected = planned.get(state.types[v].id, 0.0) * seconds
        if max(float(counts[:, v].sum()), expected) < FEWEST:
            continue
        rate[v] = counts[begin:, v].mean() / state.arrivals.width
    return rate
