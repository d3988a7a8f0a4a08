"""``opportune plan``: prices, rates and a certified bound of an instance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from cyclopts import Parameter

from opportune.cli.options import (
    BOUNDS_HELP,
    FORMAT_HELP,
    INSTANCE_HELP,
    LOAD_HELP,
    Format,
    Number,
    Place,
    Whole,
)
from opportune.cli.output import print_csv, print_json, print_note, print_table, progress_bar
from opportune.cli.sparse_plan import show_sparse, write_plan
from opportune.errors import InputError, Problem, whole_problems
from opportune.experiments.bounds import Bound, bound_at, further_bounds
from opportune.experiments.prices import Blocking, blocking_of, choose_prices
from opportune.experiments.records import plan_record
from opportune.experiments.settings import Progress
from opportune.model.files import load_instance, load_sparse
from opportune.model.loss import LossInstance
from opportune.model.writing import check_apart, check_companion, check_place
from opportune.policies.loss.lag import Lag
from opportune.pricing.demand import FULL
from opportune.pricing.feasibility import max_load
from opportune.pricing.relaxation import Relaxation
from opportune.pricing.search import Stop
from opportune.pricing.sparse import price_sparse

CLOSED = 1e-6
"""Gap of a finished solve, at most: at the last feasible load it is not 1e-9."""

SHOWN = 1e-5
"""Relative precision of the largest load that is shown."""

MOST_ROWS = 40
"""Pairs shown in the table; the file and the other formats have all."""


@Parameter(name="*")
@dataclass(frozen=True)
class PlanOptions:
    """How an instance is priced."""

    price_at: Annotated[
        Literal["blocking"] | None,
        Parameter(help="Take prices from OCC-LP(B) instead of OCC-LP(0), overloaded or not."),
    ] = None
    seed: Annotated[Whole, Parameter(help="Seed of what must be simulated.")] = 1
    bounds: Annotated[Literal["quick", "all"], Parameter(help=BOUNDS_HELP)] = "quick"
    gap: Annotated[Number, Parameter(help="Relative gap at which each solve may end.")] = 1e-9
    seconds: Annotated[
        Number | None,
        Parameter(help="Most seconds for each solve: then, as on Ctrl-C, the best pair so far."),
    ] = None

    def stop(self, progress: Progress) -> Stop:
        """When a solve ends; progress is told how far the gap has closed.

        Raises:
            InputError: If the gap or the time is not a number of at least 0.
        """

        def watch(gap: float, text: str) -> None:
            known = 0.0 < gap < 1.0
            closed = math.log(gap) / math.log(max(self.gap, 1e-12)) if known else 0.0
            shown = f"gap {gap:.1e}, {text}" if math.isfinite(gap) else text
            progress(min(1.0, max(0.0, closed)), shown)

        return Stop(self.gap, math.inf if self.seconds is None else self.seconds, watch)


DEFAULT_OPTIONS = PlanOptions()


def plan(
    instance: Annotated[str, Parameter(help=INSTANCE_HELP)],
    /,
    *,
    load: Annotated[Number | None, Parameter(help=LOAD_HELP)] = None,
    options: PlanOptions = DEFAULT_OPTIONS,
    out: Annotated[
        Place | None, Parameter(help="Write the plan here: FILE.json, and FILE.npz beside it.")
    ] = None,
    format: Annotated[Format, Parameter(help=FORMAT_HELP)] = "table",
) -> None:
    """Price an instance: what each server's time is worth, who should get what, the bound."""
    if out is not None and out.suffix != ".json":
        raise InputError(Problem("--out", str(out), "a path that ends in .json"))
    if out is not None:
        check_plan_place(out, Path(instance))
    problems = whole_problems([("seed", options.seed, 0, 2**64 - 1)])
    if problems:
        raise InputError(problems)
    sparse = load_sparse(instance, load)
    if sparse is not None:
        with progress_bar(f"pricing {sparse.name}") as progress:
            found = price_sparse(sparse, FULL, stop=options.stop(progress))
        show_sparse(found, out, format)
        return
    loss = load_instance(instance, load)
    with progress_bar(f"pricing {loss.name}") as progress:
        stop = options.stop(progress)
        prices, warnings = choose_prices(loss, options.price_at, True, options.seed, stop)
        early = prices.gap > max(options.gap, CLOSED)
        blocking = blocking_of(loss, Lag().plan(loss, prices), options.seed)
        bound, _ = bound_at(loss, blocking, stop)
        most = None if early else max_load(loss, SHOWN)
    for text in warnings:
        print_note(f"warning: {text}")
    known = (bound, *further_bounds(loss, options.bounds == "all", options.seed))
    record = plan_record(prices, most, blocking, known)
    record["seed"] = options.seed
    if out is not None:
        _write(out, record, prices)
    if format == "json":
        print_json(record)
    elif format == "csv":
        columns = ("task_type", "server", "score", "opportunity_cost", "index", "assignment_rate")
        print_csv(columns, _pairs(prices))
    else:
        _print_summary(prices, record, (known, blocking))
        if out is None:
            _print_tables(prices)


def _pairs(prices: Relaxation) -> list[tuple[Any, ...]]:
    """Permitted pairs: type, server, score, opportunity cost, index, assignment rate."""
    instance = prices.instance
    cost = prices.opportunity_cost
    return [
        (
            instance.task_types[v],
            instance.servers[r],
            float(instance.match_reward[v, r]),
            float(cost[v, r]),
            float(prices.index[v, r]),
            float(prices.assignment_rate[v, r]),
        )
        for v, r in np.argwhere(instance.allowed)
    ]


def check_plan_place(out: Path, source: Path) -> None:
    """Refuse a place for a plan that cannot be written, or holds another file.

    Args:
        out: The .json of the plan.
        source: The instance file, if it is one.

    Raises:
        InputError: Then. An .npz without the .json of a plan beside it is not a plan's.
    """
    arrays = out.with_suffix(".npz")
    for path in (out, arrays):
        check_place(path)
    check_apart(out, source)
    check_companion(out, arrays, "plan")


def _write(out: Path, record: dict[str, Any], prices: Relaxation) -> None:
    """JSON for people and diffs, NPZ with full precision arrays."""
    instance = prices.instance
    arrays = {
        "arrival_rate": instance.arrival_rate,
        "demand_price": prices.demand_price,
        "capacity_price": prices.capacity_price,
        "index": prices.index,
        "assignment_rate": prices.assignment_rate,
        "free_fraction": prices.free_fraction,
    }
    write_plan(out, record, arrays)


def _print_summary(
    prices: Relaxation, record: dict[str, Any], known: tuple[tuple[Bound, ...], Blocking]
) -> None:
    instance = prices.instance
    bounds, blocking = known
    most = record["max_load"]
    limit = "largest feasible not computed" if most is None else f"largest feasible {most:.4g}"
    print(f"{instance.name}: load {instance.load:.4g}, {limit}")
    print(
        f"value {prices.value:.8g} per step, dual value {prices.dual_value:.8g}, gap "
        f"{prices.gap:.1e}, priced at {prices.priced_at}, {prices.solver}, {prices.seconds:.3f} s"
    )
    erlang = "" if blocking.erlang_b is None else f", Erlang-B {blocking.erlang_b:.4g}"
    width = f" +/- {blocking.half_width:.2g}" if blocking.method == "simulated" else ""
    print(f"blocking {blocking.value:.4g}{width} ({blocking.method}){erlang}")
    if blocking.note:
        by_type = ", ".join(
            f"{name} {b:.4g}" for name, b in zip(instance.task_types, blocking.by_type, strict=True)
        )
        print(f"  {blocking.note}: {by_type}")
    for bound in bounds:
        at = "" if bound.blocking is None else " at this blocking"
        print(f"bound {bound.name}{at}: {bound.value:.8g} per step, {bound.label}")


def _print_tables(prices: Relaxation) -> None:
    """Types, servers and pairs; equal servers of a group share a row."""
    instance = prices.instance
    types = [
        (name, f"{instance.arrival_rate[v]:.4g}", f"{prices.demand_price[v]:.6g}")
        for v, name in enumerate(instance.task_types)
    ]
    print_table("Task types", ("type", "arrivals/step", "demand price"), types[:MOST_ROWS])
    groups = _groups(instance)
    servers = [
        (name, f"{prices.capacity_price[r]:.6g}", f"{prices.free_fraction[r]:.4f}")
        for name, r in groups
    ]
    columns = ("server (how many equal)", "capacity price/step", "free share")
    print_table("Servers", columns, servers[:MOST_ROWS])
    cost = prices.opportunity_cost
    pairs = sorted(
        (-prices.assignment_rate[v, r], instance.task_types[v], name, v, r)
        for v in range(instance.n_types)
        for name, r in groups
        if instance.allowed[v, r]
    )
    rows = [
        (
            task_type,
            name,
            f"{instance.match_reward[v, r]:.5g}",
            f"{cost[v, r]:.5g}",
            f"{prices.index[v, r]:.5g}",
            f"{-minus_rate:.5g}",
        )
        for minus_rate, task_type, name, v, r in pairs
    ]
    head = ("type", "server", "score", "opportunity cost", "index", "assignments/step each")
    print_table("Pairs by assignment rate", head, rows[:MOST_ROWS])
    if max(len(types), len(servers), len(rows)) > MOST_ROWS:
        print(f"first {MOST_ROWS} rows of each table; --format json or csv, or --out, has all")


def _groups(instance: LossInstance) -> list[tuple[str, int]]:
    """Equal servers of one name (``nurse/1``, ``nurse/2``) as ``nurse (2)``, with the first one."""
    found: dict[tuple[str, bytes], list[int]] = {}
    for r, name in enumerate(instance.servers):
        column = instance.match_reward[:, r].tobytes() + instance.allowed[:, r].tobytes()
        column += instance.on_duty[r].tobytes()
        stem = name.rpartition("/")[0] or name
        found.setdefault((stem, column), []).append(r)
    return [
        (f"{stem} ({len(same)})" if len(same) > 1 else instance.servers[same[0]], same[0])
        for (stem, _), same in found.items()
    ]
