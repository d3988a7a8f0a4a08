"""A pool's time never goes back and never stands still, whatever is done to the clock."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opportune.service.steady_clock import PACE, SteadyClock
from tests.service.serving import declare, service


class Hands:
    """Clocks to turn by hand."""

    def __init__(self) -> None:
        self.wall, self.steady, self.latest = 1000.0, 5.0, 0.0

    def clock(self) -> SteadyClock:
        return SteadyClock(lambda: self.wall, lambda: self.latest, lambda: self.steady)

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


def test_it_is_the_clock_while_that_goes_on() -> None:
    hands = Hands()
    now = hands.clock()
    for _ in range(5):
        hands.passes(0.25)
        assert now() == hands.wall
    hands.wall += 3600.0  # set on, or the machine slept
    assert now() == hands.wall


def test_a_clock_that_is_set_back_is_waited_for_under_way() -> None:
    hands = Hands()
    now = hands.clock()
    hands.wall -= 60.0
    assert now() == pytest.approx(1000.0)
    hands.passes(100.0)
    assert now() == pytest.approx(1000.0 + PACE * 100.0)
    hands.passes(500.0)  # ten times as long as it was set back by: it has caught up
    assert now() == pytest.approx(hands.wall)
    hands.passes(1.0)
    assert now() == hands.wall


def test_a_pool_that_is_ahead_goes_on_from_its_latest_event() -> None:
    """After a restart: the journal's times are later than the clock's."""
    hands = Hands()
    hands.latest = 5000.0
    now = hands.clock()
    assert now() == 5000.0
    hands.passes(10.0)
    assert now() == pytest.approx(5000.0 + PACE * 10.0)


@given(
    st.lists(
        st.tuples(st.floats(0.01, 100.0), st.sampled_from([0.0, 0.0, -3600.0, 1800.0])),
        max_size=30,
    )
)
def test_time_always_goes_on(moves: list[tuple[float, float]]) -> None:
    hands = Hands()
    now = hands.clock()
    before = now()
    for seconds, jump in moves:
        hands.passes(seconds)
        hands.wall += jump
        after = now()
        assert after >= before + PACE * seconds - 1e-6
        before = after


def test_offers_end_although_the_clock_was_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock was a day ahead for a moment; no deadline came for a day."""
    with service() as client:
        declare(client, 2, auto_accept=False, offer_timeout=2.0)
        owner = client.node.owner("p")
        steady = owner.now
        monkeypatch.setattr(owner, "now", lambda: steady() + 86_400.0)
        client.assign()
        monkeypatch.setattr(owner, "now", steady)
        assert client.assign()["state"] == "offered"
        until = time.monotonic() + 60.0
        while client.pool()["counts"].get("slots_timed_out", 0) < 2:
            assert time.monotonic() < until
            time.sleep(0.05)
