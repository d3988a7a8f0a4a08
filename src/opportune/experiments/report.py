"""The page that people look at: one HTML file with everything in it, which opens offline.

Scripts, style, charts and numbers are in the file; a content security policy in it forbids
every request to a network, so nothing is ever fetched. Needs the extra ``report``; reached only
when a report is asked for.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template

import vl_convert

from opportune import __version__
from opportune.errors import InputError, Problem
from opportune.experiments import (
    chart_bars,
    chart_matrices,
    chart_sweeps,
    charts,
    page,
    report_tables,
    wording,
)
from opportune.experiments.chart_style import CONFIG, Chart
from opportune.experiments.comparison import Comparison
from opportune.experiments.excerpt import Excerpt, detailed, excerpt
from opportune.experiments.page import Html

HERE = "opportune.experiments"
SNIPPET = "window.vegaEmbed = vegaEmbed;"


def write_report(
    comparisons: Sequence[Comparison], path: Path, title: str, command: str = ""
) -> None:
    """Write a page about one comparison, or about a sweep of one instance over loads.

    Args:
        comparisons: One, or several with the same instance and settings at different loads.
        path: Where to; its folder is made, an existing file is replaced at once or not at all.
        title: Heading of the page.
        command: The command line that was typed, to be repeated; guessed if empty.

    Raises:
        InputError: If there is no comparison, or the file cannot be written.
    """
    if not comparisons:
        raise InputError(Problem("comparisons", "none", "at least one"))
    ordered = sorted(comparisons, key=lambda one: one.instance.load)
    _write(path, report_html(ordered, title, command))


def report_html(comparisons: Sequence[Comparison], title: str, command: str = "") -> str:
    """The page as text; comparisons by ascending load."""
    shown: list[Chart] = []
    parts: list[str] = []
    sweep = len(comparisons) > 1
    if sweep:
        parts += [page.element("p", wording.sweep_headline(comparisons), class_="headline")]
    parts.append(_warnings(comparisons))
    if sweep:
        parts.append(_sweep_section(comparisons, shown))
    places = detailed(comparisons)
    first = len(places) // 2
    if sweep:
        parts.append(_load_picker(comparisons, places, first))
    for i, place in enumerate(places):
        panel = _panel(comparisons[place], f"c{place}", shown)
        hidden = {} if i == first else {"hidden": "hidden"}
        named = {"aria_label": f"Load {wording.load(comparisons[place])}"} if sweep else {}
        parts.append(page.element("article", panel, id=f"load-{place}", **named, **hidden))
    parts.append(_words())
    parts.append(
        page.section("How this was made", [report_tables.provenance(comparisons, command)])
    )
    script = _script()
    return Template(_read("report.html")).substitute(
        title=page.escaped(title),
        version=__version__,
        policy=_content_policy(script),
        style=_read("report.css"),
        instance=_instance_line(comparisons[0]),
        body=page.joined(parts),
        charts=_embedded({chart.name: chart.spec for chart in shown}),
        config=_embedded(CONFIG),
        script=script,
    )


def _panel(comparison: Comparison, key: str, shown: list[Chart]) -> Html:
    """Everything about one load."""
    cut = excerpt(comparison)
    lead = page.element("p", wording.headline(comparison), class_="headline")
    told = wording.verdict(comparison)
    parts: list[str] = [lead]
    if told:
        parts.append(page.element("p", told, class_="verdict"))
    parts.append(page.definitions(_tiles(comparison), "tiles"))
    first = charts.reward_chart(comparison, f"{key}-reward")
    second = charts.difference_chart(comparison, f"{key}-difference")
    both = [first] if second is None else [first, second]
    parts.append(
        page.section(
            "Which policy earns how much",
            [_laid_out(both, shown), report_tables.policies_table(comparison)],
        )
    )
    parts.append(_prices_section(comparison, cut, key, shown))
    parts.append(_assignment_section(comparison, cut, key, shown))
    blocking = charts.blocking_chart(comparison, f"{key}-blocking")
    parts.append(
        page.section(
            "How many tasks are turned away",
            [page.grid([*_figures([blocking], shown), report_tables.blocking_table(comparison)])],
        )
    )
    parts.append(
        page.section(
            "How sure the bound is",
            [report_tables.bounds_table(comparison)],
            "Shares are of the bound, so a policy is at least as close to the best possible "
            "reward as its share says.",
        )
    )
    return page.joined(parts)


def _prices_section(comparison: Comparison, cut: Excerpt, key: str, shown: list[Chart]) -> Html:
    instance, prices = comparison.instance, comparison.prices
    matrices = [
        chart_matrices.cost_chart(comparison, cut, f"{key}-cost"),
        chart_matrices.index_chart(comparison, cut, f"{key}-index"),
    ]
    bars = [
        chart_bars.price_bars(
            "Demand price",
            "reward per assignment",
            prices.demand_price[cut.types],
            [instance.task_types[v] for v in cut.types],
            (
                f"{key}-demand",
                "Task type",
                "What one more assignment of the type would add to the best reward. Below zero: "
                "it would cost more than it earns, since others would lose the server.",
            ),
        ),
        chart_bars.price_bars(
            "Capacity price",
            "reward per step",
            prices.capacity_price[cut.bars],
            [instance.servers[r] for r in cut.bars],
            (
                f"{key}-capacity",
                "Server",
                "What one more step of the server's time would add to the best reward: where "
                "more capacity pays.",
            ),
        ),
    ]
    return page.section(
        "What a server's time is worth",
        [
            _laid_out(matrices, shown),
            _laid_out(bars, shown),
            report_tables.price_tables(comparison, cut),
        ],
        f"{wording.PRICED_AT[comparison.priced_at].capitalize()}. {cut.note}".strip(),
    )


def _assignment_section(comparison: Comparison, cut: Excerpt, key: str, shown: list[Chart]) -> Html:
    maps = [
        chart_matrices.assigned_chart(comparison, cut, policy, f"{key}-assigned-{policy}")
        for policy in wording.compared(comparison)
    ]
    busy = chart_bars.utilization_chart(comparison, cut, f"{key}-busy")
    return page.section(
        "Who gets assigned what",
        [_laid_out([*maps, busy], shown)],
        f"Measured in the run. {cut.note}".strip(),
    )


def _sweep_section(comparisons: Sequence[Comparison], shown: list[Chart]) -> Html:
    share = chart_sweeps.sweep_share_chart(comparisons, "sweep-share")
    pair = [
        chart_sweeps.sweep_reward_chart(comparisons, "sweep-reward"),
        chart_sweeps.sweep_blocking_chart(comparisons, "sweep-blocking"),
    ]
    table = report_tables.sweep_table(comparisons)
    parts = [*_figures([share], shown), table, page.grid(_figures(pair, shown))]
    return page.section("How it changes with the load", parts)


def _load_picker(comparisons: Sequence[Comparison], places: list[int], first: int) -> Html:
    """One button a load; the script shows the article of the chosen one."""
    choices = []
    for i, place in enumerate(places):
        checked = {"checked": "checked"} if i == first else {}
        button = page.element(
            "input", "", type="radio", name="load", value=f"load-{place}", **checked
        ).removesuffix("</input>")
        text = page.element("span", wording.load(comparisons[place]))
        choices.append(page.element("label", Html(button + text)))
    left_out = ""
    if len(places) < len(comparisons):
        left_out = f"{len(places)} of {len(comparisons)} loads have details"
    legend = page.element("legend", "Details at load")
    note = page.element("span", left_out, class_="small")
    row = page.element("div", page.joined(choices, ""), class_="choices")
    return page.element("fieldset", page.joined([legend, row, note], ""), id="load-picker")


def _tiles(comparison: Comparison) -> list[tuple[str, str]]:
    """The four numbers to remember."""
    base, rival = wording.base_policy(comparison), wording.rival_policy(comparison)
    name = wording.short_name(base.policy)
    tiles: list[tuple[str, str]] = [
        (
            f"{name} earns",
            _tile(
                wording.percent(base.percent_of_bound),
                f"{wording.interval(base.half_width)} points; of the best possible reward, at "
                "least",
            ),
        )
    ]
    if rival is not None:
        other = wording.short_name(rival.policy)
        ahead = _tile(
            f"{wording.difference(-rival.difference)}{wording.NBSP}points",
            f"{wording.interval(rival.difference_half_width)} points, on the same tasks",
        )
        tiles.append((f"Ahead of {other} by", ahead))
    label = comparison.bound.label
    tiles.append(
        (
            "Left to gain",
            _tile(
                f"≤{wording.NBSP}{wording.points(base.left_to_gain)}",
                f"above {name}, for any policy; the bound is {label}",
            ),
        )
    )
    blocking = comparison.blocking
    known = "exact" if blocking.method == "exact" else "simulated"
    if blocking.half_width > 0:
        known += f" {wording.interval(100 * blocking.half_width)} points"
    tiles.append(
        ("Tasks turned away", _tile(wording.share(blocking.value), f"of arrivals, {known}"))
    )
    return tiles


def _tile(big: str, small: str) -> Html:
    return page.joined([page.element("strong", big), page.element("small", small)], "")


def _warnings(comparisons: Sequence[Comparison]) -> Html:
    several = len(comparisons) > 1
    texts = [
        f"At load {wording.load(one)}: {text}" if several else text
        for one in comparisons
        for text in one.warnings
    ]
    if not texts:
        return Html("")
    items = page.element("ul", page.joined(page.element("li", text) for text in texts))
    parts = [page.element("h2", "Please note"), items]
    return page.element("aside", page.joined(parts), class_="warnings", role="note")


def _words() -> Html:
    """The few words of the field that the page uses."""
    pairs = [
        ("Load", "The share of the servers' time that all arriving tasks would need."),
        ("Bound", "A reward that no policy can pass which serves whenever it can; so the best "
         "possible reward is at most this."),
        ("Turned away (blocked)", "A task that arrives when too few permitted servers are free."),
        ("Opportunity cost", "What using a server for a task costs later tasks."),
        ("Index", "Score of the pair minus its opportunity cost; LAG takes the highest."),
        (f"± 95{wording.NBSP}%", "If the run were repeated with other seeds, the interval would "
         "cover the long-run value 95 times in 100."),
        ("Points", "Percentage points of the bound."),
    ]  # fmt: skip
    return page.section("Words", [page.definitions(pairs, "glossary")])


def _figures(drawn: Sequence[Chart], shown: list[Chart]) -> list[Html]:
    """Places for charts, which are noted as shown."""
    shown.extend(drawn)
    return [
        page.figure(
            one.title,
            page.plot(one.name, one.text, one.least_width),
            one.caption,
            page.key(one.key, one.pick),
        )
        for one in drawn
    ]


def _laid_out(drawn: Sequence[Chart], shown: list[Chart]) -> Html:
    """Charts side by side, but those that need the whole width."""
    narrow = [one for one in drawn if not one.wide]
    wide = [one for one in drawn if one.wide]
    first = [page.grid(_figures(narrow, shown))] if narrow else []
    return page.joined([*first, *_figures(wide, shown)])


def _instance_line(comparison: Comparison) -> Html:
    instance = comparison.instance
    k = instance.one_k
    needs = f"{k} server{'s' if k != 1 else ''} per task" if k is not None else "servers by type"
    means = instance.mean_duration
    low, high = f"{means.min():.3g}", f"{means.max():.3g}"
    lasting = f"{low} steps" if low == high else f"{low} to {high} steps"
    forbidden = int((~instance.allowed).sum())
    parts = [
        f"{instance.n_types:,} task types",
        f"{instance.n_servers:,} servers",
        needs,
        f"tasks last {lasting} on average",
    ]
    if forbidden:
        parts.append(f"{forbidden:,} of {instance.allowed.size:,} pairs forbidden")
    return page.joined([page.element("b", instance.name), ": " + ", ".join(parts)], "")


@cache
def _script() -> str:
    """Vega, Vega-Lite, Vega-Embed and our own script, as one text."""
    text = vl_convert.javascript_bundle(SNIPPET) + "\n" + _read("report.js")
    text = text.replace("\r\n", "\n").replace("</script", "<\\/script")
    return str(text.replace("<!--", "<\\!--"))


def _content_policy(script: str) -> str:
    """Only this script runs, and nothing is fetched from anywhere."""
    digest = base64.b64encode(hashlib.sha256(f"\n{script}\n".encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _embedded(value: object) -> str:
    """JSON that can stand inside a script element; NaN or infinity is an error."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _read(name: str) -> str:
    return files(HERE).joinpath(name).read_text(encoding="utf-8")


def _write(path: Path, text: str) -> None:
    """Write beside the place and move there, so that no half-written page is ever seen."""
    beside: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        os.chmod(beside, 0o644)
        os.replace(beside, path)
    except OSError as error:
        if beside is not None:
            Path(beside).unlink(missing_ok=True)
        raise InputError(
            Problem(
                "report",
                f"{path}: {error.strerror}",
                "a file that can be written",
                "name a place in a folder that you may write to",
            )
        ) from error
