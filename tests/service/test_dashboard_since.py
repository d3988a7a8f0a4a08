"""From when on the dashboard compares: what was declared anew, and a plan that has just begun."""

from __future__ import annotations

import pytest

from opportune.service.commands import CreateTask, PutServer, PutTaskType, RemoveServer
from opportune.service.dashboard.course import SETTLED, course
from opportune.service.dashboard.theory import blocking
from opportune.service.resources import ServerSettings, TaskTypeSettings
from tests.service.pools import Pool, pool_of
from tests.service.test_dashboard import busy_pool, history_of


def test_blocking_counts_from_where_rates_and_servers_hold() -> None:
    """Theory knows what is declared now: neither its line nor the mean reaches further back."""
    types = {"a": {"rate": 0.1, "mean_duration": 5.0}}
    pool = pool_of({"a": [1, 1, 1]}, types)
    for i in range(40):
        pool.do(CreateTask(task_type="a"), 10.0 + 0.5 * i)
    rows = course(pool.state, history_of(pool), "15m", 32.0).charts["blocking-chart"]
    before = blocking(pool.state, set()).value
    assert before is not None
    theory = {row["time"]: row["value"] for row in rows if row["line"] == "theory"}
    assert list(theory.values()) == pytest.approx([100 * before] * len(theory), rel=1e-5)
    begun = min(theory)
    assert (
        "when rates, durations or servers changed"
        not in (course(pool.state, history_of(pool), "15m", 32.0).parts["blocking"])
    )
    again = TaskTypeSettings(id="a", rate=0.1, mean_duration=5.0)
    pool.do(PutTaskType(settings=again), 33.0)  # as it was
    pool.do(PutServer(settings=ServerSettings(id="s0", available=False)), 34.0)  # theory's reasons
    assert min(_times(pool, "theory", 35.0)) == begun
    pool.do(RemoveServer(server="s2"), 41.0)
    pool.do(CreateTask(task_type="a"), 41.5)
    found = course(pool.state, history_of(pool), "15m", 47.0)
    after = blocking(pool.state, set()).value
    assert after is not None
    assert after > before
    assert _times(pool, "theory", 47.0) == [40_000, 45_000]
    means = [row["value"] for row in found.charts["blocking-chart"] if row["line"] == "mean"]
    assert len(means) > 2  # the old ones stay
    assert means[-1] in (0.0, 100.0)  # of one task
    assert "when rates, durations or servers changed" in found.parts["blocking"]


def _times(pool: Pool, line: str, now: float) -> list[int]:
    """Where a line of the chart of blocking has points."""
    rows = course(pool.state, history_of(pool), "15m", now).charts["blocking-chart"]
    return [row["time"] for row in rows if row["line"] == line]


def test_another_plan_has_no_mean_at_once() -> None:
    pool = busy_pool()
    since = pool.state.activated["plan"]
    history = history_of(pool)
    for later, shown in ((0.5, False), (SETTLED + 0.5, True)):
        rows = course(pool.state, history, "15m", since + later).charts["reward-chart"]
        assert any(row["line"] == "mean" for row in rows) == shown
