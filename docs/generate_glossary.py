"""Write ``docs/reference/glossary.md`` from the metadata on the dataclass fields.

Run by ``make docs``. A test fails when the page is not what this would write.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

from opportune.model.axes import Quantity, quantities
from opportune.model.duration import Duration

PAGE = Path(__file__).parent / "reference" / "glossary.md"

PACKAGES = ("model", "pricing", "learning", "policies")
"""Where quantities are defined, in the order of the page."""

AXES = {
    "P": "periods of a day",
    "C": "contexts of a pool or a log",
    "F": "rows of features of a context: one for all servers, or one each",
    "W": "weights: one shared, or one a server",
    "x": "entries of a feature vector",
    "p": "features of a recorded task",
    "M": "models of a record",
    "n": "entries of a list",
    "V": "task types",
    "H": "headcount levels",
    "R": "servers",
    "B": "batches of a run",
    "d": "possible durations",
}
"""Axis letters, in the order in which they may follow each other: task type before server."""

PER_TYPE = get_args(Duration)
"""Dataclasses that describe one task type: their quantities have V as an unwritten axis."""

SUBSCRIPT = re.compile(r"_([pvhr]+)(?![a-z])|\(([vhr](?:,[vhr])*)\)")
"""Subscripts of a symbol that are axes: vr of ``s_vr``, v,r of ``L(v,r)``."""

WORDS = (
    ("task", "a piece of work that arrives at a step and needs servers for a while"),
    ("task type `v`", "tasks with one arrival rate, one law of duration and one row of rewards"),
    ("server `r`", "what a task keeps busy; it serves one task at a time"),
    ("step `t`", "the unit of time; at most one task arrives per step"),
    ("demand", "k_v lambda_v (1 - B_v): servers asked for per step by the tasks that are served"),
    ("load `rho`", "sum_v lambda_v k_v E[D_v] / R: the busy share if nothing were dropped"),
    ("forbidden pair", "a task type and a server that must not meet"),
    ("blocked task", "one that is dropped: fewer than k permitted servers are free"),
    ("work-conserving", "a task is served whenever k permitted servers are free"),
    ("opportunity cost", "l_v + E[D_v] q_r: what later tasks lose when r serves a task of type v"),
    ("index", "L(v,r) = s_vr minus the opportunity cost"),
    ("headcount `N`", "tasks in service"),
    ("policy", "turns an instance, and prices where it needs them, into a plan"),
    ("plan", "tables from which every decision follows: order of servers, ties, weights"),
    ("rule", "how the tables are read: walk the list (PRIORITY) or draw by weight (SAMPLE)"),
    ("bound", "a reward per step that no policy of its kind can exceed"),
    ("context `x`", "what is known of a waiting task when it arrives"),
    ("features", "phi(x, a): what the success of a task with a server depends on"),
    ("departure", "a waiting task is served with success and leaves the queue"),
    (
        "departure probability",
        "mu(<phi(x, a), theta>), mu(z) = 1 / (1 + e^-z): success rate of a try",
    ),
    ("exploration", "a try whose server is drawn at random, to learn"),
    ("oracle", "knows the success rates and tries the pair of the largest"),
    ("slack", "epsilon: what the best success rate of every task exceeds the arrival rate by"),
    ("queue length regret", "R_T = E[Q(T) - Q*(T)]: waiting tasks beside the oracle's at the end"),
    ("excess", "Q(t) - Q*(t), and its average over a run"),
    ("transient cost", "the largest mean excess averaged up to a step"),
    ("streams", "all randomness of a run, drawn beforehand; every policy sees the same"),
    ("replication", "one of several runs that differ in their streams only"),
    ("warm-up", "steps at the start of a run that are not counted"),
    ("trace", "what happened in the counted steps: estimates of the LP's own variables"),
)
"""Words of the field that are no array."""


def dataclasses_with_quantities() -> list[type]:
    """Every dataclass of ``PACKAGES`` that has an annotated field, in order of definition."""
    return [
        kind
        for module in _modules()
        for kind in vars(importlib.import_module(module)).values()
        if inspect.isclass(kind)
        and is_dataclass(kind)
        and kind.__module__ == module
        and quantities(kind)
    ]


def axes_of(kind: type, quantity: Quantity) -> list[str]:
    """Axis letters of a quantity, the unwritten V of a per-type dataclass included."""
    letters = [letter for letter in quantity.axes.split(",") if letter]
    return ["V", *letters] if kind in PER_TYPE else letters


def inconsistencies(kinds: list[type]) -> list[str]:
    """What contradicts itself: unknown or misordered axes, subscripts, two units of a symbol."""
    problems = []
    units: dict[str, tuple[str, str]] = {}
    for kind in kinds:
        for field, quantity in quantities(kind).items():
            place = f"{kind.__name__}.{field}"
            letters = axes_of(kind, quantity)
            unknown = [letter for letter in letters if letter not in AXES]
            if unknown:
                problems.append(f"{place}: unknown axes {unknown}")
                continue
            ranks = [list(AXES).index(letter) for letter in letters]
            if ranks != sorted(ranks):
                problems.append(f"{place}: axes {','.join(letters)} not in the order {list(AXES)}")
            if not _subscripts_fit(quantity, letters):
                problems.append(f"{place}: symbol {quantity.symbol} does not fit axes {letters}")
            unit, first = units.setdefault(quantity.symbol, (quantity.unit, place))
            if unit != quantity.unit:
                problems.append(f"{place}: {quantity.unit}, but {unit} in {first}")
    return problems


def render() -> str:
    """The page."""
    lines = [
        "# Glossary",
        "",
        "<!-- Written by docs/generate_glossary.py (`make docs`); change the code, not this. -->",
        "",
        "Symbols are those of the papers. Arrays are ordered task type before server.",
        "",
        "## Axes",
        "",
        *_table(("letter", "counts"), [(f"`{letter}`", text) for letter, text in AXES.items()]),
        "",
        "## Quantities",
    ]
    for kind in dataclasses_with_quantities():
        lines += ["", f"### {kind.__name__}", ""]
        summary = (inspect.getdoc(kind) or "").split("\n\n")[0]
        summary = summary.replace("\n", " ").replace("``", "`")
        per_type = " Describes one task type." if kind in PER_TYPE else ""
        lines += [f"`{kind.__module__}`: {summary}{per_type}", ""]
        lines += _table(
            ("symbol", "field", "axes", "unit", "meaning"),
            [
                (f"`{one.symbol}`", f"`{field}`", one.axes or "scalar", one.unit, one.meaning)
                for field, one in quantities(kind).items()
            ],
        )
    lines += ["", "## Words", "", *_table(("word", "meaning"), list(WORDS))]
    return "\n".join(lines) + "\n"


def _modules() -> Iterator[str]:
    for package in PACKAGES:
        name = f"opportune.{package}"
        if find_spec(name) is None:
            continue
        folder = importlib.import_module(name).__path__
        yield from sorted(info.name for info in pkgutil.walk_packages(folder, f"{name}."))


def _subscripts_fit(quantity: Quantity, letters: list[str]) -> bool:
    """Every written V, H or R axis is a subscript, every subscript is an axis."""
    found = SUBSCRIPT.search(quantity.symbol)
    subscripts = set((found[1] or found[2]).upper().replace(",", "")) if found else set()
    written = set(quantity.axes.split(",")) & {"V", "H", "R"}
    return written <= subscripts <= set(letters)


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    cells = [head, ("---",) * len(head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells]


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(render(), encoding="utf-8")
