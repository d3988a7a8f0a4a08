"""Refusals: raised by a handler before anything happened, told by the engine as a problem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from opportune.errors import Problem, shorten
from opportune.model.names import name_problem
from opportune.service.answers import Code, Complaint
from opportune.service.naming import ASSIGNMENT, DECISION, TASK, number_in
from opportune.service.reading import stored_decision
from opportune.service.state import State, Task

MOST_SHOWN = 10
"""Entries of a list that a message shows."""


class Refused(Exception):  # noqa: N818 - it never leaves the engine
    """A command is not carried out."""

    def __init__(
        self, code: Code, field: str, detail: str, remedy: str = "", body: Any = None
    ) -> None:
        super().__init__(detail)
        self.complaint = Complaint(code=code, field=field, detail=detail, remedy=remedy, body=body)


class Reply(Struct, frozen=True, kw_only=True):
    """What a handler found; the body is built when the turn is over."""

    body: Callable[[], Any]
    problem: Complaint | None = None
    created: bool = False
    waiting: bool = False
    repeated: bool = False


def refused(problem: Problem, code: Code = "invalid") -> Refused:
    """A problem as a refusal."""
    told = f"{problem.value}; expected {problem.expected}"
    return Refused(code, problem.field, told, problem.remedy)


def check_name(field: str, name: str) -> None:
    """Something new gets a name by the rule of files: it will be priced, shown and written.

    What is there already, under a name that the rule forbids, keeps it.

    Raises:
        Refused: If the name breaks the rule.
    """
    problem = name_problem(field, name)
    if problem is not None:
        raise refused(problem)


def with_value(complaint: Complaint, command: Struct) -> Complaint:
    """A complaint with what the command says in the field that is wrong."""
    value: Any = command
    for part in complaint.field.split("."):
        held = getattr(value, "settings", None)
        value = getattr(value, part, getattr(held, part, None))
    if value is None and complaint.field == "id":
        value = getattr(command, "plan", None)
    if value is None:
        return complaint
    if isinstance(value, Struct):
        value = getattr(value, "id", "")
    elif isinstance(value, list | tuple) and len(value) > MOST_SHOWN:
        value = f"{len(value)} entries"
    return msgspec.structs.replace(complaint, value=shorten(value))


def nothing() -> None:
    """The body of an answer without one."""
    return None


def task_named(state: State, name: str, letters: str, field: str) -> Task:
    """The task of a task's, assignment's or decision's name.

    Raises:
        Refused: If there is none (any more).
    """
    number = number_in(name, state.pool, letters)
    task: Task | None = None
    if number is not None and name.rpartition(".")[2][0] == DECISION:
        decision = stored_decision(state, number)
        task = None if decision is None else state.tasks.get(decision.task)
    elif number is not None:
        task = state.tasks.get(number)
    if task is None or (name.rpartition(".")[2][0] == ASSIGNMENT and not task.slots):
        kinds = {TASK: "task", ASSIGNMENT: "assignment", DECISION: "decision"}
        what = " or ".join(kinds[letter] for letter in letters)
        raise Refused(
            "not-found",
            field,
            f"there is no {what} {name!r} in pool {state.pool!r}",
            "it never existed, or it is over and was forgotten (see the pool's `retain`)",
        )
    return task


def server_named(state: State, name: str) -> int:
    """The index of a server that is or was in the pool.

    Raises:
        Refused: If there never was one.
    """
    r = state.server_index.get(name)
    if r is None:
        raise Refused("not-found", "server", f"there is no server {name!r} in {state.pool!r}")
    return r
