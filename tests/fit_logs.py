"""Logs with a known truth: an instance is simulated and what happened written down."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
from executed_pages import ROOT
from numpy.typing import NDArray

from opportune.model.loss import LossInstance
from opportune.model.streams import BLOCK, draw_block, loss_law, stream_key
from opportune.policies.base import loss_policies_by_id
from opportune.simulate.loss import Run, busy_paths

HEADER = ("task", "time", "task_type", "server", "end", "outcome", "propensity")


def write_log(path: Path, header: str, *rows: str) -> Path:
    """A CSV file of a header and rows, both as they are written."""
    path.write_text("\n".join((header, *rows)) + "\n", encoding="utf-8")
    return path


def simulated_log(instance: LossInstance, path: Path, steps: int, seed: int) -> Path:
    """What the policy ``random`` did, one row per task and server; outcomes are Bernoulli.

    Services that had not ended after ``steps`` have no end; tasks that were turned away have one
    row without a server.
    """
    plan = loss_policies_by_id()["random"].plan(instance)
    chosen = busy_paths(instance, [plan], Run(steps=steps, warm_up=0, seed=seed))[1][0]
    n, k = chosen.shape
    law, key = loss_law(instance), stream_key(seed, 0)
    blocks = [draw_block(key, block, law, k) for block in range(-(-n // BLOCK))]
    gap = np.concatenate([block.gap for block in blocks])[:n]
    task_type = np.concatenate([block.task_type for block in blocks])[:n]
    duration = np.concatenate([block.duration for block in blocks])[:n]
    time = np.cumsum(gap) - 1
    luck = np.random.default_rng(seed).random((n, k))
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(HEADER)
        for i in range(n):
            name = instance.task_types[task_type[i]]
            if chosen[i, 0] < 0:
                writer.writerow((i, time[i], name, "", "", "", ""))
            for j, r in enumerate(chosen[i]):
                if r < 0:
                    continue
                end = int(time[i] + duration[i])
                won = int(luck[i, j] < instance.match_reward[task_type[i], r])
                over = end <= steps
                writer.writerow(
                    (
                        i,
                        time[i],
                        name,
                        instance.servers[r],
                        end if over else "",
                        won if over else "",
                        "",
                    )
                )
    return path


def order_of(known: tuple[str, ...], wanted: tuple[str, ...]) -> NDArray[np.int64]:
    """Places in ``known`` of the names ``wanted``."""
    return np.array([known.index(name) for name in wanted])


def key_paths(value: Any, path: str = "") -> set[str]:
    """Paths of all keys of a JSON value: ``drift[].what``."""
    if isinstance(value, list):
        return set[str]().union(*(key_paths(item, f"{path}[]") for item in value))
    if not isinstance(value, dict):
        return set()
    names = {f"{path}.{key}" if path else key for key in value}
    return names.union(*(key_paths(value[k], f"{path}.{k}" if path else k) for k in value))


def told_keys(command: str) -> set[str]:
    """The keys in the tables of a command's section of the page of results."""
    page = (ROOT / "docs" / "reference" / "results.md").read_text(encoding="utf-8")
    section = page.split(f"## `{command}`\n")[1].split("\n## ")[0]
    cells = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]
    return {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}
