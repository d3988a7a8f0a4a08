"""The page: it stands alone, says what was found, and is written at once or not at all."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opportune.cli import run
from opportune.cli.output import report_writer
from opportune.errors import InputError
from opportune.experiments.comparison import Comparison, compare
from opportune.experiments.excerpt import LOADS, SERVERS, TYPES, excerpt
from opportune.experiments.report import report_html
from opportune.experiments.report_tables import compare_command, plan_command
from opportune.experiments.settings import Settings
from opportune.model.catalog import catalog_instance
from opportune.model.duration import Deterministic, Geometric
from opportune.model.loss import loss_instance

SETTINGS = Settings(("greedy", "lag", "random"), steps=2000, replications=3)
TAG = "<b>&\"'</script><script>alert(1)</script>"
"""A name that would do harm in a page that believes it."""

VOID = {"meta", "input", "link", "img", "br"}


class Page(HTMLParser):
    """What a page is made of."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: dict[str, list[str]] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:  # paths of a picture close themselves
            while self.open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.words.setdefault(tag, []).append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def text(self, tag: str = "html") -> str:
        return " ".join(" ".join(self.words.get(tag, [])).split())


def embedded(text: str, name: str) -> Any:
    """The JSON of the page; NaN or Infinity in it is an error."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} in {name}")

    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', text, re.S)
    assert found is not None
    return json.loads(found[1], parse_constant=refuse)


@pytest.fixture(scope="module")
def single() -> Comparison:
    return compare(catalog_instance("specialist-v1", 0.7), SETTINGS)


@pytest.fixture(scope="module")
def sweep() -> list[Comparison]:
    return [compare(catalog_instance("specialist-v1", x), SETTINGS) for x in (0.3, 0.6, 0.9)]


def odd_instance() -> Any:
    """Forbidden pairs, several k, mixed durations, one type that never comes, harmful names."""
    rng = np.random.default_rng(5)
    allowed = rng.random((3, 5)) > 0.3
    allowed[:, :3] = True
    return loss_instance(
        rng.random((3, 5)),
        [0.2, 0.1, 0.0],
        [Geometric(4), Deterministic(6), Geometric(3)],
        [1, 2, 1],
        allowed=allowed,
        task_types=("a", TAG, "c"),
        servers=tuple(f"{TAG}{i}" for i in range(5)),
        name=TAG,
    )


@pytest.fixture(scope="module")
def odd() -> Comparison:
    return compare(odd_instance(), replace(SETTINGS, replications=1))


def test_the_page_fetches_nothing(single: Comparison, odd: Comparison) -> None:
    for comparison in (single, odd):
        text = report_html([comparison], "Title")
        page = Page(text)
        for tag, attributes in page.elements:
            assert tag not in {"link", "img", "iframe", "object", "base", "form"}
            assert not {"src", "href", "srcset", "action", "data"} & set(attributes), tag
        without_code = re.sub(r"<script>.*?</script>", "", text, flags=re.S)
        assert "http" not in without_code.replace("http-equiv", "")
        assert not re.search(r"url\(|@import", page.text("style"))
        (policy,) = [one["content"] for one in page.all("meta") if "Content-Security" in str(one)]
        assert policy is not None
        assert "default-src 'none'" in policy
        assert "script-src 'sha256-" in policy
        assert "unsafe-eval" not in policy


def test_every_chart_has_a_place_a_spec_and_words(sweep: list[Comparison]) -> None:
    text = report_html(sweep, "Title")
    page = Page(text)
    places = [one for one in page.all("div") if one.get("class") == "plot"]
    assert len(places) == 3 + 10 * len(sweep)  # over loads; in each load
    assert {one["id"] for one in places} == set(embedded(text, "chart-specs"))
    for one in places:
        assert one["role"] == "img"
        assert len(str(one["aria-label"])) > 40
    ids = [one["id"] for _, one in page.elements if "id" in one]
    assert len(ids) == len(set(ids))
    assert len(page.all("figcaption")) == len(page.all("figure")) == len(places)


def test_tables_are_tables(single: Comparison) -> None:
    page = Page(report_html([single], "Title"))
    assert len(page.all("h1")) == 1
    tables = page.all("table")
    assert len(tables) == len(page.all("caption")) == len(page.all("thead")) >= 5
    scopes = [one.get("scope") for one in page.all("th")]
    assert set(scopes) == {"row", "col"}
    assert page.open == []  # every element is closed


def test_the_table_says_what_was_found(single: Comparison) -> None:
    text = Page(report_html([single], "Title")).text("table")
    for row in single.policies:
        assert row.policy in text
        assert f"{row.percent_of_bound:.1f} % ± {row.half_width:.1f}" in text
        assert f"{row.left_to_gain:.1f} points" in text
    assert f"{single.bound.value:.6f}" in text
    assert "proven" in text


def test_a_sweep_shows_the_middle_load_and_lets_choose(sweep: list[Comparison]) -> None:
    page = Page(report_html(list(reversed(sweep)), "Title"))
    articles = page.all("article")
    assert [("hidden" in one) for one in articles] == [True, False, True]
    buttons = [one for one in page.all("input") if one["name"] == "load"]
    assert [one["value"] for one in buttons] == [one["id"] for one in articles]
    assert [("checked" in one) for one in buttons] == [False, True, False]
    assert "From load 0.3 to 0.9, LAG earns" in page.text("main")
    assert "At load 0.9: overload" in page.text("aside")


def test_a_single_comparison_has_no_choice_of_loads(single: Comparison) -> None:
    page = Page(report_html([single], "Title"))
    assert page.all("input") == []
    assert [("hidden" in one) for one in page.all("article")] == [False]
    assert "LAG earns at least" in page.text("main")


def test_a_long_sweep_has_details_of_some_loads(
    single: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert LOADS == 15
    monkeypatch.setattr("opportune.experiments.excerpt.LOADS", 5)
    loads = np.linspace(0.1, 0.8, 30)
    many = [replace(single, instance=single.instance.with_load(float(x))) for x in loads]
    text = report_html(many, "Title")
    page = Page(text)
    assert [one["id"] for one in page.all("article")] == [f"load-{i}" for i in (0, 7, 14, 22, 29)]
    assert "5 of 30 loads have details" in page.text()
    rows = embedded(text, "chart-specs")["sweep-share"]["datasets"]["rows"]
    assert len({row["load"] for row in rows}) == 30


def test_a_big_instance_is_cut_and_says_so() -> None:
    rng = np.random.default_rng(2)
    big = loss_instance(rng.random((45, 90)), np.full(45, 0.01), Geometric(20), 1, name="big")
    comparison = compare(big, Settings(("lag", "greedy"), steps=300, replications=2))
    cut = excerpt(comparison)
    assert (len(cut.types), len(cut.servers)) == (TYPES, SERVERS)
    least = np.delete(comparison.prices.capacity_price, cut.servers).max()
    assert least <= comparison.prices.capacity_price[cut.servers].min()
    text = report_html([comparison], "Title")
    assert f"the {TYPES} of 45 task types with the most work" in text
    assert f"the {SERVERS} of 90 servers with the highest capacity price" in text
    assert len(text.encode()) < 1_300_000
    cells = embedded(text, "chart-specs")["c0-cost"]["datasets"]["rows"]
    assert [len(row["value"]) for row in cells] == [SERVERS] * TYPES


def test_a_usual_page_is_small(single: Comparison, sweep: list[Comparison]) -> None:
    assert len(report_html([single], "Title").encode()) < 1_100_000
    assert len(report_html(sweep, "Title").encode()) < 1_300_000


def test_harmful_names_stay_text(odd: Comparison) -> None:
    text = report_html([odd], TAG)
    page = Page(text)
    assert page.text("h1") == page.text("title") == TAG
    assert text.count("</script>") == text.count("<script") == len(page.all("script")) == 3
    assert TAG in page.text("th")
    servers = embedded(text, "chart-specs")["c0-cost"]["datasets"]["rows"][0]["server"]
    assert servers[0] == f"{TAG}0"


def test_what_has_no_number_has_none_in_the_page(odd: Comparison) -> None:
    rows = tuple(
        replace(row, half_width=np.inf, difference_half_width=np.inf) for row in odd.policies
    )
    empty = replace(odd.bound, value=0.0)
    zero = replace(odd, policies=tuple(replace(row, percent_of_bound=0.0) for row in rows))
    for one in (replace(odd, policies=rows), replace(zero, bound=empty, bounds=(empty,))):
        text = report_html([one, replace(one, instance=one.instance.with_load(0.1))], "Title")
        specs = embedded(text, "chart-specs")
        assert specs["c0-reward"]["datasets"]["rows"][0]["low"] is None
        assert "no interval" in Page(text).text("table")
        assert not re.search(r"\b(nan|inf)\b", Page(text).text("main"), re.I)
    assert "No reward can be earned here" in text


def test_forbidden_pairs_are_null_and_marked(odd: Comparison) -> None:
    specs = embedded(report_html([odd], "Title"), "chart-specs")
    for chart in ("c0-cost", "c0-index", "c0-assigned-lag", "c0-assigned-greedy"):
        shown = [[x is not None for x in row["value"]] for row in specs[chart]["datasets"]["rows"]]
        assert np.array_equal(shown, odd.instance.allowed)
        assert '"text":"×"' in json.dumps(specs[chart], ensure_ascii=False, separators=(",", ":"))


def test_the_same_results_give_the_same_text(sweep: list[Comparison]) -> None:
    assert report_html(sweep, "Title") == report_html(sweep, "Title")
    with pytest.raises(InputError, match="comparisons"):
        report_html([], "Title")


def test_the_file_is_written_in_one_step(
    single: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new" / "folder" / "out.html"
    report_writer(path)([single], "First")
    before = path.read_text(encoding="utf-8")
    assert before.startswith("<!DOCTYPE html>")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("opportune.model.writing.os.replace", full)
    with pytest.raises(InputError, match="No space left on device") as caught:
        report_writer(path)([single], "Second")
    assert caught.value.problems[0].field == "--report"
    assert path.read_text(encoding="utf-8") == before
    assert [one.name for one in path.parent.iterdir()] == ["out.html"]


def test_a_place_that_cannot_be_written_is_told(single: Comparison, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    taken = tmp_path / "taken.html"
    taken.mkdir()
    for path in (tmp_path / "file" / "out.html", taken):
        with pytest.raises(InputError, match=re.escape(str(path))):
            report_writer(path)([single], "Title")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "taken.html"]


def test_the_command_gives_the_same_numbers(
    single: Comparison, capsys: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(compare_command([single]))
    assert words[0] == "opportune"
    assert run([*words[1:], "--format", "json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["digest"] == single.instance.digest
    rewards = {row["policy"]: row["reward"] for row in again["policies"]}
    assert rewards == {row.policy: row.reward for row in single.policies}
    words = shlex.split(plan_command(single))
    assert run([*words[1:], "--format", "json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["capacity_price"] == pytest.approx(single.prices.capacity_price)


def test_the_command_that_was_typed_is_repeated(odd: Comparison) -> None:
    page = Page(report_html([odd], "Title", "opportune compare here/it is.toml --steps 7"))
    assert "opportune compare here/it is.toml --steps 7" in page.text("pre")
    page = Page(report_html([odd], "Title"))
    assert "opportune compare" in page.text("pre")
    assert f"--steps {odd.settings.steps} --replications 1 --seed 1" in page.text("pre")
    assert odd.instance.digest in page.text("code")
