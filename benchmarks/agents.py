"""Environments for agents: many systems in one compiled call beside Gymnasium's SyncVectorEnv."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np

from benchmarks.rounds import interleaved, rates, ratios, timed
from benchmarks.sections import Effort, Report, Row, Say, Section

N_ENVS = 64
SYSTEMS: dict[str, dict[str, Any]] = {
    "Loss": {"instance": "priority-v1", "load": 0.7, "steps": 100_000},
    "Queue": {"world": "cqb-joint-v1", "horizon": 2_000},
}


def measure(effort: Effort, say: Say) -> Report:
    """All rows of the section."""
    if importlib.util.find_spec("gymnasium") is None:
        return Report((), ("left out: Gymnasium is not installed (pip install 'opportune[gym]')",))
    gymnasium = importlib.import_module("gymnasium")
    importlib.import_module("opportune.gym")
    steps = effort.choose(1_999, 30)  # a whole episode of the queue
    rows: list[Row] = []
    for name, options in SYSTEMS.items():
        say(f"agents: {name}")
        many, alone = (
            gymnasium.make_vec(f"opportune/{name}-v0", num_envs=N_ENVS, **how, **options)
            for how in ({}, {"vectorization_mode": "sync"})
        )
        earned = {kind: _play(envs, steps) for kind, envs in (("many", many), ("alone", alone))}
        if earned["many"] != earned["alone"]:
            raise ValueError(f"{name}: many at once and many alone have earned different rewards")
        work = {
            "many": timed(lambda envs=many: _play(envs, steps)),
            "alone": timed(lambda envs=alone: _play(envs, steps)),
        }
        seconds = interleaved(work, effort.n_rounds(5, 1))
        n = N_ENVS * steps
        rows += [
            Row(f"{name}, one compiled call", "steps/s", rates(n, seconds["many"])),
            Row(f"{name}, SyncVectorEnv of {N_ENVS}", "steps/s", rates(n, seconds["alone"])),
            Row("  times as fast", "x", ratios(seconds["alone"], seconds["many"])),
        ]
    notes = (
        f"{N_ENVS} environments, {steps} steps each, the first possible action by the mask; both "
        "sides earn the same rewards, or the run stops",
        "SyncVectorEnv steps single environments of ours, one after another, in Python",
    )
    return Report(tuple(rows), notes)


def _play(envs: Any, steps: int) -> float:
    """Take the first possible action over and over; what was earned."""
    _, info = envs.reset(seed=1)
    total = 0.0
    for _ in range(steps):
        action = np.asarray(info["action_mask"]).argmax(axis=1)
        _, reward, _, _, info = envs.step(action)
        total += float(reward.sum())
    return total


SECTION = Section("agents", "Environments for agents", 35, measure)
