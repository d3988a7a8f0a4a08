"""What a report shows of an instance that is too big to show whole.

Matrices are cut to the task types with the most work and the servers with the highest price;
a long sweep shows the details of some of its loads. Both are said where they happen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune.experiments.comparison import Comparison

TYPES, SERVERS = 30, 40
"""Most task types and servers in a heat map, a bar chart or a table."""

LOADS = 15
"""Most loads of a sweep with details of their own."""


@dataclass(frozen=True, eq=False)
class Excerpt:
    """The rows and columns that are shown, in the order of the instance.

    Attributes:
        types: Positions of task types.
        servers: Positions of servers.
        note: What is left out, in words; empty if nothing is.
    """

    types: NDArray[np.intp]
    servers: NDArray[np.intp]
    note: str


def excerpt(comparison: Comparison) -> Excerpt:
    """The task types with the most work and the servers with the highest capacity price."""
    instance = comparison.instance
    work = instance.arrival_rate * instance.servers_per_task * instance.mean_duration
    types = _largest(work, TYPES)
    price = comparison.prices.capacity_price
    servers = _largest(price, SERVERS)
    parts = []
    if len(types) < instance.n_types:
        parts.append(
            f"the {len(types)} of {instance.n_types:,} task types with the most work "
            "(arrivals × servers × duration)"
        )
    if len(servers) < instance.n_servers:
        parts.append(
            f"the {len(servers)} of {instance.n_servers:,} servers with the highest capacity price"
        )
    note = f"Shown: {' and '.join(parts)}." if parts else ""
    return Excerpt(types, servers, note)


def detailed(comparisons: Sequence[Comparison]) -> list[int]:
    """Positions of the comparisons with details: all, or evenly spread with both ends."""
    n = len(comparisons)
    if n <= LOADS:
        return list(range(n))
    spread = np.linspace(0, n - 1, LOADS)
    return sorted({round(place) for place in spread})


def _largest(values: NDArray[np.float64], most: int) -> NDArray[np.intp]:
    """Positions of the largest values, in their own order; equal ones by position."""
    order = np.argsort(-values, kind="stable")[:most]
    return np.sort(order)
