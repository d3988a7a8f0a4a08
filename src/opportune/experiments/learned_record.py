"""A comparison of learners as plain data: what JSON, CSV and reports are made of."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from opportune.experiments.learned import (
    FORCED,
    KNOWN_OF,
    SHARES,
    Gain,
    LearnedComparison,
    doublings,
)

LEAST_PERCENT, LEAST_ERRORS = 1.0, 5.0
"""A known-score gain smaller than this, in percent and in standard errors, supports no claim."""


def learned_record(result: LearnedComparison) -> dict[str, Any]:
    """The result as JSON: rows, gains, windows and regret; no NaN, no infinity."""
    instance, settings = result.world.instance, result.settings
    edges, shares = result.windows()
    grid, regret = result.regret()
    return {
        "instance": instance.name,
        "load": instance.load,
        "mode": settings.run.mode,
        "order": "fifo" if settings.run.fifo else "index",
        "pace": "known" if settings.run.known_pace else "learned",
        "tasks": result.tasks,
        "replications": settings.replications,
        "seed": settings.seed,
        "ceiling": result.names[0],
        "forced": asdict(settings.forced),
        "policies": [_row(result, i) for i in range(len(result.rows))],
        "gains": [gain_record(one) for one in result.gains],
        "claims": claims(result),
        "windows": {"edges": edges.tolist(), "share": shares.tolist()},
        "regret": {"tasks": grid.tolist(), "regret": regret.tolist()},
    }


def _row(result: LearnedComparison, place: int) -> dict[str, Any]:
    row = asdict(result.rows[place])
    reached = dict(zip((f"to_{share}" for share in SHARES), row.pop("tasks_to"), strict=True))
    row = {key: finite(value) for key, value in row.items()}
    doubled = [
        {"from": a, "to": b, "regret_per_task": rate}
        for a, b, rate in doublings(result, result.names[place])
    ]
    return {**row, **reached, "doublings": doubled}


def gain_record(gain: Gain) -> dict[str, Any]:
    """A paired difference as JSON."""
    return {key: finite(value) for key, value in asdict(gain).items()}


def finite(value: Any) -> Any:
    """None in place of an infinite number."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def claims(result: LearnedComparison) -> list[str]:
    """What may be said of prices learned beside greedy learned, and of a forced share's price.

    Rule (``learned.md`` 4): a learner keeps the gain if it has at least half of the known-score
    gain and its paired interval excludes 0; nothing is claimed where the known-score gain is
    below 1 % or 5 standard errors or its interval holds 0, and both intervals are told.
    """
    known = {one.policy: one for one in result.gains if one.known}
    told = []
    for gain in (one for one in result.gains if not one.known):
        truth = known.get(KNOWN_OF.get(gain.policy, result.names[0]))
        if truth is not None:
            told.append(_claim(gain, truth))
    for name in result.names:
        if name.endswith(FORCED):
            late = result.gain(name.removesuffix(FORCED), name)
            told.append(
                f"the forced share of {result.settings.forced.share:g} costs {late.policy} "
                f"{_signed(*result.forced_price(late.policy))} per 100 tasks over the whole run, "
                f"{_interval(late)} in the second half"
            )
    return told


def _claim(gain: Gain, truth: Gain) -> str:
    pair = f"{gain.policy} - {gain.other}: {_interval(gain)} per 100 tasks"
    beside = f"{truth.policy} - {truth.other}: {_interval(truth)}"
    unsure = truth.errors < LEAST_ERRORS or not truth.difference > truth.half_width
    if truth.percent < LEAST_PERCENT or unsure:
        return f"{pair}; {beside}, too small or too unsure to claim anything"
    half = truth.difference / 2
    if gain.difference >= half and gain.difference > gain.half_width:
        verdict = "keeps at least half of"
    elif gain.difference + gain.half_width < half:
        verdict = "does not keep half of"
    else:
        verdict = "is not shown to keep half of"
    return f"{pair}: {verdict} the known-score gain ({beside})"


def _interval(gain: Gain) -> str:
    return _signed(gain.difference, gain.half_width)


def _signed(value: float, half: float) -> str:
    width = "no interval" if not math.isfinite(half) else f"+/- {half:.2f}"
    return f"{round(value, 2) + 0.0:+.2f} {width}"
