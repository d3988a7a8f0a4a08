"""A router takes a state or a plan only if it is one of its own."""

from __future__ import annotations

from typing import Any

import pytest

from opportune.errors import InputError
from opportune.router import Router, RouterState

SCORES = [[0.9, 0.5, 0.4]]


def _state(router: Router, **other: Any) -> RouterState:
    fields = {"digest": router.instance.digest, "last": 2, "drawn": 0, "running": []} | other
    return RouterState(**fields)


@pytest.mark.parametrize(
    "running",
    [
        [(1, ["nobody"])],
        [(1, ["server-1", "server-1"])],
        [(3, ["server-1"])],
        [(0, ["server-1"])],
        [(1, ["server-1"]), (1, ["server-2"])],
        [(1, ["server-2"]), (2, ["server-2"])],
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(running: Any) -> None:
    """The last one: two slots of a server that has one; it was taken."""
    router = Router(SCORES, capacity=[2, 1, 1])
    router.decide(0)
    before = router.state()
    with pytest.raises(InputError, match="state"):
        router.restore(_state(router, running=running))
    assert router.state() == before
    router.restore(_state(router, running=[(1, ["server-1"]), (2, ["server-1"])]))
    assert router.decide(0).servers == ("server-2",)


@pytest.mark.parametrize("other", [{}, None, "x"])
def test_what_is_no_state_and_no_plan_is_refused(other: Any) -> None:
    router = Router(SCORES)
    with pytest.raises(InputError, match="state"):
        router.restore(other)
    with pytest.raises(InputError, match="plan"):
        router.use(other)
