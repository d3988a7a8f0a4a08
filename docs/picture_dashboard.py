"""Take the pictures of the dashboard that docs/ shows: a call center at sixty times its speed.

Run as ``python docs/picture_dashboard.py`` where Chromium and playwright are installed; it takes
about two minutes. ``picture`` takes a picture of any page.
"""

from __future__ import annotations

import heapq
import random
import shutil
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Page, sync_playwright

from opportune.client import Client, CreateTask, NewPlan, NoCapacityError
from opportune.service.stress_target import MARK

PICTURES = Path(__file__).parent / "how-to" / "pictures"
INSTANCE = Path(__file__).parents[1] / "examples" / "call-center" / "instance.toml"

POOL = "call-center"
STEP = "0.5"
"""Seconds that stand for a step of thirty."""

SECONDS = 110.0
"""How long calls come in before the pictures are taken."""

QUALITY = 80
"""Of WebP."""


def picture(page: Page, path: Path, height: int | None = None) -> None:
    """Save what a page shows as WebP.

    Args:
        page: Has been loaded, as wide as it is to be.
        path: The file.
        height: Pixels from the top of the page; None: what the window shows.
    """
    asked: dict[str, Any] = {"format": "webp", "quality": QUALITY}
    if height is not None:
        width = page.evaluate("innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        asked |= {"clip": clip, "captureBeyondViewport": True}
    session = page.context.new_cdp_session(page)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b64decode(session.send("Page.captureScreenshot", asked)["data"]))


@contextmanager
def served(folder: str) -> Iterator[str]:
    """A service with the example's pool; gives its address."""
    command = [sys.executable, "-m", "opportune", "serve", str(INSTANCE), "--load", "0.85"]
    command += ["--step", STEP, "--port", "0"]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    try:
        for line in process.stderr or ():
            if line.startswith(MARK):
                yield line.removeprefix(MARK).split()[0]
                return
        raise RuntimeError("the service did not start")
    finally:
        process.terminate()
        process.communicate()


def play(client: Client, seconds: float) -> None:
    """Calls come in and end at random, at the declared rates and durations."""
    chance = random.Random(7)
    types = [one.settings for one in client.list_task_types(POOL)]
    rates = [one.rate or 0.0 for one in types]
    mean = {one.id: one.mean_duration or 1.0 for one in types}
    running: list[tuple[float, str]] = []
    now = time.time()
    end, following = now + seconds, now
    while now < end:
        while running and running[0][0] <= now:
            client.complete(heapq.heappop(running)[1], value=float(chance.random() < 0.75))
        while following <= now:
            following += chance.expovariate(sum(rates))
            (name,) = chance.choices([one.id for one in types], rates)
            try:
                made = client.create_assignment(POOL, CreateTask(task_type=name))
            except NoCapacityError:
                continue
            until = now + chance.expovariate(1.0 / mean[name])
            heapq.heappush(running, (until, made.assignment_id))
        time.sleep(0.01)
        now = time.time()


def photograph(address: str) -> None:
    """Wide and light, narrow and dark, and the why of a decision."""
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=chromium)
        for name, scheme, width, height in (
            ("dashboard", "light", 1200, 1990),
            ("dashboard-narrow", "dark", 390, 1500),
        ):
            size = {"width": width, "height": 800}
            page = browser.new_page(color_scheme=scheme, viewport=size)
            page.goto(f"{address}/dashboard/{POOL}")
            page.locator("#demand-chart canvas").wait_for()
            page.locator("#live[data-state=on]").wait_for()
            picture(page, PICTURES / f"{name}.webp", height)
            if name == "dashboard":
                rows = page.locator("[data-part=decisions] tbody tr")
                rows.filter(has_not_text="dropped").first.locator("button").click()
                page.locator("dialog[open] table").first.wait_for()
                page.locator("#why-title").hover()
                picture(page, PICTURES / "why.webp")
            page.close()
        browser.close()


if __name__ == "__main__":
    with TemporaryDirectory() as folder, served(folder) as address:
        with Client(address) as client:
            shadow = NewPlan(id="greedy", policy="greedy", activate=False, shadow=True)
            client.make_plan(POOL, shadow)
            play(client, SECONDS)
        photograph(address)
