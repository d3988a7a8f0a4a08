"""Replications: shapes, sums, progress, and an interrupt that stops the workers."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from opportune.experiments import runs
from opportune.experiments.runs import Runs, run_replications
from opportune.experiments.settings import Settings
from opportune.model.duration import Geometric
from opportune.model.loss import loss_instance
from opportune.policies.base import list_plan
from opportune.simulate.loss import Run, simulate_plans

INSTANCE = loss_instance([[1.0, 0.5, 0.2], [0.1, 0.9, 0.4]], [0.2, 0.1], Geometric(6))
PLANS = [
    list_plan("a", INSTANCE, INSTANCE.match_reward),
    list_plan("b", INSTANCE, -INSTANCE.match_reward),
]


def settings(steps: int = 2_000, replications: int = 3, **others: object) -> Settings:
    """Two plans stand for two policies here; the names do not matter."""
    return Settings(("lag", "greedy"), steps, replications, **others)  # type: ignore[arg-type]


def test_axes_and_sums() -> None:
    runs = run_replications(INSTANCE, PLANS, settings())
    assert runs.assigned.shape == (3, 2, 2, 3)
    assert runs.busy_steps.shape == (3, 2, 3)
    assert runs.arrived.shape == runs.blocked.shape == (3, 2, 2)
    assert runs.reward.shape == (3, 2, 20)
    assert (runs.steps, runs.warm_up) == (2_000, 200)
    for n in range(3):
        traces = simulate_plans(INSTANCE, PLANS, Run(2_000, 200, 1, n))
        for p, trace in enumerate(traces):
            assert runs.reward_per_step[n, p] == pytest.approx(trace.reward.sum() / 2_000)
            assert runs.blocking[n, p] == trace.blocked.sum() / trace.arrived.sum()
            assert runs.assigned[n, p].tolist() == trace.assigned.tolist()


def test_blocking_without_arrivals_is_zero() -> None:
    nothing = loss_instance(np.eye(2), [0.0, 0.0], Geometric(3))
    plan = list_plan("a", nothing, nothing.match_reward)
    runs = run_replications(nothing, [plan], settings())
    assert runs.blocking.tolist() == [[0.0]] * 3
    assert runs.reward_per_step.tolist() == [[0.0]] * 3


@pytest.mark.parametrize(("workers", "backend"), [(1, "threads"), (2, "threads"), (2, "loky")])
def test_progress_comes_in_order_from_the_calling_thread(workers: int, backend: str) -> None:
    seen: list[tuple[float, str, int]] = []

    def watch(share: float, text: str) -> None:
        seen.append((share, text, threading.get_ident()))

    run_replications(INSTANCE, PLANS, settings(workers=workers, backend=backend), watch)
    assert [share for share, _, _ in seen] == pytest.approx([1 / 3, 2 / 3, 1.0])
    assert [text for _, text, _ in seen] == [f"replication {i} of 3" for i in (1, 2, 3)]
    assert {thread for _, _, thread in seen} == {threading.get_ident()}


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_is_raised_again_and_stops_the_workers(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted after the first of many long replications: it does not run them all."""
    began: list[object] = []
    run_piece = runs.run_piece
    monkeypatch.setattr(
        runs, "run_piece", lambda piece, watch: began.append(piece) or run_piece(piece, watch)
    )

    def interrupt(_: float, __: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_replications(INSTANCE, PLANS, settings(3_000_000, 200, workers=workers), interrupt)
    assert 0 < len(began) < 20
    before = threading.active_count()
    time.sleep(0.2)
    assert threading.active_count() <= before


def test_one_replication_needs_no_pool() -> None:
    runs = run_replications(INSTANCE, PLANS, settings(replications=1, workers=8, backend="loky"))
    assert isinstance(runs, Runs)
    assert runs.reward.shape == (1, 2, 20)
