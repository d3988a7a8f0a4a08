"""Axes, unit and symbol of an array, as metadata on the field that holds it.

The glossary page and a test read them; see ``docs/reference/glossary.md``.
Axis letters: V task types, R servers, H headcount levels, B batches.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints


@dataclass(frozen=True)
class Quantity:
    """Metadata of a field.

    Attributes:
        symbol: The papers' symbol, for example ``"s_vr"``.
        axes: Axis letters in order, ``""`` for a scalar.
        unit: Unit of one entry.
        meaning: One line in the glossary's words.
    """

    symbol: str
    axes: str
    unit: str
    meaning: str


def quantities(kind: type) -> dict[str, Quantity]:
    """The ``Quantity`` of every annotated field of a dataclass, by field name."""
    if not is_dataclass(kind):
        raise TypeError(f"{kind!r} is not a dataclass")
    hints: dict[str, Any] = get_type_hints(kind, include_extras=True)
    found = {}
    for field in fields(kind):
        hint = hints[field.name]
        if get_origin(hint) is Annotated:
            for extra in get_args(hint)[1:]:
                if isinstance(extra, Quantity):
                    found[field.name] = extra
    return found
