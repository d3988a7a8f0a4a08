"""What to know before trusting a fitted instance: one sentence each, with numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from opportune.learning.fit.arrivals import Arrivals
from opportune.learning.fit.drift import Drift
from opportune.learning.fit.log import Log
from opportune.learning.fit.outcomes import Scores
from opportune.learning.fit.services import LEAST_FOR_LAW, Services
from opportune.learning.fit.steps import LENGTHENED, PEAK_ARRIVALS, Step
from opportune.learning.fit.task_types import Clusters
from opportune.model.loss import LossInstance
from opportune.model.spelling import counted

Float = NDArray[np.float64]
Int = NDArray[np.int64]

FEW = 10
"""A pair with fewer outcomes rests mostly on its server and its type."""

COLLAPSED = 0.95
"""A server with this share of a type's services leaves no comparison for the others."""

CERTAIN = 0.999
"""A propensity above is no choice at all."""

BORROWED = 0.1
"""A type whose law is at least so much that of all types is told."""

RESTLESS = 2.0
"""Days whose counts vary so many times more than chance are told."""

AWAY = 0.9
"""Servers that are there less than this share of the time are told."""

NAMED = 5
"""Names listed in one sentence."""


def probability(value: float) -> str:
    """``p = 0.003``; the smallest are only bounded."""
    return "p < 1e-12" if value < 1e-12 else f"p = {value:.2g}"


class Fitted(Protocol):
    """What of a fit is looked at."""

    @property
    def instance(self) -> LossInstance:
        """The instance."""

    @property
    def log(self) -> Log:
        """The log."""

    @property
    def step(self) -> Step:
        """The step."""

    @property
    def arrivals(self) -> Arrivals:
        """The rates."""

    @property
    def services(self) -> Services:
        """The durations."""

    @property
    def scores(self) -> Scores | None:
        """The scores."""

    @property
    def pair_count(self) -> Float:
        """(V, R) services that each score rests on."""

    @property
    def assigned(self) -> Int:
        """(V, R) services of each pair."""

    @property
    def clusters(self) -> Clusters | None:
        """Types made of contexts."""

    @property
    def presence(self) -> Float | None:
        """(P, R) share of time there."""

    @property
    def drifted(self) -> list[Drift]:
        """What changed."""


def on_duty_load(fit: Fitted) -> float:
    """Servers busy on average beside servers seen at work; infinite where nobody was."""
    if fit.presence is None:
        return float(fit.instance.load)
    instance, multiplier = fit.instance, fit.arrivals.multiplier
    work = instance.arrival_rate * instance.servers_per_task * instance.mean_duration
    busy = work.sum() if multiplier is None else float((multiplier @ work).mean())
    there = float(fit.presence.sum(axis=1).mean())
    return float(busy) / there if there > 0 else float("inf")


def cautions_of(fit: Fitted) -> list[str]:
    """The sentences, the most important first."""
    return [
        *_score_cautions(fit),
        *_type_cautions(fit),
        *_exploration_cautions(fit),
        *(_drift_caution(test) for test in fit.drifted),
        *_duration_cautions(fit),
        *_step_cautions(fit),
    ]


def _score_cautions(fit: Fitted) -> Iterator[str]:
    scores, count = fit.scores, fit.pair_count
    if scores is None:
        if count.any():
            yield "scores are speeds: made up, not outcomes: faster than the type's mean is better"
            yield from _support_cautions(fit, "services", "scored as half of the type's mean speed")
        else:
            yield "all scores are 1: the instance says only which tasks are served"
        return
    yield from _support_cautions(
        fit, "outcomes", "scored from the server's other types and the type's other servers"
    )
    if scores.recalibrated and scores.calibration is not None:
        yield (
            f"predictions were off (slope {scores.calibration.slope:.2f}, 1 is right) and were "
            "recalibrated on held-out outcomes"
        )
    elif scores.calibration is not None and scores.calibration.off:
        yield (
            f"the table's predictions are off: slope {scores.calibration.slope:.2f} "
            f"+/- {2 * scores.calibration.slope_error:.2f}, 1 is right"
        )


def _support_cautions(fit: Fitted, what: str, unseen: str) -> Iterator[str]:
    """Pairs with few observations, and with none."""
    count = fit.pair_count
    few = int(((count > 0) & (count < FEW)).sum())
    if few:
        yield (
            f"{counted(few, 'pair')} of {count.size} {'has' if few == 1 else 'have'} fewer than "
            f"{FEW} {what}: see their intervals"
        )
    never = np.argwhere(count == 0)
    if len(never):
        names = ", ".join(
            f"{fit.instance.task_types[v]} by {fit.instance.servers[r]}" for v, r in never[:NAMED]
        )
        more = ", ..." if len(never) > NAMED else ""
        seen = "with an outcome" if what == "outcomes" else "together"
        pairs = f"{counted(len(never), 'pair')} of {count.size}"
        yield f"{pairs} never seen {seen} ({names}{more}): {unseen}"


def _type_cautions(fit: Fitted) -> Iterator[str]:
    clusters = fit.clusters
    if clusters is not None and clusters.losses and clusters.is_most:
        yield (
            f"{counted(len(clusters.center), 'task type')} were made of the contexts, the most "
            "that were tried: more may predict better, --types says how many"
        )


def _exploration_cautions(fit: Fitted) -> Iterator[str]:
    assigned, instance = fit.assigned, fit.instance
    total = assigned.sum(axis=1)
    if instance.n_servers > 1:
        share = assigned.max(axis=1) / np.maximum(total, 1)
        collapsed = np.flatnonzero((share > COLLAPSED) & (total >= FEW))
        for v in collapsed[:NAMED]:
            yield (
                f"collapsed exploration: {share[v]:.0%} of the services of type "
                f"{instance.task_types[v]} went to {instance.servers[int(assigned[v].argmax())]}; "
                "what others would do there is a guess"
            )
        if len(collapsed) > NAMED:
            yield f"collapsed exploration in {len(collapsed) - NAMED} more types"
    propensity = fit.log.propensity[np.isfinite(fit.log.propensity)]
    if propensity.size:
        certain = float((propensity > CERTAIN).mean())
        weight = propensity.min() / propensity  # up to a factor, of which nothing depends
        effective = float(weight.sum() ** 2 / (weight**2).sum()) / len(propensity)
        if certain > 1.0 - COLLAPSED:
            yield (
                f"{certain:.0%} of the choices were certain (propensity 1): no other policy can be "
                "evaluated on them"
            )
        if effective < 1.0 - COLLAPSED:
            yield (
                f"propensities are so uneven that they leave {effective:.1%} of the sample: "
                f"least {propensity.min():.2g}"
            )


def _drift_caution(test: Drift) -> str:
    return (
        f"drift: {test.what} changed after {test.place:.0%} of the log, from {test.before:.4g} to "
        f"{test.after:.4g} ({probability(test.p_value)}); the instance is an average of both"
    )


def _duration_cautions(fit: Fitted) -> Iterator[str]:
    services, names = fit.services, fit.instance.task_types
    tails = [v for v, one in enumerate(services.types) if one.beyond > 0]
    for v in tails[:NAMED]:
        yield (
            f"durations of {names[v]}: {services.types[v].beyond:.1%} were not seen to end within "
            "the longest one; that part of the mean is a guess"
        )
    if len(tails) > NAMED:
        yield f"the same for {len(tails) - NAMED} more types"
    borrowed = {
        names[v]: 1 - one.weight
        for v, one in enumerate(services.types)
        if one.n < LEAST_FOR_LAW and 1 - one.weight > BORROWED
    }
    if borrowed:
        told = ", ".join(f"{name} {share:.0%}" for name, share in list(borrowed.items())[:NAMED])
        more = ", ..." if len(borrowed) > NAMED else ""
        yield (
            f"durations of {counted(len(borrowed), 'type')} with few services are in part those "
            f"of all types ({told}{more})"
        )
    if services.servers_differ and services.by_server is not None:
        seen = services.by_server.count >= FEW
        low, high = 1.0, 1.0
        if seen.any():
            low = float(services.by_server.mean[seen].min())
            high = float(services.by_server.mean[seen].max())
        sure = probability(services.p_servers or 0.0)
        one = fit.instance.server_duration is None
        yield (
            f"durations depend on the server ({sure}, means {low:.2f} to {high:.2f} times the "
            "type's): the instance has "
            + (
                "one law per type, so prices and bounds are for that"
                if one
                else "a law per pair, for which only OCC-LP(<=) is a bound"
            )
        )
    if fit.presence is not None:
        share = float(fit.presence.mean())
        if share < AWAY:
            yield (
                f"servers were seen at work {share:.0%} of the time (first to last service of "
                "a day): the load counts them as always there, by the time that they were it is "
                f"{on_duty_load(fit):.2g}; --availability share has them there for that time only"
            )


def _step_cautions(fit: Fitted) -> Iterator[str]:
    if fit.step.lengthened > LENGTHENED:
        yield (
            f"rounding up to steps of {fit.step.length:g} lengthens durations by "
            f"{fit.step.lengthened:.1%}: choose a shorter step"
        )
    if fit.step.peak > PEAK_ARRIVALS and fit.step.shared > 0:
        yield (
            f"{fit.step.shared:.0%} of the arrivals share their step with another, of which an "
            "instance has one at most: choose a shorter step"
        )
    arrivals = fit.arrivals
    if arrivals.dispersion > RESTLESS:
        yield (
            f"the same time of different days varies {arrivals.dispersion:.3g} times more than "
            "chance: weekdays or trends, of which the instance is the average"
        )
    if arrivals.multiplier is not None:
        peak = arrivals.multiplier.max(axis=0).max()
        sure = probability(arrivals.p_profile or 0.0)
        yield (
            f"rates change over the day ({sure}), up to {peak:.2g} "
            "times their mean: the profile is in the file, a plan for the mean day is not for "
            "its peak"
        )
