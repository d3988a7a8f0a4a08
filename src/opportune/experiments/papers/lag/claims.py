"""What the paper says in words, checked against our numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opportune.experiments.papers.lag.causes import Compared
from opportune.experiments.papers.lag.instances import SUMMARY_LOAD
from opportune.experiments.papers.lag.tables import Row, is_rebuilt, title_of

SLACK = 0.5
"""Points that a number of the text may be off: it is rounded to whole points there."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper and what we find.

    Attributes:
        place: Where it stands in the paper.
        said: The sentence, shortened.
        ours: What we find, with numbers; empty if its instances were not run.
        holds: ``yes``, ``no``, or ``not run``.
    """

    place: str
    said: str
    ours: str
    holds: str


def claims(sweep: Sequence[Compared], samples: Sequence[Row], points: Sequence[Row]) -> list[Claim]:
    """All claims, in the order of the paper."""
    return [
        _range_of_lag(sweep),
        _lead_on_reviews(samples),
        _lead_on_synthetic(sweep),
        _most_on_reviews(sweep),
        _whittle_coincides(sweep),
        _whittle_on_lowrank(sweep),
        _end_points(points),
        _crossing(points),
        _slowest(points),
    ]


def claim_rows(found: Iterable[Claim]) -> list[Row]:
    """Claims as rows of a CSV file."""
    return [
        {"place": one.place, "said": one.said, "ours": one.ours, "holds": one.holds}
        for one in found
    ]


def _claim(place: str, said: str, ours: str, holds: bool) -> Claim:
    if not ours:
        return Claim(place, said, "", "not run")
    return Claim(place, said, ours, "yes" if holds else "no")


def _range_of_lag(sweep: Sequence[Compared]) -> Claim:
    values = {cell: cell.ours for cell in sweep if cell.policy == "lag"}
    said = "LAG earns 83 to 99 % of OCC-UB on all instances at all loads"
    if not values:
        return _claim("Section 5", said, "", False)
    least, most = min(values, key=values.__getitem__), max(values.values())
    ours = (
        f"{least.ours:.1f} to {most:.1f} %, the least on {title_of(least.instance)} at load "
        f"{least.load:g}"
    )
    below = [cell for cell, value in values.items() if value < 83 - SLACK]
    return _claim("Section 5", said, ours, not below and most <= 99 + SLACK)


def _lead_on_reviews(samples: Sequence[Row]) -> Claim:
    said = "LAG is ahead of Greedy by 6 to 10 points on peer review at load 0.7"
    leads: dict[str, list[float]] = {}
    for row in samples:
        if row["policy"] == "greedy":
            leads.setdefault(row["instance"], []).append(-row["minus_lag"])
    told = [
        f"{title_of(name)} {sum(of) / len(of):.1f} on the mean of {len(of)} samples "
        f"({min(of):.1f} to {max(of):.1f})"
        for name, of in leads.items()
    ]
    means = [sum(of) / len(of) for of in leads.values()]
    holds = all(6 - SLACK <= mean <= 10 + SLACK for mean in means)
    ours = "; ".join(told) + (" (other matrices)" if told else "")
    return _claim("Section 5", said, ours, holds)


def _lead_on_synthetic(sweep: Sequence[Compared]) -> Claim:
    said = "The lead over Greedy reaches 23 points (36 %) on the synthetic instances at load 0.7"
    pairs = _pairs(sweep, "greedy", [c.instance for c in sweep if not is_rebuilt(c.instance)])
    leads = [(lag.ours - greedy.ours, lag, greedy) for lag, greedy in pairs]
    leads = [one for one in leads if one[1].load == SUMMARY_LOAD]
    if not leads:
        return _claim("Section 5", said, "", False)
    most, lag, greedy = max(leads, key=lambda one: one[0])
    ours = f"{most:.1f} points ({100 * most / greedy.ours:.0f} %) on {title_of(lag.instance)}"
    return _claim("Section 5", said, ours, abs(most - 23) <= 1.5)


def _most_on_reviews(sweep: Sequence[Compared]) -> Claim:
    said = "LAG earns up to 12.3 % more than Greedy on peer review"
    pairs = _pairs(sweep, "greedy", [c.instance for c in sweep if is_rebuilt(c.instance)])
    if not pairs:
        return _claim("Section 1", said, "", False)
    ratios = [(100 * (lag.ours / greedy.ours - 1), lag) for lag, greedy in pairs]
    most, lag = max(ratios, key=lambda one: one[0])
    ours = f"up to {most:.1f} %, on {title_of(lag.instance)} at load {lag.load:g} (other matrices)"
    return _claim("Section 1", said, ours, abs(most - 12.3) <= 1.5)


def _whittle_coincides(sweep: Sequence[Compared]) -> Claim:
    said = "LAG and Whittle earn the same on Unfriendly (all loads) and Priority (load 0.7)"
    pairs = _pairs(sweep, "whittle", ["unfriendly"])
    pairs += [one for one in _pairs(sweep, "whittle", ["priority"]) if one[0].load == SUMMARY_LOAD]
    if not pairs:
        return _claim("Section 5.2", said, "", False)
    most = max(abs(lag.ours - whittle.ours) for lag, whittle in pairs)
    return _claim("Section 5.2", said, f"at most {most:.2f} points apart", most <= SLACK)


def _whittle_on_lowrank(sweep: Sequence[Compared]) -> Claim:
    said = "On Low-rank at load 0.7 Whittle is more than 22 points below LAG, 14 below Greedy"
    at = {c.policy: c.ours for c in sweep if c.instance == "lowrank" and c.load == SUMMARY_LOAD}
    if not at:
        return _claim("Section 5.2", said, "", False)
    lag, greedy = at["lag"] - at["whittle"], at["greedy"] - at["whittle"]
    ours = f"{lag:.1f} below LAG, {greedy:.1f} below Greedy"
    return _claim("Section 5.2", said, ours, lag > 22 - SLACK and greedy > 14 - SLACK)


def _end_points(points: Sequence[Row]) -> Claim:
    said = "At n = 65,536 LAG reaches 97.7 % (Priority) to 99.9 % of OCC-UB"
    ends = [row for row in points if row["n"] == 65536]
    own = [row for row in ends if not is_rebuilt(row["instance"])]
    told = [
        f"{title_of(row['instance'])} {row['percent_of_bound']:.1f} ± {row['half_width'] or 0:.1f}"
        for row in ends
    ]
    holds = all(row["within_noise"] or abs(row["outside"]) <= SLACK for row in own)
    return _claim("Section 5.3", said, ", ".join(told), holds)


def _crossing(points: Sequence[Row]) -> Claim:
    said = "Convergence is fastest on Low-rank, which crosses 99 % at n = 256"
    crossed = {
        name: min(row["n"] for row in above)
        for name in dict.fromkeys(row["instance"] for row in points)
        if (above := [r for r in points if r["instance"] == name and r["percent_of_bound"] >= 99])
    }
    if "lowrank" not in {row["instance"] for row in points}:
        return _claim("Section 5.3", said, "", False)
    told = [f"{title_of(name)} at n = {n:,}" for name, n in crossed.items()]
    ours = "above 99 %: " + (", ".join(told) if told else "none")
    first = crossed.get("lowrank", 0)
    own = [n for name, n in crossed.items() if not is_rebuilt(name)]
    return _claim("Section 5.3", said, ours, first == 256 and first == min(own))


def _slowest(points: Sequence[Row]) -> Claim:
    said = "Priority is slowest: 91.6 to 96.5 % for n from 16 to 16,384"
    inside = [r for r in points if r["instance"] == "priority" and 16 <= r["n"] <= 16384]
    if not inside:
        return _claim("Section 5.3", said, "", False)
    values = [row["percent_of_bound"] for row in inside]
    ours = f"{min(values):.1f} to {max(values):.1f} %"
    holds = all(row["within_noise"] or abs(row["outside"]) <= SLACK for row in inside)
    return _claim("Section 5.3", said, ours, holds)


def _pairs(
    sweep: Sequence[Compared], policy: str, names: Iterable[str]
) -> list[tuple[Compared, Compared]]:
    """LAG and another policy in the same row, on some instances."""
    wanted = set(names)
    other = {(c.instance, c.load): c for c in sweep if c.policy == policy}
    return [
        (cell, other[cell.instance, cell.load])
        for cell in sweep
        if cell.policy == "lag" and cell.instance in wanted
    ]
