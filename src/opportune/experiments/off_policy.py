"""Off-policy estimates for the policies of a replay (ours; estimators in ``learning.evaluation``).

What is estimated: the outcome per decision **at the log's own states**, the servers that were busy
when each task was decided. A policy that is followed makes other servers busy; that is what the
simulation is for. Tasks of one server only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.experiments.judging import JudgeRules, Trained
from opportune.kernels.chances import fill_chances
from opportune.learning.evaluation.decisions import (
    Decisions,
    decisions_of,
    left_out_text,
)
from opportune.learning.evaluation.estimates import (
    Estimates,
    Mean,
    block_length,
    block_mean,
    estimate,
)
from opportune.learning.fit.files import finite
from opportune.learning.fit.instance import Fit
from opportune.model.spelling import counted
from opportune.policies.base import Plan

Float = NDArray[np.float64]

QUANTITY = "outcome per decision at the log's own states"

OVERLAPPING = 0.01
"""A larger share of decisions whose server was at work is told."""


@dataclass(frozen=True, eq=False)
class OffPolicyRow:
    """One policy.

    Attributes:
        policy: Policy id.
        estimates: The estimates.
        rival: DR minus that of the first policy, paired.
    """

    policy: str
    estimates: Estimates
    rival: Mean


@dataclass(frozen=True, eq=False)
class OffPolicy:
    """Policies judged by the decisions of a log.

    Attributes:
        rows: One per policy that can be judged.
        logged: Mean outcome of the same decisions.
        n: How many decisions.
        source: Who was free comes from the ``log``, or from its ``services``.
        block: Consecutive decisions in a block of the intervals.
        rules: How plans were made and weights cut.
        cautions: What to know before believing it.
    """

    rows: tuple[OffPolicyRow, ...]
    logged: Mean
    n: int
    source: str
    block: int
    rules: JudgeRules
    cautions: tuple[str, ...]


def chances(plan: Plan, decisions: Decisions, task_type: NDArray[np.int64]) -> Float:
    """(n, R) with what probability a plan takes each server at each decision.

    Where no server that the plan permits was free it is taken to agree with the log.

    Args:
        plan: A plan of lists or weights.
        decisions: The decisions, tasks of one server.
        task_type: (tasks,) type of each task of the log.
    """
    chance = np.zeros(decisions.free.shape)
    own = task_type[decisions.task]
    fill_chances(plan.tables, decisions.free, own, decisions.headcount, chance)
    nobody = np.flatnonzero(chance.sum(axis=1) == 0)
    chance[nobody, decisions.server[nobody]] = 1.0
    return chance


def off_policy(fit: Fit, made: Trained, rules: JudgeRules) -> OffPolicy | None:
    """Judge plans by the decisions of the log; None if it has no propensities.

    Args:
        fit: The fit.
        made: Plans, guesses and the tasks that judge.
        rules: Largest weight.

    Raises:
        InputError: If there are more decisions times servers than can be held.
    """
    if not np.isfinite(fit.log.propensity).any() or fit.scores is None:
        return None
    every = decisions_of(fit.log)
    decisions = every.rows(made.judged[every.task])
    cautions = _cautions(decisions, rules)
    plans = [plan for plan in made.plans if plan.counts is None]
    others = [plan.policy for plan in made.plans if plan.counts is not None]
    if others:
        told = ", ".join(others)
        cautions.append(f"{told}: decides by groups or states of servers, not judged off-policy")
    if not decisions.n:
        cautions.append("no decision of the log can judge a policy off-policy")
        return OffPolicy((), block_mean(decisions.outcome), 0, every.source, 1, rules, (*cautions,))
    taken = (decisions.server, decisions.propensity, decisions.outcome)
    guess = made.guess[decisions.task]
    rows: list[OffPolicyRow] = []
    for plan in plans:
        found = estimate(chances(plan, decisions, fit.task_type), taken, guess, rules.clip)
        base = rows[0].estimates.points if rows else found.points
        rows.append(OffPolicyRow(plan.policy, found, block_mean(found.points - base)))
        cautions += [f"off-policy {plan.policy}: {text}" for text in found.cautions]
    return OffPolicy(
        rows=tuple(rows),
        logged=block_mean(decisions.outcome),
        n=decisions.n,
        source=decisions.source,
        block=block_length(decisions.n),
        rules=rules,
        cautions=tuple(cautions),
    )


def off_policy_record(result: OffPolicy) -> dict[str, Any]:
    """The result as JSON; a policy without support has no estimates."""
    return {
        "quantity": QUANTITY,
        "decisions": result.n,
        "free": result.source,
        "train": result.rules.train,
        "clip": result.rules.clip,
        "interval": f"t, blocks of {counted(result.block, 'decision')}",
        "log": result.logged.value,
        "log_half_width": finite(result.logged.half_width),
        "policies": [_row_record(row) for row in result.rows],
    }


def _row_record(row: OffPolicyRow) -> dict[str, Any]:
    found = row.estimates
    record: dict[str, Any] = {"policy": row.policy, "supported": found.supported}
    for name, mean in (
        ("ips", found.ips),
        ("snips", found.snips),
        ("dr", found.dr),
        ("dr_difference_to_log", found.difference),
        ("dr_difference_to_first", row.rival),
    ):
        record[name] = mean.value if found.supported else None
        record[f"{name}_half_width"] = finite(mean.half_width) if found.supported else None
    return record | {
        "effective": found.effective,
        "mean_weight": found.weight.value,
        "mean_weight_half_width": finite(found.weight.half_width),
        "largest_weight": found.largest,
        "agree": found.agree,
        "clipped": found.clipped,
    }


def _cautions(decisions: Decisions, rules: JudgeRules) -> list[str]:
    told = []
    left_out = left_out_text(decisions)
    if left_out:
        told.append(f"off-policy estimates leave out {left_out}")
    if decisions.source == "services":
        told.append(
            "the log does not say who was free (column 'free'): off-policy estimates take a server "
            "for free when none of its services is under way, also one that was off duty"
        )
    if decisions.n and decisions.overlaps > OVERLAPPING * decisions.n:
        told.append(
            f"{counted(decisions.overlaps, 'decision')} took a server that was at work by the "
            "log's services: off-policy estimates are off by that"
        )
    if rules.train == 0:
        told.append(
            "plans are judged by the outcomes that they were made from: expect them to earn less"
        )
    return told
