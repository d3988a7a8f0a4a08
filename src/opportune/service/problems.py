"""Problems as the service tells them: RFC 9457 documents with the one error shape inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from opportune.errors import Problem
from opportune.service.answers import Answer, Complaint, DecisionBody

PROBLEM_JSON = "application/problem+json"

STATUS = {
    "invalid": (422, "A value is wrong"),
    "malformed": (400, "The request can not be read"),
    "unauthenticated": (401, "No valid API key"),
    "forbidden": (403, "Not allowed"),
    "not-found": (404, "There is no such thing"),
    "method-not-allowed": (405, "This can not be done here"),
    "no-capacity": (409, "Too few permitted servers are free"),
    "too-slow": (408, "The request did not come in time"),
    "conflict": (409, "The present state does not allow it"),
    "stale-lease": (409, "The lease token is not the present one"),
    "already-ended": (409, "It is over"),
    "still-running": (409, "The first request with this key is still running"),
    "too-large": (413, "The request is too large"),
    "unsupported-media-type": (415, "The request has a media type that is not read here"),
    "key-reused": (422, "The idempotency key was used for another request"),
    "rate-limited": (429, "Too many requests"),
    "internal": (500, "A fault of the service"),
    "unavailable": (503, "The service can not do it now"),
}
"""Code -> HTTP status and title. The codes of ``answers.Code`` are among them."""

TYPE = "urn:opportune:problem:"
"""What the type of a problem begins with; its code follows."""


class ProblemItem(Struct, frozen=True, omit_defaults=True):
    """One thing that is wrong (``errors.Problem``)."""

    field: str
    value: str
    expected: str
    remedy: str = ""


class ProblemBody(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An RFC 9457 problem document.

    Attributes:
        type: A name for the kind of problem: ``urn:opportune:problem:`` and the code.
        title: The kind in words.
        status: HTTP status.
        code: The kind, for programs.
        detail: What happened this time.
        problems: What is wrong, field by field, and what to change.
        expected_free: For ``no-capacity``: when k permitted servers are expected to be free.
        retry_after: Seconds after which it is worth trying again, if known.
        decision: For ``no-capacity``: the drop that was recorded, and why.
        present: For ``already-ended`` and ``conflict``: the present state of what it is about.
    """

    type: str
    title: str
    status: int
    code: str
    detail: str = ""
    problems: list[ProblemItem] = []
    expected_free: float | None = None
    retry_after: float | None = None
    decision: DecisionBody | None = None
    present: Any = None


class Reply(Struct, frozen=True):
    """What goes back over HTTP.

    Attributes:
        status: HTTP status.
        body: The bytes.
        headers: Beside content type and length.
        media_type: Content type.
    """

    status: int
    body: bytes
    headers: dict[str, str] = {}
    media_type: str = "application/json"


def _plain(value: Any) -> Any:
    """A NumPy number as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON")


_ENCODER = msgspec.json.Encoder(enc_hook=_plain)
encode_json = _ENCODER.encode


class RefusalError(Exception):
    """A request that is answered with a problem; raised where there is no answer to return."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.status)
        self.reply = reply


def problem(
    code: str,
    detail: str = "",
    items: Sequence[Problem] = (),
    headers: dict[str, str] | None = None,
) -> Reply:
    """The reply that tells a problem by its code."""
    return _reply(
        code,
        detail,
        [ProblemItem(one.field, one.value, one.expected, one.remedy) for one in items],
        headers,
    )


def refusal(code: str, detail: str = "", items: Sequence[Problem] = ()) -> RefusalError:
    """The same, to be raised."""
    return RefusalError(problem(code, detail, items))


MOVED = "opportune-moved"
"""A header of a 503: ``yes``, the pool is another node's and nothing was done; ``maybe``, its owner
was lost before anybody knew. Nodes ask again themselves where they may."""


def moved(certain: bool = True) -> Reply:
    """The reply of a node that does not own the pool, or not any more.

    Args:
        certain: Whether nothing was done for sure.
    """
    if certain:
        told = "the pool is moving to another node; nothing was done"
    else:
        told = (
            "the storage was lost before it said whether this is done: "
            "ask again with the same Idempotency-Key"
        )
    headers = {MOVED: "yes" if certain else "maybe", "retry-after": "1"}
    return problem("unavailable", told, headers=headers)


def reply_of(answer: Answer, now: float) -> Reply:
    """What the engine said, over HTTP.

    Args:
        answer: The engine's.
        now: Time of the command, for ``Retry-After``.
    """
    if answer.problem is not None:
        return _complaint(answer.problem, now)
    headers = {"opportune-repeated": "true"} if answer.repeated else {}
    if answer.body is None:
        return Reply(204, b"", headers)
    created, waits = answer.created, answer.waiting
    status = 200 if answer.repeated else 201 if created else 202 if waits else 200
    return Reply(status, encode_json(answer.body), headers)


def _complaint(complaint: Complaint, now: float) -> Reply:
    """A refused command as a reply."""
    wait = None if complaint.expected_free is None else max(complaint.expected_free - now, 0.0)
    headers = {} if wait is None else {"retry-after": str(max(int(-(-wait // 1)), 1))}
    dropped = isinstance(complaint.body, DecisionBody)
    item = ProblemItem(complaint.field, complaint.value, complaint.detail, complaint.remedy)
    return _reply(
        complaint.code,
        complaint.detail,
        [item] if complaint.field else [],
        headers,
        {
            "expected_free": complaint.expected_free,
            "retry_after": wait,
            "decision": complaint.body if dropped else None,
            "present": None if dropped else complaint.body,
        },
    )


def _reply(
    code: str,
    detail: str,
    items: list[ProblemItem],
    headers: dict[str, str] | None,
    extra: dict[str, Any] | None = None,
) -> Reply:
    status, title = STATUS[code]
    body = ProblemBody(
        type=TYPE + code,
        title=title,
        status=status,
        code=code,
        detail=detail,
        problems=items,
        **(extra or {}),
    )
    return Reply(status, encode_json(body), headers or {}, PROBLEM_JSON)
