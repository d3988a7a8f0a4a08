"""What the dashboard shows: counts over time, theory, reduced prices, and to whom."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import vl_convert

from opportune.service.commands import (
    Accept,
    Complete,
    CreateTask,
    PutPlan,
    PutServer,
)
from opportune.service.dashboard.charts import CONFIG, charts
from opportune.service.dashboard.course import course
from opportune.service.dashboard.figures import FIGURES, name_of, number, percent, plain
from opportune.service.dashboard.heat import MOST_COLUMNS, MOST_TYPES, heat
from opportune.service.dashboard.history import PINNED, WINDOWS, Bin, History
from opportune.service.dashboard.present import servers_of
from opportune.service.events import TaskCreated, encode
from opportune.service.journal import Append
from opportune.service.keys import KeyFile
from opportune.service.memory import MemoryJournal
from opportune.service.resources import ServerSettings
from tests.service.pools import Pool, pool_of
from tests.service.priced import priced, two_types
from tests.service.serving import declare, service


def history_of(pool: Pool) -> History:
    """The counts of everything that a pool did."""
    found = History()
    for event in pool.log:
        found.add(event)
    return found


def busy_pool(**settings: Any) -> Pool:
    """Tasks at irregular times, many of them dropped, and a plan after a while."""
    pool = two_types(**settings)
    for i in range(200):
        when = 1000.0 + 1.7 * i + (i % 7) * 0.1
        if i == 60:
            pool.ok(PutPlan(plan=priced(), activate=True), when)
        if i % 5 == 0:
            for task in list(pool.state.tasks.values()):
                if task.ended is None:
                    pool.ok(Complete(assignment=f"p.a{task.number}"), when)
        pool.do(CreateTask(task_type="ab"[i % 2]), when)
    return pool


def count_slowly(pool: Pool, start: float, end: float) -> tuple[int, int, float]:
    """Tasks, drops and score of a stretch of time, straight from the log."""
    events = [one for one in pool.log if start <= one.time < end]
    kinds = [type(one).__name__ for one in events]
    picks = [pick for one in events for pick in getattr(one, "picks", [])]
    score = sum(pick.score or 0.0 for pick in picks)
    return kinds.count("TaskCreated"), kinds.count("TaskDropped"), score


@pytest.mark.parametrize("window", WINDOWS)
def test_history_counts_what_the_journal_says(window: str) -> None:
    pool = busy_pool()
    found = history_of(pool).bins(window, pool.now)
    seconds, n = WINDOWS[window]
    assert 0 < len(found) <= n
    assert [one.start for one in found] == [found[0].start + seconds * i for i in range(len(found))]
    for one in found:
        created, dropped, score = count_slowly(pool, one.start, one.start + seconds)
        assert (one.created, one.dropped) == (created, dropped)
        assert one.score == pytest.approx(score)
    assert sum(one.dropped for one in found) > 10
    assert found[-1].plan == "plan"


def test_stretches_without_events_are_empty_and_old_ones_fall_out() -> None:
    pool = busy_pool()
    history = history_of(pool)
    later = history.bins("15m", pool.now + 300.0)
    assert [one.created for one in later[-59:]] == [0] * 59
    assert {one.plan for one in later[-59:]} == {"plan"}
    gone = history.bins("15m", pool.now + 10_000.0)
    assert len(gone) == WINDOWS["15m"][1]
    assert sum(one.created for one in gone) == 0
    assert {one.plan for one in gone} == {"plan"}


def test_the_mean_against_the_bound_counts_from_the_plan_on() -> None:
    pool = busy_pool()
    history, now = history_of(pool), pool.now + 3.0
    since = pool.state.activated["plan"]
    _, _, score = count_slowly(pool, since, now)
    found = course(pool.state, history, "4h", now)
    mean = score / (now - since)
    bound = pool.state.plans["plan"].bound
    assert bound is not None
    latest = [row["value"] for row in found.charts["reward-chart"] if row["line"] == "mean"][-1]
    assert latest == pytest.approx(mean, rel=1e-5)
    assert f'value="{mean / bound!r}"'[:15] in found.parts["reward"]
    rows = found.charts["blocking-chart"]
    shares = [row["value"] for row in rows if row["line"] == "mean"]
    created, dropped, _ = count_slowly(pool, 0.0, now)
    assert shares[-1] == pytest.approx(100 * dropped / created, rel=1e-5)


def test_history_reads_the_journal_on_and_skips_what_is_too_far_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    journal = MemoryJournal()
    token = journal.acquire("p")
    records = [
        encode(TaskCreated(time=float(i), task=i, task_type="t", k=1, deadline=9.0, pins=["s"]))
        for i in range(1, 31)
    ]
    journal.append(Append("p", token, 1, records[:20])).result()
    history = History()
    monkeypatch.setattr("opportune.service.dashboard.history.PAGE", 7)
    history.catch_up(journal, "p", 20)
    assert (history.cursor, history.since, history.complete) == (20, 1.0, True)
    journal.append(Append("p", token, 21, records[20:])).result()
    history.catch_up(journal, "p", 30)
    assert sum(one.created for one in history.bins("15m", 30.0)) == 30
    assert history.asides == {PINNED}
    monkeypatch.setattr("opportune.service.dashboard.history.READ_BACK", 10)
    fresh = History()
    fresh.catch_up(journal, "p", 30)
    assert (fresh.since, fresh.complete) == (21.0, False)
    fresh.catch_up(journal, "p", 4)  # another journal: a service without a database, started anew
    assert (fresh.cursor, fresh.since) == (4, 1.0)


def test_prices_of_a_large_pool_are_means_of_neighbors() -> None:
    n_types, n_servers = MOST_TYPES + 3, MOST_COLUMNS * 2 + 7
    scores = {f"t{v}": [float((7 * r + v) % 11) for r in range(n_servers)] for v in range(n_types)}
    scores["t0"][5] = None  # type: ignore[call-overload]
    pool = pool_of(scores)
    found = heat(pool.state)
    assert found.is_cut
    assert not found.priced
    assert len(found.types) == MOST_TYPES
    assert sum(found.sizes) == n_servers
    assert len(found.columns) == MOST_COLUMNS
    row, at = found.types.index("t0"), 0
    for c, size in enumerate(found.sizes):  # without prices in the order of the servers
        known = [one for one in scores["t0"][at : at + size] if one is not None]
        assert found.index[row, c] == pytest.approx(np.mean(known))
        assert found.permitted[row, c] == len(known)
        at += size
    rows = found.rows()
    assert len(rows) == MOST_TYPES * MOST_COLUMNS
    json.dumps(rows, allow_nan=False)


def test_prices_of_a_plan_stand_in_the_matrix() -> None:
    pool = two_types()
    document = priced()
    pool.ok(PutPlan(plan=document, activate=True))
    found = heat(pool.state)
    assert found.priced
    assert not found.is_cut
    assert sorted(found.capacity_price) == pytest.approx(sorted(document.capacity_price))
    assert list(found.capacity_price) == sorted(found.capacity_price)
    index = document.index.numpy()
    for v, name in enumerate(found.types):
        for c, server in enumerate(found.columns):
            place = (document.task_types.index(name), document.servers.index(server))
            assert found.index[v, c] == pytest.approx(index[place])


def test_servers_are_in_one_state_each() -> None:
    pool = pool_of({"a": [6.0, 5.0, 4.0, 3.0, 2.0, 1.0]}, auto_accept=False, wrap_up=5.0)
    made = [pool.task("a").assignment_id for _ in range(3)]
    for name in made[:2]:
        pool.ok(Accept(assignment=name))
    pool.ok(Complete(assignment=made[0]))
    pool.ok(PutServer(settings=ServerSettings(id="s4", drain=True)))
    pool.ok(PutServer(settings=ServerSettings(id="s5", available=False)))
    found = [one.state for one in servers_of(pool.state)]
    assert found == ["wrapping", "busy", "offered", "free", "drained", "away"]


def test_every_kind_of_number_explains_itself() -> None:
    for name, figure in FIGURES.items():
        assert figure.label, name
        assert figure.unit, name
        assert figure.meaning.endswith("."), name
        assert len(figure.meaning) > 20, name


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (3, "3"),
        (1234567.0, "1,234,567"),
        (0.123456, "0.1235"),
        (12.5, "12.5"),
        (12345.6, "12,346"),
        (-0.25, "-0.25"),
        (1e-9, "1e-09"),
        (100.0, "100"),
        (1e300, "1" + "0" * 300),
    ],
)
def test_numbers_are_short(value: float, shown: str) -> None:
    told = plain(value)
    assert told == shown or abs(value) >= 1e15
    assert float(told.replace(",", "")) == pytest.approx(value, rel=1e-3)


def test_numbers_and_names_as_markup() -> None:
    assert percent(1e-9) == "<0.0001"
    assert percent(0.5) == "50"
    told = number("blocked", 0.125)
    assert 'value="0.125"' in told
    assert ">12.5<" in told
    assert number("blocked", None).startswith('<span class="none"')
    assert number("blocked", float("nan")).startswith('<span class="none"')
    assert "&lt;0.0001" in number("blocked", 1e-9)
    assert name_of("<b>'\"&") == '<span class="name" dir="auto">&lt;b&gt;&#x27;&quot;&amp;</span>'


@pytest.mark.parametrize("name", charts())
def test_charts_are_vega_lite(name: str) -> None:
    spec = {**charts()[name], "config": CONFIG, "datasets": {"rows": []}}
    text = json.dumps(spec).replace('"width": "container"', '"width": 300')
    compiled = vl_convert.vegalite_to_vega(text)
    assert compiled["marks"]
    used = {field for field in text.split('"') if field.startswith("var(--")}
    assert used


def test_colors_of_the_charts_are_in_the_style_light_and_dark() -> None:
    place = Path(__file__).parents[2] / "src/opportune/service/dashboard/dashboard.css"
    light, _, dark = place.read_text(encoding="utf-8").partition("@media (prefers-color-scheme")
    text = json.dumps([charts(), CONFIG])
    for name in {one.partition(")")[0] for one in text.split("var(")[1:]}:
        assert f"{name}:" in light
        assert f"{name}:" in dark


def test_the_page_is_for_all_and_what_fills_it_for_readers(tmp_path: Path) -> None:
    database = tmp_path / "journal.db"
    keys = KeyFile(tmp_path / "journal.db.keys.json")
    admin, reader, decider = (keys.create([one]) for one in ("admin", "read", "decide"))
    with service(database) as client:

        def bearer(key: str) -> dict[str, str]:
            return {"authorization": f"Bearer {key}"}

        assert client("GET", "/").url.path == "/dashboard"
        for path in ("/dashboard", "/dashboard/p", "/dashboard/-/dashboard.js"):
            answer = client("GET", path)
            assert answer.status_code == 200
            assert "unsafe" not in answer.headers["content-security-policy"]
            assert answer.headers["x-content-type-options"] == "nosniff"
        tag = answer.headers["etag"]
        again = client("GET", "/dashboard/-/dashboard.js", if_none_match=tag)
        assert (again.status_code, again.content) == (304, b"")
        assert client("GET", "/dashboard/-/..%2Fapp.py").status_code == 404
        assert client("GET", "/dashboard/-/figures.py").status_code == 404
        assert client("PUT", "/v1/pools/p", {}, **bearer(admin)).status_code == 201
        view = "/v1/pools/p/view"
        assert client("GET", view).status_code == 401
        assert client("GET", view, **bearer(decider)).status_code == 403
        assert client("GET", view, **bearer(reader)).status_code == 200
        assert client("GET", "/v1/pools/q/view", **bearer(reader)).status_code == 404
        assert client("GET", f"{view}?window=1y", **bearer(reader)).status_code == 422
        assert client("GET", f"{view}?wanted=odd", **bearer(reader)).status_code == 422


def test_who_was_passed_over_is_for_administrators(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "journal.db.keys.json")
    with service(tmp_path / "journal.db") as client:
        declare(client, servers=2)
        client.assign(conflicts=["s0"])
        decision = "/v1/pools/p/view/p.d1"
        assert "conflict" in client.good("GET", decision)["html"]
        reader = keys.create(["read"])
        client.node.keys._looked = 0.0
        told = client.good("GET", decision, authorization=f"Bearer {reader}")["html"]
        assert "conflict" not in told
        assert "shown to keys with the scope admin" in told
        other = client("GET", "/v1/pools/p/view/q.d1", authorization=f"Bearer {reader}")
        assert other.status_code == 404


def test_prices_are_sent_once() -> None:
    with service() as client:
        declare(client, servers=3)
        first = client.good("GET", "/v1/pools/p/view")
        assert len(first["charts"]["heat-chart"]) == 3
        again = client.good("GET", f"/v1/pools/p/view?prices={first['prices']}")
        assert "heat-chart" not in again["charts"]
        assert "prices" not in again["parts"]
        client.good("PUT", "/v1/pools/p/servers/s9", {"id": "s9"})
        changed = client.good("GET", f"/v1/pools/p/view?prices={first['prices']}")
        assert changed["prices"] != first["prices"]
        assert "heat-chart" in changed["charts"]


def test_servers_are_listed_by_state_and_name() -> None:
    with service() as client:
        declare(client, servers=3)
        client.assign()
        table = "servers-table"
        every = client.good("GET", "/v1/pools/p/view")["parts"][table]
        assert every.count("<tr>") == 4
        busy = client.good("GET", "/v1/pools/p/view?wanted=busy")["parts"][table]
        assert busy.count("<tr>") == 2
        one = client.good("GET", "/v1/pools/p/view?find=S2")["parts"][table]
        assert one.count("<tr>") == 2
        assert ">s2<" in one
        none = client.good("GET", "/v1/pools/p/view?find=%3Cscript%3E")["parts"][table]
        assert "No server is like that." in none


def test_one_of_a_thing_is_one() -> None:
    assert "> server</span>" in number("free", 1)
    assert "> servers</span>" in number("free", 2)
    assert "> servers</span>" in number("free", 0)


def test_a_bin_knows_since_when_a_plan_is_in_force() -> None:
    found = Bin(10.0, score=3.0, plan="a", own=3.0)
    found.under("a", 12.0)
    assert found.own == 3.0
    found.under("b", 13.0)
    assert (found.plan, found.since, found.own, found.score) == ("b", 13.0, 0.0, 3.0)


def test_a_split_pool_is_shown_with_its_parts() -> None:
    with service() as client:
        declare(client, servers=4, partitions=2, deal_period=60.0)
        client.good("POST", "/v1/pools/p/plans", {})
        client.assign()
        seen = client.good("GET", "/v1/pools/p/view")
        for part in ("reward", "reward-table", "blocking", "blocking-table"):
            assert "on the pages of its parts" in seen["parts"][part]
        assert seen["charts"]["reward-chart"] == seen["charts"]["blocking-chart"] == []
        assert "on the pages of the pool" in seen["parts"]["decisions"]
        pool = client.good("GET", "/v1/pools/p")
        assert pool["servers"] == 4
        assert f'value="{float(pool["servers_free"])!r}"' in seen["parts"]["servers"]
        assert seen["parts"]["servers-table"].count("<tr>") == 5
        for part in ("p--1", "p--2"):
            assert f'href="/dashboard/{part}"' in seen["parts"]["glance"]
            own = client.good("GET", f"/v1/pools/{part}/view")["parts"]
            listed = client.good("GET", f"/v1/pools/{part}")["servers"]
            assert own["servers-table"].count("<tr>") == listed + 1
            assert "the declared rates are those of all parts" in own["blocking"]
            assert "of all parts together" in own["reward"] or "No plan" in own["reward"]
