"""Versioned instances by id: a changed number is a new version, so an id always means the same.

Implements the instances of LAG section 5 (quoted where the paper states them, otherwise as close
as the data that can be had; see each entry's source) and ``bank-v1`` (ours). All of them have
shares of the task types only, so a load is needed. The entries with ``needs_data`` read the data
folder that the environment variable ``OPPORTUNE_DATA`` names.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem
from opportune.model.description import Draft, read_description
from opportune.model.duration import Deterministic, Duration, Empirical, Geometric
from opportune.model.loss import LossInstance, loss_instance, numbered
from opportune.model.spelling import did_you_mean
from opportune.model.tables import Sheet, is_empty, read_sheet

Float = NDArray[np.float64]

DATA_VARIABLE = "OPPORTUNE_DATA"
"""Environment variable with the folder of the data that some instances read."""

QUEUE_IDS = (
    "hard-v1",
    "hard-v1@1",
    "cqb-joint-v1",
    "cqb-disjoint-v1",
    "dcreplay-v1",
    "dcfit-v1",
)
"""Ids of queue instances, which have another model (``model.queue_catalog``)."""

TMLR_DURATIONS = {
    "kind": "empirical",
    "file": "tmlr/duration_pmf_last3_no_outlier.csv",
    "steps": "duration_days",
    "weight": "count",
}
TMLR_SCORES = "tmlr/similarity_10x60.csv"
ICLR_SCORES = "iclr2018/sub_10x30.npz"
BANK_TYPES = "anonymous_bank/types.csv"
BANK_AGENTS = "anonymous_bank/type_agent_service.csv"
BANK_DURATIONS = {
    "kind": "empirical",
    "file": "anonymous_bank/service_pmf_30s_cap60.csv",
    "steps": "duration_30s",
    "weight": "count",
    "task": "type",
}
BANK_STEP = 30
"""Seconds of a step of ``bank-v1``."""

MOST_CALLS = 0.5
"""Calls per step once the step of ``bank-v1`` must be divided: well below one."""

BANK_PRIOR = 30
"""Calls at which an agent's own speed and the neutral score weigh the same."""


@dataclass(frozen=True)
class CatalogEntry:
    """What an id stands for.

    Attributes:
        id: The id, without the number of a sample.
        title: One line for a list.
        source: Where its numbers come from.
        needs_data: Whether it reads the data folder.
        samples: How many samples it has (``id@0``, ``id@1``, ...): 1 for none to choose from,
            None for as many as one likes.
    """

    id: str
    title: str
    source: str
    needs_data: bool
    samples: int | None = 1


def catalog() -> tuple[CatalogEntry, ...]:
    """All entries, those without data first."""
    return tuple(entry for entry, _ in _ENTRIES.values())


def catalog_instance(instance_id: str, load: float | None = None) -> LossInstance:
    """The instance of an id at a load.

    Args:
        instance_id: For example ``"priority-v1"``, or ``"iclr-v1@3"`` for a sample; an id that
            has samples means ``@0`` without one.
        load: The load; required, since the entries have shares of the types only.

    Raises:
        InputError: If there is no such id or sample, no load, or the data are missing.
    """
    entry, sample = parse_id(instance_id)
    draft = Draft(_ENTRIES[entry.id][1](sample), shares_only=True)
    if entry.id == "bank-v1" and load is not None:
        return _finer(draft.instance, load)
    return draft.at_load(load)


def parse_id(instance_id: str) -> tuple[CatalogEntry, int]:
    """The entry and the sample of an id.

    Raises:
        InputError: If there is none, listing the ids.
    """
    base, at, sample = instance_id.partition("@")
    if instance_id in QUEUE_IDS:
        told = "an instance with servers that tasks keep busy; this one is a queue"
        remedy = f"run: opportune queue {instance_id}"
        raise InputError(Problem("instance", repr(instance_id), told, remedy))
    if base not in _ENTRIES:
        raise InputError(
            Problem(
                "instance",
                repr(instance_id),
                "an id of the catalog (" + ", ".join(_ENTRIES) + ") or a path ending in .toml",
                did_you_mean(base, _ENTRIES),
            )
        )
    entry = _ENTRIES[base][0]
    if not at:
        return entry, 0
    digits = sample.isascii() and sample.isdigit() and len(sample) < 19
    if entry.samples == 1 or not digits or (entry.samples and int(sample) >= entry.samples):
        expected = f"{base}@0 to {base}@{(entry.samples or 0) - 1}"
        if entry.samples == 1:
            expected = f"{base}, which has no samples"
        elif entry.samples is None:
            expected = f"{base}@ and a whole number"
        raise InputError(Problem("instance", repr(instance_id), expected))
    return entry, int(sample)


# ------------------------------------------------------------------------ without any data


def _specialist(_: int) -> LossInstance:
    routine = 5
    reward = np.zeros((routine + 1, 2 + routine))
    reward[:, :2] = 1.0
    reward[np.arange(routine), 2 + np.arange(routine)] = 1.0
    return loss_instance(
        reward,
        _shares([1.0] * routine + [3.0]),
        Geometric(10),
        task_types=(*numbered("routine", routine), "hard"),
        servers=(*numbered("generalist", 2), *numbered("specialist", routine)),
        name="specialist-v1",
    )


def _priority(_: int) -> LossInstance:
    return loss_instance(
        [[1.8] * 2 + [1.0] * 6, [8.0] * 2 + [0.2] * 6],
        _shares([0.7, 0.3]),
        Geometric(20),
        task_types=("standard", "priority"),
        servers=(*numbered("priority-handler", 2), *numbered("standard-handler", 6)),
        name="priority-v1",
    )


def _unfriendly(_: int) -> LossInstance:
    good = 5
    patterns = [f"{v:0{good}b}" for v in range(2**good)]
    fits = np.array([[bit == "1" for bit in pattern] for pattern in patterns])
    return loss_instance(
        np.hstack([np.where(fits, 1.0, 0.01), np.zeros_like(fits, dtype=np.float64)]),
        _shares([1.0] * len(patterns)),
        Deterministic(43),
        task_types=tuple(f"fits-{pattern}" for pattern in patterns),
        servers=(*numbered("good", good), *numbered("dummy", good)),
        name="unfriendly-v1",
    )


def _lowrank(_: int) -> LossInstance:
    return loss_instance(
        np.outer(np.linspace(0, 1, 10), np.linspace(0, 1, 30)),
        _shares([1.0] * 10),
        Deterministic(43),
        name="lowrank-v1",
    )


def _shares(share: list[float]) -> Float:
    array = np.array(share)
    return np.asarray(array / array.sum())


# -------------------------------------------------------------------- from the data folder


def _iclr(sample: int) -> LossInstance:
    name = f"iclr-v1@{sample}"
    scores = {"file": ICLR_SCORES, "array": "S", "index": sample, "normalize": True}
    return _peer_review(name, scores, numbered("paper", 10), numbered("reviewer", 30))


def _tmlr(sample: int) -> LossInstance:
    columns = np.sort(np.random.default_rng(sample).choice(60, 30, replace=False))
    scores = {
        "file": TMLR_SCORES,
        "task": "paper_row",
        "columns": columns.tolist(),
        "normalize": True,
    }
    return _peer_review(f"tmlr-v1@{sample}", scores, None, None)


def _peer_review(
    name: str, scores: dict[str, Any], papers: tuple[str, ...] | None, reviewers: Any
) -> LossInstance:
    folder = data_folder(name, (scores["file"], str(TMLR_DURATIONS["file"])))
    description: dict[str, Any] = {
        "match_reward": scores,
        "type_share": [1] * 10,
        "duration": TMLR_DURATIONS,
        "servers_per_task": 3,
    }
    instance = read_description(description, folder, name).instance
    if papers is None:  # the rows of the original matrix, the columns as they are called there
        papers = tuple(f"paper-{row}" for row in instance.task_types)
        reviewers = tuple(f"reviewer-{column}" for column in instance.servers)
    return replace(instance, task_types=papers, servers=reviewers)


def _bank(_: int) -> LossInstance:
    name = "bank-v1"
    folder = data_folder(name, (BANK_TYPES, BANK_AGENTS, str(BANK_DURATIONS["file"])))
    types = read_sheet(name, folder / BANK_TYPES, BANK_TYPES).with_header(name)
    pairs = read_sheet(name, folder / BANK_AGENTS, BANK_AGENTS).with_header(name)
    task_types = types.names(types.column(name, "task", "type"))
    mean = types.numbers(name, types.column(name, "mean", "mean_service"))
    agents, scores = _bank_scores(pairs, dict(zip(task_types, mean, strict=True)))
    description = {
        "task_types": task_types,
        "servers": agents,
        "match_reward": scores.tolist(),
        "type_share": types.numbers(name, types.column(name, "share", "calls")).tolist(),
        "duration": BANK_DURATIONS,
    }
    return read_description(description, folder, name).instance


def _bank_scores(pairs: Sheet, type_mean: dict[str, float]) -> tuple[list[str], Float]:
    """How fast an agent is at a type beside all agents, shrunk to one half where seen rarely.

    Formula (ours): s_va = (n min(2, m_v / m_va) + 15) / (n + 30), divided by its maximum, with n
    calls of mean m_va seconds by agent a, m_v over all agents; 1/2 for a pair never seen.
    """
    column = {key: pairs.column("bank-v1", key, key) for key in ("type", "agent", "count", "mean")}
    count = pairs.numbers("bank-v1", column["count"])
    mean = pairs.numbers("bank-v1", column["mean"])
    rows = [row for row in range(len(count)) if not is_empty(pairs.rows[row][column["agent"]])]
    of_agent = pairs.names(column["agent"])
    of_type = pairs.names(column["type"])
    agents = sorted({of_agent[row] for row in rows})
    scores = np.full((len(type_mean), len(agents)), 0.5)
    task_types = list(type_mean)
    for row in rows:
        speed = min(2.0, type_mean[of_type[row]] / mean[row]) if mean[row] > 0 else 2.0
        scores[task_types.index(of_type[row]), agents.index(of_agent[row])] = (
            count[row] * speed + BANK_PRIOR / 2
        ) / (count[row] + BANK_PRIOR)
    return agents, scores / scores.max()


def _finer(instance: LossInstance, load: float) -> LossInstance:
    """The instance at a load, with a shorter step where more than one call a step would arrive.

    31 agents at load 0.9 take about 4.4 calls in 30 s, and a step has room for one: each step
    is divided evenly until at most ``MOST_CALLS`` calls arrive in one. The name says so.
    """
    if isinstance(load, bool) or not isinstance(load, (int, float)) or not 0 < load < math.inf:
        return instance.with_load(load)  # refuses it
    calls = load / instance.load  # per step, since the shares sum to one
    if calls <= 1:
        return instance.with_load(load)
    parts = math.ceil(calls / MOST_CALLS - 1e-9)
    durations = tuple(stretched(duration, parts) for duration in instance.duration)
    name = f"{instance.name} (steps of {BANK_STEP / parts:.3g} s)"
    return replace(instance, duration=durations, name=name).with_load(load)


def stretched(duration: Duration, factor: int) -> Duration:
    """A histogram in steps that are ``factor`` times as short."""
    if not isinstance(duration, Empirical):
        raise TypeError("only a histogram can be stretched")
    return Empirical(duration.steps * factor, duration.weight)


def data_folder(instance_id: str, files: tuple[str, ...]) -> Path:
    """The data folder, if it has the files.

    Raises:
        InputError: If ``OPPORTUNE_DATA`` is not set, or a file is missing there.
    """
    told = os.environ.get(DATA_VARIABLE, "")
    remedy = f"set it to the folder that holds {files[0]}"
    if not told:
        problem = Problem(DATA_VARIABLE, "not set", f"a folder; {instance_id} reads it", remedy)
        raise InputError(problem)
    missing = [file for file in files if not (Path(told) / file).is_file()]
    if missing:
        raise InputError(
            Problem(
                DATA_VARIABLE,
                f"{told} has no file {missing[0]}",
                f"the data that {instance_id} reads",
                remedy,
            )
        )
    return Path(told)


_LAG = "LAG (arXiv 2610.19038), section 5.2"
_Builder = Callable[[int], LossInstance]
_ENTRIES: dict[str, tuple[CatalogEntry, _Builder]] = {
    entry.id: (entry, build)
    for entry, build in (
        (
            CatalogEntry("specialist-v1", "call center, 2 generalists, 5 specialists", _LAG, False),
            _specialist,
        ),
        (
            CatalogEntry("priority-v1", "call center, 2 of 8 good at priority calls", _LAG, False),
            _priority,
        ),
        (
            CatalogEntry("unfriendly-v1", "5 good servers, 5 dummies, 32 types", _LAG, False),
            _unfriendly,
        ),
        (
            CatalogEntry("lowrank-v1", "30 servers, 10 types, rank-one rewards", _LAG, False),
            _lowrank,
        ),
        (
            CatalogEntry(
                "iclr-v1",
                "10 papers, 30 reviewers, 3 reviews each (@0 to @9)",
                "TF-IDF rebuild of the ICLR 2018 similarities, TMLR review durations",
                True,
                10,
            ),
            _iclr,
        ),
        (
            CatalogEntry(
                "tmlr-v1",
                "10 papers, 30 of 60 reviewers, 3 reviews each (@0, @1, ...)",
                "part of the TMLR similarities, TMLR review durations",
                True,
                None,
            ),
            _tmlr,
        ),
        (
            CatalogEntry(
                "bank-v1",
                "call center of a bank, 6 types, 31 agents, steps of 30 s or less",
                "Anonymous Bank calls of August 1999; the score is ours: speed, shrunk to 1/2",
                True,
            ),
            _bank,
        ),
    )
}
