"""Which pools a node takes and gives away: by the numbers that it sees."""

from __future__ import annotations

from opportune.service.balancing import gives_one, next_owners, pools_to_read, pools_to_take
from opportune.service.membership import OVERDUE, SOON, Place

NOW = 100.0


def places(*owners: str, until: float = NOW + 1.0) -> dict[str, Place]:
    """Pools ``p0``, ``p1``, ... and their nodes; an empty name: free since a moment."""
    return {
        f"p{i}": Place(owner, "http://x", 1, True, until if owner else NOW - 0.01)
        for i, owner in enumerate(owners)
    }


def test_free_pools_go_to_whoever_has_the_fewest() -> None:
    found = places("b", "b", "c", "", "", "", "")
    owners = next_owners(found, ("a", "b", "c"), NOW)
    assert sorted(owners) == ["p3", "p4", "p5", "p6"]
    assert sorted(owners.values())[:2] == ["a", "a"]
    held = [place.node for place in found.values() if place.node] + list(owners.values())
    assert max(held.count(node) for node in "abc") - min(held.count(node) for node in "abc") <= 1
    taken = [pools_to_take(found, node, ("a", "b", "c"), (), (), NOW) for node in "abc"]
    assert sorted(pool for pools in taken for pool in pools) == sorted(owners)
    assert all(
        owners[pool] == node for node, pools in zip("abc", taken, strict=True) for pool in pools
    )


def test_who_comes_next_stays_so_while_the_others_take_theirs() -> None:
    """Views that are some milliseconds apart do not make two nodes want the same pool."""
    found = places("b", "c", *[""] * 9)
    owners = next_owners(found, ("a", "b", "c"), NOW)
    for pool, node in owners.items():
        later = {**found, pool: Place(node, "http://x", 2, True, NOW + 1.0)}
        rest = {other: owner for other, owner in owners.items() if other != pool}
        counts = {name: list(owners.values()).count(name) for name in "abc"}
        again = next_owners(later, ("a", "b", "c"), NOW)
        assert {name: list(again.values()).count(name) + (name == node) for name in "abc"} == counts
        assert again.keys() == rest.keys()


def test_without_a_node_nobody_is_next() -> None:
    assert next_owners(places("", "b"), (), NOW) == {}


def test_what_is_held_or_given_away_is_not_taken_again() -> None:
    assert pools_to_take(places("", ""), "a", ("a",), ("p1",), (), NOW) == ["p0"]


def test_what_the_next_owner_did_not_take_is_taken_by_whoever_read_it_then_by_anybody() -> None:
    found = places("a", "b", "b")

    def taken(late: float, mine: tuple[str, ...] = (), ahead: tuple[str, ...] = ()) -> list[str]:
        found["p"] = Place("c", "http://x", 1, True, NOW - late)
        return pools_to_take(found, "b", ("a", "b"), mine, ahead, NOW)

    assert taken(SOON - 0.01, ahead=("p",)) == []
    assert taken(SOON + 0.01, ahead=("p",)) == ["p"]
    assert taken(OVERDUE - 0.01) == []
    assert taken(OVERDUE + 0.01) == ["p"]
    assert taken(OVERDUE + 0.01, mine=("p",)) == []


def test_pools_of_a_silent_owner_are_read_by_the_next_one() -> None:
    found = places("a", "b", "b", "c", "c", until=NOW + 1.0)
    assert pools_to_read(found, "a", ("a", "b", "c"), NOW, NOW + 0.5) == []
    for pool in ("p3", "p4"):
        found[pool] = found[pool]._replace(until=NOW + 0.4)
    read = {node: pools_to_read(found, node, ("a", "b", "c"), NOW, NOW + 0.5) for node in "abc"}
    assert sorted(read["a"] + read["b"]) == ["p3", "p4"]
    assert read["c"] == []
    assert len(read["a"]) >= 1  # it has the fewest
    over = {
        pool: place._replace(until=NOW) for pool, place in found.items() if pool in ("p3", "p4")
    }
    owners = next_owners({**found, **over}, ("a", "b"), NOW + 0.4)
    assert all(owners[pool] == node for node, pools in read.items() for pool in pools)


def test_pools_that_were_never_written_are_left_alone() -> None:
    assert pools_to_take({"p": Place("", "", 1, False, NOW - 9.0)}, "a", ("a",), (), (), NOW) == []


def test_the_fullest_node_gives_one_away() -> None:
    nodes = ("a", "b")
    assert gives_one(places("a", "a"), "a", nodes, NOW)
    assert not gives_one(places("a", "a", "b"), "a", nodes, NOW)  # one fewer is even enough
    assert not gives_one(places("a", "a"), "b", nodes, NOW)
    assert gives_one(places("a", "a", "b", "b"), "b", ("a", "b", "c"), NOW)
    assert not gives_one(places("a", "a", "b", "b"), "a", ("a", "b", "c"), NOW)
    assert not gives_one(places("a", "a", ""), "a", nodes, NOW)  # first somebody takes that one
    assert not gives_one(places("a", "a"), "a", ("a",), NOW)
