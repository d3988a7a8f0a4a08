"""From what a learner has counted to what it says of a pool."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc

from opportune.kernels.allocate import PRIORITY
from opportune.service.learner_bodies import (
    AbsentBody,
    ExplorationBody,
    LearningBody,
    PaceBody,
    PairBody,
    SupportBody,
)
from opportune.service.learner_counts import RECENT, Counts
from opportune.service.learner_estimates import Estimates, estimate
from opportune.service.resources import LearnerSettings
from opportune.service.state import State

Float = NDArray[np.float64]

NINETY_FIVE = 1.96
"""Standard deviations of a 95 % interval."""

MOST_PAIRS = 5000
"""Permitted pairs up to which all are listed; beyond it only those that were seen."""

MANY_MISSING = 0.1
"""Share of services without an outcome that is worth a warning."""

SURE = 1e-3
"""Chance below which outcomes are said to be missing unevenly."""


def learning_body(counts: Counts, state: State) -> LearningBody:
    """All of it.

    Args:
        counts: What was seen.
        state: The pool, or a copy of what is declared in it.
    """
    settings, learned = state.settings, state.learned
    assert settings is not None
    found = estimate(counts, state)
    _, _, served, labeled = counts.pairs.totals()
    absent = served - labeled
    pending = pending_outcomes(counts, settings.learner.outcome_within)
    support = _support(counts)
    learns = settings.learning != "off"
    told = _warnings(counts, found, support) if learns else _without_learning(state)
    return LearningBody(
        pool=state.pool,
        mode=settings.learning,
        version=0 if learned is None else learned.version,
        published_outcomes=0 if learned is None else learned.outcomes,
        published_basis=0 if learned is None else learned.basis,
        basis=counts.basis,
        outcomes=counts.outcomes,
        reports=counts.reports,
        served=served,
        pending=min(pending, absent),
        missing=max(absent - pending, 0),
        load=found.load,
        rate_factor=found.cap,
        pairs=list(_pairs(found)),
        task_types=list(_paces(counts, found)),
        servers=[
            AbsentBody(
                server=name,
                served=int(found.served[:, r].sum()),
                missing=int((found.served - found.labeled)[:, r].sum()),
            )
            for r, name in enumerate(found.servers)
        ],
        exploration=_exploration(counts, settings.learner),
        support=support,
        warnings=told,
    )


def _support(counts: Counts) -> SupportBody:
    recent = counts.choices.certain[-RECENT:]
    return SupportBody(
        decisions=len(recent),
        certain_share=sum(recent) / len(recent) if recent else 1.0,
        propensity_floor=counts.choices.floor,
    )


def _exploration(counts: Counts, learner: LearnerSettings) -> ExplorationBody:
    choices = counts.choices
    return ExplorationBody(
        share=learner.exploration,
        floor=learner.floor,
        explored=choices.explored,
        price=choices.given_up,
        price_per_task=choices.given_up / max(counts.decisions, 1),
    )


def _paces(counts: Counts, found: Estimates) -> Iterator[PaceBody]:
    for v, name in enumerate(found.task_types):
        yield PaceBody(
            task_type=name,
            rate=found.rate[v],
            mean_duration=found.mean_duration[v],
            arrived=counts.pace[v].arrived if v < len(counts.pace) else 0,
            served=int(found.served[v].sum()),
            missing=int((found.served - found.labeled)[v].sum()),
        )


def _pairs(found: Estimates) -> Iterator[PairBody]:
    shown = ~np.isnan(found.mean)
    if shown.size > MOST_PAIRS:
        shown &= (found.outcomes > 0) | (found.served > 0)
    for v, r in np.argwhere(shown).tolist():
        mean, deviation = float(found.mean[v, r]), float(found.deviation[v, r])
        yield PairBody(
            task_type=found.task_types[v],
            server=found.servers[r],
            mean=mean,
            low=max(mean - NINETY_FIVE * deviation, found.low),
            high=min(mean + NINETY_FIVE * deviation, found.high),
            score=float(found.score[v, r]),
            outcomes=int(found.outcomes[v, r]),
            served=int(found.served[v, r]),
            missing=int(found.served[v, r] - found.labeled[v, r]),
        )


def pending_outcomes(counts: Counts, within: float) -> int:
    """Services that ended no longer ago than ``within`` seconds and have no label yet."""
    pending = 0
    for seen in counts.tasks.values():
        labeled = {r for r, _ in seen.labels}
        pending += sum(
            one.until is not None
            and one.until >= counts.clock - within
            and one.server not in labeled
            for one in seen.services
        )
    return pending


def _warnings(counts: Counts, found: Estimates, support: SupportBody) -> list[str]:
    told = []
    served, missing = found.served, found.served - found.labeled
    share = float(missing.sum() / served.sum()) if served.sum() else 0.0
    if share > MANY_MISSING:
        told.append(
            f"{100 * share:.0f} % of {int(served.sum())} services have no outcome: estimates speak "
            "for those that were reported"
        )
    for what, axis, names in (
        ("server", 0, found.servers),
        ("task type", 1, found.task_types),
    ):
        uneven = uneven_share(missing.sum(axis=axis), served.sum(axis=axis))
        if uneven is not None:
            most, at_most, elsewhere = uneven
            told.append(
                f"outcomes are not missing at random: {100 * at_most:.0f} % at {what} "
                f"{names[most]!r}, {100 * elsewhere:.0f} % elsewhere; estimates may be biased"
            )
    if support.decisions and support.certain_share == 1.0:
        told.append(
            f"no support for evaluation: all of the latest {support.decisions} decisions that had "
            "a choice were certain; set learner.exploration to try other policies on this log"
        )
    blind = int(np.count_nonzero(~np.isnan(found.mean) & (found.outcomes == 0)))
    if counts.outcomes and blind:
        told.append(f"{blind} permitted pairs have no outcome yet: their estimates are borrowed")
    if found.cap < 1.0:
        told.append(
            f"the measured load is {found.load:.2f}: published rates are scaled by {found.cap:.2f}"
        )
    if counts.outside:
        told.append(f"{counts.outside} outcomes do not count: out of range, or of forgotten tasks")
    return told


def _without_learning(state: State) -> list[str]:
    """Nothing is counted, but a plan that is one list picks with certainty."""
    plan = state.active_plan
    if plan is None or plan.rule != PRIORITY:
        return []
    return [
        f"no support for evaluation: plan {plan.id!r} is a list without ties, its picks are "
        "certain; set learning to on and learner.exploration to try other policies on this log"
    ]


def uneven_share(missing: Float, served: Float) -> tuple[int, float, float] | None:
    """Are outcomes missing with other shares in some rows? Pearson's test of equal shares.

    Args:
        missing: Services without an outcome, by row.
        served: Services that ended, by row.

    Returns:
        The row that stands out most, its share, the share of all others; None if chance explains
        the differences (or there are too few to tell).
    """
    rows = served > 0
    total, n = float(missing.sum()), float(served.sum())
    if rows.sum() < 2 or not 0 < total < n:
        return None
    share = total / n
    apart = (missing[rows] - share * served[rows]) ** 2 / (share * (1 - share) * served[rows])
    if float(gammaincc((rows.sum() - 1) / 2.0, apart.sum() / 2.0)) >= SURE:
        return None
    own = np.where(rows, missing / np.maximum(served, 1.0), 0.0)
    most = int(np.argmax(np.where(rows, (own - share) * np.sqrt(served), -np.inf)))
    rest = n - float(served[most])
    return most, float(own[most]), (total - float(missing[most])) / rest
