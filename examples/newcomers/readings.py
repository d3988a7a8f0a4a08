"""The newcomers once more, without the package: plain means under several readings of their story.

`python examples/newcomers/readings.py [RUNS]` prints the second half in % of greedy on the true
scores, and the regret in tasks. Greedy on posterior means, no prices: where nothing is congested
prices change little. Tasks come by chance, last a geometric time, outcomes are seen at their end.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace

import numba
import numpy as np
from numpy.typing import NDArray

TASKS, JOIN, SERVERS, NEW = 6000, 1500, 10, 2


@dataclass(frozen=True)
class Reading:
    """How the story is read; the defaults are those of the instance beside this file."""

    regulars: str = "each .7 at one type, .8 at the other"
    outcomes_of: float = 1.0  # success with probability score / this
    ties: int = 0  # 0 by chance, 1 newcomers first, 2 newcomers last
    load: float = 0.1
    of_servers: int = SERVERS  # the load is that of so many
    mean: int = 20
    k: int = 1
    deviations: float = 0.0  # of the posterior, added to the mean
    successes: float = 1.0  # of the prior; failures are 1


def scores(regulars: str) -> NDArray[np.float64]:
    """(2, 10) the regulars, then the newcomers."""
    server, kind = np.arange(SERVERS - NEW)[None], np.arange(2)[:, None]
    low = {
        "each .7 at one type, .8 at the other": (server + kind) % 2 == 0,
        "half of them .7, half .8": (server + 0 * kind) % 2 == 0,
        "all .7 at one type, .8 at the other": (kind + 0 * server) == 0,
    }[regulars]
    return np.hstack([np.where(low, 0.7, 0.8), np.full((2, NEW), 0.95)])


@numba.njit
def earned(score, reading, known, draw):  # type: ignore[no-untyped-def]
    """(tasks,) what each task was worth."""
    unit, ties, rate, mean, k, deviations, prior = reading
    won, seen, index = np.zeros(score.shape), np.zeros(score.shape), score.copy()
    until, kind, told = np.zeros(10, np.int64), np.zeros(10, np.int64), np.ones(10, np.int64)
    worth, now, again = np.zeros(6000), 0, 0
    for i in range(6000):
        now += 1 + int(math.log(1.0 - draw.random()) / math.log(1.0 - rate))
        for r in range(10):
            if until[r] <= now and not told[r]:
                told[r] = 1
                won[kind[r], r] += draw.random() < score[kind[r], r] / unit
                seen[kind[r], r] += 1
        if (i >= again or i == 1500) and not known:
            again = i + max(10, math.ceil(0.02 * i))
            index = (won + prior) / (seen + prior + 1.0)
            index += deviations * np.sqrt(index * (1.0 - index) / (seen + prior + 2.0))
        v = int(draw.random() < 0.5)
        last = 10 if i >= 1500 else 8
        if (until[:last] <= now).sum() < k:
            continue
        steps = 1 + int(math.log(1.0 - draw.random()) / math.log(1.0 - 1.0 / mean))
        for _ in range(k):
            best, n_tied = -1, 0
            for place in range(10):
                r = (place + 8) % 10 if ties == 1 else place
                if r >= last or until[r] > now:
                    continue
                if best < 0 or index[v, r] > index[v, best]:
                    best, n_tied = r, 1
                elif index[v, r] == index[v, best] and ties == 0:
                    n_tied += 1
                    best = r if draw.random() * n_tied < 1.0 else best
            until[best], kind[best], told[best] = now + steps + 1, v, 0
            worth[i] += score[v, best]
    return worth


def measured(reading: Reading, runs: int) -> tuple[float, float, float, float]:
    """Second half in % of the known scores with its 95 % half width, regret in tasks with its."""
    score = scores(reading.regulars)
    rate = reading.load * reading.of_servers / reading.k / reading.mean
    numbers = (reading.outcomes_of, reading.ties, rate, reading.mean)
    rest = (reading.k, reading.deviations, reading.successes)
    half, regret = np.zeros(runs), np.zeros(runs)
    for run in range(runs):
        own, best = (
            earned(score, (*numbers, *rest), known, np.random.default_rng(run))
            for known in (False, True)
        )
        half[run] = 100.0 * own[TASKS // 2 :].sum() / best[TASKS // 2 :].sum()
        regret[run] = (best.sum() - own.sum()) / best.mean()
    width = [1.96 * float(one.std(ddof=1)) / math.sqrt(runs) for one in (half, regret)]
    return float(half.mean()), width[0], float(regret.mean()), width[1]


def main() -> None:
    """Print every reading."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    usual = Reading()
    readings = {
        "the instance beside this file": usual,
        "half of the regulars .7, half .8": Reading("half of them .7, half .8"),
        "all regulars alike": Reading("all .7 at one type, .8 at the other"),
        "alike, outcomes by score / .95": Reading("all .7 at one type, .8 at the other", 0.95),
        "outcomes by score / .95": replace(usual, outcomes_of=0.95),
        "ties: newcomers first": replace(usual, ties=1),
        "ties: newcomers last": replace(usual, ties=2),
        "load of the first eight": replace(usual, of_servers=8),
        "mean duration 2": replace(usual, mean=2),
        "mean duration 40": replace(usual, mean=40),
        "two servers a task": replace(usual, k=2),
        "prior Beta(2, 1)": replace(usual, successes=2.0),
        "load 0.4": replace(usual, load=0.4),
        "means + 1 deviation": replace(usual, deviations=1.0),
        "means + 2 deviations": replace(usual, deviations=2.0),
        "alike, means + 2 deviations": Reading(
            "all .7 at one type, .8 at the other", deviations=2.0
        ),
    }
    for name, reading in readings.items():
        half, width, regret, its = measured(reading, runs)
        print(f"{name:34} {half:6.2f} +/- {width:.2f} %   regret {regret:4.0f} +/- {its:.0f}")


if __name__ == "__main__":
    main()
