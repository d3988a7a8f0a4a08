"""Prices of a pool as a matrix that a person can look at: task types by servers.

At most ``MOST_TYPES`` types, those with the highest demand price, and ``MOST_COLUMNS`` columns:
with more servers a column is a group of servers whose capacity prices are next to each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.service.ordering import routing_of
from opportune.service.routing import Routing
from opportune.service.state import State

Float = NDArray[np.float64]

MOST_TYPES = 20
MOST_COLUMNS = 40
"""A larger matrix cannot be read, and is slow to draw."""


@dataclass(frozen=True)
class Heat:
    """A reduced matrix: V types by C columns.

    Attributes:
        types: (V,) names.
        columns: (C,) names: of a server, or of a group of them.
        sizes: (C,) servers in each.
        n_types, n_servers: How many there are in all.
        priced: Whether a plan with prices decides; otherwise the index is the score.
        index, score, cost: (V, C) means over the permitted servers, NaN where none is permitted.
        permitted: (V, C) how many servers of the column the type permits.
        capacity_price: (C,) means, reward per second.
        demand_price, mean_duration: (V,).
    """

    types: list[str]
    columns: list[str]
    sizes: list[int]
    n_types: int
    n_servers: int
    priced: bool
    index: Float
    score: Float
    cost: Float
    permitted: NDArray[np.int64]
    capacity_price: Float
    demand_price: Float
    mean_duration: Float

    @property
    def is_cut(self) -> bool:
        """Whether servers are grouped or types left out."""
        return self.n_types > len(self.types) or self.n_servers > len(self.columns)

    def rows(self) -> list[dict[str, Any]]:
        """The cells as records for a chart, forbidden ones with ``null``."""
        return [
            {
                "type": self.types[v],
                "server": self.columns[c],
                "place": c,
                "index": _known(self.index[v, c]),
                "score": _known(self.score[v, c]),
                "cost": _known(self.cost[v, c]),
                "permitted": int(self.permitted[v, c]),
                "servers": self.sizes[c],
            }
            for v in range(len(self.types))
            for c in range(len(self.columns))
        ]


def heat(state: State) -> Heat:
    """The matrix of a pool as it decides now."""
    routing = routing_of(state)
    present = [r for r, server in enumerate(state.servers) if server.present]
    price = _mean(routing.capacity_price[:, present], 0)
    by_price = np.argsort(np.nan_to_num(price, nan=np.inf), kind="stable")
    servers = np.array(present, dtype=np.int64)[by_price]
    groups = np.array_split(servers, min(len(servers), MOST_COLUMNS)) if len(servers) else []
    demand: Float = routing.demand_price
    types = np.argsort(-np.nan_to_num(demand, nan=-np.inf), kind="stable")[:MOST_TYPES]
    return Heat(
        types=[state.types[v].id for v in types],
        columns=[_label(state, group) for group in groups],
        sizes=[len(group) for group in groups],
        n_types=len(state.types),
        n_servers=len(present),
        priced=bool(np.isfinite(demand).any()),
        index=_reduced(routing, routing.index, types, groups),
        score=_reduced(routing, routing.score, types, groups),
        cost=_reduced(routing, routing.cost, types, groups),
        permitted=_columns([routing.allowed[np.ix_(types, g)].sum(axis=1) for g in groups], types),
        capacity_price=np.array(
            [float(_mean(routing.capacity_price[:, g].ravel(), 0)) for g in groups]
        ),
        demand_price=demand[types],
        mean_duration=routing.mean_duration[types],
    )


def _reduced(routing: Routing, values: Float, types: Any, groups: list[Any]) -> Float:
    """(V, C) means over the permitted servers of each group."""
    shown = np.where(routing.allowed, values, np.nan)
    columns: Float = _columns([_mean(shown[np.ix_(types, g)], 1) for g in groups], types)
    return columns


def _columns(columns: list[Any], types: Any) -> Any:
    """The columns side by side, (V, C)."""
    return np.stack(columns, axis=1) if columns else np.zeros((len(types), 0))


def _mean(values: Float, axis: int) -> Float:
    """Mean of what is known, NaN where nothing is."""
    known = np.isfinite(values)
    n = np.asarray(known.sum(axis=axis))
    total = np.where(known, values, 0.0).sum(axis=axis)
    mean: Float = np.divide(total, n, out=np.full(n.shape, np.nan), where=n > 0)
    return mean


def _label(state: State, group: Any) -> str:
    first, last = (state.servers[r].settings.id for r in (group[0], group[-1]))
    return first if len(group) == 1 else f"{first} … {last} ({len(group)})"


def _known(value: Any) -> float | None:
    return float(f"{value:.6g}") if np.isfinite(value) else None
