"""What is odd in a log whose every row can be used: told, and nothing changed."""

from __future__ import annotations

import unicodedata

import numpy as np
from numpy.typing import NDArray

from opportune.learning.fit.findings import Findings
from opportune.learning.fit.rows import Rows

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

FAR = 20.0
"""A duration this many times the median of its type is told."""


def note_oddities(rows: Rows, findings: Findings) -> None:
    """Tasks without a server, at one time, twice; overlaps, midnight, far durations, near names."""
    findings.note(
        "a task that nobody served", _unserved(rows), "counts as an arrival, teaches nothing else"
    )
    findings.note(
        "a task that arrived at the same time as another",
        _simultaneous(rows),
        "each counts as an arrival",
    )
    findings.note(
        "the same service again: equal time, type, server, start and duration",
        _again(rows),
        "each counts as a task",
    )
    findings.note(
        "a service that began before the server had ended an earlier one",
        _overlapping(rows),
        "both durations are used; a server of the instance does one at a time",
    )
    if rows.day is not None:
        end = rows.start + rows.duration
        past = rows.served & (np.floor(end / rows.day) > np.floor(rows.start / rows.day))
        past &= end % rows.day > 0
        findings.note("a service that ran past midnight", past, "its whole duration is used")
    findings.note(
        f"a duration of more than {FAR:g} times the median of its type",
        _far(rows),
        "used as it is: a mean is sensitive to it",
    )
    for kind, names in (("server", rows.server), ("task type", rows.task_type)):
        if names is not None:
            near = _nearly_equal(names)
            told = ", ".join(map(repr, sorted({names[i] for i in np.flatnonzero(near)})[:6]))
            findings.note(
                f"names of {kind}s that differ only by case or blanks ({told})",
                near,
                f"taken for different {kind}s",
            )
    findings.note(
        "an earlier time than in the row before", np.diff(rows.time, prepend=-np.inf) < 0, "sorted"
    )


def _unserved(rows: Rows) -> Bool:
    """First rows of tasks that have no service at all."""
    first = np.zeros(len(rows.time), dtype=np.bool_)
    first[np.unique(rows.task, return_index=True)[1]] = True
    services = np.bincount(rows.task, weights=rows.served)[rows.task]
    return np.asarray(first & (services == 0))


def _overlapping(rows: Rows) -> Bool:
    found = np.zeros(len(rows.time), dtype=np.bool_)
    if rows.server is None:
        return found
    names = np.array(rows.server)
    end = rows.start + rows.duration
    use = np.flatnonzero(rows.served & (names != "") & np.isfinite(end))
    use = use[np.lexsort((end[use], rows.start[use], names[use]))]
    for own in np.split(use, np.flatnonzero(names[use[1:]] != names[use[:-1]]) + 1):
        until = np.maximum.accumulate(end[own])[:-1]
        found[own[1:]] = rows.start[own[1:]] < until - 1e-9 * np.abs(until)
    return found


def _simultaneous(rows: Rows) -> Bool:
    """First rows of tasks that arrived when an earlier one of the file did."""
    found = np.zeros(len(rows.time), dtype=np.bool_)
    first = np.unique(rows.task, return_index=True)[1]
    again = np.ones(len(first), dtype=np.bool_)
    again[np.unique(rows.time[first], return_index=True)[1]] = False
    found[first[again]] = True
    return found


def _again(rows: Rows) -> Bool:
    """Rows with a named server that are equal to an earlier one in all that is used of them."""
    found = np.zeros(len(rows.time), dtype=np.bool_)
    if rows.server is None:
        return found
    types = rows.task_type if rows.task_type is not None else [""] * len(rows.time)
    numbers = np.stack([rows.time, rows.start, rows.duration], axis=1).tolist()
    seen: set[tuple[str, ...]] = set()
    for i in np.flatnonzero(rows.served & (np.array(rows.server) != "")):
        key = (types[i], rows.server[i], *map(str, numbers[i]))
        found[i] = key in seen and np.isfinite(numbers[i]).all()
        seen.add(key)
    return found


def _far(rows: Rows) -> Bool:
    types = np.array(rows.task_type if rows.task_type is not None else [""] * len(rows.time))
    far = np.zeros(len(rows.time), dtype=np.bool_)
    known = rows.served & np.isfinite(rows.duration) & (rows.duration > 0)
    for name in np.unique(types[known]):
        own = known & (types == name)
        far |= own & (rows.duration > FAR * np.median(rows.duration[own]))
    return far


def _nearly_equal(names: list[str]) -> Bool:
    """Rows whose name has another one that is equal but for case, blanks or encoding."""
    spellings: dict[str, set[str]] = {}
    plain = {name: _plain(name) for name in set(names)}
    for name, key in plain.items():
        spellings.setdefault(key, set()).add(name)
    double = {name for name, key in plain.items() if len(spellings[key]) > 1}
    return np.array([name in double for name in names], dtype=np.bool_)


def _plain(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())
