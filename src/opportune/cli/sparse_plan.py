"""What ``opportune plan`` prints and writes of an instance given as lists of pairs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.cli.options import Format
from opportune.cli.output import print_csv, print_json, print_note, print_table
from opportune.model.writing import npz_bytes, put_all
from opportune.pricing.gears import peak_memory
from opportune.pricing.sparse import SparsePrices

MOST_ROWS = 20
"""Pairs shown in the table."""


def show_sparse(prices: SparsePrices, out: Path | None, format: Format) -> None:
    """Print or write a plan by pair.

    Raises:
        InputError: If the file cannot be written.
    """
    record = sparse_record(prices)
    if out is not None:
        write_plan(out, record, _arrays(prices))
    if format == "json":
        record["pairs"] = _pair_columns(prices)
        print_json(record)
    elif format == "csv":
        columns = ("task_type", "server", "score", "index", "assignment_rate")
        print_csv(columns, list(_rows(prices, np.arange(prices.instance.n_pairs))))
    else:
        _print(prices, record)


def sparse_record(prices: SparsePrices) -> dict[str, Any]:
    """The plan as JSON, without what there is for every pair."""
    instance = prices.instance
    return {
        "instance": instance.name,
        "task_types": list(instance.task_types),
        "servers": list(instance.servers),
        "load": float(f"{instance.load:.12g}"),
        "priced_at": "zero",
        "value": prices.value,
        "dual_value": prices.dual_value,
        "gap": prices.gap,
        "solver": prices.solver,
        "seconds": prices.seconds,
        "memory": peak_memory(),
        "bounds": [
            {
                "name": "occ-lp-at-most",
                "value": prices.dual_value,
                "blocking": None,
                "gap": prices.gap,
                "label": "proven",
            }
        ]
        if float(prices.demand_price.min()) >= 0
        else [],
        "demand_price": prices.demand_price.tolist(),
        "capacity_price": prices.capacity_price.tolist(),
        "free_fraction": prices.free_fraction.tolist(),
    }


def _pair_columns(prices: SparsePrices) -> dict[str, Any]:
    """Positions of type and server, index and rate of every permitted pair."""
    instance = prices.instance
    return {
        "task_type": instance.task_type.tolist(),
        "server": instance.server.tolist(),
        "index": prices.index.tolist(),
        "assignment_rate": prices.assignment_rate.tolist(),
    }


def _rows(prices: SparsePrices, places: np.ndarray) -> list[tuple[Any, ...]]:
    instance, server = prices.instance, prices.instance.server
    return [
        (
            instance.task_types[instance.task_type[p]],
            instance.servers[server[p]],
            float(instance.match_reward[p]),
            float(prices.index[p]),
            float(prices.assignment_rate[p]),
        )
        for p in places
    ]


def write_plan(out: Path, record: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a plan: JSON for people and diffs, and arrays in full precision beside it.

    Raises:
        InputError: If the files cannot be written; then neither is.
    """
    small = {key: value for key, value in record.items() if key not in ("seconds", "memory")}
    text = json.dumps(small, indent=1, allow_nan=False, ensure_ascii=False)
    beside = out.with_suffix(".npz")
    put_all({beside: npz_bytes(arrays), out: f"{text}\n".encode()})
    print_note(f"plan: {out}, {beside.name}")


def _arrays(prices: SparsePrices) -> dict[str, NDArray[Any]]:
    """The pairs, and each type's servers in order."""
    begin, order = prices.order()
    return {
        "arrival_rate": prices.instance.arrival_rate,
        "demand_price": prices.demand_price,
        "capacity_price": prices.capacity_price,
        "free_fraction": prices.free_fraction,
        "pair_type": prices.instance.task_type,
        "pair_server": prices.instance.server,
        "index": prices.index,
        "assignment_rate": prices.assignment_rate,
        "order_begin": begin,
        "order": order,
    }


def _print(prices: SparsePrices, record: dict[str, Any]) -> None:
    instance = prices.instance
    share = instance.n_pairs / (instance.n_types * instance.n_servers)
    print(
        f"{instance.name}: {instance.n_types:,} task types, {instance.n_servers:,} servers, "
        f"{instance.n_pairs:,} permitted pairs ({share:.2%}), load {instance.load:.4g}"
    )
    print(
        f"value {prices.value:.8g} per step, dual value {prices.dual_value:.8g}, gap "
        f"{prices.gap:.1e}, {prices.solver}, {prices.seconds:.3f} s, "
        f"{record['memory'] / 2**20:.0f} MB"
    )
    best = np.argsort(-prices.assignment_rate, kind="stable")[:MOST_ROWS]
    rows = [
        (a, b, f"{score:.5g}", f"{index:.5g}", f"{rate:.5g}")
        for a, b, score, index, rate in _rows(prices, best)
    ]
    columns = ("type", "server", "score", "index", "assignments/step")
    print_table(f"First {len(rows)} pairs by assignment rate", columns, rows)
    print("--format json or csv, or --out, has all")
