"""Printing: tables for people, JSON and CSV for programs, progress on stderr."""

from __future__ import annotations

import csv
import importlib
import io
import json
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from opportune.errors import InputError, MissingExtraError, Problem
from opportune.experiments.settings import Progress as ProgressCallback
from opportune.model.writing import check_place, put

command_line: ContextVar[str] = ContextVar("command_line", default="")
"""The command as the user typed it, for the provenance of a report."""

EXTRAS = {
    "report": "opportune.experiments.report",
    "day": "opportune.experiments.report_day",
    "queue": "opportune.experiments.queue_report",
    "split": "opportune.experiments.report_split",
    "fit": "opportune.experiments.fit_report",
    "replay": "opportune.experiments.replay_report",
    "learned": "opportune.experiments.learned_report",
}
"""Kind of page -> the module that needs the packages of an extra, imported when asked for."""

QUIET_SECONDS = 2.0
"""Work shorter than this shows no progress bar."""

PLAIN_WIDTH = 160
"""Columns of a table that does not go to a terminal."""

LEAST_WIDTH = 20
"""Columns below which no text is wrapped: some layouts never end in one or two columns."""


class Screen(Console):
    """A console of at least ``LEAST_WIDTH`` columns; a reader that has gone is an error."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if self.width < LEAST_WIDTH:
            self.width = LEAST_WIDTH

    def on_broken_pipe(self) -> None:
        """Leave it to the command line, which knows the exit code."""
        raise BrokenPipeError


def console() -> Console:
    """Standard output, wide enough for a table when it is a file or a pipe."""
    width = None if sys.stdout.isatty() else PLAIN_WIDTH
    return Screen(width=width, highlight=False)


def print_json(record: Any) -> None:
    """A record as JSON; NaN and infinity are refused by construction.

    What the encoding of standard output has no letters for is escaped as JSON wants it.
    """
    text = json.dumps(record, indent=1, allow_nan=False, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(record, indent=1, allow_nan=False)
    print(text)


def csv_stream() -> TextIO:
    """Standard output in UTF-8, as every CSV file here is, whatever the terminal's encoding."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    return sys.stdout


def print_csv(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Rows as CSV with a header; None is empty."""
    writer = csv.writer(csv_stream(), lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    text_columns: Collection[str] = (),
) -> None:
    """Rows as a table: numbers to the right, text to the left.

    Args:
        title: Stands above it.
        columns: Headings.
        rows: Cells, as many as headings.
        text_columns: Columns that are text even where it begins with a digit, such as hashes.
    """
    table = Table(title=Text(title), title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        numbers = all(_is_number(row[i]) for row in rows)
        table.add_column(
            column,
            justify="left" if column in text_columns or not numbers else "right",
            no_wrap=i == 0,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console().print(table)


def _is_number(cell: str) -> bool:
    """Whether a cell holds a number, a dash or nothing."""
    return cell in ("", "-") or cell.lstrip("+-")[:1].isdigit()


def print_note(text: str) -> None:
    """A line to the reader on stderr, so that standard output stays a result."""
    Screen(stderr=True, soft_wrap=True, highlight=False).print(text, markup=False)


@contextmanager
def progress_bar(doing: str) -> Iterator[ProgressCallback]:
    """A callback (share, text) that draws a bar on a terminal once the work takes a while."""
    if not sys.stderr.isatty():
        yield lambda share, text: None
        return
    start = time.monotonic()
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Screen(stderr=True),
        transient=True,
    )
    task = bar.add_task(doing, total=1.0)
    shown = False

    def update(share: float, text: str) -> None:
        nonlocal shown
        if not shown and time.monotonic() - start > QUIET_SECONDS:
            bar.start()
            shown = True
        bar.update(task, completed=share, description=f"{doing}: {text}")

    try:
        yield update
    finally:
        if shown:
            bar.stop()


@contextmanager
def goes_on(folder: Path | None) -> Iterator[None]:
    """An interrupt inside says that what is finished is kept in the folder, if there is one."""
    try:
        yield
    except KeyboardInterrupt as error:
        if folder is None:
            raise
        told = f"what is finished is kept in {folder}; the same command goes on"
        raise KeyboardInterrupt(told) from error


def report_writer(path: Path | None, kind: str = "report") -> Callable[[Any, str], None]:
    """What writes the page with pictures; called before the work, so that a bad path fails early.

    It is called with what ``report_html`` of the kind's module takes, and the page's heading.

    Its packages are an extra and imported only here. Without a path it writes nothing.

    Raises:
        InputError: If the path does not end in .html.
        MissingExtraError: If the packages are not installed.
    """
    if path is None:
        return lambda result, title: None
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(Problem("--report", str(path), "a path that ends in .html"))
    check_place(path, "--report")
    try:
        report = importlib.import_module(EXTRAS[kind])
    except ModuleNotFoundError as error:
        if error.name in ("altair", "vl_convert"):
            raise MissingExtraError(error.name, "report", "--report") from error
        raise

    def write(result: Any, title: str) -> None:
        put(path, report.report_html(result, title, command_line.get()).encode(), "--report")
        print_note(f"report: {path}")

    return write
