"""Write ``docs/explanation/lag-paper-results.md`` from a stored run of ``opportune paper lag``.

``make docs`` writes the page from the tables in ``docs/results/lag``. After a new full run, say in
``out/lag``, ``python docs/generate_lag_results.py out/lag`` copies its tables and pictures there
first. A test fails when the page is not what this would write.
"""

from __future__ import annotations

import csv
import shutil
import sys
from collections import Counter
from pathlib import Path

from opportune.experiments.papers.lag.causes import CAUSES, CLOSE, COMPARABLE, NOTES
from opportune.experiments.papers.lag.instances import INSTANCES, POLICIES
from opportune.experiments.papers.lag.tables import POLICY_NAMES, title_of

HERE = Path(__file__).parent
STORED = HERE / "results" / "lag"
PAGE = HERE / "explanation" / "lag-paper-results.md"

TABLES = ("blocking", "claims", "figure6", "fluid", "run", "samples_summary", "table2", "table3")
PICTURES = ("figure3", "figure4", "figure5", "figure6", "samples")
REBUILT = {one.name for one in INSTANCES if one.rebuilt}

Row = dict[str, str]

INTRODUCTION = """\
# The LAG paper, reproduced

<!-- Written by docs/generate_lag_results.py (`make docs`); change the code, not this. -->

`opportune paper lag` runs every table and figure of *LAG: A Mean-Field Optimal Policy for Online
Assignment with Reusable Resources* (arXiv 2610.19038) and sets ours beside the paper's. This page
shows a stored full run; its tables are in `docs/results/lag`.

```sh
opportune paper lag --workers 2 --out out/lag
```

It takes a few minutes on two cores, goes on where it was interrupted, and writes each table as CSV,
each figure as PNG and CSV, and one page with everything that opens offline. `--quick` is a small
version. TMLR and ICLR read the folder that `OPPORTUNE_DATA` names; without it the other four
instances are run.

Percentages are of OCC-UB: the value of the occupancy LP at the blocking that every policy meets.
Bold: ours; behind it the paper's number.
"""

CONVERGENCE = """\
Reward of LAG as a percentage of OCC-UB at load 0.8 with n copies of each server and
m = floor(sqrt n) dispatchers. The paper gives no numbers of this figure but those that its text
names: the end points, in brackets, and 91.6 to 96.5 for Priority at n from 16 to 16,384.
"""

FLUID = """\
x_hat, made from an optimum of OCC-LP(0), is a fixed point of the fluid map G (Lemma 4.4). That G
leads there from everywhere (Assumption 4.2) is not proved; that it does from random starts is
evidence for these instances.
"""


def stored(name: str) -> list[Row]:
    """A table of the stored run."""
    return list(csv.DictReader((STORED / f"{name}.csv").read_text(encoding="utf-8").splitlines()))


def store(run: Path) -> None:
    """Copy tables and pictures of a run."""
    STORED.mkdir(parents=True, exist_ok=True)
    for name in [f"{table}.csv" for table in TABLES] + [f"{one}.png" for one in PICTURES]:
        shutil.copyfile(run / name, STORED / name)


def render() -> str:
    """The page."""
    sweep = stored("table3")
    parts = [
        INTRODUCTION,
        _agreement(sweep),
        "## What the text says\n",
        _table(
            ("the paper says", "where", "we find", "holds"),
            [(r["said"], r["place"], r["ours"] or "not run", r["holds"]) for r in stored("claims")],
        ),
        "## Table 2: load 0.7\n",
        _by_policy("instance", [(title_of(r["instance"]), r) for r in stored("table2")]),
        *_figures(sweep),
        "## Table 3 and why numbers differ\n",
        _causes(sweep),
        *_sweep_tables(sweep),
        *_samples(),
        "## Tasks turned away at n = 1, load 0.8\n",
        _blocking(),
        *_convergence(),
        "## Fluid limit\n",
        FLUID,
        _fluid(),
        "## How this run was made\n",
        _table(("what", "value"), [(row["what"], row["value"]) for row in stored("run")]),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _agreement(sweep: list[Row]) -> str:
    asked = [
        row
        for row in sweep
        if row["paper"] and row["policy"] in COMPARABLE and row["instance"] not in REBUILT
    ]
    apart = [row for row in asked if abs(float(row["difference"])) > CLOSE]
    text = (
        f"{len(asked) - len(apart)} of the {len(asked)} cells of Table 3 that leave only noise "
        f"open (LAG, Whittle, Greedy and Random on the four instances that the paper specifies) "
        f"lie within {CLOSE:g} points of the paper's"
    )
    told = [f"{_cell(row)}: {float(row['ours']):.1f}, paper {row['paper']}" for row in apart]
    return text + (". The others: " + "; ".join(told) if told else "") + ".\n"


def _figures(sweep: list[Row]) -> list[str]:
    known = {row["instance"] for row in sweep}
    pairs = {"figure4": "Specialist and Priority", "figure5": "Unfriendly and Low-rank"}
    if known >= REBUILT:
        pairs = {"figure3": "ICLR and TMLR"} | pairs
    parts = ["## Figures 3 to 5: reward over the load\n"]
    for name, told in pairs.items():
        parts.append(f"![Reward over the load on {told}](../results/lag/{name}.png)\n")
    parts.append(
        "Filled: ours. Hollow: the paper's. Dashed: the value of KIID-LP, a looser bound.\n"
    )
    return parts


def _causes(sweep: list[Row]) -> str:
    found = Counter(row["cause"] for row in sweep if row["paper"])
    rows = [(text, str(found[key])) for key, text in CAUSES.items() if found[key]]
    table = _table(("what is known", "cells"), rows)
    unknown = [row for row in sweep if row["cause"] == "unknown"]
    if not unknown:
        return table
    listed = "; ".join(f"{_cell(row)} ({float(row['difference']):+.1f})" for row in unknown)
    notes = "".join(
        f"- {title_of(name)}: {NOTES[name]}.\n"
        for name in dict.fromkeys(row["instance"] for row in unknown)
        if name in NOTES
    )
    return f"{table}\nNot explained, ours minus the paper's in points: {listed}.\n\n{notes}"


def _sweep_tables(sweep: list[Row]) -> list[str]:
    parts = []
    for name in dict.fromkeys(row["instance"] for row in sweep):
        own = [(row["load"], row) for row in sweep if row["instance"] == name]
        parts += [f"### {title_of(name)}\n", _by_policy("load", own)]
    return parts


def _samples() -> list[str]:
    rows = [
        (
            title_of(row["instance"]),
            POLICY_NAMES[row["policy"]],
            f"{float(row['mean']):.1f}",
            f"{float(row['low']):.1f} to {float(row['high']):.1f}",
            _one_decimal(row["paper"]),
            row["paper_inside"],
        )
        for row in stored("samples_summary")
        if row["paper"]
    ]
    if not rows:
        return []
    count = stored("samples_summary")[0]["samples"]
    return [
        f"## {count} samples instead of one\n",
        "The paper draws its 30 reviewers and 10 papers once, from matrices that are not "
        f"available in full. Mean and range over {count} samples of ours at load 0.7, beside its "
        "one sample.\n",
        "![Samples](../results/lag/samples.png)\n",
        _table(("instance", "policy", "mean", "range", "paper", "inside the range"), rows),
    ]


def _blocking() -> str:
    rows = [
        (
            title_of(row["instance"]),
            f"{float(row['measured']):.4f} ± {float(row['half_width'] or 0):.4f}",
            f"{float(row['exact']):.4f}" if row["exact"] else "",
            f"{float(row['erlang_b']):.4f}",
            _range(f"{float(row['paper_low']):.3f}", f"{float(row['paper_high']):.3f}"),
            row["inside"],
        )
        for row in stored("blocking")
    ]
    head = ("instance", "measured ± 95 %", "exact", "Erlang-B", "paper", "inside")
    return _table(head, rows)


def _convergence() -> list[str]:
    points = stored("figure6")
    copies = list(dict.fromkeys(row["n"] for row in points))
    at = {(row["instance"], row["n"]): row for row in points}
    names = list(dict.fromkeys(row["instance"] for row in points))
    reward = [(title_of(name), *(_point(at[name, n]) for n in copies)) for name in names]
    blocked = [
        (title_of(name), *(f"{float(at[name, n]['blocking']):.4f}" for n in copies))
        for name in names
    ]
    head = ("instance", *(f"n = {int(n):,}" for n in copies))
    return [
        "## Figure 6: convergence\n",
        CONVERGENCE,
        "![Convergence](../results/lag/figure6.png)\n",
        _table(head, reward),
        _first_trials(points),
        "Share of tasks turned away:\n",
        _table(head, blocked),
    ]


def _first_trials(points: list[Row]) -> str:
    """What as many trials as the paper's give where the paper names a number."""
    told = [
        f"{title_of(row['instance'])} {float(row['first_percent']):.1f} (paper {row['paper_low']})"
        for row in points
        if row["paper_low"] and row["paper_low"] == row["paper_high"]
    ]
    count = points[0]["first_trials"]
    return (
        f"The paper's points are means of {count} trials. Our first {count} at the largest n give: "
        + ", ".join(told)
        + ".\n"
    )


def _point(row: Row) -> str:
    is_point = row["paper_low"] and row["paper_low"] == row["paper_high"]
    said = f" ({_one_decimal(row['paper_low'])})" if is_point else ""
    return f"{float(row['percent_of_bound']):.1f} ± {float(row['half_width'] or 0):.1f}{said}"


def _fluid() -> str:
    rows = [
        (
            title_of(row["instance"]),
            f"{float(row['residual']):.1e}",
            f"{row['arrived']} of {row['starts']}",
            row["steps_median"],
            row["steps_most"],
        )
        for row in stored("fluid")
    ]
    head = ("instance", "largest coordinate of G(x_hat) - x_hat", "starts within 1e-6 of x_hat",
            "steps, median", "steps, most")  # fmt: skip
    return _table(head, rows)


def _by_policy(what: str, rows: list[tuple[str, Row]]) -> str:
    at = {(name, row["policy"]): row for name, row in rows}
    names = list(dict.fromkeys(name for name, _ in rows))
    lines = [(name, *(_beside(at[name, policy]) for policy in POLICIES)) for name in names]
    return _table((what, *(POLICY_NAMES[policy] for policy in POLICIES)), lines)


def _beside(row: Row) -> str:
    return f"**{float(row['ours']):.1f}** {_one_decimal(row['paper'])}".strip()


def _one_decimal(text: str) -> str:
    return f"{float(text):.1f}" if text else ""


def _cell(row: Row) -> str:
    return f"{POLICY_NAMES[row['policy']]} on {title_of(row['instance'])} at load {row['load']}"


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    text = "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in one) + " |" for one in lines
    )
    return text + "\n"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        store(Path(sys.argv[1]))
    PAGE.write_text(render(), encoding="utf-8")
