"""From the sums of the pieces to numbers with standard errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Estimate:
    """A mean over runs.

    Attributes:
        value: The mean.
        error: Its standard error.
    """

    value: float
    error: float


@dataclass(frozen=True, eq=False)
class Measured:
    """One policy in one setting.

    Attributes:
        name: Name of the arm.
        runs: Coupled replications.
        end: Q(T) - Q*(T).
        excess: Time average of Q(t) - Q*(t).
        end_apart: Q(T) minus that of the first arm of the setting.
        excess_apart: The same, time-averaged.
        cost: Transient cost.
        cost_round: Round in which it is reached.
        mean_queue: Time-averaged queue.
        final_queue: Mean of Q(T).
        explored: Share of random tries.
        worst: Largest terminal excess of a run.
        bad: Share of runs with a terminal excess above 5.
        variance_ratio: Var of the difference of independent runs over that of coupled ones.
        grid: (G,) rounds of the curves.
        curve: (G,) mean queue there.
        way: (G,) mean excess up to there.
        way_error: (G,) its standard error.
    """

    name: str
    runs: int
    end: Estimate
    excess: Estimate
    end_apart: Estimate
    excess_apart: Estimate
    cost: Estimate
    cost_round: int
    mean_queue: float
    final_queue: float
    explored: float
    worst: int
    bad: float
    variance_ratio: float
    grid: NDArray[np.int64]
    curve: Float
    way: Float
    way_error: Float


def merged(records: Sequence[Record]) -> dict[str, Measured]:
    """Every arm of a setting, by name, from the records of its pieces; the oracle's curve too."""
    runs = sum(int(one["runs"]) for one in records)
    grid = np.array(records[0]["grid"], dtype=np.int64)
    oracle = [one["oracle"] for one in records]
    oracle_final = [math.fsum(one[key] for one in oracle) for key in ("final", "final_square")]
    found = {}
    for name in records[0]["arms"]:
        arms = [one["arms"][name] for one in records]
        found[name] = _measured(name, runs, arms, (grid, oracle_final))
    return found


def _measured(
    name: str,
    runs: int,
    arms: Sequence[Record],
    shared: tuple[NDArray[np.int64], Sequence[float]],
) -> Measured:
    grid, oracle_final = shared
    way = _summed([arm["way"][0] for arm in arms])
    squares = _summed([arm["way"][1] for arm in arms])
    mean = way / runs
    error = np.sqrt(np.maximum(squares - runs * mean**2, 0.0) / max(runs - 1, 1) / runs)
    top = int(np.argmax(mean))
    attempts = sum(int(arm["attempts"]) for arm in arms)
    final = _total(arms, "final")
    independent = _variance(final, runs) + _variance(oracle_final, runs)
    coupled = _variance(_total(arms, "end"), runs)
    return Measured(
        name=name,
        runs=runs,
        end=estimate(_total(arms, "end"), runs),
        excess=estimate(_total(arms, "excess"), runs),
        end_apart=estimate(_total(arms, "end_apart"), runs),
        excess_apart=estimate(_total(arms, "excess_apart"), runs),
        cost=Estimate(float(mean[top]), float(error[top])),
        cost_round=int(grid[top]),
        mean_queue=math.fsum(arm["mean"] for arm in arms) / runs,
        final_queue=final[0] / runs,
        explored=sum(int(arm["explored"]) for arm in arms) / attempts if attempts else 0.0,
        worst=max(int(arm["worst"]) for arm in arms),
        bad=sum(int(arm["bad"]) for arm in arms) / runs,
        variance_ratio=independent / coupled if coupled > 0 else math.inf,
        grid=grid,
        curve=_summed([arm["curve"] for arm in arms]) / runs,
        way=mean,
        way_error=error,
    )


def estimate(sums: Sequence[float], runs: int) -> Estimate:
    """Mean and standard error from a sum and a sum of squares."""
    return Estimate(sums[0] / runs, math.sqrt(_variance(sums, runs) / runs))


@dataclass(frozen=True)
class Slope:
    """A fitted rate: E[R_T] is about a T^slope.

    Attributes:
        slope: The exponent.
        half_width: Half width of its 95 % interval, from the standard errors of the points.
        horizons: How many horizons it is fitted to.
    """

    slope: float
    half_width: float
    horizons: int


def fitted_slope(horizons: Sequence[int], regrets: Sequence[Estimate]) -> Slope | None:
    """Least squares of log R_T on log T, weighted by the relative errors (delta method).

    Horizons whose regret is not above two standard errors are left out: their logarithm says
    nothing. None if fewer than three are left.
    """
    kept = [
        (math.log(t), math.log(one.value), (one.value / one.error) ** 2)
        for t, one in zip(horizons, regrets, strict=True)
        if one.error > 0 and one.value > 2 * one.error
    ]
    if len(kept) < 3:
        return None
    x, y, weight = (np.array(column) for column in zip(*kept, strict=True))
    center = np.average(x, weights=weight)
    spread = float((weight * (x - center) ** 2).sum())
    slope = float((weight * (x - center) * y).sum() / spread)
    return Slope(slope, 1.96 / math.sqrt(spread), len(kept))


def _total(arms: Sequence[Record], key: str) -> list[float]:
    return [math.fsum(arm[key][i] for arm in arms) for i in (0, 1)]


def _variance(sums: Sequence[float], runs: int) -> float:
    return max(0.0, (sums[1] - sums[0] ** 2 / runs) / (runs - 1)) if runs > 1 else 0.0


def _summed(rows: Sequence[Sequence[float]]) -> Float:
    return np.asarray(np.sum(np.array(rows, dtype=np.float64), axis=0))
