"""LAG Lemma 3.1: without forbidden pairs every policy has the same number of busy servers.

Same arrivals, same durations: equal step by step, so one blocking for all. With forbidden pairs
it is not so, unless no type has more than R mod k forbidden servers (``lag.md`` section 2).
"""

from __future__ import annotations

import numpy as np
import pytest

from opportune.model.duration import Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.policies.base import list_plan
from opportune.simulate.loss import Run, busy_paths, simulate_plans
from tests import naive
from tests.instances import Shape, random_instance, static_plans


def loaded(instance: LossInstance) -> LossInstance:
    """So many tasks that a good part is dropped."""
    rate = instance.arrival_rate * min(0.95 / instance.arrival_rate.sum(), 1.2 / instance.load)
    return loss_instance(
        instance.match_reward,
        rate,
        list(instance.duration),
        instance.servers_per_task.tolist(),
        allowed=instance.allowed,
    )


@pytest.mark.parametrize(
    "shape",
    [Shape(scores="levels"), Shape(duration="mixed", k=1), Shape(per_type=True, duration="mixed")],
    ids=["one k", "k = 1", "k and D per type"],
)
def test_busy_paths_are_equal_step_by_step(shape: Shape) -> None:
    """With one k, and also with k per type: one headcount in servers (``lag.md`` section 2)."""
    rng = np.random.default_rng(21)
    for case in range(15):
        instance = loaded(random_instance(rng, shape))
        plans = static_plans(instance)
        busy, chosen = busy_paths(instance, plans, Run(2000, 0, seed=case))
        assert busy.shape == (len(plans), 2000)
        assert np.all(busy == busy[0])
        assert len({tuple((one[:, 0] < 0).tolist()) for one in chosen}) == 1  # the same drops
        traces = simulate_plans(instance, plans, Run(1500, 500, seed=case))
        assert len({trace.blocked.tobytes() for trace in traces}) == 1
        assert len({int(trace.busy_steps.sum()) for trace in traces}) == 1
        assert busy[0, 500:].sum() == traces[0].busy_steps.sum()


def test_the_busy_path_is_that_of_the_step_by_step_twin() -> None:
    rng = np.random.default_rng(22)
    for case, forbidden in enumerate((False, True) * 3):
        instance = loaded(random_instance(rng, Shape(forbidden=forbidden, scores="levels")))
        plans = static_plans(instance)
        run = Run(300, 100, seed=case)
        streams = naive.first_block(instance, case)
        busy, _ = busy_paths(instance, plans, run)
        for plan, path in zip(plans, busy, strict=True):
            counts = naive.simulate(instance, plan.tables, streams, (100, 400))
            assert counts.busy_path == path.tolist()


def test_with_forbidden_pairs_paths_and_blocking_depend_on_the_policy() -> None:
    """Type 0 may use server 0 only; who gives server 0 to type 1 first drops more of type 0."""
    instance = loss_instance(
        [[1.0, 0.0], [1.0, 0.5]], [0.1, 0.2], Geometric(5), allowed=[[True, False], [True, True]]
    )
    wasteful, careful = (
        list_plan(name, instance, [[1.0, 0.0], row], np.arange(2))
        for name, row in (("wasteful", [1.0, 0.5]), ("careful", [0.5, 1.0]))
    )
    busy, _ = busy_paths(instance, [wasteful, careful], Run(2000, 0))
    assert not np.array_equal(busy[0], busy[1])
    traces = simulate_plans(instance, [wasteful, careful], Run(200_000, 100))
    shares = [trace.blocked / trace.arrived for trace in traces]
    assert shares[0][0] > shares[1][0] + 0.1
    assert shares[1][0] != pytest.approx(shares[1][1], abs=0.02)


def test_few_forbidden_servers_change_nothing() -> None:
    """R mod k forbidden servers a type are never missed: R = 7, k = 3, one forbidden each."""
    rng = np.random.default_rng(23)
    for case in range(10):
        allowed = np.ones((4, 7), dtype=bool)
        allowed[np.arange(4), rng.integers(0, 7, 4)] = False
        instance = loss_instance(
            rng.random((4, 7)), np.full(4, 0.1), Geometric(5), 3, allowed=allowed
        )
        busy, _ = busy_paths(instance, static_plans(instance), Run(2000, 0, seed=case))
        assert np.all(busy == busy[0])


def test_one_more_forbidden_server_does() -> None:
    rng = np.random.default_rng(24)
    allowed = np.ones((4, 6), dtype=bool)
    allowed[np.arange(4), rng.integers(0, 6, 4)] = False
    instance = loss_instance(rng.random((4, 6)), np.full(4, 0.1), Geometric(5), 3, allowed=allowed)
    busy, _ = busy_paths(instance, static_plans(instance), Run(2000, 0))
    assert not np.all(busy == busy[0])
