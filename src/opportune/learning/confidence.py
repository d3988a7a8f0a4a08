"""Confidence radii: how far the truth may be from the estimate, as numbers for the kernel.

A radius is scale (a sqrt(b + c log(max(floor, offset + slope n)) + w losses) + f) after n outcomes:
one form for all, so that a policy is a table. It multiplies a width ||phi||_{A^-1}, where A is
V = V_0 I + sum of phi phi' for the paper's radius and the information H = ridge I +
sum of mu'(z) phi phi' for the others.
"""

from __future__ import annotations

import math

from opportune.errors import InputError, Problem, shorten
from opportune.kernels.queue import Radius, radius_at


def constant_radius(deviations: float) -> Radius:
    """So many posterior standard deviations, always (ours, heuristic: no bound is proved).

    Raises:
        InputError: If it is negative or not finite.
    """
    return Radius(_checked("deviations", deviations, 0), 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0)


def rising_radius(deviations: float) -> Radius:
    """deviations sqrt(log(e + n)) posterior standard deviations (ours, heuristic).

    Raises:
        InputError: If it is negative or not finite.
    """
    scale = _checked("deviations", deviations, 0)
    return Radius(scale, 1.0, 0.0, 1.0, 1.0, math.e, 1.0, 0.0, 0.0)


def paper_radius(
    problem: tuple[int, float, float, float], delta: float, scale: float = 1.0, tight: bool = True
) -> Radius:
    """beta_n = kappa sqrt(c d log(1 + n / (kappa lambda_0 d)) + log(1/delta) / 2) + S sqrt(...).

    The last root is that of kappa lambda_0; c = 1/4 (tight) or 1/2 (the summary's).
    Implements: CQB 2.3 (derived there: c = 1/4 holds, 1/2 is loose). With probability 1 - delta,
    ||theta_hat - theta*||_V <= beta_n for all n, V = kappa lambda_0 I + sum of phi phi',
    ||phi|| <= 1, ||theta*|| <= S, mu' >= 1/kappa on the ball.

    Args:
        problem: (d, kappa, lambda_0, S).
        delta: Probability of an error, in (0, 1].
        scale: Factor of the whole; 1 is what is proved.
        tight: c = 1/4, else 1/2.

    Raises:
        InputError: If a number is out of its range.
    """
    d, kappa, ridge, bound = problem
    _checked("curvature", kappa, 4)
    _checked("ridge", ridge, 0, open_end=True)
    _checked("norm_bound", bound, 0)
    return Radius(
        scale=_checked("scale", scale, 0),
        a=float(kappa),
        b=0.5 * math.log(1.0 / _delta(delta)),
        c=(0.25 if tight else 0.5) * d,
        floor=1.0,
        offset=1.0,
        slope=1.0 / (kappa * ridge * d),
        w=0.0,
        f=bound * math.sqrt(kappa * ridge),
    )


def ofuglb_radius(dimension: int, norm_bound: float, delta: float, scale: float = 1.0) -> Radius:
    """OFUGLB-e: sqrt(2 (1 + S) (1 + b_n)), b_n = log(1/delta) + d log(max(e, 2 e S L_n / d)).

    L_n = (1 + S/2) (n - 1); widths by the information with :func:`ofuglb_ridge`.
    Implements: Lee, Yun, Jun 2407.13977, closed form (CQB section 8; reconstructed). No kappa. The
    estimate is regularized by that ridge besides the norm constraint, theirs by neither.

    Raises:
        InputError: If a number is out of its range.
    """
    s = _checked("norm_bound", norm_bound, 0, open_end=True)
    rate = 2.0 * math.e * s * (1.0 + s / 2.0) / dimension
    return Radius(
        scale=_checked("scale", scale, 0),
        a=math.sqrt(2.0 * (1.0 + s)),
        b=1.0 + math.log(1.0 / _delta(delta)),
        c=float(dimension),
        floor=math.e,
        offset=-rate,
        slope=rate,
        w=0.0,
        f=0.0,
    )


def ofuglb_ridge(norm_bound: float) -> float:
    """1 / (8 S^2 (1 + S)): what OFUGLB-e's information starts from."""
    return 1.0 / (8.0 * norm_bound**2 * (1.0 + norm_bound))


def ecolog_radius(ridge: float, norm_bound: float, delta: float, scale: float = 1.0) -> Radius:
    """sqrt(2 lambda S^2 + (1 + S)^2 gamma_n + losses), for the estimator ``ecolog``.

    gamma_n = sqrt(lambda) / 2 + 2 log(2 sqrt(1 + n / (4 lambda)) / delta) / sqrt(lambda); the
    losses are run up by the estimator. Implements: ada-OFU-ECOLog (Faury et al. 2201.01985;
    reconstructed from CQB section 8 and the authors' public program). No kappa.

    Raises:
        InputError: If a number is out of its range.
    """
    root = math.sqrt(_checked("ridge", ridge, 0, open_end=True))
    s = _checked("norm_bound", norm_bound, 0)
    factor = (1.0 + s) ** 2
    start = 0.5 * root + 2.0 * math.log(2.0 / _delta(delta)) / root
    return Radius(
        scale=_checked("scale", scale, 0),
        a=1.0,
        b=2.0 * ridge * s * s + factor * start,
        c=factor / root,
        floor=1.0,
        offset=1.0,
        slope=1.0 / (4.0 * ridge),
        w=1.0,
        f=0.0,
    )


def radius_after(radius: Radius, n: float, losses: float = 0.0) -> float:
    """The radius after n outcomes, with ECOLog's running losses where it has them."""
    return float(radius_at(radius, float(n), float(losses)))


def _checked(name: str, value: float, least: float, open_end: bool = False) -> float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    inside = number and (value > least if open_end else value >= least) and value < math.inf
    if not inside:
        told = f"a number above {least:g}" if open_end else f"a number of at least {least:g}"
        raise InputError(Problem(name, shorten(value), told))
    return float(value)


def _delta(value: float) -> float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 < value <= 1:
        raise InputError(Problem("delta", shorten(value), "a probability above 0 and up to 1"))
    return float(value)
