"""What would other policies have earned on a log? Simulated on the instance fitted to it (ours).

Beside the simulation, where the log holds what they need: off-policy estimates (``off_policy``) and
a run on recorded outcomes (``recorded``).

Rewards are per task that arrives. Two things make them unsure, and both are told: the simulation's
noise (replications, paired between policies), and the scores, which are estimates. A policy that
gives pair (v, r) a_vr assignments per task earns sum a_vr s_vr, so with independent scores of
standard deviation sd_vr its reward has the variance sum a_vr^2 sd_vr^2, and a difference of two
policies sum (a_vr - b_vr)^2 sd_vr^2. Rates and durations are taken as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.experiments.comparison import Comparison, compare
from opportune.experiments.judging import JudgeRules, trained
from opportune.experiments.metrics import half_width
from opportune.experiments.off_policy import OffPolicy, off_policy, off_policy_record
from opportune.experiments.recorded import Recorded, recorded, recorded_record
from opportune.experiments.settings import Progress, Settings
from opportune.learning.fit.files import finite
from opportune.learning.fit.instance import Fit

Float = NDArray[np.float64]

LOGGED = "log"
"""Name of the row of what really happened."""

NORMAL = 1.959964
"""Standard deviations of a 95 % interval."""

SIMILAR = 0.02
"""A share of unserved tasks that differs by more from the simulated one is told."""

WAITED = 0.01
"""A larger share of tasks that waited is told."""


@dataclass(frozen=True)
class ReplayRow:
    """One policy, or the log itself.

    Attributes:
        policy: Policy id, or ``log``.
        reward: Per task that arrived.
        half_width: 95 % half width from the simulation; for the log, from its tasks.
        score_half_width: 95 % half width from the scores being estimates; 0 for the log.
        unserved: Share of tasks that nobody served.
        difference: Reward minus that of the log; NaN if the log names no servers.
        difference_half_width: 95 % half width of it, all three sources together.
        rival: Reward minus that of the first policy.
        rival_half_width: 95 % half width of it, paired: replications and scores.
    """

    policy: str
    reward: float
    half_width: float
    score_half_width: float
    unserved: float
    difference: float
    difference_half_width: float
    rival: float
    rival_half_width: float


@dataclass(frozen=True, eq=False)
class Replay:
    """Policies on a log.

    Attributes:
        fit: What was fitted to the log.
        comparison: The simulation of the policies on it.
        rows: The log first, then the policies; the policies alone if the log names no servers.
        cautions: What to know before believing it.
        off_policy: Estimates from the log's decisions; None without propensities.
        recorded: A run on recorded outcomes; None if the log does not have them of every server.
        rules: How policies were judged by outcomes of the log.
    """

    fit: Fit
    comparison: Comparison
    rows: tuple[ReplayRow, ...]
    cautions: tuple[str, ...]
    off_policy: OffPolicy | None = None
    recorded: Recorded | None = None
    rules: JudgeRules = field(default_factory=JudgeRules)

    @property
    def logged(self) -> ReplayRow | None:
        """The log itself; None if it names no servers."""
        return self.rows[0] if self.rows[0].policy == LOGGED else None

    @property
    def simulated(self) -> tuple[ReplayRow, ...]:
        """The policies."""
        return self.rows if self.logged is None else self.rows[1:]


def replay(
    fit: Fit,
    settings: Settings | None = None,
    progress: Progress | None = None,
    rules: JudgeRules | None = None,
) -> Replay:
    """Simulate policies on the instance fitted to a log, beside what the log itself earned.

    Args:
        fit: The fit.
        settings: Policies, steps, replications, seed, workers.
        progress: Called with the share of the work done.
        rules: How policies are judged by outcomes of the log.

    Raises:
        InputError: If a policy cannot be used on the instance.
        SolverError: If an LP cannot be solved.
    """
    comparison = compare(fit.instance, settings, progress)
    logged = _logged(fit) if (fit.log.server >= 0).any() else None
    policies = _policy_rows(fit, comparison, logged)
    rows = (*([] if logged is None else [logged]), *policies)
    rules = JudgeRules() if rules is None else rules
    judged, on_record = _judged(fit, comparison.settings, rules)
    told = [*_replay_cautions(fit, logged, policies)]
    for found in (judged, on_record):
        told += [] if found is None else found.cautions
    cautions = (*told, *fit.cautions)
    return Replay(fit, comparison, rows, cautions, judged, on_record, rules)


def _judged(
    fit: Fit, settings: Settings, rules: JudgeRules
) -> tuple[OffPolicy | None, Recorded | None]:
    """Off-policy estimates and the run on recorded outcomes, where the log holds them."""
    log = fit.log
    if fit.scores is None or not (np.isfinite(log.propensity).any() or log.recorded is not None):
        return None, None
    made = trained(fit, settings, rules.train)
    return off_policy(fit, made, rules), recorded(fit, made, settings)


def replay_record(result: Replay) -> dict[str, Any]:
    """The result as JSON."""
    comparison = result.comparison
    return {
        "instance": result.fit.instance.name,
        "log": result.fit.log.name,
        "tasks": result.fit.log.n_tasks,
        "load": result.fit.instance.load,
        "method": "simulation of the fitted instance",
        "score": result.fit.settings.score,
        "steps": comparison.runs.steps,
        "replications": comparison.settings.replications,
        "seed": comparison.settings.seed,
        "policies": [
            {
                "policy": row.policy,
                "reward_per_task": row.reward,
                "half_width": finite(row.half_width),
                "score_half_width": row.score_half_width,
                "unserved": row.unserved,
                "difference_to_log": finite(row.difference),
                "difference_to_log_half_width": finite(row.difference_half_width),
                "difference_to_first": row.rival,
                "difference_to_first_half_width": finite(row.rival_half_width),
            }
            for row in result.rows
        ],
        "off_policy": None if result.off_policy is None else off_policy_record(result.off_policy),
        "recorded": None if result.recorded is None else recorded_record(result.recorded),
        "cautions": list(result.cautions),
        "findings": list(result.fit.findings),
    }


def _logged(fit: Fit) -> ReplayRow:
    """What the log earned per task; services of unknown outcome count with their fitted score."""
    log = fit.log
    own = fit.task_type[log.task]
    known = np.isfinite(log.outcome) if fit.scores is not None else np.zeros(len(own), np.bool_)
    fitted = fit.instance.match_reward[own, np.maximum(log.server, 0)]
    worth = np.where(known, log.outcome, np.where(log.server >= 0, fitted, 0.0))
    reward = np.bincount(log.task, weights=worth, minlength=log.n_tasks)
    half = NORMAL * float(reward.std(ddof=1)) / np.sqrt(log.n_tasks)
    unserved = float((log.served == 0).mean())
    mean = float(reward.mean())
    return ReplayRow(LOGGED, mean, half, 0.0, unserved, 0.0, 0.0, 0.0, 0.0)


def _policy_rows(fit: Fit, comparison: Comparison, logged: ReplayRow | None) -> list[ReplayRow]:
    runs, reward = comparison.runs, fit.instance.match_reward
    sd = np.zeros_like(reward) if fit.table is None else fit.table.sd
    arrived = np.maximum(runs.arrived.sum(axis=2), 1)[:, :, None, None]
    share = runs.assigned / arrived  # (n, p, V, R) assignments per task
    earned = (share * reward).sum(axis=(2, 3))
    mean_share = share.mean(axis=0)
    base = (np.nan, np.inf) if logged is None else (logged.reward, logged.half_width)
    rows = []
    for p, result in enumerate(comparison.policies):
        half = half_width(earned[:, p])
        unsure = NORMAL * _spread(mean_share[p], sd)
        paired = half_width(earned[:, p] - earned[:, 0]) if p else 0.0
        mean = float(earned[:, p].mean())
        rows.append(
            ReplayRow(
                result.policy,
                mean,
                half,
                unsure,
                result.blocking,
                mean - base[0],
                float(np.sqrt(half**2 + unsure**2 + base[1] ** 2)),
                mean - float(earned[:, 0].mean()),
                float(np.hypot(paired, NORMAL * _spread(mean_share[p] - mean_share[0], sd))),
            )
        )
    return rows


def _spread(share: Float, sd: Float) -> float:
    return float(np.sqrt(((share * sd) ** 2).sum()))


def _replay_cautions(
    fit: Fit, logged: ReplayRow | None, policies: Sequence[ReplayRow]
) -> list[str]:
    log, told = fit.log, []
    simulated = float(np.mean([row.unserved for row in policies]))
    if logged is not None and abs(logged.unserved - simulated) > SIMILAR:
        told.append(
            f"nobody served {logged.unserved:.1%} of the tasks of the log, but {simulated:.1%} in "
            "the simulation, in which a task is turned away when no server is free: tasks that "
            "wait, shifts or a profile of the day make the difference"
        )
    wait = log.start - log.arrival[log.task]
    late = float((wait[np.isfinite(wait)] > fit.step.length).mean()) if len(wait) else 0.0
    if late > WAITED:
        told.append(
            f"{late:.0%} of the services of the log began after a wait; the simulation has none"
        )
    if fit.scores is None:
        told.append("rewards are made up, like the scores, and so are the differences")
    else:
        told.append(
            "a policy that follows the fitted scores picks pairs that look good, some by luck: "
            "expect it to earn a little less than it does here"
        )
    return told
