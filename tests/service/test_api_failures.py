"""Restarts, timers, and storage or an engine that fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from opportune.service.storing import state_hash
from tests.service.serving import declare, problem_of, servers_of, service
from tests.waiting import eventually

CREATE = "/v1/pools/p/assignments"


# ---------------------------------------------------------------------- restarts and failures


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    database = tmp_path / "p.db"
    with service(database) as client:
        declare(client, 3)
        client.good("POST", "/v1/pools/p/plans", {})
        made = client.assign()
        audit = client.good("GET", "/v1/pools/p/audit")
        before = state_hash(client.node.owner("p").state)
    with service(database) as client:
        assert state_hash(client.node.owner("p").state) == before
        assert client.good("GET", f"/v1/assignments/{made['assignment_id']}") == made
        assert client.good("GET", "/v1/pools/p/audit") == audit
        assert client.good("GET", "/v1/pools") == {"pools": ["p"]}


def test_snapshots_are_taken_under_way_and_lead_to_the_same_state(tmp_path: Path) -> None:
    database = tmp_path / "p.db"
    with service(database, snapshot_every=7) as client:
        declare(client, 3)
        for i in range(30):
            client.complete(client.assign(), value=i)
            snapshot = client.node.journal.snapshot("p")
        assert snapshot is not None
        assert 0 < snapshot.sequence <= client.node.owner("p").written


def test_timers_fire_by_themselves() -> None:
    with service() as client:
        declare(client, 1, lease=0.2)
        made = client.assign()
        path = f"/v1/assignments/{made['assignment_id']}"
        eventually(lambda: client.good("GET", path)["state"] == "lost")
        late = client.complete(made, value=1.0)
        assert late.status_code == 200
        assert client.pool()["reward"] == 1.0


def test_nothing_is_acknowledged_that_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failing disk: 503, the state is as before, and nothing is half there afterwards."""
    with service(tmp_path / "p.db") as client:
        declare(client)
        owner = client.node.owner("p")
        before = state_hash(owner.state)

        monkeypatch.setattr(client.node.journal, "_insert", _full)
        response = client("POST", CREATE, {"task_type": "t"}, idempotency_key="k")
        assert response.status_code == 503
        problem_of(response, "unavailable")
        assert state_hash(owner.state) == before
        assert "full" in client.bad(503, "unavailable", "GET", "/readyz")["detail"]
        monkeypatch.undo()
        assert client.free() == {"s0", "s1", "s2"}
        made = client("POST", CREATE, {"task_type": "t"}, idempotency_key="k")
        assert made.status_code == 201
        assert client.good("GET", "/readyz") == {"status": "ready"}


def _full(rows: Any) -> None:
    raise apsw.FullError("database or disk is full")


def test_a_fault_of_the_engine_does_not_reach_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    with service() as client:
        declare(client)
        owner = client.node.owner("p")
        before, decide = state_hash(owner.state), "opportune.service.owner.engine.decide"

        def broken(state: Any, *rest: Any) -> None:
            state.settings = None
            raise ZeroDivisionError

        with monkeypatch.context() as patch:
            patch.setattr(decide, broken)
            client.bad(500, "internal", "POST", CREATE, {"task_type": "t"})
        assert state_hash(owner.state) == before
        assert servers_of(client.assign()) == ["s0"]


def test_a_stale_owner_answers_nobody() -> None:
    """Somebody else took the pool over: writes fail, and so does what was decided."""
    with service() as client:
        declare(client)
        client.node.journal.acquire("p")
        response = client("POST", CREATE, {"task_type": "t"})
        assert response.status_code == 503
        assert client.free() == {"s0", "s1", "s2"}
