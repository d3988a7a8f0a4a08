"""What is wrong in a request's body: the field, its value, and what would have been right."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Collection
from typing import Any, cast
from urllib.parse import parse_qsl

import msgspec

from opportune.errors import Problem, shorten
from opportune.model.spelling import near
from opportune.service.naming import POOL_WORDS
from opportune.service.problems import refusal
from opportune.service.resources import NAME_PATTERN, POOL_PATTERN

_STEP = re.compile(r"\.(\w+)|\[(\d+)\]|(\[\.\.\.\])")
_MISSING = re.compile(r"^Object missing required field `(.+)`$", re.DOTALL)
_WORDS = {
    "Number out of range": "a number within the range of floating-point numbers",
    **{
        f"Expected `str` matching regex {pattern!r}": words
        for pattern, words in (
            (NAME_PATTERN, "text without control characters"),
            (POOL_PATTERN, POOL_WORDS),
        )
    },
}
"""What msgspec says, in words of ours."""
_GZIP = b"\x1f\x8b"
_SURROGATE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F]"
)
_UNKNOWN = re.compile(r"^Object contains unknown field `(.+)`$", re.DOTALL)


def fault_in(body: bytes, kind: object, error: msgspec.ValidationError) -> Problem:
    """The one thing that is wrong in a body, told so that a caller can mend it.

    Args:
        body: The body, which is JSON.
        kind: The type that it should have.
        error: What msgspec says of it.
    """
    told, _, place = str(error).partition(" - at `$")
    steps = _STEP.findall(place)
    field = place.rstrip("`").lstrip(".")
    if unknown := _UNKNOWN.match(told):
        name = unknown[1]
        known = _fields(kind, steps)
        ends = [one for one in known if one.endswith(f"_{name}")]
        meant = ends[0] if len(ends) == 1 else near(name, known)
        return Problem(
            f"{field}.{name}" if field else name,
            _shown(_document(body), [*steps, (name, "", "")]),
            f"one of the fields {', '.join(known)}" if known else "no such field",
            f"write {meant}" if meant else "leave it out",
        )
    if missing := _MISSING.match(told):
        name = missing[1]
        return Problem(f"{field}.{name}" if field else name, "missing", "a value", f"add {name}")
    wanted = _WORDS.get(told, told.removeprefix("Expected "))
    return Problem(field or "body", _shown(_document(body), steps), wanted)


def unread(body: bytes, error: Exception) -> str:
    """Why a body is no JSON, where the decoder's own words lead astray."""
    if not body.strip():
        return "the body is empty; JSON is expected"
    if body.startswith(_GZIP):
        return "the body is packed; send it as it is"
    if _SURROGATE.search(body):
        return "the body holds half of a surrogate pair (\\ud800 to \\udfff): that is no text"
    return str(error)


def check_query(query: bytes, known: Collection[str]) -> None:
    """Nothing is asked for by a query that nobody reads: a misspelled ``replace`` does harm.

    Args:
        query: The query of a URL.
        known: The parameters that are read.

    Raises:
        RefusalError: If there is another one.
    """
    if not query:
        return
    given = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    wrong = [
        Problem(
            shorten(name).strip("'"),
            shorten(value),
            f"one of the parameters {', '.join(known)}" if known else "no query",
            f"write {meant}" if (meant := near(name, known)) else "leave it out",
        )
        for name, value in given
        if name not in known
    ]
    if wrong:
        raise refusal("invalid", "; ".join(str(one) for one in wrong[:10]), wrong[:10])


def _document(body: bytes) -> Any:
    """The body without a type; None if it is no whole document."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _shown(value: Any, steps: list[tuple[str, str, str]]) -> str:
    """The value at a place of a document, shortened; empty where it cannot be told."""
    if value is None:
        return ""
    for name, position, _ in steps:
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and position and int(position) < len(value):
            value = value[int(position)]
        else:
            return ""
    return shorten(value)


def _fields(kind: object, steps: list[tuple[str, str, str]]) -> list[str]:
    """The names that may stand at a place of a document of some type."""
    for name, _, _ in steps:
        parts = [one for one in _members(kind) if _is_struct(one)]
        if name and parts:
            hints = typing.get_type_hints(parts[0])
            kind = hints.get(name)
        else:  # an item of a list, a value of an object
            held = [one for part in _members(kind) for one in typing.get_args(part)]
            kind = held[-1] if held else None
    return [
        field.encode_name
        for part in _members(kind)
        if _is_struct(part)
        for field in msgspec.structs.fields(cast(type[msgspec.Struct], part))
    ]


def _members(kind: object) -> list[object]:
    """A type's members, if it is a union; otherwise itself."""
    plain = typing.get_args(kind)[0] if typing.get_origin(kind) is typing.Annotated else kind
    if typing.get_origin(plain) in (typing.Union, types.UnionType):
        return [inner for one in typing.get_args(plain) for inner in _members(one)]
    return [plain]


def _is_struct(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)
