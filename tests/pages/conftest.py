"""A real Chromium, a real service, and pools to look at."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.client.serving import Served

EVIL = '<img src=x onerror="window.hacked=1">'
SCRIPT = "s'\"><script>window.hacked=1</script>"
"""Names that are markup."""

OpenPage = Callable[..., Any]

PATIENCE = 120_000
"""Milliseconds that the browser waits for something to be so."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, driven by playwright; skipped where one of them is missing.

    Not for the whole session: the driver keeps an event loop running in this thread, and tests of
    other modules, which a worker runs in between, start their own.
    """
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("chromium is not installed: tests of pages look at them in a real browser")
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, timeout=PATIENCE)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe() -> Any:
    """The accessibility check."""
    found = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe")
    return found.Axe()


@pytest.fixture(scope="module")
def served(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with all kinds of pools, which tests only add to."""
    served = Served(tmp_path_factory.mktemp("pages"))
    try:
        with httpx.Client(base_url=served.url, timeout=60.0) as client:
            fill(client)
        yield served
    finally:
        served.kill()


@pytest.fixture
def api(served: Served) -> Iterator[httpx.Client]:
    """A client of the service."""
    with httpx.Client(base_url=served.url, timeout=60.0) as client:
        yield client


@pytest.fixture
def own(browser: Any, tmp_path: Path) -> Iterator[Served]:
    """A service of the test's own, which it may kill."""
    served = Served(tmp_path)
    yield served
    served.kill()


@pytest.fixture
def open_page(browser: Any) -> Iterator[OpenPage]:
    """Open a page of an address; its faults are in ``page.faults`` and end the test.

    ``scheme`` and ``width`` as wanted; ``allowed``: texts of console messages that are expected.
    """
    contexts = []
    pages: list[tuple[Any, list[str]]] = []

    def opened(address: str, scheme: str = "light", width: int = 1280, allowed: str = "") -> Any:
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
        contexts.append(context)
        page = context.new_page()
        faults: list[str] = []
        pages.append((page, faults))
        page.set_default_timeout(PATIENCE)

        def said(message: Any) -> None:
            if message.type in ("error", "warning") and not (allowed and allowed in message.text):
                faults.append(f"{message.text} {message.location}")

        page.on("console", said)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert [fault for _, faults in pages for fault in faults] == []


def fill(client: httpx.Client) -> None:
    """Pools of all kinds."""
    desk(client)
    client.put("/v1/pools/empty", json={}).raise_for_status()
    declare(client, "line", ["a", "b"], {"t": [1.0, 0.5]}, mode="queue", age_weight=0.01)
    for _ in range(4):
        client.post("/v1/pools/line/assignments", json={"task_type": "t"}).raise_for_status()
    declare(client, "evil", [EVIL, SCRIPT], {EVIL + "t": [1.0, 0.5]})
    client.post("/v1/pools/evil/plans", json={"id": EVIL + "p"}).raise_for_status()
    body = {"task_type": EVIL + "t", "external_id": EVIL}
    client.post("/v1/pools/evil/assignments", json=body).raise_for_status()


def declare(
    client: httpx.Client,
    pool: str,
    servers: list[str],
    scores: dict[str, list[float]],
    **settings: Any,
) -> None:
    """A pool with servers, types and scores."""
    base = f"/v1/pools/{pool}"
    client.put(base, json=settings).raise_for_status()
    client.put(f"{base}/servers", json=[{"id": name} for name in servers]).raise_for_status()
    types = [{"id": name, "rate": 0.1, "mean_duration": 5.0} for name in scores]
    client.put(f"{base}/task-types", json=types).raise_for_status()
    rows = [
        [name, server, score]
        for name, row in scores.items()
        for server, score in zip(servers, row, strict=True)
    ]
    client.put(f"{base}/scores", json={"rows": rows, "replace": True}).raise_for_status()


def desk(client: httpx.Client) -> None:
    """A pool with a plan, drops, declines and outcomes: something in every part of the page."""
    servers = [f"s{r}" for r in range(6)]
    scores = {"call": [0.9, 0.8, 0.7, 0.6, 0.5, 0.4], "chat": [0.2, 0.4, 0.6, 0.8, 0.9, 1.0]}
    offers = {"auto_accept": False, "offer_timeout": 86_400.0, "quarantine_after": None}
    declare(client, "desk", servers, scores, **offers)
    client.post("/v1/pools/desk/plans", json={"id": "first"}).raise_for_status()
    client.post("/v1/pools/desk/plans", json={"id": "second"}).raise_for_status()
    client.put("/v1/pools/desk/servers/s5", json={"id": "s5", "drain": True}).raise_for_status()
    made = [assign(client, "desk", name) for name in ("call", "chat", "call")]
    for one in made[:2]:
        client.post(f"/v1/assignments/{one['assignment_id']}:accept").raise_for_status()
    done = f"/v1/assignments/{made[0]['assignment_id']}:complete"
    client.post(done, json={"value": 0.75}).raise_for_status()


def assign(client: httpx.Client, pool: str, task_type: str) -> Any:
    """A task that must be assigned; the assignment."""
    response = client.post(f"/v1/pools/{pool}/assignments", json={"task_type": task_type})
    assert response.status_code == 201, response.text
    return response.json()
