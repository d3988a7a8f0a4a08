"""The prices of a pool: markup and rows of the heat map and of what stands beside it."""

from __future__ import annotations

from typing import Any

import numpy as np

from opportune.markup import Html, joined
from opportune.service.dashboard.figures import name_of, number
from opportune.service.dashboard.heat import Heat
from opportune.service.dashboard.tables import capped, note, table

Row = dict[str, Any]


def prices(found: Heat) -> tuple[dict[str, Html], dict[str, list[Row]]]:
    """Parts of the page by place, and rows by chart."""
    charts: dict[str, list[Row]] = {
        "heat-chart": found.rows(),
        "capacity-chart": [
            {"place": c, "server": name, "price": float(f"{price:.6g}")}
            for c, (name, price) in enumerate(zip(found.columns, found.capacity_price, strict=True))
            if np.isfinite(price)
        ],
        "demand-chart": [
            {"type": name, "price": float(f"{price:.6g}")}
            for name, price in zip(found.types, found.demand_price, strict=True)
            if np.isfinite(price)
        ],
    }
    return {"prices": _told(found), "prices-table": _tables(found)}, charts


def _told(found: Heat) -> Html:
    if not found.types or not found.columns:
        return note("There are no task types or no servers yet.")
    parts = []
    if not found.priced:
        parts.append(note("No plan with prices decides: the index is the score.", "warning"))
    if found.n_types > len(found.types):
        remedy = "They have the highest demand prices."
        parts.append(capped(len(found.types), found.n_types, remedy, "types"))
    if found.n_servers > len(found.columns):
        told = [
            number("servers", found.n_servers),
            "stand in",
            number("columns", len(found.columns)),
            "of neighbors in capacity price; a cell is the mean of its permitted servers.",
        ]
        parts.append(note(joined(told, " ")))
    return joined(parts)


def _tables(found: Heat) -> Html:
    """All numbers of the charts: types, servers, and the matrix of the index."""
    if not found.types or not found.columns:
        return note("There are no task types or no servers yet.")
    types = [
        [
            name_of(name),
            number("demand_price", found.demand_price[v]),
            number("mean_duration", found.mean_duration[v]),
            number("n_permitted", int(found.permitted[v].sum())),
        ]
        for v, name in enumerate(found.types)
    ]
    columns = [
        [
            name_of(name),
            number("server_group", found.sizes[c]),
            number("capacity_price", found.capacity_price[c]),
            *[number("index", found.index[v, c]) for v in range(len(found.types))],
        ]
        for c, name in enumerate(found.columns)
    ]
    head = ["Server", "server_group", "capacity_price", *[f"index:{name}" for name in found.types]]
    return joined(
        [
            table(
                "Task types", ["Task type", "demand_price", "mean_duration", "n_permitted"], types
            ),
            table("Servers", head, columns),
        ]
    )
