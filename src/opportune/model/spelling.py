"""Names and keys that are nearly right: what was meant, told in the message.

Names are compared exactly and never trimmed (an author once got the own paper to review because
a conflict list spelled one address differently); a near spelling is only ever a suggestion.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

from opportune.errors import InputError, Problem, shorten

MOST_SUGGESTIONS = 20
"""Unknown names for which a near one is looked up: comparing all with all takes long."""


def counted(n: int, word: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{n} {word}" if n == 1 else f"{n} {word}s"


def near(text: str, known: Iterable[str]) -> str | None:
    """The known name that differs only by case, blanks or accents' encoding, or nearly that."""
    names = list(known)
    for name in names:
        if _plain(name) == _plain(text):
            return name
    close = difflib.get_close_matches(text, names, n=1, cutoff=0.7)
    return close[0] if close else None


def did_you_mean(text: str, known: Iterable[str]) -> str:
    """``did you mean 'x'?``, or nothing if no known name is near; blanks are seen."""
    name = near(text, known)
    return f"did you mean {name!r}?" if name is not None else ""


def unknown_keys(
    field: str, table: Mapping[str, object], known: Sequence[str], other: Mapping[str, str]
) -> list[Problem]:
    """One problem for each key of a TOML table that is not known.

    Args:
        field: Where the table stands, ``""`` for the whole file.
        table: The table.
        known: The keys it may have.
        other: Words that others use for a key, by that word.
    """
    problems = []
    for key in table:
        if key not in known:
            meant = other.get(key)
            remedy = f"did you mean '{meant}'?" if meant in known else did_you_mean(key, known)
            problems.append(
                Problem(
                    f"{field}.{key}" if field else key,
                    "unknown key",
                    "one of " + ", ".join(known),
                    remedy,
                )
            )
    return problems


def unknown_names(
    field: str, kind: str, given: Mapping[str, str], known: Sequence[str]
) -> Problem | None:
    """A problem that lists every given name which is not known, exactly as spelled.

    Args:
        field: What the names were given for.
        kind: ``"server"`` or ``"task type"``.
        given: Where each name was given (a line of a file), by name.
        known: The names of the instance.
    """
    names = set(known)
    strange = [name for name in given if name not in names]
    if not strange:
        return None
    told = ", ".join(f"{name!r} ({given[name]})" if given[name] else repr(name) for name in strange)
    hints = [(name, near(name, known)) for name in strange[:MOST_SUGGESTIONS]]
    meant = [f"{name!r} may mean {hint!r}" for name, hint in hints if hint is not None]
    return Problem(
        field,
        f"unknown {kind}{'s' if len(strange) > 1 else ''} {told}",
        f"names of {kind}s spelled exactly as in the instance: {shorten(', '.join(known), 200)}",
        "; ".join(meant) or f"correct the name or add the {kind}",
    )


def positions(
    field: str, kind: str, given: Sequence[str], wanted: Sequence[str], line: str = ""
) -> list[int]:
    """Where each wanted name stands in ``given``; both must hold the same names.

    Raises:
        InputError: Listing every name that only one of the two holds, or that stands twice.
    """
    place = {name: i for i, name in enumerate(given)}
    problems = []
    strange = unknown_names(field, kind, dict.fromkeys(given, line), wanted)
    if strange:
        problems.append(strange)
    absent = [name for name in wanted if name not in place]
    if absent:
        told = ", ".join(map(repr, absent))
        problems.append(
            Problem(
                field,
                f"nothing for {kind}{'s' if len(absent) > 1 else ''} {told}",
                f"one entry for each {kind} of the instance",
                "" if strange else f"add what is missing or leave the {kind} out",
            )
        )
    if not problems and len(place) < len(given):
        double = [name for i, name in enumerate(given) if place[name] != i]
        problems.append(
            Problem(field, f"{kind} {double[0]!r} twice", "every name once", "remove one of them")
        )
    if problems:
        raise InputError(problems)
    return [place[name] for name in wanted]


def _plain(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())
