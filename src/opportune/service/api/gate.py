"""The gate: every request comes through here, before any handler.

It finds out who asks, how much they have asked, and how large the request is; it answers the busy
requests itself and hands the others on. Paths stay as they came (percent-encoded), so that a server
may be called ``nurse/1``; an action such as ``:accept`` becomes a segment of its own for the
router.

A service that needs no key listens on this machine only. A page in a browser on this machine must
not reach it, so the Host (and the Origin, if there is one) must be this machine too.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlsplit

import structlog

from opportune.errors import Problem
from opportune.service.api.calls import Call, refused
from opportune.service.api.faults import check_query
from opportune.service.api.hot import hot_handler
from opportune.service.api.relay import Relay
from opportune.service.dealing_orders import ORDERS
from opportune.service.dealing_pools import path_of
from opportune.service.forwarding import FORWARDED
from opportune.service.keys import LOCAL, Caller
from opportune.service.node import Node
from opportune.service.problems import RefusalError, Reply, problem, refusal
from opportune.service.settings import is_loopback

Scope = Any
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = re.compile(rb"/(livez|readyz|openapi\.json|dashboard(/.*)?)?")
"""Paths that need no key; the dashboard asks for what it shows with one."""

VERB = "§"
"""What stands before an action in the router's paths; no real path holds it."""

ACTION = re.compile(
    r"(/v1/.+):(rank|accept|decline|complete|fail|release|heartbeat|cancel|clear-quarantine"
    r"|activate|rollback|shadow|unshadow)"
)

BULKY = re.compile(rb"/v1/pools/[^/]+/(scores|plans(/[^/]+)?|servers|task-types|orders)")

SCORES = re.compile(rb"/v1/pools/[^/]+/scores")

_log = structlog.get_logger("http")


class Gate:
    """The outermost application.

    Args:
        node: What is asked.
        app: What handles the requests that are not busy.
        needs_key: Whether everybody needs an API key; otherwise only once there is one.
        shortcut: Whether busy requests are answered here.
    """

    def __init__(self, node: Node, app: App, needs_key: bool, shortcut: bool = True) -> None:
        self._node = node
        self.app = app
        self._needs_key = needs_key
        self._shortcut = shortcut
        self._relay = None if node.cluster is None else Relay(node.cluster, self._handle)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request (ASGI)."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
        path = path.partition(b"?")[0]
        if scope["method"] == "HEAD":  # the web server leaves the body out
            scope = {**scope, "method": "GET", "headers": _without_accept(scope)}
        cluster = self._node.cluster
        if cluster is not None and cluster.draining:
            send = _closing(send)
        try:
            await self._pass(scope, path, receive, send)
        except RefusalError as error:
            await self._send(send, error.reply)
        except Exception as error:
            _log.exception("a request failed", path=path.decode("ascii", "replace"))
            await self._send(send, refused(error))

    async def _pass(self, scope: Scope, path: bytes, receive: Receive, send: Send) -> None:
        headers = _headers(scope)
        forwarded = self._forwarded_by(headers)
        call = Call(
            self._node,
            self._caller(headers, path, forwarded is not None),
            self._target(scope, path),
            (scope.get("client") or ("",))[0] if forwarded is None else forwarded,
            _text(headers.get(b"idempotency-key")),
            forwarded is not None,
        )
        if not call.forwarded:
            wait = self._node.limit.wait(call.caller.name, time.monotonic())
            if wait > 0.0:
                told = {"retry-after": str(int(wait) + 1)}
                await self._send(send, problem("rate-limited", f"wait {wait:.2f} s", headers=told))
                return
        limit = self._limit(path)
        length = int(headers.get(b"content-length", b"0") or 0)
        if length > limit:
            raise _too_large(limit)
        if self._relay is None:
            await self._handle(scope, path, call, receive, send)
            return
        body = None
        if length or b"transfer-encoding" in headers:
            body = await _body(receive, limit)
        if scope["method"] == "POST" and body is not None:
            place = path_of(self._node, path, body, call.key)
            if place != path:  # the owner of a split pool sends the task on to a sub-pool
                path, call.forwarded = place, False
                call.target = self._target(scope, path)
        await self._relay(scope, path, call, body, (receive, send))

    def _limit(self, path: bytes) -> int:
        """Most bytes of a body."""
        settings = self._node.settings
        return settings.bulk_limit if BULKY.fullmatch(path) else settings.body_limit

    async def _handle(
        self, scope: Scope, path: bytes, call: Call, receive: Receive, send: Send
    ) -> None:
        """Handle a request on this node."""
        limit = self._limit(path)
        busy = self._shortcut or ORDERS.fullmatch(path)
        handler = hot_handler(path) if busy and scope["method"] == "POST" else None
        if scope["method"] in ("POST", "PUT") and not SCORES.fullmatch(path):
            _check_media_type(_headers(scope))
        _check_encoding(_headers(scope))
        if handler is not None:
            check_query(scope.get("query_string", b""), ())
            body = await _body(receive, limit)
            try:
                reply = await handler(call, body)
            except RefusalError as error:
                reply = error.reply
            except Exception as error:
                _log.exception("a request failed", path=path.decode("ascii", "replace"))
                reply = refused(error)
            await self._send(send, reply)
            _log.debug("request", status=reply.status, **call.told())
            return
        await self._hand_on(scope, path, call, (_Counted(receive, limit), send))

    def _forwarded_by(self, headers: dict[bytes, bytes]) -> str | None:
        """The client's address, if another node has sent the request on."""
        cluster, said = self._node.cluster, _text(headers.get(FORWARDED))
        if cluster is None or said is None:
            return None
        secret, _, remote = said.partition(" ")
        return remote if cluster.trusts(secret) else None

    async def _hand_on(
        self, scope: Scope, path: bytes, call: Call, channel: tuple[Receive, Send]
    ) -> None:
        """Let the router have it."""
        receive, send = channel
        routed = path.decode("latin-1")
        if not routed.isascii():
            raise refusal("not-found", "the path holds characters that are not percent-encoded")
        found = ACTION.fullmatch(routed)
        if found is not None:
            routed = f"{found[1]}/{VERB}{found[2]}"
        elif SCORES.fullmatch(path) and _media_type(_headers(scope)) == b"text/csv":
            routed += f"/{VERB}csv"
        inner = {**scope, "path": routed, "raw_path": routed.encode()}
        inner["state"] = {**scope.get("state", {}), "call": call}

        async def counted(message: Any) -> None:
            if message["type"] == "http.response.start":
                status = message["status"]
                self._node.metrics.answered(status)
                _log.debug("request", status=status, **call.told())
            await send(message)

        await self.app(inner, receive, counted)

    def _target(self, scope: Scope, path: bytes) -> bytes:
        query: bytes = scope.get("query_string", b"")
        method: str = scope["method"]
        return method.encode() + b" " + path + (b"?" + query if query else b"")

    def _caller(self, headers: dict[bytes, bytes], path: bytes, forwarded: bool) -> Caller:
        """Who asks; nodes need no key for their orders.

        Raises:
            RefusalError: If a key is needed and not there or not valid.
        """
        if ORDERS.fullmatch(path) and not forwarded:  # it must not be sent on either
            raise refusal("not-found", "there is no such path")
        if OPEN.fullmatch(path) or ORDERS.fullmatch(path):
            return LOCAL
        keys = self._node.keys
        if keys is not None:
            keys.look_again(time.monotonic())
            self._needs_key = self._needs_key or bool(keys.keys)
        if not self._needs_key:
            if not self._node.settings.insecure:
                _check_local(headers)
            return LOCAL
        scheme, _, given = (_text(headers.get(b"authorization")) or "").partition(" ")
        caller = None
        if keys is not None and scheme.lower() == "bearer":
            caller = keys.caller(given.strip())
        if caller is None:
            told = problem(
                "unauthenticated",
                "send a key: Authorization: Bearer opp_...",
                [Problem("Authorization", scheme or "missing", "Bearer and an API key")],
                {"www-authenticate": 'Bearer realm="opportune"'},
            )
            raise RefusalError(told)
        return caller

    async def _send(self, send: Send, reply: Reply) -> None:
        self._node.metrics.answered(reply.status)
        headers = [
            (b"content-type", reply.media_type.encode()),
            (b"content-length", str(len(reply.body)).encode()),
        ]
        headers += [(name.encode(), value.encode()) for name, value in reply.headers.items()]
        if reply.status == 204:
            del headers[:2]
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})


class _Counted:
    """A receive channel that refuses more than a limit."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive = receive
        self._limit = limit
        self._seen = 0

    async def __call__(self) -> Any:
        message = await self._receive()
        self._seen += len(message.get("body", b""))
        if self._seen > self._limit:
            raise _too_large(self._limit)
        return message


def _closing(send: Send) -> Send:
    """Tells with every answer that the connection is closed, so that clients turn away."""

    async def closing(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ()), (b"connection", b"close")]
            message = {**message, "headers": headers}
        await send(message)

    return closing


async def _body(receive: Receive, limit: int) -> bytes:
    """The whole body.

    Raises:
        RefusalError: If it is too large, or the client went away.
    """
    message = await receive()
    if message["type"] == "http.disconnect":
        raise refusal("malformed", "the client has gone")
    body: bytes = message.get("body", b"")
    parts = [body]
    size = len(body)
    while message.get("more_body", False) and size <= limit:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise refusal("malformed", "the client has gone")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
    if size > limit:
        raise _too_large(limit)
    return body if len(parts) == 1 else b"".join(parts)


def _headers(scope: Scope) -> dict[bytes, bytes]:
    return dict(scope["headers"])


def _without_accept(scope: Scope) -> list[tuple[bytes, bytes]]:
    """The headers of a request that must not be answered by a stream."""
    return [one for one in scope["headers"] if one[0] != b"accept"]


def _text(header: bytes | None) -> str | None:
    return None if header is None else header.decode("latin-1")


def _media_type(headers: dict[bytes, bytes]) -> bytes:
    return headers.get(b"content-type", b"application/json").partition(b";")[0].strip().lower()


def _too_large(limit: int) -> RefusalError:
    return refusal("too-large", f"at most {limit} bytes")


def _check_media_type(headers: dict[bytes, bytes]) -> None:
    """JSON, or nothing said.

    Raises:
        RefusalError: If something else is said.
    """
    given = _media_type(headers)
    if given != b"application/json":
        raise refusal(
            "unsupported-media-type",
            f"{given.decode('latin-1')}: send application/json (curl: --json)",
        )


def _check_encoding(headers: dict[bytes, bytes]) -> None:
    """A body as it is.

    Raises:
        RefusalError: If it is packed.
    """
    given = headers.get(b"content-encoding", b"identity").strip().lower()
    if given not in (b"identity", b""):
        wrong = Problem("Content-Encoding", given.decode("latin-1"), "identity", "do not pack it")
        raise refusal("unsupported-media-type", str(wrong), [wrong])


def _check_local(headers: dict[bytes, bytes]) -> None:
    """Without keys: only programs on this machine that mean this machine.

    Raises:
        RefusalError: If the Host or the Origin is another one.
    """
    for name in (b"host", b"origin"):
        given = headers.get(name)
        if given is not None and not _is_here(given):
            raise refusal(
                "forbidden",
                f"{name.decode()} {_text(given)!r}: without API keys only this machine is "
                "answered; make a key with: opportune keys create",
            )


@lru_cache(1000)
def _is_here(given: bytes) -> bool:
    """Whether a Host or Origin is this machine."""
    text = given.decode("latin-1")
    try:
        host = urlsplit(text if "//" in text else f"//{text}").hostname
    except ValueError:
        return False
    return host is not None and is_loopback(host)
