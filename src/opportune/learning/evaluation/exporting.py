"""A log in the formats of two neighbors: Vowpal Wabbit and Open Bandit Pipeline.

Vowpal Wabbit minimizes costs, so the cost is minus the outcome. ``adf`` (action dependent features,
``--cb_adf``) has a shared line and one line per free server; ``cb`` (``--cb R``) one line per
decision, servers numbered from 1 in the order of their names. Open Bandit Pipeline reads the dict
``bandit_feedback``; the arrays of the .npz are its entries.

Implements: ours, after the input format pages of Vowpal Wabbit 9 and ``obp.types.BanditFeedback``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem
from opportune.learning.evaluation.decisions import Decisions
from opportune.learning.fit.log import Log
from opportune.model.writing import npz_bytes, put, written_whole

Float = NDArray[np.float64]

RESERVED = {"%": "%25", " ": "%20", "\t": "%09", ":": "%3A", "|": "%7C", "\n": "%0A", "\r": "%0D"}
"""Characters that mean something in a line of Vowpal Wabbit, and how names have them instead."""


def vowpal_lines(log: Log, decisions: Decisions, kind: str = "adf") -> Iterator[str]:
    """Lines of a file for Vowpal Wabbit.

    Args:
        log: The log.
        decisions: Its decisions, with propensity and outcome.
        kind: ``adf`` or ``cb``.
    """
    names = [vowpal_name(name) for name in log.servers]
    for i in range(decisions.n):
        cost = -float(decisions.outcome[i]) + 0.0  # no minus zero
        told = f"{cost:.17g}:{float(decisions.propensity[i]):.17g}"
        shared = _features(log, int(decisions.task[i]))
        taken = int(decisions.server[i])
        if kind == "cb":
            yield f"{taken + 1}:{told} |{shared}"
            continue
        yield f"shared |{shared}"
        free = np.flatnonzero(decisions.free[i])
        for place, r in enumerate(map(int, free)):
            label = f"{place}:{told} " if r == taken else ""
            yield f"{label}|s server={names[r]}"
        yield ""


def vowpal_name(text: str) -> str:
    """A name without what means something to Vowpal Wabbit; different names stay different."""
    return "".join(RESERVED.get(letter, letter) for letter in text)


def bandit_feedback(log: Log, decisions: Decisions) -> dict[str, Any]:
    """The dict of Open Bandit Pipeline.

    ``context`` (n, d): the log's contexts, then a 1 at the task's type if there is more than one;
    a column of ones if there is neither. ``action_context`` (R, R) tells servers apart. ``free``
    (n, R) is not read by the pipeline: it takes every action for possible at every decision.
    """
    columns: list[Float] = []
    if log.context is not None:
        columns.append(log.context[decisions.task])
    if log.task_type is not None and len(log.task_types) > 1:
        columns.append(np.eye(len(log.task_types))[log.task_type[decisions.task]])
    context = np.hstack(columns) if columns else np.ones((decisions.n, 1))
    return {
        "n_rounds": decisions.n,
        "n_actions": len(log.servers),
        "context": context,
        "action_context": np.eye(len(log.servers)),
        "action": decisions.server,
        "position": np.zeros(decisions.n, dtype=np.int64),
        "reward": decisions.outcome,
        "pscore": decisions.propensity,
        "free": decisions.free,
        "action_names": np.array(log.servers),
    }


def write_vowpal(path: Path, log: Log, decisions: Decisions, kind: str) -> None:
    """Write the lines of :func:`vowpal_lines`.

    Raises:
        InputError: If there is no decision, or the file cannot be written.
    """
    _require(decisions)
    with written_whole([path]) as (beside,), beside.open("wb") as stream:
        for line in vowpal_lines(log, decisions, kind):
            stream.write(f"{line}\n".encode())


def write_bandit_feedback(path: Path, log: Log, decisions: Decisions) -> None:
    """Write the arrays of :func:`bandit_feedback` as an .npz without pickles.

    Raises:
        InputError: If there is no decision, or the file cannot be written.
    """
    _require(decisions)
    put(path, npz_bytes(bandit_feedback(log, decisions)))


def _features(log: Log, task: int) -> str:
    """Namespaces of a task: its type, and its contexts as numbers."""
    text = "t"
    if log.task_type is not None:
        text += f" type={vowpal_name(log.task_types[int(log.task_type[task])])}"
    if log.context is None:
        return text
    numbers = (
        f" {vowpal_name(name)}:{value:.9g}"
        for name, value in zip(log.contexts, map(float, log.context[task]), strict=True)
    )
    return f"{text} |c{''.join(numbers)}"


def _require(decisions: Decisions) -> None:
    if not decisions.n:
        raise InputError(
            Problem(
                "log",
                "no decision with a server, a propensity and an outcome",
                "decisions of tasks with one server",
                "name the columns: --columns server=...,propensity=...,outcome=...",
            )
        )
