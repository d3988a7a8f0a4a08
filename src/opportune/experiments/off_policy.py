"""Off-policy estimates for the policies of a replay (ours; estimators in ``learning.evaluation``).

What is estimated: the outcome per decision **at the log's own states**, the servers that were busy
when each task was decided. A policy that is followed makes other servers busy; that is what the
simulation is for. A task of several servers is worth the sum of its servers' own outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.experiments.judging import JudgeRules, Trained
from opportune.kernels.allocate import SAMPLE
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

ALIKE = 30
"""So many tasks of several servers, each with one outcome for all of them, are told."""

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

    Where too few servers that the plan permits were free it is taken to agree with the log.

    Args:
        plan: A plan of lists; or of weights, for tasks of one server.
        decisions: The decisions.
        task_type: (tasks,) type of each task of the log.
    """
    chance, k = np.zeros(decisions.free.shape), decisions.wanted
    own = task_type[decisions.task]
    fill_chances(plan.tables, decisions.free, own, decisions.headcount, k, chance)
    few = chance.sum(axis=1) < k - 0.5
    chance[few] = 0.0
    taken = few[decisions.decision]
    chance[decisions.decision[taken], decisions.server[taken]] = 1.0
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
    every = decisions_of(fit.log, several=True)
    decisions = every.rows(made.judged[every.task])
    cautions = _cautions(decisions, rules)
    plans, told = _judged(made, decisions)
    cautions += told
    earned = np.zeros(decisions.n)
    np.add.at(earned, decisions.decision, decisions.outcome)
    if not decisions.n:
        cautions.append("no decision of the log can judge a policy off-policy")
        return OffPolicy((), block_mean(earned), 0, every.source, 1, rules, (*cautions,))
    taken = (decisions.server, decisions.propensity, decisions.outcome)
    guess = made.guess[decisions.task]
    rows: list[OffPolicyRow] = []
    for plan in plans:
        chance = chances(plan, decisions, fit.task_type)
        found = estimate(chance, taken, guess, rules.clip, decisions.decision)
        base = rows[0].estimates.points if rows else found.points
        rows.append(OffPolicyRow(plan.policy, found, block_mean(found.points - base)))
        cautions += [f"off-policy {plan.policy}: {text}" for text in found.cautions]
    return OffPolicy(
        rows=tuple(rows),
        logged=block_mean(earned),
        n=decisions.n,
        source=decisions.source,
        block=block_length(decisions.n),
        rules=rules,
        cautions=tuple(cautions),
    )


def _judged(made: Trained, decisions: Decisions) -> tuple[list[Plan], list[str]]:
    """The plans that decisions can judge, and cautions about the others."""
    counted_plans = [plan.policy for plan in made.plans if plan.counts is not None]
    plans = [plan for plan in made.plans if plan.counts is None]
    told = []
    if counted_plans:
        names = ", ".join(counted_plans)
        told.append(f"{names}: decides by groups or states of servers, not judged off-policy")
    drawn = [plan.policy for plan in plans if plan.tables.rule == SAMPLE]
    if drawn and (decisions.wanted > 1).any():
        names = ", ".join(drawn)
        told.append(f"{names}: draws by weight, judged off-policy by tasks of one server only")
        plans = [plan for plan in plans if plan.tables.rule != SAMPLE]
    return plans, told


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
    several = decisions.wanted > 1
    if several.any():
        told.append(
            f"{counted(int(several.sum()), 'decision')} took several servers: off-policy estimates "
            "take each one's propensity for that of being among them, and add up their outcomes"
        )
        if int(several.sum()) >= ALIKE and not _apart(decisions)[several].any():
            told.append(
                "all servers of a task have the same outcome: if that is the task's own, dealt out "
                "to them, these off-policy estimates are wrong; they need one for each server"
            )
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


def _apart(decisions: Decisions) -> Float:
    """(n,) how far the outcomes of a decision's servers are apart."""
    most, least = np.full(decisions.n, -np.inf), np.full(decisions.n, np.inf)
    np.maximum.at(most, decisions.decision, decisions.outcome)
    np.minimum.at(least, decisions.decision, decisions.outcome)
    return np.asarray(most - least)
