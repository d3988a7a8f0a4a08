"""Tables and definition lists of a report: policies, bounds, sweep, prices, provenance."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import numpy as np

from opportune import __version__
from opportune.errors import InputError
from opportune.experiments import page, wording
from opportune.experiments.chart_style import color_of
from opportune.experiments.comparison import Comparison, PolicyResult
from opportune.experiments.excerpt import TYPES, Excerpt
from opportune.experiments.page import Html
from opportune.experiments.wording import NBSP
from opportune.model.catalog import parse_id

PM = f"±{NBSP}95{NBSP}%"


def policies_table(comparison: Comparison) -> Html:
    """One row a policy, the best first, with everything that is known of it."""
    ranked = wording.ranked(comparison)
    base = wording.base_policy(comparison)
    rows = []
    for row in ranked:
        cells = [
            policy_name(row),
            f"{wording.number(row.reward)} per step",
            wording.percent(row.percent_of_bound, row.half_width),
            "—" if row is base else wording.apart(row),
            wording.share(row.blocking),
            wording.points(row.left_to_gain),
        ]
        rows.append(cells)
    head = [
        "Policy",
        "Reward",
        f"Share of the bound {PM}",
        f"Minus {wording.short_name(base.policy)} {PM}",
        "Turned away",
        "Left to gain, at most",
    ]
    caption = f"Policies at load {wording.load(comparison)}, best first"
    return page.table(caption, head, rows, strong=[ranked.index(base)])


def policy_name(row: PolicyResult) -> Html:
    """Its color, its name, what it does and its id."""
    dot = page.element("span", "", class_="dot", style=f"background:{color_of(row.policy)}")
    told = [page.element("span", wording.short_name(row.policy), class_="name")]
    told.append(page.element("code", row.policy))
    told += [
        page.element("span", text, class_="told")
        for text in (wording.explained(row.policy), row.note[:1].upper() + row.note[1:])
        if text
    ]
    words = page.element("span", page.joined(told, " "))
    return page.element("span", page.joined([dot, words], ""), class_="policy")


def bounds_table(comparison: Comparison) -> Html:
    """The bounds, how tight and how sure they are."""
    rows = []
    for bound in comparison.bounds:
        at = "not needed" if bound.blocking is None else wording.share(bound.blocking)
        name = page.joined(
            [
                page.element("span", wording.bound_words(bound.name), class_="name"),
                page.element("code", bound.name),
            ],
            " ",
        )
        value = f"{wording.number(bound.value, 6)} per step"
        gap = f"{wording.number(100 * bound.gap, 2)}{NBSP}%"
        rows.append([name, value, at, gap, bound.label])
    head = ["Bound", "Value", "At blocking", "Gap to the solver's solution", "Label"]
    shown = page.table(f"Bounds at load {wording.load(comparison)}", head, rows)
    labels = dict.fromkeys(bound.label for bound in comparison.bounds)
    meanings = [(label, wording.LABELS[label]) for label in labels if label in wording.LABELS]
    return page.joined([shown, page.definitions(meanings, "glossary")])


def blocking_table(comparison: Comparison) -> Html:
    """How many tasks are turned away, and what else is known of it."""
    blocking = comparison.blocking
    measured = wording.base_policy(comparison)
    known = {"exact": "Exact", "simulated": "Simulated, all replications"}
    width = 100 * blocking.half_width if blocking.half_width > 0 else None
    told = wording.percent(100 * blocking.value, width)
    rows = [
        [known.get(blocking.method, blocking.method), told],
    ]
    if blocking.method == "exact":
        name = f"Measured, {wording.short_name(measured.policy)}"
        rows.append([name, wording.share(measured.blocking)])
    if blocking.erlang_b is not None:
        rows.append(["Erlang-B, for reference", wording.share(blocking.erlang_b)])
    parts = [page.table("Tasks turned away", ["What", "Share of arrivals"], rows)]
    if np.ptp(blocking.by_type) > 0:
        types = comparison.instance.task_types
        order = np.argsort(-np.asarray(blocking.by_type), kind="stable")[:TYPES]
        by_type = [[types[v], wording.share(blocking.by_type[v])] for v in order]
        caption = "Tasks turned away by type, most first" + _of(len(order), len(types))
        head = ["Task type", "Share of its arrivals"]
        parts.append(page.folded("By task type", page.table(caption, head, by_type)))
    return page.joined(parts)


def price_tables(comparison: Comparison, cut: Excerpt) -> Html:
    """The numbers behind the price charts."""
    instance, prices = comparison.instance, comparison.prices
    types = [
        [
            instance.task_types[v],
            f"{wording.number(float(prices.demand_price[v]))} per assignment",
            f"{wording.number(float(instance.arrival_rate[v]))} per step",
            f"{wording.number(float(instance.mean_duration[v]))} steps",
            f"{int(instance.servers_per_task[v])}",
        ]
        for v in cut.types
    ]
    servers = [
        [
            instance.servers[r],
            f"{wording.number(float(prices.capacity_price[r]))} per step",
            wording.share(float(prices.free_fraction[r])),
        ]
        for r in cut.servers
    ]
    first = page.table(
        "Task types" + _of(len(types), instance.n_types),
        ["Task type", "Demand price (reward)", "Arrivals", "Mean duration", "Servers per task"],
        types,
    )
    second = page.table(
        "Servers" + _of(len(servers), instance.n_servers),
        ["Server", "Capacity price (reward)", "Free in the plan"],
        servers,
    )
    return page.folded("All prices as tables", page.grid([first, second]))


def sweep_table(comparisons: Sequence[Comparison]) -> Html:
    """Share of the bound by load and policy, with bound and blocking."""
    ids = wording.policies(comparisons[0])
    rows = []
    for one in comparisons:
        cells = [
            wording.percent(row.percent_of_bound, row.half_width)
            for row in (one.row(policy) for policy in ids)
        ]
        mark = "" if one.priced_at == "zero" else f"{NBSP}*"
        bound = wording.number(one.bound.value)
        rows.append([wording.load(one) + mark, *cells, bound, wording.share(one.blocking.value)])
    head = [
        "Load",
        *(wording.short_name(one) for one in ids),
        "Bound (reward per step)",
        "Turned away",
    ]
    caption = f"Share of the bound by load and policy {PM}"
    shown = page.table(caption, head, rows)
    if all(one.priced_at == "zero" for one in comparisons):
        return shown
    told = "* Not every task can be served in the long run, so prices allow for tasks turned away."
    return page.joined([shown, page.element("p", told, class_="small")])


def provenance(comparisons: Sequence[Comparison], command: str) -> Html:
    """What made the numbers, and the commands that make them again."""
    first = comparisons[0]
    settings, runs = first.settings, first.runs
    loads = ", ".join(wording.load(one) for one in comparisons)
    solvers = ", ".join(sorted({one.prices.solver for one in comparisons}))
    pairs = [
        ("Instance", first.instance.name),
        ("Load" if len(comparisons) == 1 else "Loads", loads),
        ("Counted steps", f"{runs.steps:,} in each replication"),
        ("Warm-up", f"{runs.warm_up:,} steps before, not counted"),
        ("Replications", f"{settings.replications:,}, all policies on the same tasks"),
        ("Seed", str(settings.seed)),
        ("Intervals", _intervals(settings.replications, runs.reward.shape[2])),
        ("Prices", _priced_at(comparisons)),
        ("Solver", solvers),
        ("Version", f"opportune {__version__}"),
    ]
    lines = [command or compare_command(comparisons)]
    lines += [plan_command(one) for one in comparisons[:1] if len(comparisons) == 1]
    code = page.element("pre", page.element("code", "\n".join(lines)))
    digests = [
        [wording.load(one), Html(f"<code>{one.instance.digest}</code>")] for one in comparisons
    ]
    table = page.table("Digest of the instance at each load", ["Load", "Digest"], digests)
    parts = [page.definitions(pairs, "facts"), page.element("h3", "To repeat it"), code]
    parts.append(page.folded("Digests: equal digest, equal instance", table))
    return page.joined(parts)


def compare_command(comparisons: Sequence[Comparison]) -> str:
    """The command line that gives these comparisons; a file stands under its name."""
    first = comparisons[0]
    settings = first.settings
    loads = ",".join(f"{one.instance.load:.12g}" for one in comparisons)
    words = ["opportune", "compare" if len(comparisons) == 1 else "sweep", _source(first)]
    words += ["--load", loads, "--steps", str(settings.steps)]
    words += ["--replications", str(settings.replications), "--seed", str(settings.seed)]
    words += ["--policies", ",".join(wording.policies(first))]
    if settings.price_at is not None:
        words += ["--price-at", settings.price_at]
    return shlex.join(words)


def plan_command(comparison: Comparison) -> str:
    """The command line that gives the prices alone."""
    load = f"{comparison.instance.load:.12g}"
    words = ["opportune", "plan", _source(comparison), "--load", load]
    if comparison.priced_at != "zero":
        words += ["--price-at", "blocking"]
    return shlex.join(words)


def _priced_at(comparisons: Sequence[Comparison]) -> str:
    told = "; ".join(sorted({wording.PRICED_AT[one.priced_at] for one in comparisons}))
    return told[:1].upper() + told[1:]


def _source(comparison: Comparison) -> str:
    """The catalog id, or the file that the instance's name suggests."""
    name = comparison.instance.name
    try:
        parse_id(name)
    except InputError:
        return f"{name}.toml"
    return name


def _intervals(replications: int, batches: int) -> str:
    over = f"{replications:,} replications"
    if replications == 1:
        over = f"{batches} batches of the one run"
    return f"95{NBSP}%, Student's t over {over}; differences are paired"


def _of(shown: int, all_of_them: int) -> str:
    return "" if shown == all_of_them else f" ({shown} of {all_of_them:,})"
