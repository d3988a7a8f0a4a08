"""Metrics that alerts need: they say what they are called, on a pool whose state is known."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from opportune.pricing.blocking import erlang_loss
from tests.service.serving import Client, declare, service


def read(client: Client) -> dict[str, Any]:
    """Value of each sample of pool ``p`` and of those without a pool; labels behind the name."""
    found = {}
    for family in text_string_to_metric_families(client("GET", "/metrics").text):
        for sample in family.samples:
            labels = {name: value for name, value in sample.labels.items() if name != "pool"}
            name = sample.name.removeprefix("opportune_")
            found[" ".join([name, *labels.values()])] = sample.value
    return found


def test_a_pool_that_is_well(tmp_path: Path) -> None:
    with service(tmp_path / "x.db") as client:
        declare(client, servers=3, plan_max_age=1000.0)
        before = read(client)
        assert before["degraded"] == 1  # no plan yet
        assert "rate_drift" not in before
        client.good("POST", "/v1/pools/p/plans", {})
        found = read(client)
        assert found["degraded"] == 0
        assert found["plan_age_limit_seconds"] == 1000.0
        assert found["plan_age_seconds"] < 1000.0
        assert found["rate_drift"] == 0
        assert found["blocking_theory_ratio exact"] == pytest.approx(erlang_loss(0.1 * 5.0, 3))
        assert (found["servers"], found["servers_quarantined"]) == (3, 0)
        assert found["wait_seconds_max"] == 0
        files = [tmp_path / "x.db", tmp_path / "x.db-wal"]
        assert found["journal_bytes"] == sum(file.stat().st_size for file in files)
        assert found["journal_free_bytes"] > 0


def test_a_pool_that_is_not(tmp_path: Path) -> None:
    began = time.monotonic()
    with service() as client:
        declare(client, servers=2, mode="queue", quarantine_after=1, quarantine_backoff=600.0)
        client.good("POST", "/v1/pools/p/plans", {})
        for _ in range(3):
            client("POST", "/v1/pools/p/assignments", {"task_type": "t"})
        time.sleep(0.2)
        found = read(client)
        assert 0.2 <= found["wait_seconds_max"] < 1.0 + time.monotonic() - began
        assert "blocking_theory_ratio exact" not in found
        assert "journal_bytes" not in found  # there is no file
        name = client.good("GET", "/v1/pools/p/servers")[0]["assignments"][0]
        client.good("POST", f"/v1/assignments/{name}:fail", {"reason": "broken"})
        assert read(client)["servers_quarantined"] == 1
        client.good("PUT", "/v1/pools/p/servers/s9", {"id": "s9"})
        client.good("PUT", "/v1/pools/p/scores", {"rows": [["t", "s9", 0.5]], "replace": False})
        client.good("PUT", "/v1/pools/p/task-types/new", {"id": "new"})
        assert read(client)["degraded"] == 1  # the plan does not know the type
