"""When a call is tried again, with what, and when the client gives up; no service needed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import httpx
import msgspec
import pytest

from opportune.client import (
    AsyncClient,
    Client,
    CreateTask,
    NoCapacityError,
    Retries,
    ServiceError,
    UnavailableError,
)
from opportune.client.problems import KINDS, error_of, problem_of
from opportune.client.retrying import Trial, seconds_in
from opportune.client.streaming import EventReader, Following
from opportune.errors import InputError
from opportune.service.problems import STATUS, problem

URL = "http://service"
SOON = Retries(tries=4, first=0.0, longest=0.0)
POOLS = httpx.Response(200, content=b'{"pools":["p"]}')


def reply(code: str, **headers: str) -> httpx.Response:
    told = problem(code, "so it is")
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(told.status, content=told.body, headers=named)


class Script:
    """A service that answers by a list, or raises what stands there."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer.status_code, content=answer.content, headers=answer.headers)

    def keys(self) -> list[str | None]:
        return [one.headers.get("idempotency-key") for one in self.asked]


def blocking(script: Script, call: Callable[[Any], Any], retries: Retries = SOON) -> Any:
    with httpx.Client(transport=httpx.MockTransport(script)) as http:
        return call(Client(URL, "opp_a_b", retries=retries, http=http))


def awaited(script: Script, call: Callable[[Any], Any], retries: Retries = SOON) -> Any:
    async def run() -> Any:
        async with httpx.AsyncClient(transport=httpx.MockTransport(script)) as http:
            return await call(AsyncClient(URL, "opp_a_b", retries=retries, http=http))

    return asyncio.run(run())


both = pytest.mark.parametrize("through", [blocking, awaited])

MENDED = [
    httpx.ConnectError("refused"),
    httpx.ReadError("broken"),
    httpx.ReadTimeout("silent"),
    httpx.RemoteProtocolError("closed"),
    reply("rate-limited", retry_after="0"),
    reply("unavailable"),
    reply("still-running"),
    httpx.Response(502, content=b"<html>bad gateway</html>"),
]


@both
@pytest.mark.parametrize("failure", MENDED, ids=lambda one: getattr(one, "status_code", repr(one)))
def test_a_call_is_tried_again_with_the_same_key_and_body(through: Any, failure: Any) -> None:
    script = Script(failure, failure, reply("no-capacity", retry_after="7"))
    with pytest.raises(NoCapacityError) as dropped:
        through(script, lambda client: client.create_assignment("p", CreateTask(task_type="t")))
    assert dropped.value.retry_after == 7.0
    assert len(script.asked) == 3
    assert set(script.keys()) == {dropped.value.key}
    assert len({one.content for one in script.asked}) == 1
    assert {one.headers["authorization"] for one in script.asked} == {"Bearer opp_a_b"}


@both
def test_two_calls_have_two_keys_and_reading_has_none(through: Any) -> None:
    script = Script(reply("conflict"))
    for _ in range(2):
        with pytest.raises(ServiceError):
            through(script, lambda client: client.complete("p.a1", key=None))
    first, second = script.keys()
    assert first != second
    reads = Script(reply("unavailable"), POOLS)
    assert through(reads, lambda client: client.list_pools()) == ["p"]
    assert reads.keys() == [None, None]


@both
@pytest.mark.parametrize("code", [code for code in STATUS if KINDS[code] is not UnavailableError])
def test_what_is_final_is_raised_at_once(through: Any, code: str) -> None:
    script = Script(reply(code))
    with pytest.raises(KINDS[code]) as told:
        through(script, lambda client: client.complete("p.a1", key="mine"))
    assert type(told.value) is KINDS[code]
    assert (told.value.code, told.value.status) == (code, STATUS[code][0])
    assert (len(script.asked), told.value.key) == (1, "mine")
    assert str(told.value) == f"{STATUS[code][1]}: so it is"


@both
def test_the_client_gives_up_after_its_tries(through: Any) -> None:
    script = Script(httpx.ConnectError("refused"))
    with pytest.raises(UnavailableError, match="No answer in 4 tries: ConnectError: refused") as e:
        through(script, lambda client: client.complete("p.a1", key="mine"))
    assert (len(script.asked), e.value.key, e.value.status) == (4, "mine", 0)


@both
def test_a_wait_beyond_the_limit_is_not_begun(through: Any) -> None:
    script = Script(reply("rate-limited", retry_after="3600"))
    with pytest.raises(UnavailableError) as told:
        through(script, lambda client: client.list_pools(), Retries(seconds=60.0))
    assert (len(script.asked), told.value.retry_after) == (1, 3600.0)


def test_an_answer_that_cannot_be_read_is_an_error() -> None:
    for content in (b"<html>", b'{"pools":7}', b"\xff"):
        with pytest.raises(ServiceError, match="cannot be read"):
            blocking(Script(httpx.Response(200, content=content)), lambda one: one.list_pools())


def test_waits_double_up_to_the_longest_and_never_fall_short_of_what_is_asked() -> None:
    trial = Trial(Retries(tries=100, seconds=1e6, first=0.5, longest=4.0))
    for most in (0.5, 1.0, 2.0, 4.0, 4.0):
        assert most / 2.0 <= trial.after_silence("nobody") <= most
    asked = [trial.after_answer(503, b"", "9") for _ in range(20)]
    assert all(9.0 <= wait <= 9.5 for wait in asked)
    assert len(set(asked)) > 1


def test_retry_after_is_a_number_or_a_date() -> None:
    assert [seconds_in(text) for text in (None, "0", " 12 ", "soon", "-3")] == [
        None,
        0.0,
        12.0,
        None,
        None,
    ]
    late = seconds_in(formatdate(time.time() + 100.0, usegmt=True))
    assert late is not None
    assert 90.0 < late <= 101.0
    assert seconds_in("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0


@pytest.mark.parametrize(
    ("name", "value"),
    [("tries", 0), ("tries", 1.5), ("tries", True), ("seconds", -1.0), ("first", float("nan"))],
)
def test_limits_are_checked(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=name):
        Retries(**{name: value})
    assert Retries(tries=1, seconds=0.0).tries == 1


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8080", "ftp://here", "http://", "http://k@here", "http://h/?q", "http://h:x"],
)
def test_an_address_is_checked(url: str) -> None:
    with pytest.raises(InputError, match="url"):
        Client(url)


def test_an_api_key_is_checked_and_not_shown() -> None:
    with pytest.raises(InputError, match="api_key") as told:
        Client(URL, "secret\n")
    assert "secret" not in str(told.value)


def test_problems_of_others_are_told_by_their_status() -> None:
    assert type(error_of(problem_of(404, b"nothing"))) is KINDS["not-found"]
    assert type(error_of(problem_of(418, b"[]"))) is KINDS["malformed"]
    assert type(error_of(problem_of(500, b"\xff"))) is ServiceError
    assert set(KINDS) == set(STATUS)


def test_events_are_cut_out_of_any_pieces() -> None:
    data = msgspec.json.encode({"reason": "a \u2028 \x85 break"})
    stream = b": hello\n\nid: 3\nevent: SlotsMoved\ndata: %s\n\n: still here\n\nid: 9\n" % data
    for size in (1, 2, 7, len(stream)):
        reader = EventReader()
        pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
        (event,) = [one for piece in pieces for one in reader.feed(piece)]
        assert (event.sequence, event.type) == (3, "SlotsMoved")
        assert event.event == {"reason": "a \u2028 \x85 break"}


def test_a_new_connection_begins_behind_the_last_whole_event() -> None:
    following = Following("p", 2, SOON)
    following.connected()
    (event,) = following.feed(b"id: 5\nevent: X\ndata: {}\n\nid: 6\nevent: X\nda")
    assert following.headers(None)["last-event-id"] == "2"
    following.seen(event)
    assert following.headers(None)["last-event-id"] == "5"
    following.connected()
    assert [one.sequence for one in following.feed(b"id: 6\nevent: X\ndata: {}\n\n")] == [6]


def test_following_ends_when_the_service_stays_away() -> None:
    script = Script(httpx.ConnectError("refused"))
    with pytest.raises(UnavailableError):
        blocking(script, lambda client: list(client.follow_events("p")))
    assert len(script.asked) == SOON.tries
