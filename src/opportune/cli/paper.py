"""``opportune paper``: a whole paper, reproduced by one command."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Annotated, Any

from cyclopts import App, Parameter

from opportune.cli.options import BACKEND_HELP, Backend, Place, Whole
from opportune.cli.output import print_note, print_table, progress_bar
from opportune.errors import MissingExtraError
from opportune.experiments.settings import Settings

MODULES = {
    "lag": "opportune.experiments.papers.lag.reproduction",
    "headcount": "opportune.experiments.papers.headcount.reproduction",
    "cqb": "opportune.experiments.papers.cqb.reproduction",
}
"""Where the run of each paper is; imported when it is asked for."""

OUT_HELP = "Folder to write to: tables as CSV, pictures as PNG, one page that opens offline."
QUICK_HELP = "A small version in under a minute; its numbers are rough."

paper = App(name="paper", help_format="plaintext")


@paper.command
def lag(
    *,
    out: Annotated[Place, Parameter(help=OUT_HELP)],
    quick: Annotated[bool, Parameter(help=QUICK_HELP, negative=())] = False,
    workers: Annotated[Whole, Parameter(help="Pieces of work at the same time.")] = 1,
    backend: Annotated[Backend, Parameter(help=BACKEND_HELP)] = "threads",
    seed: Annotated[Whole, Parameter(help="Seed of all streams: same seed, same bits.")] = 1,
) -> int:
    """The LAG paper: Tables 2 and 3, Figures 3 to 6, beside the paper's numbers.

    A run that was interrupted goes on where it stopped: finished pieces are kept in OUT/parts.
    Without the folder that OPPORTUNE_DATA names, four of the six instances are run.
    """
    settings = Settings(seed=seed, workers=workers, backend=backend)
    module = _module("lag")
    try:
        with progress_bar("reproducing the LAG paper") as progress:
            made = module.run_lag_paper(out, settings, quick, progress)
    except KeyboardInterrupt:
        print_note(f"interrupted: what is finished is kept in {out}; the same command goes on")
        return 130
    _print_lag(made)
    return 0


@paper.command
def headcount(
    *,
    out: Annotated[Place, Parameter(help=OUT_HELP)],
    quick: Annotated[bool, Parameter(help=QUICK_HELP, negative=())] = False,
) -> int:
    """What knowing the headcount adds: prices, bounds and policies by tasks in service."""
    module = _module("headcount")
    with progress_bar("running the headcount study") as progress:
        module.run_headcount_paper(out, quick, progress)
    print_note(f"written to {out}")
    return 0


@paper.command
def cqb(
    *,
    out: Annotated[Place, Parameter(help=OUT_HELP)],
    quick: Annotated[bool, Parameter(help=QUICK_HELP, negative=())] = False,
    workers: Annotated[Whole, Parameter(help="Pieces of work at the same time.")] = 1,
    backend: Annotated[str, Parameter(help="threads or loky (processes).")] = "threads",
    seed: Annotated[Whole, Parameter(help="Seed of all streams: same seed, same bits.")] = 1,
) -> int:
    """Contextual queueing bandits: rates to T = 100,000, ablations, claims and our default.

    A run that was interrupted goes on where it stopped: finished pieces are kept in OUT/parts.
    Without the folder that OPPORTUNE_DATA names, the real prompts are left out.
    """
    settings = Settings(seed=seed, workers=workers, backend=backend)
    module = _module("cqb")
    try:
        with progress_bar("measuring contextual queueing bandits") as progress:
            made = module.run_cqb_paper(out, settings, quick, progress)
    except KeyboardInterrupt:
        print_note(f"interrupted: what is finished is kept in {out}; the same command goes on")
        return 130
    rows = [(one.said, one.ours, one.verdict) for one in made.verdicts]
    print_table("Claims", ("claim", "what we find", "verdict"), rows)
    if made.missing:
        print_note(f"not run: real prompts. {made.missing}")
    print(_pieces_line(made))
    return 0


def _module(name: str) -> ModuleType:
    """The module of a paper, before the work: pictures need an extra.

    Raises:
        MissingExtraError: If the packages of the extra are not installed.
    """
    try:
        return importlib.import_module(MODULES[name])
    except ModuleNotFoundError as error:
        if error.name in ("altair", "vl_convert"):
            raise MissingExtraError(error.name, "report", "opportune paper") from error
        raise


def _print_lag(made: Any) -> None:
    summary = made.tables.summary
    policies = list(dict.fromkeys(cell.policy for cell in summary if cell.paper is not None))
    at = {(cell.instance, cell.policy): cell for cell in summary}
    rows = [
        (name, *(f"{at[name, one].ours:.1f} ({at[name, one].paper:.1f})" for one in policies))
        for name in dict.fromkeys(cell.instance for cell in summary)
    ]
    print_table("% of OCC-UB at load 0.7 (the paper's)", ("instance", *policies), rows)
    print(made.headline)
    for name, reason in made.missing.items():
        print_note(f"not run: {name}. {reason}")
    print(_pieces_line(made))


def _pieces_line(made: Any) -> str:
    return (
        f"{made.pieces} pieces of work, {made.kept} of them kept from before; "
        f"{made.seconds:.0f} s; page: {made.files[0]}"
    )
