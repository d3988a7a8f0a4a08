"""Worlds of recorded tasks by id: a changed number is a new version.

``router-*-v1``: 6,108 prompts, each answered by nine language models whose answers were graded;
servers are copies of the models. Types are clusters of the 16 text features, for the linear
program only. ``router-azure-v1`` has arrival times and lengths of answers of a real trace; the two
sources are not linked, so lengths do not depend on the prompt. Reads the data folder that
``OPPORTUNE_DATA`` names.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2

from opportune.errors import InputError, Problem
from opportune.model.catalog import CatalogEntry, data_folder
from opportune.model.duration import Duration, Empirical, Geometric
from opportune.model.hidden import HiddenWorld, Recorded, RecordedPace, hidden_world
from opportune.model.loss import loss_instance, numbered
from opportune.model.queue_catalog import ROUTER_FEATURES, ROUTER_MODELS, ROUTER_SCORES
from opportune.model.spelling import did_you_mean
from opportune.model.tables import Sheet, read_sheet

Float = NDArray[np.float64]
Int = NDArray[np.int64]

COPIES = {
    "router-scarce-v1": (3, 1, 3, 1, 2, 1, 1, 3, 1),
    "router-base-v1": (2, 2, 1, 1, 2, 2, 2, 2, 1),
    "router-flat-v1": (1, 1, 1, 1, 1, 1, 1, 1, 1),
    "router-azure-v1": (3, 1, 3, 1, 2, 1, 1, 3, 1),
}
"""Copies of each model: weak models plentiful; most of them twice; one of each; as the first."""

TRACE, TRACE_FILE = "router-azure-v1", "llm_traces/azure2023_conv.csv"
"""The world that has the pace of a trace, and that trace: seconds and generated tokens."""

TRACE_STEP = 0.02
"""Seconds of a step there."""

N_CLUSTERS = 16
"""Types that prompts are sorted into."""

ROUTER_MEAN = 40.0
"""Mean steps that an answer takes, geometric, the same for all models."""

LLOYD_STEPS = 50
"""Steps of k-means: it stands still long before."""

_SOURCE = "9 models on 6,108 prompts (LLMRouter's dcrouter), 16 text features"


def recorded_catalog() -> tuple[CatalogEntry, ...]:
    """All entries."""
    titles = (
        "weak models plentiful",
        "most models twice",
        "one copy of each model",
        "weak models plentiful, arrivals of a real hour",
    )
    return tuple(
        CatalogEntry(one, f"learn: prompts for 9 models, {title}", _source(one), True)
        for one, title in zip(COPIES, titles, strict=True)
    )


def _source(world_id: str) -> str:
    return f"{_SOURCE}; Azure 2023 conversation trace" if world_id == TRACE else _SOURCE


def catalog_world(world_id: str, load: float | None = None) -> HiddenWorld:
    """The world of an id at a load.

    Raises:
        InputError: If there is no such id, no load, or the data are missing.
    """
    if world_id not in COPIES:
        expected = f"one of {', '.join(COPIES)}"
        remedy = did_you_mean(world_id, COPIES)
        raise InputError(Problem("instance", repr(world_id), expected, remedy))
    if load is None:
        remedy = "write for example --load 0.7"
        raise InputError(Problem("load", "missing", f"a load for {world_id}", remedy))
    files = (ROUTER_FEATURES, ROUTER_SCORES, TRACE_FILE)
    folder = data_folder(world_id, files if world_id == TRACE else files[:2])
    with np.load(folder / ROUTER_FEATURES, allow_pickle=False) as arrays:
        contexts = arrays["features"].astype(np.float64)
    sheet = read_sheet("scores", folder / ROUTER_SCORES, ROUTER_SCORES).with_header("scores")
    score = sheet.matrix("scores", [sheet.column("scores", one, one) for one in ROUTER_MODELS])
    copies = COPIES[world_id]
    trace: RecordedPace | None = None
    law: Duration = Geometric(ROUTER_MEAN)
    if world_id == TRACE:
        trace = traced_pace(
            read_sheet("trace", folder / TRACE_FILE, TRACE_FILE), load * sum(copies)
        )
        steps, count = np.unique(trace.duration, return_counts=True)
        law = Empirical(steps, count.astype(np.float64))
    world = recorded_world(
        contexts,
        score,
        (copies, ROUTER_MODELS),
        clusters(contexts, N_CLUSTERS),
        (law, load),
        world_id,
    )
    return replace(world, pace=trace)


def traced_pace(sheet: Sheet, busy: float) -> RecordedPace:
    """The pace of a trace, answers so fast that ``busy`` servers work on average.

    Arrivals are at ``t_s`` seconds; durations are proportional to ``generated_tokens``, rounded up
    to steps.

    Raises:
        InputError: If a column is missing, or times go back.
    """
    trace = sheet.with_header("trace")
    second, tokens = trace.matrix(
        "trace", [trace.column("trace", one, one) for one in ("t_s", "generated_tokens")]
    ).T
    arrival = np.floor(second / TRACE_STEP).astype(np.int64)
    mean_gap = float(arrival[-1] - arrival[0]) / max(len(arrival) - 1, 1)
    rounding = 0.5  # what rounding up adds on average
    scale = (busy * mean_gap - rounding) / float(tokens.mean())
    duration = np.maximum(np.ceil(tokens * scale), 1).astype(np.int64)
    return RecordedPace(np.diff(arrival, prepend=arrival[0]), duration)


def recorded_world(
    contexts: Float,
    score: Float,
    models: tuple[tuple[int, ...], tuple[str, ...]],
    task_type: Int,
    pace: tuple[Duration, float],
    name: str,
) -> HiddenWorld:
    """A world of recorded tasks: every model graded on every task.

    Args:
        contexts: (C, p) features; an intercept is added and all divided by the largest norm.
        score: (C, M) in [0, 1].
        models: Copies and names of each model.
        task_type: (C,) types from 0 on.
        pace: Duration of every service, and the load.
        name: For tables.

    Raises:
        InputError: If shapes do not fit, or a number is out of range.
    """
    copies, names = models
    x = np.hstack([contexts, np.ones((len(contexts), 1))])
    x /= np.sqrt((x**2).sum(axis=1)).max()
    recorded = Recorded(x, score, task_type.astype(np.int64))
    size = np.bincount(recorded.task_type)
    mean = np.zeros((len(size), score.shape[1]))
    np.add.at(mean, recorded.task_type, score)
    mean /= np.maximum(size, 1)[:, None]
    model = np.repeat(np.arange(len(copies)), copies)
    servers = [
        one if count == 1 else f"{one}-{i + 1}"
        for one, count in zip(names, copies, strict=True)
        for i in range(count)
    ]
    duration, load = pace
    instance = loss_instance(
        mean[:, model],
        size / size.sum() / duration.mean,
        duration,
        task_types=numbered("cluster", len(size)),
        servers=servers,
        name=name,
    ).with_load(load)
    return hidden_world(instance, model=model, recorded=recorded)


def clusters(contexts: Float, n: int) -> Int:
    """(C,) k-means clusters of contexts, the largest first.

    Starts are spread as by k-means++ (Arthur and Vassilvitskii 2007) from a fixed seed.
    """
    draw = np.random.default_rng(0).random(n)
    center = [contexts[int(draw[0] * len(contexts))]]
    for u in draw[1:]:
        apart = np.min([((contexts - one) ** 2).sum(axis=1) for one in center], axis=0)
        share = np.cumsum(apart)
        center.append(contexts[min(int(np.searchsorted(share, u * share[-1])), len(apart) - 1)])
    _, label = kmeans2(contexts, np.array(center), iter=LLOYD_STEPS, minit="matrix")
    found, place, size = np.unique(label, return_inverse=True, return_counts=True)
    rank = np.empty(len(found), dtype=np.int64)
    rank[np.argsort(-size, kind="stable")] = np.arange(len(found))
    return np.asarray(rank[place])
