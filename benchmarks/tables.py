"""Results as tables for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.sections import Report, Row, Section

Facts = Mapping[str, str | int]
Results = Mapping[str, tuple[Section, Report]]


def print_tables(facts: Facts, results: Results, console: Console) -> None:
    """One table per section, the machine before, the notes after."""
    console.print(", ".join(f"{name} {value}" for name, value in facts.items()), markup=False)
    for section, report in results.values():
        table = Table(box=box.SIMPLE_HEAD, title=section.title, title_justify="left")
        table.add_column("measured", overflow="fold")
        for heading in ("median", "min", "max", "unit", "rounds", "target"):
            table.add_column(heading, justify="left" if heading == "unit" else "right")
        for row in report.rows:
            table.add_row(*_cells(row))
        console.print(table)
        for note in report.notes:
            console.print(f"- {note}", markup=False, soft_wrap=True)


def as_json(facts: Facts, results: Results) -> str:
    """Everything, values round by round included. No NaN or Infinity."""
    document: dict[str, Any] = {
        "machine": dict(facts),
        "sections": [
            {
                "name": section.name,
                "title": section.title,
                "rows": [_row_fields(row) for row in report.rows],
                "notes": list(report.notes),
            }
            for section, report in results.values()
        ],
    }
    return json.dumps(document, indent=2, allow_nan=False)


def _cells(row: Row) -> tuple[str, ...]:
    target = "" if row.target is None else f"{row.target} {'met' if row.met else 'MISSED'}"
    return (
        row.label,
        _number(row.median),
        _number(min(row.values)),
        _number(max(row.values)),
        row.unit,
        str(len(row.values)),
        target,
    )


def _row_fields(row: Row) -> dict[str, Any]:
    return {
        "label": row.label,
        "unit": row.unit,
        "median": row.median,
        "min": min(row.values),
        "max": max(row.values),
        "values": list(row.values),
        "target": None if row.target is None else str(row.target),
        "met": row.met,
    }


def _number(value: float) -> str:
    """Three digits that matter, without an exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.001 else f"{value:.6f}"
