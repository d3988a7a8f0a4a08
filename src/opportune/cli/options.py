"""Options that several commands share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter, Token

from opportune.errors import InputError, Problem
from opportune.experiments.settings import Settings
from opportune.model.writing import check_place

Format = Literal["table", "json", "csv"]
Backend = Literal["threads", "loky", "ray"]

MAX_LOADS = 1000
"""Most loads of one sweep."""

INSTANCE_HELP = "An instance file (TOML) or a catalog id such as priority-v1 or iclr-v1@0."
LOAD_HELP = "Multiply all arrival rates by one factor so that the load is this."
POLICIES_HELP = "Policy ids by commas, or 'all'; by default the usual ones."
BOUNDS_HELP = "Bounds beside OCC-LP: the quick ones, or all that apply (up to a minute)."
BACKEND_HELP = "Where they run: threads, loky (processes), ray (a cluster; needs the extra ray)."
KEEP_HELP = "Keep finished replications in this folder; the same command goes on where it stopped."
NEVER = "never"
"""In place of steps: servers are dealt once."""

FORMAT_HELP = "How to print: table, json or csv."


def _whole(kind: Any, tokens: Sequence[Token]) -> int:
    """A whole number as written: 2.9 is refused, not rounded."""
    try:
        return int(tokens[0].value)
    except ValueError as error:
        told = f"{tokens[0].value!r} is no whole number; write 1000, not 1e3 or 1000.0"
        raise ValueError(told) from error


Whole = Annotated[int, Parameter(converter=_whole)]
"""An option that takes a whole number."""


def _filled(kind: Any, tokens: Sequence[Token]) -> str:
    """A text as written; an empty one, as of an unset variable of the shell, is refused."""
    if not tokens[0].value.strip():
        told = f"{tokens[0].value!r} names nothing; is a variable of the shell not set?"
        raise ValueError(told)
    return tokens[0].value


def _place(kind: Any, tokens: Sequence[Token]) -> Path:
    """A path as written; an empty one would be the folder that one happens to be in."""
    return Path(_filled(kind, tokens))


Filled = Annotated[str, Parameter(converter=_filled)]
"""A text that must not be empty."""

Place = Annotated[Path, Parameter(converter=_place)]
"""A path of a file or folder."""


@Parameter(name="*")
@dataclass(frozen=True)
class SimulationOptions:
    """How policies are simulated."""

    policies: Annotated[str, Parameter(help=POLICIES_HELP)] = ""
    steps: Annotated[Whole, Parameter(help="Counted steps per replication, after the warm-up.")] = (
        200_000
    )
    replications: Annotated[Whole, Parameter(help="Independent runs.")] = 5
    seed: Annotated[Whole, Parameter(help="Seed of all streams: same seed, same bits.")] = 1
    workers: Annotated[Whole, Parameter(help="Replications run at the same time.")] = 1
    backend: Annotated[Backend, Parameter(help=BACKEND_HELP)] = "threads"
    price_at: Annotated[
        Literal["blocking"] | None,
        Parameter(help="'blocking' takes prices from OCC-LP(B) instead of OCC-LP(0)."),
    ] = None
    keep: Annotated[Place | None, Parameter(help=KEEP_HELP)] = None

    def settings(self) -> Settings:
        """The settings of the run.

        Raises:
            InputError: Naming the option that is wrong.
        """
        named = tuple(one.strip() for one in self.policies.split(",") if one.strip())
        if self.policies and not named:
            raise InputError(Problem("--policies", repr(self.policies), "ids, by commas"))
        if self.keep is not None:
            check_place(self.keep / "kept.npz", "--keep")
        return Settings(
            policies=named,
            steps=self.steps,
            replications=self.replications,
            seed=self.seed,
            workers=self.workers,
            backend=self.backend,
            price_at=self.price_at,
            keep=self.keep,
        )


@Parameter(name="*")
@dataclass(frozen=True)
class RunOptions(SimulationOptions):
    """How policies are compared."""

    bounds: Annotated[Literal["quick", "all"], Parameter(help=BOUNDS_HELP)] = "quick"

    def settings(self) -> Settings:
        """The settings of the run.

        Raises:
            InputError: Naming the option that is wrong.
        """
        return replace(super().settings(), bounds=self.bounds)


@Parameter(name="*")
@dataclass(frozen=True)
class SplitOptions(SimulationOptions):
    """How a pool is split, and how policies are run in it."""

    policies: Annotated[str, Parameter(help=POLICIES_HELP)] = "lag"
    into: Annotated[
        str, Parameter(help="Numbers of sub-pools, by commas; one owner is always run.")
    ] = "1,2,4,8"
    redeal: Annotated[
        str,
        Parameter(help="Steps from one deal of the servers to the next, by commas, or 'never'."),
    ] = "1000"
    tries: Annotated[
        str, Parameter(help="Most sub-pools that a task asks before it is dropped, by commas.")
    ] = "1"


@Parameter(name="*")
@dataclass(frozen=True)
class OutputOptions:
    """Where results go."""

    format: Annotated[Format, Parameter(help=FORMAT_HELP)] = "table"
    report: Annotated[
        Place | None, Parameter(help="Write a page with pictures here (.html, opens offline).")
    ] = None


def parse_loads(text: str) -> tuple[float, ...]:
    """``.1:.9:.1`` (start:stop:step, stop included) or ``.1,.5,.9`` as loads.

    Decimal arithmetic, so that .1:.9:.1 has nine loads and .3 is .3.

    Raises:
        InputError: If the text is neither.
    """
    try:
        if ":" in text:
            start, stop, step = (Decimal(part.strip()) for part in text.split(":"))
            count = int((stop - start) / step) if step > 0 and stop >= start else -1
            if not 0 <= count < MAX_LOADS:
                raise ValueError
            loads = tuple(float(start + i * step) for i in range(count + 1))
        else:
            loads = tuple(float(Decimal(part.strip())) for part in text.split(","))
    except (ValueError, InvalidOperation, OverflowError) as error:
        raise _load_error(text) from error
    if not loads or len(loads) > MAX_LOADS or not all(0 < x < math.inf for x in loads):
        raise _load_error(text)
    return loads


def _load_error(text: str) -> InputError:
    return InputError(
        Problem(
            "--load",
            repr(text),
            f"start:stop:step such as .1:.9:.1, or a list such as .3,.5,.7; above 0, at most "
            f"{MAX_LOADS} loads",
        )
    )


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """``1,4,16`` as numbers.

    Raises:
        InputError: If a word is not a whole number.
    """
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError as error:
        raise InputError(
            Problem(option, repr(text), "whole numbers with commas between, such as 1,4,16")
        ) from error


def parse_periods(text: str) -> tuple[int | None, ...]:
    """``10,1000,never`` as steps, None for never.

    Raises:
        InputError: If a word is neither a whole number nor ``never``.
    """
    words = [word.strip() for word in text.split(",")]
    try:
        return tuple(None if word == NEVER else int(word) for word in words)
    except ValueError as error:
        expected = f"whole numbers or {NEVER} with commas between, such as 100,1000,{NEVER}"
        raise InputError(Problem("--redeal", repr(text), expected)) from error
