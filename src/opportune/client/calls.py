"""A call before it is sent: method, path, body, idempotency key, and how its answer is read.

Bodies are the service's own types, so there is one definition of every field. Nothing here knows a
socket: both clients send the same calls.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar, cast
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct

from opportune.client.problems import ServiceError, made_problem
from opportune.errors import InputError, Problem, shorten
from opportune.service.answers import AssignmentBody, TaskBody
from opportune.service.idempotency import KEY_LENGTH
from opportune.service.problems import encode_json

Body = TypeVar("Body")

Key = str | None
"""An idempotency key; None makes a new one."""


@dataclass(frozen=True)
class Call(Generic[Body]):
    """What is asked of the service.

    Attributes:
        method: Such as POST.
        path: From the first slash, percent-encoded.
        read: Turns the bytes of a good answer into its body.
        content: Bytes of the request.
        key: Idempotency key, made once and the same in every try; empty for a call that reads.
    """

    method: str
    path: str
    read: Callable[[bytes], Body]
    content: bytes = b""
    key: str = ""

    def headers(self, api_key: Key) -> dict[str, str]:
        """The headers of a request."""
        found = {"accept": "application/json"}
        if api_key is not None:
            found["authorization"] = f"Bearer {api_key}"
        if self.content:
            found["content-type"] = "application/json"
        if self.key:
            found["idempotency-key"] = self.key
        return found

    def result(self, status: int, content: bytes) -> Body:
        """The body of a good answer.

        Raises:
            ServiceError: If it is not what the API's document says.
        """
        try:
            return self.read(content)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            told = made_problem(status, "unreadable", "The answer cannot be read", str(error))
            raise ServiceError(told, self.key) from error


def path_of(*segments: str, verb: str = "") -> str:
    """A path below ``/v1``; a segment may hold any character.

    Args:
        segments: Its parts.
        verb: An action at the end, such as ``complete``.

    Raises:
        InputError: If a segment is no name: an empty one would be another path.
    """
    for one in segments:
        if not isinstance(one, str) or not one or not _is_text(one):
            raise InputError(Problem("name", shorten(one), "a name", "give the id, as text"))
    quoted = [quote(one, safe="") for one in segments]
    safe = [one.replace(".", "%2E") if one in (".", "..") else one for one in quoted]
    return "/v1/" + "/".join(safe) + (f":{verb}" if verb else "")


def _is_text(name: str) -> bool:
    """Whether a name has a code in UTF-8."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def reading(path: str, kind: type[Body]) -> Call[Body]:
    """A call that changes nothing."""
    return Call("GET", path, reader(kind))


def writing(
    method: str, path: str, kind: type[Body], content: Any = None, key: Key = None
) -> Call[Body]:
    """A call that changes something, once.

    Args:
        method: POST, PUT or DELETE.
        path: Where.
        kind: Type of the answer's body.
        content: Body of the request: a struct, or a list of them; None for nothing.
        key: Idempotency key; None makes a new one.

    Raises:
        InputError: If the body holds a number that JSON has not, or the key cannot be one.
    """
    return Call(method, path, reader(kind), _encoded(content), _checked(key))


def creating(path: str, content: Struct, key: Key = None) -> Call[AssignmentBody | TaskBody]:
    """A call that brings in a task: answered by its assignment, or by the task if it has none."""
    return Call("POST", path, _read_created, _encoded(content), _checked(key))


def checked_url(url: str) -> str:
    """The address of a service, without a slash at its end.

    Raises:
        InputError: If it is none.
    """
    expected = "such as http://127.0.0.1:8080"
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (ValueError, AttributeError, TypeError):
        good, parts = False, urlsplit("")
    if not good or parts.query or parts.fragment:
        raise InputError(Problem("url", shorten(url), expected, "begin with http:// or https://"))
    if "@" in parts.netloc:
        hidden = f"...@{parts.hostname}"
        raise InputError(Problem("url", hidden, expected, "give the API key as api_key"))
    return url.rstrip("/")


def checked_api_key(api_key: str | None) -> str | None:
    """An API key that can stand in a header.

    Raises:
        InputError: If it cannot; the key is not shown.
    """
    if api_key is not None and (
        not isinstance(api_key, str)
        or not api_key
        or not api_key.isascii()
        or not api_key.isprintable()
        or " " in api_key
    ):
        raise InputError(Problem("api_key", "...", "printable ASCII characters without blanks"))
    return api_key


def checked_timeout(timeout: float | None) -> float | None:
    """Seconds of silence that are waited for.

    Raises:
        InputError: If it is no number above 0, nor None.
    """
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if timeout is not None and not (number and 0 < timeout < math.inf):
        told = "seconds above 0, or None to wait for ever"
        raise InputError(Problem("timeout", shorten(timeout), told))
    return timeout


@lru_cache(100)
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def reader(kind: type[Body]) -> Callable[[bytes], Body]:
    """What reads a body of a type."""
    if kind is type(None):
        return cast(Callable[[bytes], Body], _read_nothing)
    return cast(Callable[[bytes], Body], _decoder(cast(Any, kind)).decode)


def _read_nothing(content: bytes) -> None:
    return None


class _Either(Struct):
    """What tells an assignment from a task: only an assignment lists servers."""

    servers: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def _read_created(content: bytes) -> AssignmentBody | TaskBody:
    either: _Either = _decoder(_Either).decode(content)
    kind = TaskBody if either.servers is msgspec.UNSET else AssignmentBody
    created: AssignmentBody | TaskBody = _decoder(kind).decode(content)
    return created


def _encoded(content: Any) -> bytes:
    if content is None:
        return b""
    try:
        wrong = _no_number(msgspec.to_builtins(content), "body")
        if wrong is not None:
            raise InputError(wrong)
        return encode_json(content)
    except (TypeError, OverflowError, UnicodeEncodeError, RecursionError) as error:
        raise InputError(Problem("body", shorten(content), "what JSON can hold")) from error


def _no_number(value: Any, place: str) -> Problem | None:
    """The first number that is not finite: it would arrive as null, which means "not given"."""
    if isinstance(value, float):
        if math.isfinite(value):
            return None
        return Problem(place, str(value), "a finite number")
    inside: Any = ()
    if isinstance(value, dict):
        inside = value.items()
    elif isinstance(value, list | tuple):
        inside = enumerate(value)
    for name, one in inside:
        wrong = _no_number(one, f"{place}.{name}")
        if wrong is not None:
            return wrong
    return None


def _checked(key: Key) -> str:
    """The idempotency key of a call.

    Raises:
        InputError: If it cannot be sent.
    """
    if key is None:
        return uuid.uuid4().hex
    if (
        not isinstance(key, str)
        or not 0 < len(key) <= KEY_LENGTH
        or not key.isascii()
        or not key.isprintable()
        or (key != key.strip())
    ):
        expected = f"1 to {KEY_LENGTH} printable ASCII characters"
        raise InputError(Problem("key", shorten(key), expected))
    return key
