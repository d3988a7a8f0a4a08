"""A request on its way: who asks, with which idempotency key, and how it is carried out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec

from opportune.service.api.faults import fault_in, unread
from opportune.service.commands import (
    CancelTask,
    ClearQuarantine,
    Command,
    CreateTask,
    PutPool,
)
from opportune.service.dealing_pools import SETTLE_SECONDS, check_declares, check_split
from opportune.service.idempotency import KEY_LENGTH, Ticket, ticket
from opportune.service.journal import JournalError
from opportune.service.keys import LOCAL, Caller
from opportune.service.naming import pool_of
from opportune.service.node import Node
from opportune.service.notes import Audited
from opportune.service.problems import RefusalError, Reply, encode_json, problem, refusal
from opportune.service.state import State

Body = TypeVar("Body")
Seen = TypeVar("Seen")


@dataclass(slots=True)
class Call:
    """What the gate knows of a request.

    Attributes:
        node: The node that was asked.
        caller: Who asks.
        target: Method, path and query.
        remote: Address that it came from.
        key: Its idempotency key, None without one.
        forwarded: Whether another node has sent it on.
    """

    node: Node
    caller: Caller
    target: bytes
    remote: str
    key: str | None
    forwarded: bool = False

    def allow(self, scope: str) -> None:
        """Let a request pass that needs a scope.

        Raises:
            RefusalError: If the caller's key is for something else.
        """
        if not self.caller.may(scope):
            held = ", ".join(sorted(self.caller.scopes))
            raise refusal("forbidden", f"this needs the scope {scope!r}; the key has: {held}")

    @property
    def sees_all(self) -> bool:
        """Whether conflicts and the reasons of exclusion are shown."""
        return self.caller.may("admin")

    @property
    def still_holds(self) -> bool:
        """Whether whoever asked might ask now: a stream may outlive its key."""
        keys = self.node.keys
        if keys is None:
            return True
        keys.look_again(time.monotonic())
        if self.caller is LOCAL:
            return not keys.keys
        return any(one.prefix == self.caller.name for one in keys.keys)

    def ticket(self, body: bytes) -> Ticket | None:
        """The idempotency key with what was asked under it.

        Raises:
            RefusalError: If the key is too long or empty.
        """
        if self.key is None:
            return None
        if not 0 < len(self.key) <= KEY_LENGTH:
            raise refusal("malformed", f"Idempotency-Key: 1 to {KEY_LENGTH} characters")
        return ticket(self.caller.name, self.key, self.target, body)

    def told(self) -> dict[str, str]:
        """What a line of the log says of it."""
        return {"target": self.target.decode("ascii", "replace"), "who": self.caller.name}

    def audit(self) -> Audited:
        """A note that this was asked."""
        return Audited(self.node.now(), self.caller.name, self.target.decode("ascii"), self.remote)


TELLING = (CreateTask, CancelTask)
"""Commands whose replies show a task, or a decision with its reasons."""


def without_conflicts(reply: Reply) -> Reply:
    """A reply as it is shown to who is no administrator: no conflicts, no reasons of exclusion."""
    told = msgspec.json.decode(reply.body)
    for task in (told, told.get("present") or {}):
        if "conflicts" in task:
            task["conflicts"] = []
    if "decision" in told:
        told["decision"]["why"].pop("excluded", None)
    return msgspec.structs.replace(reply, body=encode_json(told))


async def carry_out(call: Call, pool: str, command: Command, body: bytes) -> Reply:
    """Ask a pool to do something.

    Args:
        call: The request; what only ``admin`` may do is noted.
        pool: Which.
        command: What.
        body: As received, for the idempotency key.

    Raises:
        RefusalError: If there is no such pool.
    """
    node = call.node
    owner = node.owner_or_new(pool) if type(command) is PutPool else node.owner(pool)
    asked = None if call.key is None else call.ticket(body)
    reply = await owner.ask(command, asked)
    hides = reply.status != 201 and not call.sees_all and isinstance(command, TELLING)
    return without_conflicts(reply) if hides else reply


async def administer(call: Call, pool: str, command: Command, body: bytes) -> Reply:
    """Ask a pool to do something, and note in its journal who did.

    Raises:
        RefusalError: If there is no such pool.
    """
    node = call.node
    if type(command) is PutPool:
        check_split(pool, command.settings)
    if type(command) is not ClearQuarantine:
        check_declares(node, pool)
    owner = node.owner_or_new(pool) if type(command) is PutPool else node.owner(pool)
    reply = await owner.ask(command, call.ticket(body), call.audit())
    await node.dealing.followed(owner, SETTLE_SECONDS)
    return reply


async def look(call: Call, pool: str, view: Callable[[State], Any], what: str = "") -> Reply:
    """What a function sees in a pool, as JSON.

    Args:
        call: The request.
        pool: Which pool.
        view: Gives the body, or None if it is not there.
        what: What was looked for, for the message if it is not there.

    Raises:
        RefusalError: If the pool, or what was looked for, is not there.
    """
    seen = await call.node.owner(pool).read(view)
    if seen is None:
        raise refusal("not-found", f"there is no {what} (any more)")
    return Reply(200, encode_json(seen))


def pool_in(name: str) -> str:
    """The pool in the name of a task, assignment or decision.

    Raises:
        RefusalError: If it is no such name.
    """
    pool = pool_of(name)
    if pool is None:
        raise refusal("not-found", f"there is nothing called {name!r}")
    return pool


def decoded(body: bytes, decoder: msgspec.json.Decoder[Body]) -> Body:
    """The body of a request.

    Raises:
        RefusalError: If it is no JSON, or not what is expected.
    """
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        wrong = fault_in(body, decoder.type, error)
        raise refusal("invalid", str(wrong), [wrong]) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refusal("malformed", unread(body, error)) from error


def named(segment: str) -> str:
    """A name in a path, which may hold any character when it is percent-encoded.

    Raises:
        RefusalError: If it is no text.
    """
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError as error:
        raise refusal("not-found", "the path is no UTF-8") from error


def refused(error: Exception) -> Reply:
    """An error as a reply."""
    if isinstance(error, RefusalError):
        return error.reply
    if isinstance(error, JournalError):
        return problem("unavailable", str(error), headers={"retry-after": "1"})
    return problem("internal", type(error).__name__)
