"""What the client raises: the service's problems (RFC 9457) as typed exceptions.

::

    OpportuneError
    └── ServiceError               the service did not do it
        ├── InvalidRequestError    a value in the request is wrong (also an InputError)
        ├── NotAllowedError        no valid API key, or one for something else
        ├── NotFoundError          there is no such thing (any more)
        ├── NoCapacityError        too few servers are free: the drop is recorded; when to try again
        ├── ConflictError          the present state does not allow it
        │   ├── StaleLeaseError    the lease token is not the present one
        │   └── AlreadyEndedError  it is over, and not as was asked for
        └── UnavailableError       no answer, or "later", until the client gave up

A fault of the service itself (500) is a plain :class:`ServiceError`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from opportune.errors import InputError, OpportuneError, Problem, shorten
from opportune.service.answers import DecisionBody
from opportune.service.problems import TYPE, ProblemBody


class ServiceError(OpportuneError):
    """The service did not do what was asked.

    Attributes:
        body: The problem document.
        key: Idempotency key of the call; empty for a call that only reads.
        code: The kind of problem, for programs (``problems.STATUS`` of the service).
        status: HTTP status; 0 if there was no answer.
        retry_after: Seconds after which it is worth trying again; None if nobody knows.
    """

    def __init__(self, body: ProblemBody, key: str = "", retry_after: float | None = None) -> None:
        items = [Problem(one.field, one.value, one.expected, one.remedy) for one in body.problems]
        super().__init__(items or Problem("service", body.title, "", body.detail))
        self.args = (_told(body),)
        self.body = body
        self.key = key
        self.code = body.code
        self.status = body.status
        self.retry_after = body.retry_after if body.retry_after is not None else retry_after


class InvalidRequestError(ServiceError, InputError):
    """A value in the request is wrong; ``problems`` says which, and what to change."""


class NotAllowedError(ServiceError):
    """No valid API key, or one that is for something else."""


class NotFoundError(ServiceError):
    """The pool, server, task, assignment, decision or plan does not exist (any more)."""


class NoCapacityError(ServiceError):
    """Fewer than k permitted servers are free; the task is dropped, and that is recorded.

    ``retry_after`` says in how many seconds k servers are expected to be free. A new call is a new
    task: the client never repeats a dropped one by itself.
    """

    @property
    def expected_free(self) -> float | None:
        """When k servers are expected to be free, in seconds since 1970; None if unknown."""
        return self.body.expected_free

    @property
    def decision(self) -> DecisionBody | None:
        """The recorded drop, and why."""
        return self.body.decision


class ConflictError(ServiceError):
    """The present state, or other content under the same name, does not allow it."""

    @property
    def present(self) -> Any:
        """The present state of what the call is about, if the service told it."""
        return self.body.present


class StaleLeaseError(ConflictError):
    """The lease token is not the present one: somebody else holds it by now."""


class AlreadyEndedError(ConflictError):
    """It is over, and not as was asked for."""


class UnavailableError(ServiceError):
    """There was no answer, or only "later", until the client gave up.

    Whether the request was carried out is not known. The same call with ``key=error.key`` finds out
    and carries it out at most once, also from another process.
    """


KINDS: dict[str, type[ServiceError]] = {
    "invalid": InvalidRequestError,
    "malformed": InvalidRequestError,
    "method-not-allowed": InvalidRequestError,
    "too-large": InvalidRequestError,
    "unsupported-media-type": InvalidRequestError,
    "key-reused": InvalidRequestError,
    "unauthenticated": NotAllowedError,
    "forbidden": NotAllowedError,
    "not-found": NotFoundError,
    "no-capacity": NoCapacityError,
    "conflict": ConflictError,
    "stale-lease": StaleLeaseError,
    "already-ended": AlreadyEndedError,
    "still-running": UnavailableError,
    "rate-limited": UnavailableError,
    "too-slow": UnavailableError,
    "unavailable": UnavailableError,
    "internal": ServiceError,
}
"""Code of a problem -> what is raised. A code that is not here is a plain ServiceError."""

_BY_STATUS = {401: "unauthenticated", 403: "forbidden", 404: "not-found", 413: "too-large"}
_BY_STATUS |= {
    408: "too-slow",
    429: "rate-limited",
    502: "unavailable",
    503: "unavailable",
    504: "unavailable",
}

_PROBLEM = msgspec.json.Decoder(ProblemBody)


def problem_of(status: int, content: bytes) -> ProblemBody:
    """The problem in an answer; one made from the status if something else answered.

    Args:
        status: HTTP status.
        content: The body: a problem document, or whatever a proxy says.
    """
    try:
        return _PROBLEM.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        code = _BY_STATUS.get(status, "malformed" if 400 <= status < 500 else "internal")
        said = shorten(content.decode("utf-8", "replace"), 200)
        return made_problem(status, code, f"HTTP status {status} without a problem document", said)


def made_problem(status: int, code: str, title: str, detail: str) -> ProblemBody:
    """A problem document that the client makes itself."""
    return ProblemBody(type=TYPE + code, title=title, status=status, code=code, detail=detail)


def error_of(body: ProblemBody, key: str = "", retry_after: float | None = None) -> ServiceError:
    """The exception that tells a problem.

    Args:
        body: The problem.
        key: Idempotency key of the call.
        retry_after: What the header ``Retry-After`` says, in seconds.
    """
    return KINDS.get(body.code, ServiceError)(body, key, retry_after)


def unreachable(cause: str, tries: int, key: str) -> UnavailableError:
    """The exception for a service that does not answer.

    Args:
        cause: What the last try came to.
        tries: How many there were.
        key: Idempotency key of the call.
    """
    title = f"No answer in {tries} {'try' if tries == 1 else 'tries'}"
    body = made_problem(0, "unreachable", title, cause)
    return UnavailableError(body, key)


def _told(body: ProblemBody) -> str:
    """A problem in one line, and one for everything that is wrong."""
    lines = [f"{body.title}: {body.detail}" if body.detail else body.title]
    for one in body.problems:
        said = [one.expected if one.expected != body.detail else "", one.remedy]
        lines.append(f"{one.field}: " + "; ".join(part for part in (one.value, *said) if part))
    return "\n".join(lines)
