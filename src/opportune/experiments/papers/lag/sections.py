"""The sections of the page: what each table and figure shows, in words and as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from opportune.experiments import page
from opportune.experiments.page import Html
from opportune.experiments.papers.lag.causes import (
    CAUSES,
    CLOSE,
    NOTES,
    Compared,
    comparable,
    counts,
    far,
)
from opportune.experiments.papers.lag.claims import Claim
from opportune.experiments.papers.lag.instances import INSTANCES, POLICIES
from opportune.experiments.papers.lag.published import ROUNDING
from opportune.experiments.papers.lag.tables import POLICY_NAMES, Row, difference, title_of
from opportune.experiments.wording import NBSP, signed

REBUILT = tuple(one.name for one in INSTANCES if one.rebuilt)


@dataclass(frozen=True)
class Tables:
    """Everything the page tells, as rows.

    Attributes:
        summary: Table 2.
        sweep: Table 3.
        bounds: What its percentages are of.
        claims: What the text says.
        samples: Each sample of the rebuilt instances.
        sample_summary: Mean and range of them.
        blocking: Tasks turned away at n = 1.
        convergence: Figure 6.
        fluid: Residual and convergence of the fluid map.
        curves: Distances on the way.
    """

    summary: Sequence[Compared]
    sweep: Sequence[Compared]
    bounds: Sequence[Row]
    claims: Sequence[Claim]
    samples: Sequence[Row]
    sample_summary: Sequence[Row]
    blocking: Sequence[Row]
    convergence: Sequence[Row]
    fluid: Sequence[Row]
    curves: Sequence[Row]


def headline(sweep: Sequence[Compared]) -> str:
    """How many cells agree, and which do not."""
    asked = comparable(sweep, REBUILT)
    apart = far(asked)
    text = (
        f"{len(asked) - len(apart)} of the {len(asked)} cells of Table 3 that leave only noise "
        f"open (LAG, Whittle, Greedy and Random on the four specified instances) lie within "
        f"{CLOSE:g} points of the paper's."
    )
    if apart:
        told = "; ".join(
            f"{POLICY_NAMES[cell.policy]} on {title_of(cell.instance)} at load {cell.load:g} "
            f"({cell.ours:.1f}, paper {cell.paper:.1f})"
            for cell in apart
        )
        text += f" Not so: {told}."
    return text


def please_note(notes: Sequence[str]) -> Html:
    """What a reader must know first; nothing if there is nothing."""
    if not notes:
        return Html("")
    items = page.joined(page.element("li", text) for text in notes)
    parts = [page.element("h2", "Please note"), page.element("ul", items)]
    return page.element("aside", page.joined(parts), class_="warnings", role="note")


def claims_table(found: Sequence[Claim]) -> Html:
    """What the text says and what we find."""
    rows = [[one.said, one.place, one.ours or "—", one.holds] for one in found]
    head = ["The paper says", "<Where", "<We find", "Holds"]
    return page.table("Statements of the text", head, rows)


def summary_table(cells: Sequence[Compared]) -> Html:
    """Table 2: ours, the paper's in brackets."""
    at = {(cell.instance, cell.policy): cell for cell in cells}
    rows = [
        [title_of(name), *(_beside(at[name, policy]) for policy in POLICIES)]
        for name in dict.fromkeys(cell.instance for cell in cells)
    ]
    head = ["Instance", *(POLICY_NAMES[policy] for policy in POLICIES)]
    return page.table("Percent of OCC-UB at load 0.7 ± 95 % interval (the paper's)", head, rows)


def sweep_tables(cells: Sequence[Compared]) -> Html:
    """Table 3, an instance each, folded."""
    tables = []
    for name in dict.fromkeys(cell.instance for cell in cells):
        own = [cell for cell in cells if cell.instance == name]
        at = {(cell.load, cell.policy): cell for cell in own}
        loads = dict.fromkeys(cell.load for cell in own)
        rows = [
            [f"{load:g}", *(_beside(at[load, policy]) for policy in POLICIES)] for load in loads
        ]
        head = ["Load", *(POLICY_NAMES[policy] for policy in POLICIES)]
        caption = f"{title_of(name)}: percent of OCC-UB ± 95 % interval (the paper's)"
        tables.append(page.folded(title_of(name), page.table(caption, head, rows)))
    return page.joined(tables)


def _beside(cell: Compared) -> str:
    width = "" if cell.half_width is None else f"{NBSP}±{NBSP}{cell.half_width:.1f}"
    paper = "" if cell.paper is None else f" ({cell.paper:.1f})"
    return f"{cell.ours:.1f}{width}{paper}"


def causes_table(cells: Sequence[Compared]) -> Html:
    """How many cells each cause explains, and what stands behind it."""
    found = counts(cells)
    rows = [[CAUSES[key], str(found[key])] for key in CAUSES if found[key]]
    return page.table(
        "Why numbers differ", ["<What is known", "Cells"], [[row[0], row[1]] for row in rows]
    )


def differences_table(cells: Sequence[Compared], cause: str) -> Html:
    """The cells of one cause, the largest difference first."""
    own = [cell for cell in cells if cell.cause == cause and cell.paper is not None]
    own.sort(key=lambda cell: -abs(cell.difference or 0.0))
    rows = [
        [
            f"{title_of(cell.instance)}, load {cell.load:g}, {POLICY_NAMES[cell.policy]}",
            f"{cell.ours:.2f}",
            "—" if cell.half_width is None else f"±{NBSP}{cell.half_width:.2f}",
            f"{cell.paper:.1f}",
            "—" if cell.paper_half_width is None else f"±{NBSP}{cell.paper_half_width:.2f}",
            signed(f"{cell.difference:+.2f}"),
        ]
        for cell in own
    ]
    head = ["Cell", "Ours", "95 %", "Paper", "95 %, assumed run", "Difference"]
    count = f"{len(own)} cell" + ("" if len(own) == 1 else "s")
    what = CAUSES[cause].split(":")[0]
    table = page.table(f"{what}: {count}", head, rows)
    names = dict.fromkeys(cell.instance for cell in own) if cause == "unknown" else ()
    notes = [
        page.element("p", f"{title_of(name)}: {NOTES[name]}.", class_="small")
        for name in names
        if name in NOTES
    ]
    return page.folded(f"{what} ({count})", page.joined([table, *notes]))


def samples_table(rows: Sequence[Row]) -> Html:
    """Mean and range over the samples beside the paper's single one."""
    lines = [
        [
            f"{title_of(row['instance'])}, {POLICY_NAMES[row['policy']]}",
            str(row["samples"]),
            f"{row['mean']:.1f}",
            f"{row['low']:.1f} to {row['high']:.1f}",
            "—" if row["paper"] is None else f"{row['paper']:.1f}",
            {True: "yes", False: "no", None: "—"}[row["paper_inside"]],
            _behind(row),
        ]
        for row in rows
    ]
    head = ["Policy", "Samples", "Mean", "Range", "Paper", "Inside", "Minus LAG (paper)"]
    return page.table("Samples at load 0.7, percent of OCC-UB", head, lines)


def _behind(row: Row) -> str:
    if row["policy"] == "lag":
        return "—"
    text, paper = difference(row["minus_lag_mean"]), row["paper_minus_lag"]
    return text if paper is None else f"{text} ({difference(paper)})"


def blocking_table(rows: Sequence[Row]) -> Html:
    """Blocking at n = 1 and load 0.8."""
    lines = [
        [
            title_of(row["instance"]),
            _digits(row["measured"]) + _width(row["half_width"]),
            _digits(row["exact"]),
            _digits(row["erlang_b"]),
            f"{row['paper_low']:.3f}"
            + ("" if row["paper_low"] == row["paper_high"] else f" to {row['paper_high']:.3f}"),
            "yes" if row["inside"] else "no",
        ]
        for row in rows
    ]
    head = ["Instance", "Measured", "Exact", "Erlang-B", "Paper", "Inside"]
    return page.table("Share of tasks turned away at n = 1, load 0.8", head, lines)


def _digits(value: float | None) -> str:
    return "—" if value is None else f"{value:.4f}"


def _width(value: float | None) -> str:
    return "" if value is None else f"{NBSP}±{NBSP}{value:.4f}"


def convergence_table(rows: Sequence[Row]) -> Html:
    """Figure 6 as numbers: percent of OCC-UB and blocking by instance and n."""
    at = {(row["instance"], row["n"]): row for row in rows}
    copies = sorted({row["n"] for row in rows})
    lines = []
    for name in dict.fromkeys(row["instance"] for row in rows):
        own = [at[name, n] for n in copies]
        lines.append([title_of(name), "% of OCC-UB", *(_point(row) for row in own)])
        if any(row["first_trials"] < row["trials"] for row in own):
            lines.append(["", f"first {own[0]['first_trials']} trials", *map(_first, own)])
        lines.append(["", "turned away", *(f"{row['blocking']:.4f}" for row in own)])
    head = ["Instance", "<What", *(f"n = {n:,}" for n in copies)]
    return page.table("LAG at load 0.8 ± 95 % interval (end points of the paper)", head, lines)


def _point(row: Row) -> str:
    width = "" if row["half_width"] is None else f"{NBSP}±{NBSP}{row['half_width']:.1f}"
    is_point = row["paper_low"] is not None and row["paper_low"] == row["paper_high"]
    said = f" ({row['paper_low']:.1f})" if is_point else ""
    return f"{row['percent_of_bound']:.1f}{width}{said}"


def _first(row: Row) -> str:
    """As many trials as the paper's."""
    return f"{row['first_percent']:.1f}"


def convergence_note(rows: Sequence[Row]) -> Html:
    """How far the paper's statements are from ours, and whether noise explains it."""
    told = [
        f"{title_of(row['instance'])} at n = {row['n']:,}: {difference(row['outside'])} points "
        f"({'within' if row['within_noise'] else 'beyond'} the noise of both, "
        f"± {math.hypot(row['half_width'] or 0.0, row['paper_half_width'] or 0.0):.1f}; first "
        f"{row['first_trials']} trials {difference(row['first_outside'])})"
        for row in rows
        if row["outside"] is not None and abs(row["outside"]) > ROUNDING
    ]
    if not told:
        return Html("")
    text = "Outside of what the paper says: " + "; ".join(told) + "."
    return page.element("p", text, class_="small")


def fluid_table(rows: Sequence[Row]) -> Html:
    """Residual of x_hat and convergence from random starts."""
    lines = [
        [
            title_of(row["instance"]),
            f"{row['residual']:.1e}",
            f"{row['arrived']} of {row['starts']}",
            "—" if row["steps_median"] is None else f"{row['steps_median']:,}",
            "—" if row["steps_most"] is None else f"{row['steps_most']:,}",
            f"{row['largest_distance']:.0e}",
        ]
        for row in rows
    ]
    head = ["Instance", "max |G(x̂) − x̂|", "Starts that arrive", "Steps, median", "Steps, most",
            "Followed down to"]  # fmt: skip
    return page.table("Fluid map of LAG at load 0.8", head, lines)
