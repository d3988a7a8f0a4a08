"""Occupancy LPs to be solved: random, clustered, rank-one, sparse, and real ones where there are.

All at load 0.7. A server's step is one time unit divided by the number of servers, so that at
most one task arrives per step.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.instances import LOAD, SEED
from benchmarks.peers.lp_task import Task

DATA = "OPPORTUNE_DATA"
"""Environment variable with the folder of real data."""

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]


def random_case(n_types: int, n_servers: int) -> Task:
    """Uniform scores, uniform rates from 0.5 to 1.5 of the mean, k = 1."""
    rng = np.random.default_rng(SEED)
    return dense(rng.random((n_types, n_servers)), rng.random(n_types) + 0.5)


def clustered_case(n_types: int, n_servers: int) -> Task:
    """Ten kinds of types, ten of servers, a tenth of noise."""
    rng = np.random.default_rng(SEED)
    table = rng.random((10, 10))
    reward = table[rng.integers(0, 10, n_types)][:, rng.integers(0, 10, n_servers)]
    reward = reward + 0.1 * rng.random((n_types, n_servers))
    return dense(reward / reward.max(), rng.random(n_types) + 0.5)


def rank_one_case(n_types: int, n_servers: int) -> Task:
    """Score = need of the type times skill of the server: nearly everything is nearly tied."""
    rng = np.random.default_rng(SEED)
    reward = np.outer(rng.random(n_types), rng.random(n_servers))
    return dense(reward / reward.max(), rng.random(n_types) + 0.5)


def sparse_case(n_types: int, n_servers: int, share: float) -> Task:
    """A share of the pairs permitted, made as lists: there is no matrix anywhere."""
    rng = np.random.default_rng(SEED)
    each = round(share * n_types)
    task_type = np.concatenate(
        [np.sort(rng.choice(n_types, each, replace=False)) for _ in range(n_servers)]
    ).astype(np.uint32)
    start = np.arange(n_servers + 1) * each
    return scaled(start, task_type, rng.random(len(task_type)), rng.random(n_types) + 0.5, 1)


def bids_case() -> Task | str:
    """AAMAS 2015 bids: 613 papers x 201 reviewers on three levels, no bid is a conflict, k = 3."""
    folder = os.environ.get(DATA, "")
    if not folder:
        return f"{DATA} is not set"
    with np.load(Path(folder) / "aamas_bids" / "aamas2015.npz") as stored:
        bids = stored["bids_x100"] / 100.0
    bids = bids[(bids > 0).sum(axis=1) > 3]
    return dense(bids, np.ones(len(bids)), 3, bids > 0, at_most=True)


def iclr_case() -> Task | str:
    """The rebuilt ICLR 2018 matrix: 910 papers x 2,743 reviewers, conflicts, TMLR durations."""
    folder = os.environ.get(DATA, "")
    if not folder:
        return f"{DATA} is not set"
    with np.load(Path(folder) / "iclr2018" / "similarity_rebuilt.npz") as stored:
        score, conflict = stored["similarity_x10000"].T / 1e4, stored["conflict"].T > 0
    with (Path(folder) / "tmlr" / "duration_pmf_last3_no_outlier.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    days = sum(float(row["duration_days"]) * float(row["probability"]) for row in rows)
    task = dense(score / score.max(), np.ones(len(score)), 3, ~conflict)
    factor = days / task.mean[0]  # a day for each reviewer instead of a unit
    return task._replace(mean=task.mean * factor, rate=task.rate / factor)


def dense(
    reward: Float, share: Float, k: int = 1, allowed: Bool | None = None, at_most: bool = False
) -> Task:
    """A matrix of rewards as lists."""
    permitted = np.ones(reward.shape, dtype=np.bool_) if allowed is None else allowed
    server, task_type = np.nonzero(permitted.T)
    start = np.searchsorted(server, np.arange(reward.shape[1] + 1))
    values = reward[task_type, server]
    return scaled(start, task_type.astype(np.uint32), values, share, k, at_most)


def scaled(
    start: NDArray[np.int64],
    task_type: NDArray[np.uint32],
    reward: Float,
    share: Float,
    *demand: int | bool,
) -> Task:
    """Rates in proportion to the shares, at the load; ``demand`` is k and whether "at most"."""
    k, at_most = demand[0], bool(demand[1:] and demand[1])
    n_servers = len(start) - 1
    mean = np.full(len(share), float(n_servers))
    rate = share * (LOAD * n_servers / float((share * mean * k).sum()))
    return Task(start, task_type, reward, rate, mean, np.full(len(share), float(k)), at_most)


CASES: dict[str, tuple[Callable[[], Task | str], float]] = {
    "random 30 x 100": (lambda: random_case(30, 100), 60.0),
    "random 100 x 300": (lambda: random_case(100, 300), 60.0),
    "clustered 100 x 300": (lambda: clustered_case(100, 300), 60.0),
    "rank-one 100 x 300": (lambda: rank_one_case(100, 300), 60.0),
    "AAMAS bids": (bids_case, 60.0),
    "random 500 x 1000": (lambda: random_case(500, 1000), 30.0),
    "sparse 2000 x 5000": (lambda: sparse_case(2000, 5000, 0.01), 30.0),
    "random 1000 x 2000": (lambda: random_case(1000, 2000), 20.0),
    "ICLR whole": (iclr_case, 20.0),
}
"""Name -> what makes the LP (or says why it cannot), and the seconds that peers get for it."""

QUICK = ("random 30 x 100",)
"""Cases of --quick."""
