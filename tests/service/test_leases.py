"""Leases: held, renewed, released, taken over by one node at a time; none writes beyond its own."""

from __future__ import annotations

import threading

import pytest

from opportune.errors import InputError
from opportune.service.journal import Snapshot, StaleTokenError
from opportune.service.leases import PoolLeases
from opportune.service.postgres import LeaseOverError, PostgresJournal
from tests.service.journals import WAIT, write, written
from tests.waiting import eventually

LONG, SHORT = 3600.0, 0.3
"""Seconds of a lease that does not end in a test, and of one that does."""


def test_a_lease_is_held_renewed_released_and_taken_over(nodes: list[PostgresJournal]) -> None:
    one = PoolLeases(nodes[0], "one", "http://one", LONG)
    two = PoolLeases(nodes[1], "two", "http://two", LONG)
    token = one.take("a")
    assert token == 1
    assert two.take("a") is None
    assert one.take("a") is None  # its own must end too
    held = two.holder("a")
    assert held is not None
    assert (held.node, held.address, held.token) == ("one", "http://one", 1)
    assert LONG / 2 < held.seconds <= LONG
    assert one.renew("a", token)
    assert not two.renew("a", token + 1)
    written(nodes[0], "a", token, b"1")
    assert not two.release("a", token + 1)
    assert one.release("a", token)
    assert two.holder("a") is None
    assert two.take("a") == 2
    with pytest.raises(StaleTokenError):
        write(nodes[0], "a", token, b"late").result(WAIT)
    assert [lease.pool for lease in one.all()] == ["a"]


def test_an_owner_paused_beyond_its_lease_may_not_append(nodes: list[PostgresJournal]) -> None:
    """Neither before anybody has taken over nor after; and it cannot renew what is over."""
    one = PoolLeases(nodes[0], "one", "", LONG)
    two = PoolLeases(nodes[1], "two", "", LONG)
    token = one.take("a")
    assert token is not None
    written(nodes[0], "a", token, b"1")
    assert PoolLeases(nodes[0], "one", "", SHORT).renew("a", token)  # its last renewal
    eventually(lambda: one.holder("a") is None)
    with pytest.raises(LeaseOverError, match="of pool 'a' is over"):
        write(nodes[0], "a", token, b"late").result(WAIT)
    with pytest.raises(LeaseOverError):
        nodes[0].save_snapshot("a", token, Snapshot(1, b"s")).result(WAIT)
    assert not one.renew("a", token)
    taken = two.take("a")
    assert taken == token + 1
    with pytest.raises(StaleTokenError):
        write(nodes[0], "a", token, b"late").result(WAIT)
    written(nodes[1], "a", taken, b"2")
    assert [record.data for record in nodes[0].read("a")] == [b"1", b"2"]


def test_an_owner_without_a_lease_is_nobodys_until_it_is_taken(
    nodes: list[PostgresJournal],
) -> None:
    token = nodes[0].acquire("a")
    assert PoolLeases(nodes[1], "two", "", LONG).holder("a") is None
    assert PoolLeases(nodes[1], "two", "", LONG).take("a") == token + 1
    assert nodes[0].acquire("a") == token + 2  # by force, lease or not


@pytest.mark.parametrize(("node", "seconds"), [("", 1.0), ("a", 0.0), ("a", float("nan"))])
def test_bad_leases_are_refused(nodes: list[PostgresJournal], node: str, seconds: float) -> None:
    with pytest.raises(InputError):
        PoolLeases(nodes[0], node, "", seconds)


def test_two_nodes_and_one_lease_at_the_same_instant(nodes: list[PostgresJournal]) -> None:
    for round_ in range(20):
        gate = threading.Barrier(2)
        tokens: list[int | None] = []

        def take(i: int, pool: str, gate: threading.Barrier, tokens: list[int | None]) -> None:
            gate.wait(WAIT)
            tokens.append(PoolLeases(nodes[i], f"node-{i}", "", LONG).take(pool))

        threads = [
            threading.Thread(target=take, args=(i, f"pool-{round_}", gate, tokens))
            for i in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(tokens, key=str) == [1, None]
