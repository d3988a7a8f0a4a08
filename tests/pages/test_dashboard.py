"""The dashboard in a real browser: what it shows is what the API says, live and for everyone."""

from __future__ import annotations

from collections import Counter
from typing import Any

import httpx
import pytest

from tests.client.serving import Served
from tests.pages.browsing import faults, loose_numbers, number, open_all, too_wide
from tests.pages.conftest import OpenPage, assign, declare

SIZES = [(scheme, width) for scheme in ("light", "dark") for width in (1280, 375)]


def shown(page: Any) -> Any:
    """Wait until a pool is shown with its charts."""
    page.locator("#board").wait_for()
    page.locator("#live[data-state=on]").wait_for()
    page.locator("#heat-chart canvas").wait_for()
    return page


def test_the_root_leads_to_the_pools(served: Served, open_page: OpenPage) -> None:
    page = open_page(served.url)
    page.locator("#choose").wait_for()
    assert page.url.endswith("/dashboard")
    names = page.locator("#pool-list a").all_inner_texts()
    assert {"desk", "empty", "evil", "line"} <= set(names)
    page.locator("#pool-list a", has_text="desk").click()
    assert shown(page).title() == "desk · Opportune"


def test_a_decision_appears_by_itself(
    served: Served, api: httpx.Client, open_page: OpenPage
) -> None:
    page = shown(open_page(f"{served.url}/dashboard/desk"))
    before = number(page, "created")
    made = assign(api, "desk", "call")
    page.locator(f"[data-decision='{made['decision_id']}']").wait_for()
    assert number(page, "created") == before + 1
    api.post(f"/v1/tasks/{made['task_id']}:cancel").raise_for_status()


def test_numbers_are_those_of_the_api(
    served: Served, api: httpx.Client, open_page: OpenPage
) -> None:
    page = shown(open_page(f"{served.url}/dashboard/desk"))
    pool = api.get("/v1/pools/desk").json()
    servers = api.get("/v1/pools/desk/servers").json()
    assert number(page, "free") == pool["servers_free"]
    assert number(page, "slots_open") == pool["slots_open"]
    assert number(page, "tasks_open") == pool["tasks_open"]
    assert number(page, "created") == pool["counts"]["created"]
    assert number(page, "done") == pool["counts"]["done"] > 0
    assert number(page, "reward") == pool["reward"] == 0.75
    assert number(page, "capacity_mismatch") == 0
    states = Counter(one["state"] for one in servers)
    within = "[data-part=servers]"
    assert number(page, "drained", within) == states["draining"] == 1
    busy = ("busy", "offered", "wrapping")
    assert sum(number(page, one, within) for one in busy) == states["busy"]
    assert number(page, "offered", within) >= 1
    plan = next(one for one in api.get("/v1/pools/desk/plans").json() if one["active"])
    assert number(page, "bound", "[data-part=plans]") == plan["bound"]
    document = api.get(f"/v1/pools/desk/plans/{plan['id']}").json()
    document = document.get("document") or document
    open_all(page)
    shown_prices = page.locator("[data-part=prices-table] data[data-figure=capacity_price]")
    found = sorted(float(one.get_attribute("value")) for one in shown_prices.all())
    assert found == pytest.approx(sorted(document["capacity_price"]))


def test_every_number_has_a_unit_and_a_meaning(
    served: Served, api: httpx.Client, open_page: OpenPage
) -> None:
    for pool in ("desk", "line", "evil"):
        page = shown(open_page(f"{served.url}/dashboard/{pool}"))
        open_all(page)
        page.locator("[data-decision]").first.click()
        page.locator("dialog[open] table").first.wait_for()
        assert page.locator("data.number").count() > 50
        assert loose_numbers(page) == []
    page.evaluate("document.querySelector('main').append('7 of them')")
    assert loose_numbers(page) == ["loose: 7 of them"]


def test_names_are_text_and_nothing_else(served: Served, open_page: OpenPage) -> None:
    page = shown(open_page(f"{served.url}/dashboard/evil"))
    open_all(page)
    page.locator("[data-decision]").first.click()
    page.locator("dialog[open] table").first.wait_for()
    assert "<img src=x" in page.locator("#why-body").inner_text()
    page.keyboard.press("Escape")
    canvas = page.locator("#heat-chart canvas").bounding_box()
    page.mouse.move(canvas["x"] + canvas["width"] * 0.4, canvas["y"] + canvas["height"] * 0.7)
    page.locator("#tip", has_text="<img src=x").wait_for()
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img, dialog img, #tip img").count() == 0


def test_nothing_is_asked_of_anyone_but_the_node(served: Served, open_page: OpenPage) -> None:
    page = open_page("about:blank")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    answer = page.goto(f"{served.url}/dashboard/desk")
    shown(page)
    assert len(asked) > 8
    assert [one for one in asked if not one.startswith(served.url)] == []
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy


def test_a_lost_connection_is_told_and_made_again(own: Served, open_page: OpenPage) -> None:
    with httpx.Client(base_url=own.url, timeout=60.0) as client:
        declare(client, "p", ["s0", "s1"], {"t": [1.0, 0.5]})
        assign(client, "p", "t")
    page = shown(open_page(f"{own.url}/dashboard/p", allowed="ERR_"))
    streams: list[str] = []
    page.on("request", lambda one: streams.append(one.url) if "/events?" in one.url else None)
    own.kill()
    page.locator("#banner", has_text="connection to the node is lost").wait_for()
    assert "Shown is the pool at" in page.locator("#banner").inner_text()
    assert page.locator("#live").get_attribute("data-state") == "off"
    assert page.locator("[data-decision]").count() == 1
    own.start()
    page.locator("#live[data-state=on]").wait_for()
    page.locator("#banner").wait_for(state="hidden")
    after = int(streams[-1].rpartition("=")[2])
    assert after > 0
    with httpx.Client(base_url=own.url, timeout=60.0) as client:
        made = assign(client, "p", "t")
    page.locator(f"[data-decision='{made['decision_id']}']").wait_for()


def test_a_decision_is_explained(served: Served, api: httpx.Client, open_page: OpenPage) -> None:
    page = shown(open_page(f"{served.url}/dashboard/desk", allowed="404"))
    button = page.locator("[data-decision='desk.d1']")
    button.focus()
    page.keyboard.press("Enter")
    page.locator("dialog[open] table").first.wait_for()
    body = api.get("/v1/decisions/desk.d1").json()
    within = "dialog"
    pick = body["picks"][0]
    for name in ("index", "score", "opportunity_cost", "capacity_price", "propensity"):
        assert number(page, name, within) == pick[name]
    parts = number(page, "demand_part", within) + number(page, "capacity_part", within)
    assert parts == pytest.approx(pick["opportunity_cost"])
    assert pick["score"] - parts == pytest.approx(pick["index"])
    roles = page.locator("dialog .role").all_inner_texts()
    assert roles[:2] == ["picked", "runner-up"]
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="hidden")
    assert page.evaluate("document.activeElement.dataset.decision") == "desk.d1"
    page.fill("#decision", "desk.d999")
    page.keyboard.press("Enter")
    page.locator("dialog[open]", has_text="no decision").wait_for()


@pytest.mark.parametrize(("scheme", "width"), SIZES)
def test_no_serious_fault_of_accessibility(
    served: Served, open_page: OpenPage, axe: Any, scheme: str, width: int
) -> None:
    page = shown(open_page(f"{served.url}/dashboard/desk", scheme, width))
    open_all(page)
    assert faults(axe, page) == []
    assert too_wide(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("[data-decision]").first.click()
    page.locator("dialog[open] table").first.wait_for()
    assert faults(axe, page) == []


def test_faults_of_accessibility_are_found(served: Served, open_page: OpenPage, axe: Any) -> None:
    page = shown(open_page(f"{served.url}/dashboard/line"))
    assert faults(axe, page) == []
    page.evaluate("document.querySelector('label[for=decision]').remove()")
    page.evaluate("document.querySelector('#decision').placeholder = ''")
    assert [one.partition(":")[0] for one in faults(axe, page)] == ["label"]


def test_keyboard_alone_reads_what_a_number_means(served: Served, open_page: OpenPage) -> None:
    page = shown(open_page(f"{served.url}/dashboard/desk"))
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Free"
    told = page.locator("#tip").inner_text()
    assert told.startswith("Each server counts once.")
    assert told.endswith("Unit: servers.")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Escape")
    page.locator("#tip").wait_for(state="hidden")


def test_without_the_chart_library_the_tables_remain(
    served: Served, api: httpx.Client, open_page: OpenPage
) -> None:
    page = open_page("about:blank", allowed="charts are not drawn")
    page.route("**/vega.js", lambda route: route.fulfill(body="", content_type="text/javascript"))
    page.goto(f"{served.url}/dashboard/desk")
    page.locator("#heat-chart", has_text="its numbers are in the table").wait_for()
    open_all(page)
    assert page.locator("[data-part=prices-table] data.number").count() > 10
    page.unroute("**/vega.js")
    made = assign(api, "desk", "chat")
    page.locator("#heat-chart canvas").wait_for()
    assert "could not be drawn" not in page.locator("main").inner_text()
    api.post(f"/v1/tasks/{made['task_id']}:cancel").raise_for_status()


def test_a_tab_in_the_background_lets_go(
    served: Served, api: httpx.Client, open_page: OpenPage
) -> None:
    page = shown(open_page(f"{served.url}/dashboard/desk"))
    hide = "Object.defineProperty(document, 'hidden', {value: %s, configurable: true});"
    tell = "document.dispatchEvent(new Event('visibilitychange'))"
    ended: list[str] = []
    page.on("requestfailed", lambda one: ended.append(one.url))
    page.evaluate(hide % "true" + tell)
    made = assign(api, "desk", "chat")
    while not [one for one in ended if "/events?" in one]:
        page.wait_for_event("requestfailed")
    page.wait_for_timeout(1_500)
    assert page.locator(f"[data-decision='{made['decision_id']}']").count() == 0
    page.evaluate(hide % "false" + tell)
    page.locator(f"[data-decision='{made['decision_id']}']").wait_for()
    api.post(f"/v1/tasks/{made['task_id']}:cancel").raise_for_status()


def test_a_page_can_be_held_still(served: Served, api: httpx.Client, open_page: OpenPage) -> None:
    page = shown(open_page(f"{served.url}/dashboard/desk"))
    page.locator("#pause").click()
    before = number(page, "created")
    made = assign(api, "desk", "chat")
    page.wait_for_timeout(1_500)
    assert number(page, "created") == before
    page.locator("#pause").click()
    page.locator(f"[data-decision='{made['decision_id']}']").wait_for()
    api.post(f"/v1/tasks/{made['task_id']}:cancel").raise_for_status()
