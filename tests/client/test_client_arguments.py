"""Arguments that no request can come of are refused before one is sent."""

from __future__ import annotations

import math
from typing import Any

import httpx
import pytest

from opportune.client import AsyncClient, Client
from opportune.errors import InputError
from tests.service.serving import declare, service

NOWHERE = "http://127.0.0.1:1"


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("api_key", ""),
        ("api_key", 5),
        ("timeout", 0),
        ("timeout", -1.0),
        ("timeout", math.nan),
        ("timeout", "3"),
        ("retries", 3),
    ],
)
def test_arguments_of_a_client(kind: Any, name: str, value: Any) -> None:
    with pytest.raises(InputError, match=name):
        kind(NOWHERE, **{name: value})


@pytest.mark.parametrize("name", ["", None, 5, "\ud800"])
def test_names_that_are_none(name: Any) -> None:
    """`get_pool("")` asked for the list of pools."""

    def never(request: httpx.Request) -> httpx.Response:
        raise AssertionError(request.url)

    http = httpx.Client(transport=httpx.MockTransport(never))
    client = Client(NOWHERE, http=http)
    for call in (client.get_pool, client.complete, client.get_decision):
        with pytest.raises(InputError, match="name"):
            call(name)
    with pytest.raises(InputError, match="key"):
        client.complete("p.a1", key=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("seen", ["x", "-1", "9" * 20])
def test_a_stream_from_a_cursor_that_is_none_does_not_begin_anew(seen: str) -> None:
    with service() as client:
        declare(client, 1)
        asked = {"accept": "text/event-stream", "last-event-id": seen}
        answer = client.http.get("/v1/pools/p/events", headers=asked)
        assert answer.status_code == 422
        assert answer.json()["problems"][0]["field"] == "Last-Event-ID"
