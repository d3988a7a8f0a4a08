"""A table of type by server means with intervals, shrunk to server effect + type effect (ours).

For whole logs, in which somebody chose who serves what: a cell with n observations of mean y has
the prior mean t = overall + server effect + type effect by weighted least squares (on a balanced
table server mean + type mean - overall mean, as in ``learning.shrinkage``), kept within the range
of the data. With kappa the prior's strength in observations, the cell becomes
(n y + kappa t) / (n + kappa). kappa comes from the moments of the cells' distances to t: under
the model n (y - t)^2 / sigma^2 has mean 1 + (n - 1) g for bounded outcomes (beta-binomial,
g = 1 / (kappa + 1)) and 1 + n g for others (g = 1 / kappa), less the leverage of the fit.
Intervals add the prior mean's own error (Fay and Herriot 1979).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

from opportune.model.axes import Quantity

Float = NDArray[np.float64]
Int = NDArray[np.int64]

TAIL = 0.025
"""Each side outside a 95 % interval."""

PSEUDO = 1.0
"""Observations that hold each effect at 0, so that a server seen once has a mean."""

NOTHING = 1e-9
"""Ends of intervals that are this near to 0 or 1 are told as 0 or 1."""

WEAKEST, STRONGEST = 2.0, 1e9
"""Range of the strength: from that of a uniform prior, Beta(1, 1), to cells without own mean."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Observations by type and server.

    Attributes:
        count: (V, R) how many.
        mean: (V, R) their mean, 0 where there is none.
        variance: Variance within cells, pooled; for bounded outcomes that of a 0/1 outcome is
            taken from the mean instead.
        low: Least outcome.
        high: Largest outcome.
        bounded: Whether outcomes lie between 0 and 1.
    """

    count: Float
    mean: Float
    variance: float
    low: float
    high: float
    bounded: bool

    @staticmethod
    def of(
        task_type: Int, server: Int, outcome: Float, shape: tuple[int, int], bounded: bool
    ) -> Cells:
        """The cells of (n,) observations."""
        place = task_type * shape[1] + server
        size = shape[0] * shape[1]
        count = np.bincount(place, minlength=size).astype(np.float64)
        total = np.bincount(place, weights=outcome, minlength=size)
        mean = np.divide(total, count, out=np.zeros(size), where=count > 0)
        apart = float(((outcome - mean[place]) ** 2).sum())
        free = len(outcome) - int((count > 0).sum())
        variance = apart / free if free > 0 else float(np.var(outcome))
        low, high = (0.0, 1.0) if bounded else (float(outcome.min()), float(outcome.max()))
        return Cells(count.reshape(shape), mean.reshape(shape), variance, low, high, bounded)


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """A shrunk table.

    Attributes:
        mean: What each cell is taken to be.
        sd: Its standard deviation, the prior mean's error included.
        low: Lower end of the 95 % interval.
        high: Upper end.
        target: What the cell is shrunk to.
        raw: Mean of the observations alone, NaN where there is none.
        count: (V, R) observations.
        strength: kappa: the prior counts as so many observations.
    """

    mean: Annotated[Float, Quantity("s_vr", "V,R", "reward", "fitted match reward")]
    sd: Annotated[Float, Quantity("sd_vr", "V,R", "reward", "standard deviation of the fit")]
    low: Float
    high: Float
    target: Annotated[Float, Quantity("t_vr", "V,R", "reward", "prior mean of a fitted reward")]
    raw: Float
    count: Float
    strength: float


def fit_table(cells: Cells) -> ScoreTable:
    """The table, each cell between its own mean and server effect + type effect."""
    flat = np.full_like(cells.mean, float((cells.count * cells.mean).sum() / cells.count.sum()))
    first, _ = _effects(cells, _unit_variance(cells, flat), 0.0)
    target, leverage = _effects(cells, _unit_variance(cells, first), 0.0)
    noise = _unit_variance(cells, target)
    excess = _excess(cells, target, noise, leverage)
    target, error = _effects(cells, noise, excess)
    return _between(cells, target, error, _strength(cells, excess))


def shrink_to(cells: Cells, target: Float, sd: Float, held_out: Float) -> ScoreTable:
    """The table, each cell between its own mean and a prior mean made of something else.

    Args:
        cells: The observations.
        target: (V, R) prior means.
        sd: (V, R) their standard deviations.
        held_out: (V, R) mean of what was predicted for the cell's outcomes without them: how far
            they are from that says how strong the prior is.
    """
    noise = _unit_variance(cells, target)
    excess = _excess(cells, held_out, noise, np.zeros_like(target))
    return _between(cells, target, sd**2, _strength(cells, excess))


def _between(cells: Cells, target: Float, error: Float, strength: float) -> ScoreTable:
    weight = cells.count / (cells.count + strength)
    mean = weight * cells.mean + (1 - weight) * target
    noise = _unit_variance(cells, mean)
    own = noise / (cells.count + strength + (1.0 if cells.bounded else 0.0))
    variance = own + (1 - weight) ** 2 * error
    low, high = _interval(cells, mean, variance)
    raw = np.where(cells.count > 0, cells.mean, np.nan)
    return ScoreTable(mean, np.sqrt(variance), low, high, target, raw, cells.count, strength)


def _unit_variance(cells: Cells, mean: Float) -> Float:
    """Variance of one observation in each cell."""
    if not cells.bounded:
        return np.full_like(mean, max(cells.variance, 1e-300))
    edge = 0.5 / (cells.count.sum() + 1.0)
    inside = np.clip(mean, edge, 1 - edge)
    return np.asarray(inside * (1 - inside))


def _effects(cells: Cells, noise: Float, excess: float) -> tuple[Float, Float]:
    """Prior means, and their squared error (divided by the noise: the leverage, if no excess).

    Weighted least squares of the cell means on one effect per type and per server around the
    overall mean, each effect held at 0 by ``PSEUDO`` observations. With ``excess`` g > 0 a
    cell's mean varies by noise (1 / n + g).
    """
    n_types, n_servers = cells.count.shape
    variance = np.divide(noise, cells.count, out=np.zeros_like(noise), where=cells.count > 0)
    variance = variance + noise * excess
    weight = np.divide(1.0, variance, out=np.zeros_like(noise), where=cells.count > 0)
    overall = float((weight * cells.mean).sum() / weight.sum())
    size = n_types + n_servers
    normal = np.zeros((size, size))
    rows, columns = weight.sum(axis=1), weight.sum(axis=0)
    pseudo = PSEUDO / (float(np.mean(noise)) * (1.0 + excess))
    normal[np.arange(size), np.arange(size)] = np.concatenate([rows, columns]) + pseudo
    normal[:n_types, n_types:] = weight
    normal[n_types:, :n_types] = weight.T
    apart = weight * (cells.mean - overall)
    inverse = np.linalg.inv(normal)
    effect = inverse @ np.concatenate([apart.sum(axis=1), apart.sum(axis=0)])
    target = overall + effect[:n_types, None] + effect[None, n_types:]
    spread = np.diag(inverse)
    error = spread[:n_types, None] + spread[None, n_types:] + 2 * inverse[:n_types, n_types:]
    error = error + 1.0 / weight.sum()
    edge = 0.5 / (cells.count.sum() + 1.0) * (cells.high - cells.low)
    return np.clip(target, cells.low + edge, cells.high - edge), error


def _excess(cells: Cells, target: Float, noise: Float, error: Float) -> float:
    """g: how far cells are from their prior means, beyond chance, in variances of one outcome."""
    seen = cells.count > 0
    n = cells.count[seen]
    distance = n * (cells.mean - target)[seen] ** 2 / noise[seen]
    free = np.clip(1.0 - n * error[seen] / noise[seen], 0.0, 1.0)
    growth = n - 1.0 if cells.bounded else n
    room = float((free * growth).sum())
    if not room > 0:
        return 0.0
    excess = float((distance - free).sum()) / room
    return float(np.clip(excess, 0.0, 1.0 if cells.bounded else np.inf))


def _strength(cells: Cells, excess: float) -> float:
    if not excess > 1.0 / STRONGEST:
        return STRONGEST
    return max((1.0 - excess) / excess if cells.bounded else 1.0 / excess, WEAKEST)


def _interval(cells: Cells, mean: Float, variance: Float) -> tuple[Float, Float]:
    """Ends of 95 % intervals: beta for bounded outcomes, normal for others.

    A pair that only failed may be worth 0, one that only succeeded 1 (as Brown, Cai and DasGupta
    2001 end Jeffreys' interval). Where next to nothing is known the beta is nearly two points, at 0
    and 1, and its quantiles run against them: an end within ``NOTHING`` of one is that one.
    """
    if not cells.bounded:
        half = ndtri(1 - TAIL) * np.sqrt(variance)
        return mean - half, mean + half
    inside = np.clip(mean, 1e-12, 1 - 1e-12)
    size = np.maximum(inside * (1 - inside) / variance - 1.0, 1e-6)
    successes, failures = inside * size, (1 - inside) * size
    low, high = betaincinv(successes, failures, TAIL), betaincinv(successes, failures, 1 - TAIL)
    seen = cells.count > 0
    never = (seen & (cells.mean == 0)) | (low < NOTHING)
    always = (seen & (cells.mean == 1)) | (high > 1.0 - NOTHING)
    return np.where(never, 0.0, low), np.where(always, 1.0, high)
