"""Rankings from estimated scores: by score alone, or by score minus opportunity cost.

Prices are those of OCC-LP(0) on the estimates; where the permitted pairs cannot serve every task,
those of OCC-LP(<=). Exact ties are broken by chance, so that servers that nothing is known of take
equal shares; the ceiling breaks them as LAG does.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from opportune.errors import OverloadError
from opportune.kernels.learned import Ranking
from opportune.learning.pace import capped
from opportune.model.loss import LossInstance
from opportune.policies.beliefs import Beliefs, Ranked
from opportune.policies.loss.lag import snapped, snapped_index, tie_order
from opportune.pricing.demand import AT_MOST, FULL
from opportune.pricing.gears import AUTO, BARRIER, SMALL
from opportune.pricing.occupancy import price
from opportune.pricing.relaxation import Relaxation
from opportune.pricing.warm import carried_prices

Float = NDArray[np.float64]

TINY = 100
"""Pairs up to which the whole LP is fastest; then the barrier, on several hundred by 1.5 to 1.8."""


def by_score(beliefs: Beliefs, score: Float, *, by_context: bool = False) -> Ranked:
    """Greedy: the best estimated servers now; ``score`` is (V, M), or (C, M) by context."""
    by_type = mean_by_type(beliefs, score) if by_context else score
    return Ranked(_ranking(beliefs, score, by_context=by_context), None, by_type)


def by_price(
    beliefs: Beliefs,
    score: Float,
    previous: Ranked | None,
    *,
    by_context: bool = False,
    as_lag: bool = False,
) -> Ranked:
    """LAG on estimates: score minus demand price minus E[D] times capacity price.

    Args:
        beliefs: What is known.
        score: (V, M), or (C, M) by context: the linear program then sees the mean by type.
        previous: Where prices start from.
        by_context: Whether the scores are by context.
        as_lag: Ties by pi, as in LAG's own lists, instead of by chance.
    """
    by_type = mean_by_type(beliefs, score) if by_context else score
    instance = priced_instance(beliefs, by_type)
    prices = solved(instance, None if previous is None else previous.prices)
    n_types, n_servers = instance.n_types, len(beliefs.there)
    second = np.zeros((n_types, n_servers))
    second[:, beliefs.there] = snapped(prices.tie_weight)
    rank = np.zeros(n_servers, dtype=np.int64)
    if as_lag:
        rank[beliefs.there] = tie_order(instance)
    if by_context:
        cost = np.zeros((n_types, n_servers))
        cost[:, beliefs.there] = prices.opportunity_cost / beliefs.unit
        ranking = _ranking(beliefs, score, by_context=True)
        return Ranked(ranking._replace(cost=cost, rank=rank), prices, by_type)
    index = np.zeros((n_types, n_servers))
    index[:, beliefs.there] = np.where(instance.allowed, snapped_index(prices), 0.0)
    ranking = Ranking(
        score=index,
        column=np.arange(n_servers),
        by_context=False,
        cost=np.zeros((n_types, n_servers)),
        second=second,
        rank=rank,
        forced=np.zeros((n_types, n_servers), dtype=np.bool_),
        share=0.0,
    )
    return Ranked(ranking, prices, by_type)


def priced_instance(beliefs: Beliefs, by_type: Float) -> LossInstance:
    """The instance that is believed in: with the scores given; an estimated load is capped."""
    reward = by_type[:, beliefs.model[beliefs.there]] * beliefs.unit
    instance = replace(beliefs.instance, match_reward=np.maximum(reward, 0.0))
    return instance if beliefs.known_score is not None else capped(instance)


def solved(instance: LossInstance, previous: Relaxation | None) -> Relaxation:
    """Prices of OCC-LP(0), of OCC-LP(<=) where not every task can be served; started warm."""
    start = None if previous is None else carried_prices(previous, instance, FULL)
    gear = BARRIER if TINY < instance.match_reward.size <= SMALL else AUTO
    try:
        return price(instance, FULL, gear=gear, start=start)
    except OverloadError:
        return price(instance, AT_MOST, gear=gear, start=start)


def _ranking(beliefs: Beliefs, score: Float, *, by_context: bool) -> Ranking:
    n_types, n_servers = beliefs.instance.n_types, len(beliefs.there)
    return Ranking(
        score=np.ascontiguousarray(score, dtype=np.float64),
        column=beliefs.model,
        by_context=by_context,
        cost=np.zeros((n_types, n_servers)),
        second=np.zeros((n_types, n_servers)),
        rank=np.zeros(n_servers, dtype=np.int64),
        forced=np.zeros((n_types, n_servers), dtype=np.bool_),
        share=0.0,
    )


def mean_by_type(beliefs: Beliefs, score: Float) -> Float:
    """(V, M) mean of scores (C, M) over the contexts of each type that have arrived.

    For a type without, over all its contexts.
    """
    known, n_types = beliefs.features, beliefs.instance.n_types
    if known is None:
        raise TypeError("scores by context without contexts")
    total, count = np.zeros((n_types, score.shape[1])), np.zeros(n_types)
    for seen in (known.arrived, ~known.arrived):
        use = seen & (count[known.task_type] == 0)
        np.add.at(total, known.task_type[use], score[use])
        count += np.bincount(known.task_type[use], minlength=n_types)
    return np.asarray(total / np.maximum(count, 1.0)[:, None])
