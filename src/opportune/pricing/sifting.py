"""Gear "sifting": solve over the pairs near the optimal prices, look at all pairs, repeat.

At nearly optimal prices a pair whose index L is clearly negative is not used, and a few pairs
per type remain in doubt. Their LP is solved to the last digit (``pricing.interior``); its prices
are priced out over all pairs in closed form, which is a certified bound, and its rates are
feasible for the whole problem. Where the two do not meet, pairs near the new prices join.
With all pairs in it this is gear "barrier".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from opportune.pricing.interior import EARLY, Center, find_center
from opportune.pricing.pairs import (
    Columns,
    PairProblem,
    all_columns,
    columns_at,
    near_columns,
    pair_means,
)
from opportune.pricing.recovery import offer_feasible
from opportune.pricing.search import Search

Float = NDArray[np.float64]
Int = NDArray[np.int64]

FINE = 1e-12
"""Gap at which there is nothing left to gain, whatever was asked for."""

ROOM = 1.3
"""Servers that must be near for each server demanded, counted by the time they are free."""

MOST_ROUNDS = 12

WIDER = 1.5
"""What the margin is multiplied by where other pairs turn out to be used."""

FAR = 0.1
"""Products to start from where all pairs are in and it failed: the middle of everything."""

MUCH_WIDER = 6.0
"""And where the pairs near cannot serve everyone."""

ALL = 0.5
"""Above this share of near pairs all are taken."""


def sift(search: Search, margin: float, mu: float) -> None:
    """Offer prices and rates until the gap is closed, the time is up or nothing helps.

    Args:
        search: The solve, with prices near the optimal ones in it.
        margin: Pairs with index at least -margin are near, in units of the largest reward;
            infinite for all pairs from the start.
        mu: Products that the barrier starts from.
    """
    problem = search.problem
    search.gear = "sifting"
    columns: Columns | None = None
    violators: Int | None = np.empty(0, dtype=np.int64)
    for _ in range(MOST_ROUNDS):
        prices = search.best_prices
        if margin == np.inf:
            columns = all_columns(problem)
        else:
            columns = _joined(problem, columns, choose_columns(problem, prices, margin), violators)
        if columns.place is None:
            search.gear = "barrier"
        found = find_center(search, columns, prices, mu, _none_missing(search, columns))
        met = _offer(search, columns, found)
        search.tell(f"{len(columns.pairs.reward)} of {problem.n_pairs} pairs")
        closed = search.gap <= min(search.stop.gap, FINE) or (search.done and met)
        if closed or search.out_of_time or search.infeasible:
            return
        if columns.place is None:
            if mu >= FAR:
                return
            mu = FAR
            continue
        violators = near_columns(problem, found.price, found.capacity, 0.0).place
        margin *= WIDER if met else MUCH_WIDER


def _none_missing(search: Search, columns: Columns) -> Callable[[Center], bool]:
    """Whether the bound over all pairs is as good as the solution over these."""

    def check(found: Center) -> bool:
        if columns.place is None:
            return True
        bound = search.offer_price(found.price, found.capacity)
        pairs, market = columns.pairs, search.problem.market
        weight = market.arrival_rate[pairs.task_type] * market.copies[columns.server]
        value = float(np.sum(weight * pairs.reward * found.rate))
        return bound - value <= 10.0 * EARLY * abs(value)

    return check


def _joined(
    problem: PairProblem, old: Columns | None, new: Columns, violators: Int | None
) -> Columns:
    """Old and new columns and those that the last prices favor; all where that is most."""
    if new.place is None or violators is None:
        return all_columns(problem)
    place = np.union1d(new.place, violators)
    if old is not None and old.place is not None:
        place = np.union1d(place, old.place)
    return (
        all_columns(problem) if len(place) > ALL * problem.n_pairs else columns_at(problem, place)
    )


def choose_columns(problem: PairProblem, prices: tuple[Float, Float], margin: float) -> Columns:
    """Pairs near the prices, enough of them to serve every type; all where that is most."""
    price, capacity = prices
    margins = np.full(problem.n_types, margin)
    demand, market = problem.market.demand, problem.market
    n_permitted = np.bincount(problem.pairs.task_type, minlength=problem.n_types)
    while True:
        columns = near_columns(problem, price, capacity, margins)
        if columns.place is None or len(columns.place) > ALL * problem.n_pairs:
            return all_columns(problem)
        if problem.at_most:
            return columns
        task_type, server = columns.pairs.task_type, columns.server
        mean = pair_means(columns.pairs)
        cost = mean * capacity[server]
        positive = columns.pairs.reward - price[task_type] > cost
        work = market.arrival_rate[task_type] * mean * positive
        free = 1.0 / (1.0 + np.bincount(server, weights=work, minlength=problem.n_servers))
        near = np.bincount(
            task_type, weights=(market.copies * free)[server], minlength=problem.n_types
        )
        short = near < ROOM * demand
        short &= np.bincount(task_type, minlength=problem.n_types) < n_permitted
        if not short.any():
            return columns
        margins[short] *= 4.0


def _offer(search: Search, columns: Columns, found: Center) -> bool:
    """Offer what the barrier found; whether it solved its LP and the rates are feasible."""
    search.offer_price(found.price, found.capacity)
    free_of_excess = found.missed <= 1e-6 * float(search.problem.market.demand.max())
    feasible = offer_feasible(search, columns, found.rate)
    return feasible and free_of_excess and found.gap <= 1e-6
