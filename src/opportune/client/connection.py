"""Connections to the live service: send a call until it is answered, follow a pool's events.

The client for threads and the one for an event loop do the same, step by step; what they share is
without a socket: ``calls``, ``retrying``, ``streaming``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator
from types import TracebackType
from typing import Self, TypeVar

import httpx

from opportune.client.calls import Call, checked_api_key, checked_timeout, checked_url
from opportune.client.retrying import Retries, Trial, checked_retries
from opportune.client.streaming import SILENCE, Following
from opportune.service.api.bodies import EventBody

Body = TypeVar("Body")

MENDED = (httpx.TransportError, httpx.DecodingError)
"""What a new try may mend; besides, answers that say so (``retrying``)."""


class Connection:
    """A connection to a service; may be used from any thread.

    Args:
        url, api_key, retries, timeout, http: See :class:`opportune.client.Client`.

    Raises:
        InputError: If the address or the key cannot be one.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        retries: Retries | None = None,
        timeout: float | None = 30.0,
        http: httpx.Client | None = None,
    ) -> None:
        self._url = checked_url(url)
        self._api_key = checked_api_key(api_key)
        self._retries = checked_retries(retries)
        self._timeout = checked_timeout(timeout)
        self._own = http is None
        self._http = httpx.Client() if http is None else http

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        if self._own:
            self._http.close()

    def send(self, call: Call[Body]) -> Body:
        """Carry out a call, with as many tries as it takes and may take.

        Raises:
            ServiceError: What came of it, if it did not go well (``problems``).
        """
        trial, url, headers = Trial(self._retries, call.key), self._url, call.headers(self._api_key)
        while True:
            try:
                answer = self._http.request(
                    call.method,
                    url + call.path,
                    content=call.content,
                    headers=headers,
                    timeout=self._timeout,
                )
            except MENDED as error:
                wait = trial.after_silence(error)
            else:
                if answer.is_success:
                    return call.result(answer.status_code, answer.content)
                asked = answer.headers.get("retry-after")
                wait = trial.after_answer(answer.status_code, answer.content, asked)
            time.sleep(wait)

    def follow_events(self, pool: str, after: int = 0) -> Iterator[EventBody]:
        """What happens, as it happens: from behind a cursor, without end.

        A connection that breaks is made again behind the last event, so none is missed and none
        comes twice. ``event.sequence`` is the cursor to go on from in another process.

        Raises:
            ServiceError: If the pool is not there, or the service stays away.
        """
        following = Following(pool, after, self._retries)
        timeout = httpx.Timeout(self._timeout, read=SILENCE)
        while True:
            url, headers = self._url + following.path, following.headers(self._api_key)
            try:
                with self._http.stream("GET", url, headers=headers, timeout=timeout) as answer:
                    if answer.is_success:
                        following.connected()
                        for chunk in answer.iter_bytes():
                            for event in following.feed(chunk):
                                yield following.seen(event)
                        wait = following.broken("the service ended the stream")
                    else:
                        content, asked = answer.read(), answer.headers.get("retry-after")
                        wait = following.refused(answer.status_code, content, asked)
            except MENDED as error:
                wait = following.broken(error)
            time.sleep(wait)

    def is_ready(self) -> bool:
        """Whether the service can read and write all its pools now; asked once."""
        try:
            answer = self._http.request("GET", self._url + "/readyz", timeout=self._timeout)
        except MENDED:
            return False
        return answer.is_success


class AsyncConnection:
    """The same for an event loop.

    Args:
        url, api_key, retries, timeout, http: See :class:`opportune.client.Client`.

    Raises:
        InputError: If the address or the key cannot be one.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        retries: Retries | None = None,
        timeout: float | None = 30.0,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self._url = checked_url(url)
        self._api_key = checked_api_key(api_key)
        self._retries = checked_retries(retries)
        self._timeout = checked_timeout(timeout)
        self._own = http is None
        self._http = httpx.AsyncClient() if http is None else http

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its connections."""
        if self._own:
            await self._http.aclose()

    async def send(self, call: Call[Body]) -> Body:
        """Carry out a call, with as many tries as it takes and may take.

        Raises:
            ServiceError: What came of it, if it did not go well (``problems``).
        """
        trial, url, headers = Trial(self._retries, call.key), self._url, call.headers(self._api_key)
        while True:
            try:
                answer = await self._http.request(
                    call.method,
                    url + call.path,
                    content=call.content,
                    headers=headers,
                    timeout=self._timeout,
                )
            except MENDED as error:
                wait = trial.after_silence(error)
            else:
                if answer.is_success:
                    return call.result(answer.status_code, answer.content)
                asked = answer.headers.get("retry-after")
                wait = trial.after_answer(answer.status_code, answer.content, asked)
            await asyncio.sleep(wait)

    async def follow_events(self, pool: str, after: int = 0) -> AsyncGenerator[EventBody, None]:
        """What happens, as it happens: from behind a cursor, without end.

        A connection that breaks is made again behind the last event, so none is missed and none
        comes twice. ``event.sequence`` is the cursor to go on from in another process.

        Raises:
            ServiceError: If the pool is not there, or the service stays away.
        """
        following = Following(pool, after, self._retries)
        timeout = httpx.Timeout(self._timeout, read=SILENCE)
        while True:
            url, headers = self._url + following.path, following.headers(self._api_key)
            try:
                async with self._http.stream(
                    "GET", url, headers=headers, timeout=timeout
                ) as answer:
                    if answer.is_success:
                        following.connected()
                        async for chunk in answer.aiter_bytes():
                            for event in following.feed(chunk):
                                yield following.seen(event)
                        wait = following.broken("the service ended the stream")
                    else:
                        content, asked = await answer.aread(), answer.headers.get("retry-after")
                        wait = following.refused(answer.status_code, content, asked)
            except MENDED as error:
                wait = following.broken(error)
            await asyncio.sleep(wait)

    async def is_ready(self) -> bool:
        """Whether the service can read and write all its pools now; asked once."""
        try:
            answer = await self._http.request("GET", self._url + "/readyz", timeout=self._timeout)
        except MENDED:
            return False
        return answer.is_success
