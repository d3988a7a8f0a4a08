"""``opportune export``: a log in the formats of Vowpal Wabbit and Open Bandit Pipeline."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from opportune.cli.fit import COLUMNS_HELP, DEFAULT_READ, LOG_HELP, ReadOptions
from opportune.cli.options import Place
from opportune.cli.output import print_note, progress_bar
from opportune.errors import InputError, Problem
from opportune.learning.evaluation.decisions import decisions_of, left_out_text
from opportune.learning.evaluation.exporting import write_bandit_feedback, write_vowpal
from opportune.learning.fit.columns import read_columns
from opportune.learning.fit.log import LogRules, read_log
from opportune.model.writing import check_apart, check_place

TO_HELP = "vw: Vowpal Wabbit's --cb_adf; vw-cb: its --cb; obp: Open Bandit Pipeline's dict (.npz)."
OUT_HELP = "The file to write; by default the log's name with .vw or .npz."


def export(
    log: Annotated[Place, Parameter(help=LOG_HELP)],
    /,
    *,
    to: Annotated[Literal["vw", "vw-cb", "obp"], Parameter(help=TO_HELP)],
    out: Annotated[Place | None, Parameter(help=OUT_HELP)] = None,
    columns: Annotated[str | None, Parameter(help=COLUMNS_HELP)] = None,
    read: ReadOptions = DEFAULT_READ,
) -> None:
    """Write the decisions of a log, with propensities and outcomes, for other programs.

    Tasks of several servers, and decisions without a propensity or an outcome, are left out and
    told.
    """
    ending = ".npz" if to == "obp" else ".vw"
    path = log.with_suffix(ending) if out is None else out
    if to == "obp" and path.suffix.lower() != ".npz":
        raise InputError(Problem("--out", str(path), "a file ending in .npz"))
    check_apart(path, log)
    check_place(path)
    with progress_bar(f"exporting {log.name}"):
        found = read_log(
            log,
            read_columns(columns),
            LogRules(read.bad_rows, read.too_short, read.missing_outcome),
        )
        decisions = decisions_of(found)
        if to == "obp":
            write_bandit_feedback(path, found, decisions)
        else:
            write_vowpal(path, found, decisions, "adf" if to == "vw" else "cb")
    left_out = left_out_text(decisions)
    if left_out:
        print_note(f"left out: {left_out}")
    if decisions.source == "services":
        print_note("who was free is taken from the log's services: it has no column 'free'")
    print_note(f"{path}: {decisions.n} decisions by {len(found.servers)} servers")
