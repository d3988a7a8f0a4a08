"""Nothing that was acknowledged is lost or doubled by SIGKILL (``kills``: a thousand of them)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from opportune.service.wire import Answered
from tests.service.kills import Killing, Ledger, LedgerError, Request, kill_many

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no fork server there")


def test_kills_under_load_lose_and_double_nothing(tmp_path: Path) -> None:
    killing = Killing(tmp_path, seed=3)
    kill_many(
        killing, 12, enough=lambda one: bool(one.ledger.done and one.ledger.seen["sent again"])
    )
    assert killing.kills >= 12
    assert len(killing.ledger.done) > 0
    assert killing.ledger.seen["sent again"] > 0


def test_kills_under_load_lose_and_double_no_outcome_of_a_learner(tmp_path: Path) -> None:
    killing = Killing(tmp_path, seed=4, learning="on")
    kill_many(killing, 8, enough=lambda one: max(one.versions, default=0) >= 1)
    assert killing.versions == sorted(killing.versions)
    assert killing.versions[-1] >= 1
    assert killing.decisions > 0


def test_kills_in_the_middle_of_deals_put_no_server_into_two_sub_pools(tmp_path: Path) -> None:
    killing = Killing(tmp_path, seed=5, partitions=3)
    kill_many(killing, 10, enough=lambda one: len(one.ledger.done) > 0 and one.moved > 40)
    assert len(killing.ledger.done) > 0
    assert killing.moved > 40


def test_the_ledger_finds_an_assignment_that_is_there_twice() -> None:
    ledger = Ledger()
    created = Answered(201, b'{"assignment_id":"p.a1","servers":[{"id":"s"}]}')
    ledger.enter(Request("create", "", b"", "1"), created)
    with pytest.raises(LedgerError, match="acknowledged twice"):
        ledger.enter(Request("create", "", b"", "2"), created)


def test_the_ledger_finds_a_completion_that_is_counted_twice() -> None:
    ledger = Ledger(held={"p.a1": ["s"]})
    done = Answered(200, b'{"assignment_id":"p.a1"}')
    ledger.enter(Request("complete", "", b"", "1"), done)
    with pytest.raises(LedgerError, match="not open"):
        ledger.enter(Request("complete", "", b"", "2"), done)
    with pytest.raises(LedgerError, match="404"):
        ledger.enter(Request("complete", "", b"", "3"), Answered(404, b"{}"))
