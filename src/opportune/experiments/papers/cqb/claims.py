"""What the papers and the summary say, one by one, and a plain verdict from our numbers."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from opportune.experiments.papers.cqb.merging import Estimate, Measured, Slope

Row = dict[str, Any]
Found = Mapping[tuple[str, str], Mapping[str, Measured]]
"""Measured arms by section and setting."""

SURE = 2.0
"""Standard errors from which a difference counts."""

SCALES = ("0.1", "0.01")
"""Factors of the radius under which the summary's set-up is run; it names the first."""

LOWER_BOUND = math.exp(-1 / 6) / 16
"""max over the hard pair of R_T is at least this times lambda / sqrt T (CQB section 4)."""


@dataclass(frozen=True)
class Verdict:
    """A claim and what became of it.

    Attributes:
        source: Who says it.
        said: The claim, shortened.
        ours: What we find, with standard errors.
        verdict: ``holds``, ``does not hold``, ``not seen`` (no difference beyond noise) or
            ``not run``.
    """

    source: str
    said: str
    ours: str
    verdict: str


@cache
def published() -> tuple[Row, ...]:
    """The summary's tables: rows of table, policy, setting, value, error."""
    text = files("opportune.experiments.papers.cqb").joinpath("published.csv")
    rows = csv.DictReader(text.read_text(encoding="utf-8").splitlines())
    return tuple(
        {**row, "value": float(row["value"]), "error": float(row["error"])} for row in rows
    )


def published_rows(found: Found) -> list[Row]:
    """The summary's numbers beside ours at both scales, with a verdict for each."""
    rows = []
    for row in published():
        setting = row["setting"] or "base"
        own = {}
        for scale in SCALES:
            arms = found.get(("summary", f"{setting}, x {scale}"), {})
            own[scale] = arms.get(row["policy"])
        rows.append(
            {
                "table": row["table"],
                "policy": row["policy"],
                "setting": setting,
                "published": row["value"],
                "published_error": row["error"],
                **{
                    f"ours_x_{scale}": None if one is None else one.end.value
                    for scale, one in own.items()
                },
                **{
                    f"error_x_{scale}": None if one is None else one.end.error
                    for scale, one in own.items()
                },
                **{
                    f"excess_x_{scale}": None if one is None else one.excess.value
                    for scale, one in own.items()
                },
                "verdict": _agreement(row, own["0.1"]),
            }
        )
    return rows


def _agreement(row: Row, ours: Measured | None) -> str:
    """Whether the published number is ours within twice both errors."""
    if ours is None:
        return "not run"
    apart = abs(ours.end.value - row["value"])
    noise = math.hypot(ours.end.error, row["error"])
    return "holds" if apart <= SURE * noise else "does not hold"


def verdicts(found: Found, slopes: Mapping[tuple[str, str], Slope | None]) -> list[Verdict]:
    """Every claim, the papers' first."""
    return [
        *_rate_claims(slopes),
        _lower_bound(found),
        _ranking(found, "cqb-eps", "CQB-eta-2 ends with a shorter queue than CQB-eps"),
        _ranking(found, "acqb-ts", "CQB-eta-2 ends with a shorter queue than ACQB"),
        _half(found),
        _ranking(found, "eta-forever", "without phase 3 the final regret rises (0.42 to 1.12)"),
        _fifo(found),
        _linear(found),
        _trend(found, "slack", ("slack 0.05", "base", "slack 0.15"), "falls as the slack grows"),
        _trend(found, "servers", ("K 10", "base", "K 3"), "rises a little from K = 3 to K = 10"),
        *_scale_matters(found),
    ]


def _rate_claims(slopes: Mapping[tuple[str, str], Slope | None]) -> list[Verdict]:
    told = []
    for policy, rate in (("cqb-eta-2", -0.5), ("sign rule", -0.5)):
        long, whole = (slopes.get((one, policy)) for one in ("hard, T >= 400", "hard"))
        said = f"the regret of {policy} falls like T^{rate:g} on the hard instance"
        if long is None or whole is None:
            told.append(Verdict("2606.09668, Theorem 5", said, "", "not run"))
            continue
        holds = abs(long.slope - rate) <= long.half_width
        ours = (
            f"exponent {long.slope:.3f} ± {long.half_width:.3f} (95 %) from T = 400 on, "
            f"{whole.slope:.3f} ± {whole.half_width:.3f} from T = 100 on"
        )
        told.append(
            Verdict("2606.09668, Theorem 5", said, ours, "holds" if holds else "does not hold")
        )
    return told


def _lower_bound(found: Found) -> Verdict:
    said = "no policy has a regret below lambda e^(-1/6) / (16 sqrt T) on both hard instances"
    seen = []
    for (section, name), arms in found.items():
        if section == "hard":
            horizon = int(name.removeprefix("T ").split(",")[0])
            least = 0.4 * LOWER_BOUND / math.sqrt(horizon)
            seen += [(one.end.value / least, _upper(one) / least) for one in arms.values()]
    if not seen:
        return Verdict("2606.09668, Theorem 10", said, "", "not run")
    low = min(seen, key=lambda one: one[1])
    holds = all(upper >= 1 for _, upper in seen)
    ours = (
        f"the least of {len(seen)} regrets is {low[0]:.1f} times the bound, and at most "
        f"{low[1]:.1f} times within two standard errors"
    )
    return Verdict("2606.09668, Theorem 10", said, ours, "holds" if holds else "does not hold")


def _upper(one: Measured) -> float:
    """What the regret is at most; 3 / n where no run differed from the oracle's."""
    return max(one.end.value + SURE * one.end.error, 3.0 / one.runs)


def _arms(found: Found, setting: str, scale: str = "0.1") -> Mapping[str, Measured]:
    return found.get(("summary", f"{setting}, x {scale}"), {})


def _ranking(found: Found, other: str, said: str) -> Verdict:
    """The end of another policy minus that of CQB-eta-2, paired, at both scales."""
    parts, signs = [], []
    for scale in SCALES:
        one = _arms(found, "base", scale).get(other)
        if one is None:
            return Verdict("summary, tables", said, "", "not run")
        parts.append(f"x {scale}: {told(one.end_apart)} more at the end, n = {one.runs}")
        signs.append(_sign(one.end_apart))
    if all(sign > 0 for sign in signs):
        verdict = "holds"
    elif any(sign < 0 for sign in signs):
        verdict = "does not hold"
    else:
        verdict = "not seen"
    return Verdict("summary, tables", said, f"{other} " + "; ".join(parts), verdict)


def _half(found: Found) -> Verdict:
    said = "CQB-eta-2 halves the final regret of CQB-eps"
    arms = _arms(found, "base")
    if not arms:
        return Verdict("summary, text", said, "", "not run")
    own, other = arms["cqb-eta-2"].end, arms["cqb-eps"].end
    ours = f"{told(own)} against {told(other)} at x 0.1"
    holds = own.value + SURE * own.error < other.value / 2
    return Verdict("summary, text", said, ours, "holds" if holds else "does not hold")


def _fifo(found: Found) -> Verdict:
    said = "first come, first served with a random server waits half as long as pure random"
    arms = _arms(found, "base")
    if not arms:
        return Verdict("summary, tables", said, "", "not run")
    fifo, random = arms["fifo-random"].end, arms["random"].end
    ratio = fifo.value / random.value if random.value else math.nan
    ours = f"{fifo.value:.0f} ± {fifo.error:.1f} against {random.value:.0f} ± {random.error:.1f}"
    return Verdict("summary, tables", said, ours, "holds" if ratio < 0.7 else "does not hold")


def _linear(found: Found) -> Verdict:
    said = "the queue of random service grows linearly"
    arms = found.get(("first paper", "slack 0.1, x 0.1"), {})
    if "random" not in arms:
        return Verdict("2601.19300", said, "", "not run")
    random = arms["random"]
    half = int(abs(random.grid - random.grid[-1] / 2).argmin())
    ratio = float(random.curve[-1] / random.curve[half])
    stretch = random.grid[-1] / random.grid[half]
    ours = f"{random.curve[half]:.0f} waiting half way, {random.curve[-1]:.0f} at the end"
    return Verdict(
        "2601.19300", said, ours, "holds" if abs(ratio / stretch - 1) < 0.1 else "does not hold"
    )


def _trend(found: Found, what: str, names: Sequence[str], says: str) -> Verdict:
    """The end of CQB-eta-2 must fall along the settings."""
    said = f"the final regret {says}"
    ends = [_arms(found, name).get("cqb-eta-2") for name in names]
    known = [one for one in ends if one is not None]
    if len(known) < len(names):
        return Verdict("summary, ablations", said, "", "not run")
    ours = ", ".join(f"{told(one.end)} at {name}" for name, one in zip(names, known, strict=True))
    first, last = known[0].end, known[-1].end
    apart = Estimate(first.value - last.value, math.hypot(first.error, last.error))
    sign = _sign(apart)
    verdict = "holds" if sign > 0 else "does not hold" if sign < 0 else "not seen"
    return Verdict("summary, ablations", said, f"{ours} (x 0.1)", verdict)


def _scale_matters(found: Found) -> list[Verdict]:
    """Ours: the factor of the radius decides, not the phases."""
    base = {scale: _arms(found, "base", scale).get("cqb-eta-2") for scale in SCALES}
    large, small = base["0.1"], base["0.01"]
    said = "the factor of the radius matters more than the phases"
    if large is None or small is None:
        return [Verdict("ours", said, "", "not run")]
    other = _arms(found, "base")["cqb-eps"].end_apart
    by_scale = Estimate(
        large.end.value - small.end.value, math.hypot(large.end.error, small.end.error)
    )
    ours = f"x 0.1 to x 0.01: {told(by_scale)}; phases of CQB-eps instead: {told(other)}"
    holds = _sign(by_scale) > 0 and by_scale.value > abs(other.value)
    return [Verdict("ours", said, ours, "holds" if holds else "not seen")]


def _sign(one: Estimate) -> int:
    """1 or -1 if the value is beyond two standard errors, else 0."""
    return 0 if abs(one.value) <= SURE * one.error else int(math.copysign(1, one.value))


def told(one: Estimate) -> str:
    """A value with its standard error, in as many digits as it deserves."""
    digits = 3 if one.error < 0.05 else 2 if one.error < 0.5 else 1
    return f"{one.value:.{digits}f} ± {one.error:.{digits}f}"
