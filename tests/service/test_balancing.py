"""Which pools a node takes and gives away: by the numbers that it sees."""

from __future__ import annotations

from opportune.service.balancing import OVERDUE, gives_one, pools_to_take
from opportune.service.membership import Place

NOW = 100.0


def places(*owners: str, until: float = NOW + 1.0) -> dict[str, Place]:
    """Pools ``p0``, ``p1``, ... and their nodes; an empty name: free since a moment."""
    return {
        f"p{i}": Place(owner, "http://x", 1, True, until if owner else NOW - 0.01)
        for i, owner in enumerate(owners)
    }


def test_free_pools_are_taken_up_to_the_share() -> None:
    found = places("b", "b", "", "", "", "")
    taken = pools_to_take(found, "a", 2, (), NOW)
    assert len(taken) == 3
    assert set(taken) <= {"p2", "p3", "p4", "p5"}
    assert pools_to_take(found, "a", 2, ("p9", "p8", "p7"), NOW) == []


def test_nodes_take_free_pools_in_orders_of_their_own() -> None:
    found = places(*[""] * 20)
    one, two = (pools_to_take(found, node, 1, (), NOW) for node in ("a", "b"))
    assert sorted(one) == sorted(two)
    assert one != two


def test_what_nobody_took_is_taken_by_anybody() -> None:
    late = Place("b", "http://x", 1, True, NOW - OVERDUE - 0.01)
    mine = tuple(f"q{i}" for i in range(9))
    assert pools_to_take({"p": late}, "a", 2, mine, NOW) == ["p"]
    assert pools_to_take({"p": late}, "a", 2, (*mine, "p"), NOW) == []


def test_pools_that_were_never_written_are_left_alone() -> None:
    assert pools_to_take({"p": Place("", "", 1, False, NOW - 9.0)}, "a", 1, (), NOW) == []


def test_the_fullest_node_gives_one_away() -> None:
    nodes = ("a", "b")
    assert gives_one(places("a", "a"), "a", nodes, NOW)
    assert not gives_one(places("a", "a", "b"), "a", nodes, NOW)  # one fewer is even enough
    assert not gives_one(places("a", "a"), "b", nodes, NOW)
    assert gives_one(places("a", "a", "b", "b"), "b", ("a", "b", "c"), NOW)
    assert not gives_one(places("a", "a", "b", "b"), "a", ("a", "b", "c"), NOW)
    assert not gives_one(places("a", "a", ""), "a", nodes, NOW)  # first somebody takes that one
    assert not gives_one(places("a", "a"), "a", ("a",), NOW)
