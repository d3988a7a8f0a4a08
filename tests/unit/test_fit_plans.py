"""What a fit is for: the plan made of it is nearly as good as the plan made of the truth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import opportune
from opportune.learning.fit.instance import fit_log
from opportune.learning.fit.log import read_log
from opportune.policies.base import loss_policies_by_id
from tests.fit_logs import order_of, simulated_log


@pytest.mark.parametrize(
    ("name", "steps", "least"),
    [
        ("priority-v1", 5_000, 0.995),
        ("specialist-v1", 5_000, 0.985),
        ("unfriendly-v1", 20_000, 0.98),
    ],
)
def test_lag_on_a_fit_earns_what_lag_on_the_truth_does(
    tmp_path: Path, name: str, steps: int, least: float
) -> None:
    """From 800 to 3,300 tasks that were served at random; greedy on the truth gets 74 to 94 %."""
    truth = opportune.load_instance(name, 0.7)
    truth = replace(truth, match_reward=truth.match_reward / truth.match_reward.max())
    found = fit_log(read_log(simulated_log(truth, tmp_path / "log.csv", steps, 1))).instance
    types = order_of(found.task_types, truth.task_types)
    servers = order_of(found.servers, truth.servers)
    fitted = replace(
        truth,
        arrival_rate=found.arrival_rate[types],
        match_reward=found.match_reward[np.ix_(types, servers)],
        duration=tuple(found.duration[v] for v in types),
        servers_per_task=found.servers_per_task[types],
    )
    policies = loss_policies_by_id()
    plans = [
        policies["lag"].plan(fitted),
        policies["lag"].plan(truth),
        policies["greedy"].plan(truth),
    ]
    run = opportune.Run(steps=150_000, warm_up=2_000, seed=3)
    ours, known, greedy = (
        trace.reward.sum() for trace in opportune.simulate_plans(truth, plans, run)
    )
    assert ours >= least * known
    assert ours > greedy
