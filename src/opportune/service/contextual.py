"""Decisions by a task's own context: the plan's prices, and scores that are predicted for it.

Where the pool goes by scores learned from contexts, servers are ordered for each task by its
predicted score minus the opportunity cost of its type; the plan's lists are for types. Implements:
``learned.md`` 2, "LAG x" (ours).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opportune.kernels.allocate import PRIORITY, PlanTables
from opportune.service.learner_contexts import predicted
from opportune.service.learner_counts import scaled
from opportune.service.routing import Routing
from opportune.service.state import State, Task


def for_task(state: State, routing: Routing, task: Task) -> Routing:
    """The routing for one task: its own where scores go by context, else as it is."""
    if routing.weight is None:
        return routing
    settings = state.settings
    assert settings is not None
    learner, v = settings.learner, task.task_type
    share = predicted(routing.weight, np.array(scaled(learner.features, task.context)))
    score, index = routing.score.copy(), routing.index.copy()
    score[v] = learner.low + (learner.high - learner.low) * share
    index[v] = score[v] - np.nan_to_num(routing.cost[v], nan=0.0)
    servers = np.flatnonzero(routing.allowed[v])
    ordered = servers[np.argsort(-index[v, servers], kind="stable")]
    tables = routing.tables
    order = np.zeros((tables.order.shape[0], 1, tables.order.shape[2]), dtype=np.uint32)
    level = np.zeros(order.shape, dtype=np.int32)
    order[v, 0, : len(ordered)] = ordered
    level[v, 0] = np.arange(order.shape[2])
    own = PlanTables(order, level, tables.n_allowed, np.zeros((order.shape[0], 0)), PRIORITY)
    return replace(routing, tables=own, score=score, index=index)
