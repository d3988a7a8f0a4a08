"""The simulated stream through split pools: the live sub-pools pick the simulator's servers."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.hot_pools import Live
from benchmarks.instances import review_instance
from opportune.model.catalog import catalog_instance
from opportune.policies.base import loss_policy
from opportune.simulate.loss import Run
from opportune.simulate.split import Split, simulate_split


@pytest.mark.parametrize("name", ["priority-v1", "review"])
@pytest.mark.parametrize("m", [1, 2, 4, 8])
def test_live_sub_pools_pick_what_simulated_ones_do(name: str, m: int) -> None:
    one = catalog_instance(name, 0.7) if name != "review" else review_instance(10, 30)
    plan = loss_policy("lag").plan(one)
    split = Split(m, None if m == 1 else 7)
    run = Run(1500, 150, 3, 1)
    live = Live(one, plan, split, run).run()
    (trace,) = simulate_split(one, [plan], split, run)
    assert (live.arrived, live.dropped) == (trace.arrived.sum(), trace.blocked.sum())
    assigned = np.zeros_like(trace.assigned)
    for (v, server), n in live.assigned.items():
        assigned[v, one.servers.index(server)] = n
    assert assigned.tolist() == trace.assigned.tolist()
    assert live.reward == pytest.approx(float(trace.reward.sum()), rel=1e-12)
    assert live.dropped < live.arrived
