"""The dashboard of unlike pools: empty, without a plan, a queue, very large, behind a key."""

from __future__ import annotations

from pathlib import Path

import httpx

from opportune.service.keys import KeyFile
from opportune.service.settings import key_file_beside
from tests.client.serving import Served
from tests.pages.browsing import faults, loose_numbers, number, open_all
from tests.pages.conftest import OpenPage, declare
from tests.pages.test_dashboard import shown


def test_an_empty_pool(served: Served, open_page: OpenPage) -> None:
    page = open_page(f"{served.url}/dashboard/empty")
    page.locator("#live[data-state=on]").wait_for()
    text = page.locator("main").inner_text()
    for told in (
        "There are no servers yet",
        "No plan is in force",
        "There are no task types or no servers yet",
        "Nothing has been decided yet",
    ):
        assert told in text
    assert loose_numbers(page) == []


def test_a_pool_that_is_not_there(served: Served, open_page: OpenPage) -> None:
    page = open_page(f"{served.url}/dashboard/nowhere", allowed="404")
    page.locator("#banner", has_text="there is no pool 'nowhere'").wait_for()
    with httpx.Client(base_url=served.url, timeout=60.0) as client:
        declare(client, "nowhere", ["s0"], {"t": [1.0]})
    shown(page)
    assert page.locator("#banner").is_hidden()


def test_a_queue(served: Served, api: httpx.Client, open_page: OpenPage) -> None:
    page = shown(open_page(f"{served.url}/dashboard/line"))
    waiting = api.get("/v1/pools/line/tasks").json()
    rows = page.locator("[data-part=waiting] tbody tr")
    assert rows.count() == len(waiting) == 2
    for place, task in enumerate(waiting):
        assert task["task_id"] in rows.nth(place).inner_text()
        assert number(page, "position", f"[data-part=waiting] tr:nth-child({place + 1})") == (
            place + 1
        )
    text = page.locator("main").inner_text()
    assert "No plan with a bound is in force." in text
    assert "queue mode: tasks wait, none is dropped" in text


def test_assumptions_that_do_not_hold_are_told(served: Served, open_page: OpenPage) -> None:
    page = shown(open_page(f"{served.url}/dashboard/desk"))
    text = page.locator("[data-part=blocking]").inner_text()
    assert "Reference, not a bound: some servers take no tasks now" in text


def test_a_long_name_of_a_pool_does_not_make_the_page_wider(
    served: Served, api: httpx.Client, open_page: OpenPage
) -> None:
    """The list of pools was as wide as the longest name of any pool."""
    name = "l" + "o" * 62
    assert api.put(f"/v1/pools/{name}", json={}).is_success
    page = open_page(f"{served.url}/dashboard/{name}")
    page.set_viewport_size({"width": 375, "height": 800})
    page.locator("#live[data-state=on]").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == 375
    assert page.locator("#pool").bounding_box()["width"] > 100  # type: ignore[index]


def test_two_thousand_servers(served: Served, api: httpx.Client, open_page: OpenPage) -> None:
    names = [f"agent-{r:04d}" for r in range(2000)]
    types = {
        f"type-{v:02d}": [((7 * r + 13 * v) % 100) / 100 for r in range(2000)] for v in range(30)
    }
    declare(api, "large", names, types)
    page = shown(open_page(f"{served.url}/dashboard/large"))
    open_all(page)
    page.locator("[data-part=servers-table] tbody tr").first.wait_for()
    assert page.locator("[data-part=servers-table] tbody tr").count() == 100
    assert "100 rows of 2,000 rows are shown" in page.locator("main").inner_text()
    assert page.evaluate("document.querySelectorAll('*').length") < 10_000
    assert loose_numbers(page) == []
    page.fill("#find", "AGENT-1999")
    page.locator("[data-part=servers-table] tbody tr:only-child", has_text="agent-1999").wait_for()


def test_with_keys_the_page_asks_for_one(own: Served, open_page: OpenPage, tmp_path: Path) -> None:
    with httpx.Client(base_url=own.url, timeout=60.0) as client:
        declare(client, "p", ["s0", "s1"], {"t": [1.0, 0.5]})
        for _ in range(2):
            client.post("/v1/pools/p/assignments", json={"task_type": "t"}).raise_for_status()
    (database,) = tmp_path.glob("*.db")
    keys = KeyFile(key_file_beside(database))
    reader, admin, decider = (keys.create([one]) for one in ("read", "admin", "decide"))
    own.kill()
    own.start()
    page = open_page(f"{own.url}/dashboard/p", allowed="the server responded with a status of 40")
    page.locator("#ask").wait_for()
    assert page.locator("#board").is_hidden()
    page.fill("#key", "opp_nobody_knows")
    page.keyboard.press("Enter")
    page.locator("#key-told", has_text="does not know this key").wait_for()
    page.fill("#key", decider)
    page.keyboard.press("Enter")
    page.locator("#key-told", has_text="needs the scope 'read'").wait_for()
    page.fill("#key", reader)
    page.keyboard.press("Enter")
    shown(page)
    page.locator("[data-decision='p.d2']").click()
    page.locator("dialog[open]", has_text="shown to keys with the scope admin").wait_for()
    assert page.locator("#why-body th", has_text="Reason").count() == 0
    assert reader not in page.url
    assert page.evaluate("JSON.stringify(localStorage)") == "{}"
    page.reload()
    shown(page)
    page.locator("#forget").click()
    page.locator("#ask").wait_for()
    page.fill("#key", admin)
    page.keyboard.press("Enter")
    shown(page)
    page.locator("[data-decision='p.d2']").click()
    page.locator("#why-body th", has_text="Reason").wait_for()
    assert "busy" in page.locator("#why-body table").last.inner_text()


def test_the_key_form_is_accessible(own: Served, open_page: OpenPage, axe, tmp_path: Path) -> None:
    KeyFile(key_file_beside(tmp_path / "opportune.db")).create(["read"])
    own.kill()
    own.start()
    page = open_page(f"{own.url}/dashboard", allowed="401")
    page.locator("#ask").wait_for()
    assert faults(axe, page) == []
