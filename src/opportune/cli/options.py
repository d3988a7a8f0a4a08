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
from opportune.model.numerals import decimal_number, whole_number
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
    found = whole_number(tokens[0].value)
    if found is None:
        told = f"{tokens[0].value!r} is no whole number; write 1000, not 1e3, 1_000 or 1000.0"
        raise ValueError(told)
    return found


Whole = Annotated[int, Parameter(converter=_whole)]
"""An option that takes a whole number."""


def _number(kind: Any, tokens: Sequence[Token]) -> float:
    """A number with a decimal point."""
    found = decimal_number(tokens[0].value)
    if found is None:
        raise ValueError(f"{tokens[0].value!r} is no number; write 0.5, not 0,5 or 50%")
    return found


Number = Annotated[float, Parameter(converter=_number)]
"""An option that takes a number."""


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
            start, stop, step = map(_decimal, text.split(":"))
            count = int((stop - start) / step) if step > 0 and stop >= start else -1
            if not 0 <= count < MAX_LOADS:
                raise ValueError
            loads = tuple(float(start + i * step) for i in range(count + 1))
        else:
            loads = tuple(float(_decimal(part)) for part in text.split(","))
    except (ValueError, InvalidOperation, OverflowError) as error:
        raise _load_error(text) from error
    if not loads or len(loads) > MAX_LOADS or not all(0 < x < math.inf for x in loads):
        raise _load_error(text)
    return loads


def _decimal(text: str) -> Decimal:
    if decimal_number(text) is None:
        raise ValueError
    return Decimal(text.strip())


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
    found = [whole_number(word) for word in text.split(",")]
    if None in found:
        expected = "whole numbers with commas between, such as 1,4,16"
        raise InputError(Problem(option, repr(text), expected))
    return tuple(one for one in found if one is not None)


def parse_periods(text: str) -> tuple[int | None, ...]:
    """``10,1000,never`` as steps, None for never.

    Raises:
        InputError: If a word is neither a whole number nor ``never``.
    """
    words = [word.strip().lower() for word in text.split(",")]
    found = [None if word == NEVER else whole_number(word) for word in words]
    if any(one is None and word != NEVER for one, word in zip(found, words, strict=True)):
        expected = f"whole numbers or {NEVER} with commas between, such as 100,1000,{NEVER}"
        raise InputError(Problem("--redeal", repr(text), expected))
    return tuple(found)
