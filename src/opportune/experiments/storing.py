"""Rows as a CSV file: numbers are written the same everywhere."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

DIGITS = 8
"""Significant digits of a number in a CSV file."""


def csv_bytes(rows: Sequence[dict[str, Any]]) -> bytes:
    """Rows as CSV with a header: columns of the first row; None and what is missing are empty."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    columns = list(rows[0])
    writer.writerow(columns)
    writer.writerows([_text(row.get(column)) for column in columns] for row in rows)
    return stream.getvalue().encode()


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.{DIGITS}g}" if isinstance(value, float) else str(value)
