"""Names of task types and servers, and groups: one row of a file for several equal servers.

``servers = [{name = "nurse", count = 4}, "doctor"]`` stands for the servers ``nurse/1``, ...,
``nurse/4``, ``doctor``. Matrices and files then have one column for each row of ``servers``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opportune.errors import InputError, Problem, shorten
from opportune.model.checks import name_problems
from opportune.model.spelling import unknown_keys

MAX_SERVERS = 10**6
"""Most servers an instance can have; beyond it a count is a slip of the keyboard."""


@dataclass(frozen=True)
class Groups:
    """Rows of servers as they stand in a file: a name each, and for how many it stands.

    Attributes:
        names: One name for each row.
        counts: How many equal servers each row stands for, None where it is one without count.
    """

    names: tuple[str, ...]
    counts: tuple[int | None, ...]

    @property
    def servers(self) -> tuple[str, ...]:
        """Names of the single servers: ``name``, or ``name/1``, ``name/2``, ..."""
        return tuple(
            name if count is None else f"{name}/{i + 1}"
            for name, count in zip(self.names, self.counts, strict=True)
            for i in range(1 if count is None else count)
        )

    @property
    def columns(self) -> list[int]:
        """The row that each single server comes from."""
        return [
            i for i, count in enumerate(self.counts) for _ in range(1 if count is None else count)
        ]


def ungrouped(names: tuple[str, ...]) -> Groups:
    """Servers that each stand for themselves."""
    return Groups(names, (None,) * len(names))


def read_names(field: str, value: object) -> tuple[str, ...]:
    """A list of names.

    Raises:
        InputError: If it is no list, or a name is no text, has blanks around it or comes twice.
    """
    if not isinstance(value, list) or not value:
        raise InputError(Problem(field, shorten(value), "a list of names"))
    problems = name_problems(field, tuple(value), len(value))
    if problems:
        raise InputError(problems)
    return tuple(value)


def read_groups(value: object) -> Groups:
    """The ``servers`` of an instance file: names, or tables ``{name, count}``.

    Raises:
        InputError: Naming the row that is wrong.
    """
    field = "servers"
    if not isinstance(value, list) or not value:
        raise InputError(Problem(field, shorten(value), "a list of names"))
    names: list[object] = []
    counts: list[int | None] = []
    problems: list[Problem] = []
    for i, row in enumerate(value):
        names.append(row.get("name", "") if isinstance(row, Mapping) else row)
        count = None
        if isinstance(row, Mapping):
            problems += unknown_keys(f"{field}[{i}]", row, ("name", "count"), {"n": "count"})
            count = row.get("count")
            whole = isinstance(count, int) and not isinstance(count, bool)
            if "count" in row and not (whole and 1 <= int(count or 0) <= MAX_SERVERS):
                problems.append(
                    Problem(
                        f"{field}[{i}].count",
                        shorten(count),
                        f"a whole number from 1 to {MAX_SERVERS}",
                        "leave the row out if there is no such server" if count == 0 else "",
                    )
                )
        counts.append(count)
    problems += name_problems(field, tuple(names), len(names))
    if not problems and sum(1 if count is None else count for count in counts) > MAX_SERVERS:
        problems.append(Problem(field, "too many servers", f"at most {MAX_SERVERS} in all"))
    if problems:
        raise InputError(problems)
    return Groups(tuple(map(str, names)), tuple(counts))
