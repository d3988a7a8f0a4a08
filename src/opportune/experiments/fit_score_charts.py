"""Pictures of the scores of a fit: each pair, what it rests on, calibration, number of types.

Needs the extra ``report``; reached only when a report is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np
from numpy.typing import NDArray

from opportune.experiments.chart_style import (
    INK,
    ROWS,
    SOFT,
    TRACK,
    Chart,
    Row,
    Spec,
    color_of,
    finished,
    label_axis,
    plain_axis,
    rounded,
    tips,
)
from opportune.learning.fit.instance import Fit
from opportune.learning.fit.outcomes import Calibration

Float = NDArray[np.float64]

MOST_TYPES, MOST_SERVERS = 30, 40
"""Most rows and columns of a heat map."""

STRONG = 1e8
"""From this strength on a pair's own outcomes count for nothing."""

HIGH = 260
"""Height of a chart in pixels."""


def score_chart(fit: Fit, name: str) -> Chart:
    """Heat map of the scores, intervals in the tooltip."""
    instance = fit.instance
    types, servers = shown_pairs(fit)
    at = np.ix_(types, servers)
    score = instance.match_reward[at]
    low, high = float(score.min()), float(score.max())
    table = fit.table
    fields: dict[str, Float] = {"value": score, "outcomes": fit.pair_count[at]}
    if table is not None:
        fields |= {"low": table.low[at], "high": table.high[at]}
    text = f"Heat map of scores by task type and server, from {low:.3g} to {high:.3g}."
    hints = ["=value:Score", "=outcomes:Services it rests on"]
    hints += ["=low:95 % from", "=high:to"] if table is not None else []
    return Chart(
        name=name,
        title="What each pair is worth",
        text=text,
        caption="The match rewards of the instance; point at a cell for its interval. "
        + _cut_note(fit, types, servers),
        spec=_heat_map(fit, fields, (types, servers), (tuple(hints), "score", text)),
        least_width=110 + 12 * len(servers),
        wide=len(servers) > 15,
    )


def support_chart(fit: Fit, name: str) -> Chart:
    """Heat map of how many services each score rests on, on a logarithmic scale."""
    types, servers = shown_pairs(fit)
    count = fit.pair_count[np.ix_(types, servers)]
    fields: dict[str, Float] = {"value": np.log10(count + 1.0), "outcomes": count}
    none = int((count == 0).sum())
    text = (
        f"Heat map of how many services each score rests on, from {count.min():.0f} to "
        f"{count.max():,.0f}; {none} of {count.size} pairs have none."
    )
    shown = (("=outcomes:Services",), "log10 (1 + services)", text)
    return Chart(
        name=name,
        title="What the scores rest on",
        text=text,
        caption="Dark: few or none, the score is borrowed from the server's other types and the "
        "type's other servers. " + _cut_note(fit, types, servers),
        spec=_heat_map(fit, fields, (types, servers), shown),
        least_width=110 + 12 * len(servers),
        wide=len(servers) > 15,
    )


def shrinkage_chart(fit: Fit, name: str) -> Chart | None:
    """Mean outcome of each pair beside its score: how far the two are apart, by size."""
    if fit.scores is None:
        return None
    table = fit.scores.table
    seen = np.argwhere(table.count > 0)
    rows: list[Row] = [
        {
            "raw": rounded(float(table.raw[v, r])),
            "score": rounded(float(table.mean[v, r])),
            "low": rounded(float(table.low[v, r])),
            "high": rounded(float(table.high[v, r])),
            "outcomes": int(table.count[v, r]),
            "pair": f"{fit.instance.task_types[v]} by {fit.instance.servers[r]}",
        }
        for v, r in seen[np.argsort(-table.count[tuple(seen.T)], kind="stable")][:400]
    ]
    base = alt.Chart(ROWS).encode(
        x=alt.X("raw:Q", title="mean outcome", axis=plain_axis(), scale=alt.Scale(zero=False)),
        tooltip=tips("pair:Pair", "=outcomes:Outcomes", "=raw:Their mean", "=score:Score"),
    )
    y = alt.Y("score:Q", title="score", axis=plain_axis(), scale=alt.Scale(zero=False))
    dots = base.mark_point(filled=True, opacity=0.7, color=color_of("lag")).encode(
        y=y, size=alt.Size("outcomes:Q", legend=None, scale=alt.Scale(range=[12, 160]))
    )
    rules = base.mark_rule(color=SOFT, opacity=0.35).encode(y="low:Q", y2="high:Q")
    moved = float(np.nanmax(np.abs(table.raw - table.mean)))
    text = f"Points: mean outcome and score of each pair; they differ by up to {moved:.3g}."
    return Chart(
        name=name,
        title="What was seen, and what is believed",
        text=text,
        caption="A point a pair, larger with more outcomes; line: 95 % interval of the score. "
        + _strength(table.strength),
        spec=finished(
            alt.layer(_diagonal(), rules, dots),
            HIGH,
            text,
            rows=rows,
            ends=_ends(table.raw[table.count > 0].tolist()),
        ),
    )


def calibration_chart(calibration: Calibration, name: str) -> Chart:
    """Held-out predictions beside outcomes."""
    rows: list[Row] = [
        {"x": rounded(x), "y": rounded(y), "low": rounded(a), "high": rounded(b)}
        for x, y, a, b in zip(
            calibration.predicted.tolist(),
            calibration.observed.tolist(),
            calibration.low.tolist(),
            calibration.high.tolist(),
            strict=True,
        )
    ]
    base = alt.Chart(ROWS).encode(
        x=alt.X("x:Q", title="predicted, held out", axis=plain_axis(), scale=alt.Scale(zero=False)),
        tooltip=tips("=x:Predicted", "=y:Seen", "=low:95 % from", "=high:to"),
    )
    y = alt.Y("y:Q", title="mean outcome", axis=plain_axis(), scale=alt.Scale(zero=False))
    dots = base.mark_point(filled=True, size=50, color=color_of("lag")).encode(y=y)
    rules = base.mark_rule(color=color_of("lag")).encode(y="low:Q", y2="high:Q")
    text = (
        f"Points: predicted and seen mean outcome in {len(rows)} bins; slope "
        f"{calibration.slope:.3f} with standard error {calibration.slope_error:.3f}, 1 is right."
    )
    return Chart(
        name=name,
        title="Are predictions right on average?",
        text=text,
        caption=f"Each point: a tenth of the outcomes, predicted without them. Slope "
        f"{calibration.slope:.2f} ± {2 * calibration.slope_error:.2f} (1 is right), squared error "
        f"{calibration.error:.4f}.",
        spec=finished(
            alt.layer(_diagonal(), rules, dots),
            HIGH,
            text,
            rows=rows,
            ends=_ends(calibration.predicted.tolist()),
        ),
    )


def types_chart(fit: Fit, name: str) -> Chart | None:
    """Held-out loss by number of types made of contexts."""
    if fit.clusters is None or len(fit.clusters.losses) < 2:
        return None
    rows: list[Row] = [
        {
            "types": f"{count}",
            "loss": rounded(loss),
            "low": rounded(loss - error),
            "high": rounded(loss + error),
        }
        for count, (loss, error) in fit.clusters.losses.items()
    ]
    order = [row["types"] for row in rows]
    base = alt.Chart(ROWS).encode(
        x=alt.X("types:N", sort=order, title="task types", axis=label_axis(labelAngle=0)),
        tooltip=tips("types:Types", "=loss:Held-out loss"),
    )
    y = alt.Y("loss:Q", title="held-out loss", axis=plain_axis(), scale=alt.Scale(zero=False))
    dots = base.mark_point(filled=True, size=60, color=color_of("lag")).encode(y=y)
    rules = base.mark_rule(color=color_of("lag")).encode(y="low:Q", y2="high:Q")
    taken = len(fit.clusters.center)
    text = f"Points: held-out loss by number of task types; {taken} taken."
    return Chart(
        name=name,
        title="How many task types?",
        text=text,
        caption=f"Loss of outcomes held out; line: standard error of the difference to the least. "
        f"The fewest types within one are taken: {taken}.",
        spec=finished(alt.layer(rules, dots), HIGH, text, rows=rows),
    )


def shown_pairs(fit: Fit) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Types and servers with the most services, in the order of the instance."""
    types = np.argsort(-fit.assigned.sum(axis=1), kind="stable")[:MOST_TYPES]
    servers = np.argsort(-fit.assigned.sum(axis=0), kind="stable")[:MOST_SERVERS]
    return np.sort(types), np.sort(servers)


def _diagonal() -> alt.Chart:
    """The line where both axes agree, between the two rows of the data ``ends``."""
    line = alt.Chart(alt.NamedData(name="ends")).mark_line(color=INK, strokeDash=[2, 2])
    chart: alt.Chart = line.encode(x="x:Q", y="y:Q")
    return chart


def _strength(strength: float) -> str:
    if strength >= STRONG:
        return "Pairs show nothing of their own beyond what they are shrunk to."
    return f"What a pair is shrunk to counts as {strength:.3g} outcomes."


def _ends(values: Sequence[float]) -> list[Row]:
    return [{"x": rounded(x), "y": rounded(x)} for x in (min(values), max(values))]


def _heat_map(
    fit: Fit,
    fields: dict[str, Float],
    at: tuple[NDArray[np.intp], NDArray[np.intp]],
    told: tuple[tuple[str, ...], str, str],
) -> Spec:
    """Cells by type and server; forbidden pairs are empty.

    Args:
        fit: The fit.
        fields: (types, servers) numbers by name; ``value`` is the color.
        at: Types and servers shown.
        told: Tooltips, title of the color bar, text for a screen reader.
    """
    instance, (hints, unit, text) = fit.instance, told
    rows: list[Row] = []
    for i, v in enumerate(at[0]):
        for j, r in enumerate(at[1]):
            if instance.allowed[v, r]:
                cell: Row = {"type": instance.task_types[v], "server": instance.servers[r]}
                cell |= {key: rounded(float(values[i, j])) for key, values in fields.items()}
                rows.append(cell)
    servers = [instance.servers[r] for r in at[1]]
    turned = 0 if len(servers) <= 4 else -90
    bar = alt.Legend(orient="bottom", title=unit, gradientLength=200, format=".3~r", tickCount=4)
    chart = alt.Chart(ROWS).encode(
        x=alt.X(
            "server:N", sort=servers, title=None, axis=label_axis(orient="top", labelAngle=turned)
        ),
        y=alt.Y(
            "type:N",
            sort=[instance.task_types[v] for v in at[0]],
            title=None,
            axis=label_axis(),
        ),
        tooltip=[*tips("type:Task type", "server:Server"), *tips(*hints)],
    )
    cells = chart.mark_rect(stroke="var(--card)", strokeWidth=1).encode(
        color=alt.Color("value:Q", scale=alt.Scale(scheme="cividis"), legend=bar)
    )
    under = chart.mark_rect(color=TRACK)
    return finished(alt.layer(under, cells), 24 * len(at[0]), text, rows=rows)


def _cut_note(fit: Fit, types: NDArray[np.intp], servers: NDArray[np.intp]) -> str:
    instance = fit.instance
    if len(types) == instance.n_types and len(servers) == instance.n_servers:
        return ""
    return (
        f"Shown: {len(types)} of {instance.n_types:,} types and {len(servers)} of "
        f"{instance.n_servers:,} servers, those with the most services."
    )
