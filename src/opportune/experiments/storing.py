"""Files that are written whole or not at all, and numbers that are written the same everywhere."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opportune.errors import InputError, Problem

DIGITS = 8
"""Significant digits of a number in a CSV file."""


def put(path: Path, content: bytes, option: str = "--out") -> None:
    """Write a file beside its place and move it there.

    Args:
        path: The file.
        content: All of it.
        option: What the user gave the path by, for the message.

    Raises:
        InputError: If the folder cannot be written to.
    """
    beside: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        os.chmod(beside, 0o644)
        os.replace(beside, path)
    except OSError as error:
        if beside is not None:
            Path(beside).unlink(missing_ok=True)
        raise InputError(
            Problem(
                option,
                f"{path}: {error.strerror}",
                "a place that can be written to",
                "name one in a folder that you may write to",
            )
        ) from error


def check_place(path: Path, option: str = "--out") -> None:
    """Refuse a path that cannot be written, before the work that it is for; nothing is made.

    Raises:
        InputError: If it is a folder, or there can be no file at its place.
    """
    above = next(one for one in (path.absolute().parents) if one.exists())
    if path.is_dir():
        told = "is a folder"
    elif not above.is_dir():
        told = f"{above} is no folder"
    elif not os.access(above, os.W_OK):
        told = f"the folder {above} cannot be written to"
    else:
        return
    raise InputError(
        Problem(
            option,
            f"{path}: {told}",
            "a place that can be written to",
            "name a file in a folder that you may write to",
        )
    )


def check_apart(path: Path, source: Path, option: str = "--out") -> None:
    """Refuse to write over the file that is read.

    Raises:
        InputError: If both are one file.
    """
    if path.exists() and source.exists() and path.samefile(source):
        raise InputError(
            Problem(
                option,
                f"{path} is the file that is read",
                "another file",
                "it would be overwritten; name another",
            )
        )


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
