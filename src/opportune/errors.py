"""The exception tree, and the one shape in which a problem is told.

::

    OpportuneError                 everything raised on purpose
    ├── InputError                 a value in a file, an argument or an array is wrong
    ├── OverloadError              the instance asks for more than its servers can give
    ├── SolverError                a solver ended without an optimal solution
    ├── MissingExtraError          an optional package is needed for this and not installed
    └── ServiceError               a live service did not do it (client.problems, with its kinds)

Each carries ``problems``: what is wrong, where, what was expected and what to change.
The command line prints them as lines, JSON output and the service as objects.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, told so that a person can mend it.

    Attributes:
        field: Name of the field, argument, file or column, as the user wrote it.
        value: The offending value, shortened, as text.
        expected: What would have been right.
        remedy: What to change.
    """

    field: str
    value: str
    expected: str
    remedy: str = ""

    def __str__(self) -> str:
        text = f"{self.field}: {self.value}"
        if self.expected:
            text += f"; expected {self.expected}"
        if self.remedy:
            text += f". {self.remedy[0].upper()}{self.remedy[1:]}"
        return text


class OpportuneError(Exception):
    """Base of all errors raised on purpose; ``problems`` says what to change."""

    def __init__(self, problems: Problem | Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = (
            (problems,) if isinstance(problems, Problem) else tuple(problems)
        )
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def __reduce__(self) -> tuple[Any, ...]:
        """So that an error of a worker process arrives whole."""
        return _restore, (type(self), self.args, self.__dict__)


def _restore(
    kind: type[OpportuneError], args: tuple[Any, ...], state: dict[str, Any]
) -> OpportuneError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class InputError(OpportuneError):
    """A value is wrong: a file, an array, an option. Nothing was computed."""


class OverloadError(OpportuneError):
    """The demand exceeds what the servers can give, so OCC-LP(0) has no solution.

    Attributes:
        max_load: Largest feasible load when all arrival rates shrink by one factor.
    """

    def __init__(self, problems: Problem | Iterable[Problem], max_load: float) -> None:
        super().__init__(problems)
        self.args = ("\n".join(f"{p.value}: {p.remedy}" for p in self.problems),)
        self.max_load = max_load


class SolverError(OpportuneError):
    """A solver stopped without an optimal solution; no prices, no plan come of it.

    Attributes:
        status: The solver's own word for how it ended.
    """

    def __init__(self, status: str, doing: str) -> None:
        super().__init__(
            Problem(
                field="solver",
                value=f"ended with status '{status}' while solving {doing}",
                expected="status 'Optimal'",
                remedy="report this instance; the previous plan, if any, stays in force",
            )
        )
        self.status = status


class MissingExtraError(OpportuneError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            Problem(
                field="installation",
                value=f"the package '{package}' is missing",
                expected=f"it to be installed for {purpose}",
                remedy=f"run: pip install 'opportune[{extra}]'",
            )
        )


def shorten(value: object, limit: int = 60) -> str:
    """The value as text of at most ``limit`` characters, for a message."""
    try:
        text = repr(value) if isinstance(value, str) else str(value)
    except ValueError:  # a whole number of more digits than Python writes
        text = f"a very long {type(value).__name__}"
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def is_whole(value: object) -> bool:
    """Whether a value is a whole number, of Python or NumPy; truth values are none."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def whole_problems(limits: Iterable[tuple[str, Any, int, int]]) -> list[Problem]:
    """Those of (name, value, least, most) that are no whole number from least to most."""
    return [
        Problem(name, shorten(value), f"a whole number from {least} to {most}")
        for name, value, least, most in limits
        if not is_whole(value) or not least <= value <= most
    ]
