"""Large pools are priced in a process of their own: the same plans; canceled, killed, ended."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opportune.service import planner, pricing_process
from opportune.service.plan_jobs import PlanJob
from opportune.service.plan_parts import LARGE
from opportune.service.plan_runs import Run, declared
from opportune.service.planner import LARGE_POOL
from opportune.service.pricing_process import PricingProcess
from tests.service.priced import two_types
from tests.service.serving import Client, declare, service
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")

PLANS = "/v1/pools/p/plans"
SCORES: dict[str, list[float | None]] = {"t": [0.9, 0.5, 0.1], "u": [0.8, 0.7, 0.6]}


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A service that takes every pool for a large one."""
    monkeypatch.setattr(planner, "LARGE_POOL", 1)
    with service() as one:
        declare(one, 3, SCORES)
        yield one


def pid_of(client: Client) -> int:
    """The process where plans are priced."""
    process = eventually(lambda: client.node.planner.process._process)
    return int(process.pid)


def has_ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").exists() and " Z " in Path(f"/proc/{pid}/stat").read_text()


def stop_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is stopped as soon as it is there, so that it stays in the middle."""
    started = subprocess.Popen

    def stopped(*args: Any, **options: Any) -> Any:
        process = started(*args, **options)
        os.kill(process.pid, signal.SIGSTOP)
        return process

    monkeypatch.setattr(pricing_process.subprocess, "Popen", stopped)


def test_a_plan_from_a_process_is_the_one_from_the_thread(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.good("POST", PLANS, {"id": "one"})
    pid, process = pid_of(client), client.node.planner.process
    assert process.memory > 10_000_000 or not Path("/proc/self/status").exists()
    told = re.search(r"^opportune_pricing_memory_bytes (.*)$", client("GET", "/metrics").text, re.M)
    assert told is not None
    assert float(told[1]) == process.memory
    state = client.node.owner("p").state
    kept = [kept.routing for kept in state.kept_routings]
    assert client.assign()["plan"] == "one"
    assert any(state.routing is routing for routing in kept)  # it was not built again
    for one in (signal.SIGTERM, signal.SIGINT):  # what ends a service is sent to all of it
        os.kill(pid, one)
    client.good("POST", PLANS, {"id": "two", "rates": "measured", "policy": "greedy"})
    assert pid_of(client) == pid  # the same process
    monkeypatch.setattr(planner, "LARGE_POOL", LARGE_POOL)
    client.good("POST", PLANS, {"id": "three"})
    one, three = (client.good("GET", f"{PLANS}/{name}")["document"] for name in ("one", "three"))
    assert one.pop("id") != three.pop("id")
    assert one == three


def test_why_no_plan_can_be_made_is_told_as_ever(client: Client) -> None:
    client.good("PUT", "/v1/pools/p/task-types", [{"id": "v"}])
    answered = client("POST", PLANS, {"id": "one"})
    assert (answered.status_code, answered.json()["code"]) == (422, "invalid")
    assert answered.json()["problems"][0]["field"] == "task_types"
    assert "no rate or mean_duration for v" in client.good("GET", f"{PLANS}/one")["detail"]


def test_to_cancel_a_plan_ends_the_process(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as stopping:
        stop_at_once(stopping)
        client("POST", PLANS, {"wait": False, "id": "one"})
        pid = pid_of(client)
    assert client.good("GET", f"{PLANS}/one")["state"] == "pricing"
    assert client.good("POST", f"{PLANS}/one:cancel")["state"] == "canceled"
    eventually(lambda: has_ended(pid))
    eventually(lambda: client.node.planner.progress("p", "one") is None)
    assert client.good("GET", f"{PLANS}/one")["state"] == "canceled"
    assert client.good("POST", PLANS, {"id": "one"})["state"] == "active"
    assert pid_of(client) != pid


def test_a_process_that_ends_with_its_service_leaves_the_job(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as stopping:
        stop_at_once(stopping)  # before it can ignore signals
        client("POST", PLANS, {"wait": False, "id": "one"})
        pid = pid_of(client)
        os.kill(pid, signal.SIGTERM)
    os.kill(pid, signal.SIGCONT)
    eventually(lambda: client.good("GET", f"{PLANS}/one")["state"] == "active")
    assert pid_of(client) != pid


def test_a_process_that_is_killed_fails_its_plan_only(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as stopping:
        stop_at_once(stopping)
        client("POST", PLANS, {"wait": False, "id": "one"})
        os.kill(pid_of(client), signal.SIGKILL)
    eventually(lambda: client.good("GET", f"{PLANS}/one")["state"] == "failed")
    assert "code -9" in client.good("GET", f"{PLANS}/one")["detail"]
    assert client.good("POST", PLANS, {"id": "one"})["state"] == "active"


def test_the_process_ends_when_it_is_idle_and_with_the_service(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.good("POST", PLANS, {"id": "one"})
    pid = pid_of(client)
    client.node.planner.look()
    assert not has_ended(pid)
    monkeypatch.setattr(pricing_process, "KEPT_SECONDS", 0.0)
    eventually(lambda: client.node.planner.look() or has_ended(pid))
    assert "opportune_pricing_memory_bytes 0.0" in client("GET", "/metrics").text
    monkeypatch.setattr(pricing_process, "KEPT_SECONDS", 1e9)
    client.good("POST", PLANS, {"id": "two"})
    pid = pid_of(client)
    client.http.exit_stack.close()
    eventually(lambda: has_ended(pid))


PARENT = """
import sys, time
from opportune.service.pricing_process import PricingProcess
print(PricingProcess()._running().pid, flush=True)
time.sleep(600)
"""


def test_the_process_ends_with_a_node_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert not has_ended(pid)
        parent.kill()
    eventually(lambda: has_ended(pid))


def test_a_plan_that_nobody_wants_any_more_is_not_begun() -> None:
    process, run = PricingProcess(), Run()
    job = PlanJob("lag", "draft", "declared", "", 1.0, "", 0.0)
    run.cancel()
    with pytest.raises(pricing_process.PlanCanceledError):
        process.price(declared(two_types().state), "one", (job, run, 0.0))
    assert not process.is_there


def test_pools_are_large_long_before_their_plans_are() -> None:
    assert 2 * 8 * LARGE_POOL >= LARGE
