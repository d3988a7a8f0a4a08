"""Requests as tools really send them: HEAD, packed bodies, empty bodies, half a character."""

from __future__ import annotations

import gzip

import pytest

from tests.service.serving import declare, problem_of, service

CREATE = "/v1/pools/p/assignments"


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/v1/pools", "/v1/pools/p", "/dashboard"])
def test_head_says_what_get_would(path: str) -> None:
    """Watchdogs ask by HEAD whether a service lives; it was answered 405."""
    with service() as client:
        declare(client)
        head, get = client("HEAD", path), client("GET", path)
        assert head.status_code == get.status_code == 200
        assert head.headers["content-type"] == get.headers["content-type"]


def test_head_of_a_stream_ends() -> None:
    with service() as client:
        declare(client)
        response = client("HEAD", "/v1/pools/p/events", accept="text/event-stream")
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("application/json")
        assert client("HEAD", "/v1/pools/q").status_code == 404


@pytest.mark.parametrize("shortcut", [True, False])
def test_a_packed_body_is_refused_by_its_header(shortcut: bool) -> None:
    """It was told that the JSON is malformed."""
    packed = gzip.compress(b'{"task_type": "t"}')
    with service(shortcut=shortcut) as client:
        declare(client)
        for method, path in (("POST", CREATE), ("PUT", "/v1/pools/p/scores")):
            response = client(method, path, packed, content_encoding="gzip")
            (item,) = problem_of(response, "unsupported-media-type")["problems"]
            assert item["field"] == "Content-Encoding"
        assert client("POST", CREATE, b'{"task_type":"t"}', content_encoding="identity")
        assert "packed" in client.bad(400, "malformed", "POST", CREATE, packed)["detail"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "the body is empty"),
        (b" \n", "the body is empty"),
        (rb'{"task_type": "t", "external_id": "\ud800"}', "surrogate"),
        (rb'{"task_type": "t", "external_id": "\uDC00x"}', "surrogate"),
        (b'{"task_type": "t", "priority": NaN}', "JSON is malformed"),
        (b'{"task_type": "t"', "Input data was truncated"),
    ],
)
def test_why_a_body_is_no_json(body: bytes, told: str) -> None:
    """An empty body and half of a surrogate pair were both told to be truncated."""
    with service() as client:
        declare(client)
        assert told in client.bad(400, "malformed", "POST", CREATE, body)["detail"]


def test_a_whole_pair_is_text() -> None:
    with service() as client:
        declare(client)
        body = rb'{"task_type": "t", "external_id": "\ud83d\udc08"}'
        assert client.good("POST", CREATE, body)["external_id"] == "\U0001f408"


@pytest.mark.parametrize("name", ["%3Cscript%3E", "..%2Fx", "A", "a" * 64])
def test_a_pool_that_may_not_be_called_so(name: str) -> None:
    """The message was a regular expression, and no problem named the field."""
    with service() as client:
        (item,) = client.bad(422, "invalid", "PUT", f"/v1/pools/{name}", {})["problems"]
        assert item["field"] == "pool"
        assert item["expected"].startswith("1 to 63 of a-z")
        assert client.good("GET", "/v1/pools") == {"pools": []}
