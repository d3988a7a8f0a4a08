"""One queue, K servers with unknown departure probabilities: what a replication reads and writes.

Implements: CQB 1.1 (reconstructed display): a round serves one pair of a waiting task and a server
(here up to m pairs of different tasks and servers), the task departs with the pair's probability,
an arrival of round t can be served from round t + 1 on. Rounds 1 .. T-1 are played, Q(T) counts.
A learner is a table (CQB 3 to 6): when it explores, what it exploits by, what it estimates with.
The loop over the rounds is in ``queue_run``.

Every policy of a replication reads the same streams: arrivals, features, departure uniforms U_t,
exploration uniforms. D = 1{U_t < rate} (CQB 1.4), which makes differences exact.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.kernels.jit import jit_in_place
from opportune.kernels.logistic_fit import Fitting

Float = NDArray[np.float64]

INDEX, THOMPSON, ORACLE, ANY_TASK, OLDEST_TASK, MEAN_UCB, MEAN_THOMPSON = range(7)
"""What exploits: largest index; largest index of a drawn theta; largest true rate; a uniform task
and server; the oldest task and a uniform server; the oldest task and, without contexts, the
server of largest mean + sqrt(log(t)^2 / (2 n)), or of largest Beta draw."""

ATTEMPTS, EXPLORED, DEPARTED, ARRIVED, USED, REFITS, UNFIT, PENDING = range(8)
"""``QueueLog.counts``: attempts, exploring ones, departures, arrivals until Q(T), outcomes learned
from, passes over the data, fits that ran out of steps, outcomes that are still out at the end."""


class QueueStreams(NamedTuple):
    """All randomness of a replication; T = rows of ``uniform``, of which 1 .. T-1 are played."""

    arrival_round: NDArray[np.int32]  # (n,) not falling; a task can be served from the next round
    features: Float  # (n, K, d) joint, or (n, 1, p): the same for all servers, own weights each
    rate: Float  # (n, K) true departure probability; 0 or 1 where outcomes are recorded ones
    known: Float  # (n, K) what the oracle goes by: the rates, or fitted ones for recorded outcomes
    uniform: Float  # (T, m) a departure iff uniform < rate; m pairs a round
    explore: Float  # (T,) explore iff explore < p_t
    server: Float  # (T, m) the uniform server
    choice: Float  # (T, m) ties, and the uniform task
    delay: NDArray[np.int32]  # (T,) rounds until an outcome is learned from, or (0,)
    copies: NDArray[np.int8]  # (T,) how often it is reported, 0 for never, or (0,)
    key: tuple[np.uint64, np.uint64]  # seed, replication
    disjoint: bool  # one weight block per server
    once: bool  # outcomes are recorded ones: a failed pair is not tried again


class Schedule(NamedTuple):
    """Exploration probability p_t = that of the phase + min(1, decay log(t)^power_log t^-power)."""

    tau_1: float  # last round of phase 1
    tau_2: float  # last round of phase 2
    first: float  # in phase 1
    between: float
    after: float
    decay: float
    power: float
    power_log: float
    fresh_only: bool  # only the task that arrived in the round before, else the oldest task
    round_robin: bool  # servers in turn during phase 1, else uniform
    width_factor: float  # above 0: phase 1 ends by the width criterion instead


class Radius(NamedTuple):
    """radius(n) = scale (a sqrt(b + c log(max(floor, offset + slope n)) + w losses) + f)."""

    scale: float
    a: float
    b: float
    c: float
    floor: float
    offset: float
    slope: float
    w: float
    f: float


class QueueTables(NamedTuple):
    """A policy, as the kernel reads it."""

    rule: int
    logit: bool  # index on the logit scale
    by_design: bool  # widths by V, else by the information
    estimator: int
    design_start: float  # V_0
    count_copies: bool  # learn from a repeated report again
    schedule: Schedule
    radius: Radius
    fitting: Fitting


class QueueLog(NamedTuple):
    """What happened. Give ``pair`` and ``flag`` no rows to save the time."""

    queue: NDArray[np.int32]  # (T + 1,) Q(t) at the start of round t, entry 0 unused
    counts: NDArray[np.int64]  # (8,)
    pair: NDArray[np.int32]  # (T, m, 2) task and server, -1 where idle
    flag: NDArray[np.int8]  # (T, m, 2) departed, explored
    theta: Float  # (B, p) estimate at the end


@jit_in_place
def exploration(schedule: Schedule, time: int, open_phase: bool) -> float:
    """p_t."""
    if schedule.width_factor > 0.0:
        p = schedule.first if open_phase else schedule.after
    elif time <= schedule.tau_1:
        p = schedule.first
    else:
        p = schedule.between if time <= schedule.tau_2 else schedule.after
    if schedule.decay > 0.0:
        log = math.log(time) ** schedule.power_log if schedule.power_log > 0.0 else 1.0
        p += min(1.0, schedule.decay * log * time**-schedule.power)
    return p


@jit_in_place
def radius_at(radius: Radius, n: float, losses: float) -> float:
    """The confidence radius after n outcomes."""
    inside = radius.b + radius.w * losses
    if radius.c > 0.0:
        inside += radius.c * math.log(max(radius.floor, radius.offset + radius.slope * n))
    return radius.scale * (radius.a * math.sqrt(max(inside, 0.0)) + radius.f)
