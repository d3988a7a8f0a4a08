"""How a report says numbers and results in plain words. Every number comes with its unit.

A no-break space stands between a number and its unit, and a true minus sign before negatives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from opportune.experiments.comparison import Comparison, PolicyResult
from opportune.policies.base import loss_policy

NBSP = "\u00a0"
MINUS = "\u2212"
TIMES_TEN = f"{NBSP}×{NBSP}10"
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

ROOM = 34
"""Most letters of a policy's name in a chart."""

BASE, RIVAL = "lag", "greedy"
"""The policy a report is about, and the one everybody knows to compare it with."""


NOISE = f" More than 100{NBSP}% is noise of a short run: more steps narrow it."


def signed(text: str) -> str:
    """The text of a number with a true minus sign."""
    return text.replace("-", MINUS)


def number(value: float, digits: int = 4) -> str:
    """A number in significant digits; powers of ten only where zeros would pile up."""
    if not math.isfinite(value):
        return "none"
    if value == 0:
        return "0"
    power = math.floor(math.log10(abs(value)))
    if -4 <= power < 6:
        places = max(0, digits - 1 - power)
        return signed(f"{value:,.{places}f}")
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    return signed(mantissa) + TIMES_TEN + str(int(exponent)).translate(RAISED)


def decimals(value: float) -> str:
    """One decimal, or two significant digits where one decimal would show nothing."""
    if not math.isfinite(value):
        return "unknown"
    small = 0 < abs(value) < 0.095
    return number(value, 2) if small else signed(f"{value + 0.0:.1f}")


def _places(half_width: float) -> int:
    """Decimals that show a half width: one, or more where one would show nothing."""
    return min(6, -math.floor(math.log10(half_width))) if 0 < half_width < 0.095 else 1


def _alike(value: float, half_width: float) -> str:
    """A value with as many decimals as its half width is shown with."""
    if not (math.isfinite(half_width) and half_width > 0):
        return decimals(value)
    text = f"{value:.{_places(half_width)}f}"
    return signed(text.removeprefix("-") if float(text) == 0 else text)


def percent(value: float, half_width: float | None = None) -> str:
    """A percentage with its sign: ``90.7 %``, with its interval ``90.7 % ± 0.4``."""
    if half_width is None:
        return f"{decimals(value)}{NBSP}%"
    return f"{_alike(value, half_width)}{NBSP}% {interval(half_width)}"


def share(value: float) -> str:
    """A share from 0 to 1 as a percentage."""
    return percent(100.0 * value)


def points(value: float) -> str:
    """Percentage points, one decimal: ``9.3 points``."""
    text = decimals(value)
    return f"{text}{NBSP}{'point' if text in ('1.0', MINUS + '1.0') else 'points'}"


def interval(half_width: float) -> str:
    """A half width with its sign, or that there is none: one sample has no interval."""
    if not math.isfinite(half_width):
        return "no interval"
    return f"±{NBSP}{half_width:.{_places(half_width)}f}"


def difference(value: float) -> str:
    """A difference with its sign always shown."""
    text = decimals(value)
    return f"+{text}" if value > 0 else text


def apart(row: PolicyResult) -> str:
    """The paired difference of a policy to the base policy, in points."""
    if row.difference == 0 and row.difference_half_width == 0:
        return "equal"
    text = _alike(row.difference, row.difference_half_width)
    plus = "+" if row.difference > 0 and text.strip("0.") else ""
    unit = f"{NBSP}points" if math.isfinite(row.difference_half_width) else ""
    return f"{plus}{text} {interval(row.difference_half_width)}{unit}"


def load(comparison: Comparison) -> str:
    """The load of a comparison as a person would write it."""
    return f"{comparison.instance.load:.6g}"


def short_name(policy: str) -> str:
    """The policy's title up to the colon, or its id where that is too long for a chart."""
    name = loss_policy(policy).title.partition(":")[0]
    return name if len(name) <= ROOM else policy.replace("-", " ").capitalize()


def explained(policy: str) -> str:
    """What else the policy's title says."""
    title = loss_policy(policy).title
    name, _, rest = title.partition(":")
    rest = title if len(name) > ROOM else rest.strip()
    return rest[:1].upper() + rest[1:]


def policies(comparison: Comparison) -> tuple[str, ...]:
    """Ids of the policies that were run, in the order of the traces."""
    return tuple(row.policy for row in comparison.policies)


def base_policy(comparison: Comparison) -> PolicyResult:
    """The policy that differences are taken to: LAG, or the first one without it."""
    ids = policies(comparison)
    return comparison.policies[ids.index(BASE) if BASE in ids else 0]


def rival_policy(comparison: Comparison) -> PolicyResult | None:
    """Greedy, or the best other policy; None if there is none."""
    base = base_policy(comparison)
    others = [row for row in ranked(comparison) if row.policy != base.policy]
    return next((row for row in others if row.policy == RIVAL), others[0] if others else None)


def compared(comparison: Comparison) -> list[str]:
    """The policies shown side by side: the base policy and its rival."""
    base, rival = base_policy(comparison), rival_policy(comparison)
    return [base.policy] if rival is None else [base.policy, rival.policy]


def ranked(comparison: Comparison) -> list[PolicyResult]:
    """Policies from the highest share of the bound to the lowest, then as they were run."""
    return sorted(comparison.policies, key=lambda row: -row.percent_of_bound)


def headline(comparison: Comparison) -> str:
    """Which policy earns how much, in one sentence."""
    base, rival = base_policy(comparison), rival_policy(comparison)
    name = short_name(base.policy)
    if not comparison.bound.value > 0:
        return "No reward can be earned here: no task arrives, or none has a server that earns."
    known = base.half_width if math.isfinite(base.half_width) else None
    earned = percent(base.percent_of_bound, known)
    text = f"{name} earns at least {earned} of the best possible reward; "
    if rival is not None:
        text += f"{short_name(rival.policy)} {percent(rival.percent_of_bound)}; "
    text += f"at most {points(base.left_to_gain)} are left to gain."
    return text + (NOISE if base.percent_of_bound > 100 else "")


def verdict(comparison: Comparison) -> str:
    """How far the base policy is ahead of its rival, and whether that is more than noise."""
    base, rival = base_policy(comparison), rival_policy(comparison)
    if rival is None or not comparison.bound.value > 0:
        return ""
    name, other = short_name(base.policy), short_name(rival.policy)
    ahead, width = -rival.difference, rival.difference_half_width
    if not math.isfinite(width):
        text = f"{name} is {points(abs(ahead))} {_side(ahead)} {other}; one sample has no interval."
    elif abs(ahead) <= width:
        text = f"No clear difference between {name} and {other} in this run."
    else:
        low, high = abs(ahead) - width, abs(ahead) + width
        text = (
            f"{name} is {_side(ahead)} {other} by {points(abs(ahead))} "
            f"(95{NBSP}% interval {decimals(low)} to {decimals(high)})."
        )
    better = [
        row
        for row in ranked(comparison)
        if row.policy != base.policy and row.difference > row.difference_half_width
    ]
    if better and better[0].policy != rival.policy:
        best = better[0]
        text += (
            f" {short_name(best.policy)} earns more than {name} here: "
            f"{difference(best.difference)}{NBSP}points {interval(best.difference_half_width)}."
        )
    return text


def _side(ahead: float) -> str:
    return "ahead of" if ahead > 0 else "behind"


def sweep_headline(comparisons: Sequence[Comparison]) -> str:
    """What a sweep shows, in one or two sentences."""
    base = base_policy(comparisons[0])
    rows = [one.row(base.policy) for one in comparisons]
    name = short_name(base.policy)
    shares = [row.percent_of_bound for row in rows]
    first, last = load(comparisons[0]), load(comparisons[-1])
    text = (
        f"From load {first} to {last}, {name} earns {percent(min(shares))} to "
        f"{percent(max(shares))} of the best possible reward."
    )
    text += NOISE if max(shares) > 100 else ""
    rivals = [rival for one in comparisons if (rival := rival_policy(one)) is not None]
    if len({rival.policy for rival in rivals}) != 1:
        return text
    other = short_name(rivals[0].policy)
    clear = [abs(rival.difference) > rival.difference_half_width for rival in rivals]
    gaps = [-rival.difference if sure else 0.0 for rival, sure in zip(rivals, clear, strict=True)]
    most = max(gaps)
    if most > 0:
        at = load(comparisons[gaps.index(most)])
        text += f" Its lead over {other} is largest at load {at}: {points(most)}."
    elif not any(clear):
        text += f" It shows no clear difference to {other} at any load."
    return text


def bound_words(name: str) -> str:
    """What kind of bound a name stands for."""
    return {
        "occ-lp": "Occupancy LP: tasks served in the share that any policy serves",
        "occ-lp-at-most": "Occupancy LP: tasks may be turned away at will",
        "hc-lp": "Headcount LP: knows how many tasks are in service",
        "hc-group-lp": "Headcount LP over groups of equal servers",
        "pathwise": "Best assignment in hindsight",
        "exact": "The optimum itself",
    }.get(name, name)


LABELS = {
    "exact": "The best reward of all policies that serve whenever they can, computed by a dynamic "
    "program.",
    "proven": "No policy that serves whenever it can earns more in the long run. Follows by "
    "arithmetic from the prices, whatever the solver did; the blocking in it is exact, or not "
    "needed.",
    "statistical": "No policy that serves whenever it can earns more at this blocking, but the "
    "blocking (or the bound itself) comes from simulation and carries its error.",
    "surrogate": "Computed on a simplified model: a guide, not a bound.",
}
"""What the label of a bound means."""

PRICED_AT = {
    "zero": "prices at zero blocking: every task can be served in the long run",
    "blocking": "prices at the blocking that the run meets: not every task can be served",
    "at-most": "prices of the bound that lets tasks be turned away",
}
"""What ``priced_at`` means."""
