"""Off-policy estimates: what a policy's choices would have been worth at the log's decisions.

Decision i found the log in a state x_i, took server a_i with probability p_i and was worth r_i.
Another policy takes server a with probability pi(a | x_i). With w_i = pi(a_i | x_i) / p_i and any
guess g(x, a) of what a choice is worth

    IPS    mean of w_i r_i                                            (Horvitz, Thompson 1952)
    SNIPS  sum of w_i r_i / sum of w_i                                 (Swaminathan, Joachims 2015)
    DR     mean of sum_a pi(a | x_i) g(x_i, a) + w_i (r_i - g(x_i, a_i))  (Dudik et al. 2011)

estimate the mean of sum_a pi(a | x_i) E[r | x_i, a] **over the states of the log**. A policy that
is followed makes its own states; no weight of single decisions can tell what it does there.

A task of k servers is worth the sum of its servers' own outcomes. Then p and pi are probabilities
of being **among the k**, whatever sets they come from, and every term is summed over the servers
taken: E sum_{a taken} (pi_a / p_a) r_a = sum_a pi_a E r_a. No probability of a set is needed. SNIPS
is k times the ratio; the weight of a decision is the mean of its servers'.

Implements: the three as in their sources (quoted); for several servers ours (outcomes by server,
as in semi-bandits). Ours: intervals by blocks of consecutive
decisions, which busy servers make alike; the verdict on support by the mean weight, which is 1 in
expectation exactly if the log could have made each choice of the policy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

Float = NDArray[np.float64]
Int = NDArray[np.int64]

SUPPORTED = 0.95
"""A mean weight that is surely below leaves no support: the log never makes those choices."""

FEW_EFFECTIVE = 30.0
"""A smaller effective sample is told."""

HEAVY = 0.05
"""One decision with a larger share of all weight is told."""

LEAST_BLOCKS = 8
"""Fewer blocks give no interval."""


@dataclass(frozen=True)
class Mean:
    """A mean and its 95 % half width, infinite where there is none."""

    value: float
    half_width: float


@dataclass(frozen=True, eq=False)
class Estimates:
    """What the choices of one policy would have been worth.

    Attributes:
        ips: Inverse propensity score.
        snips: The same over the sum of weights.
        dr: Doubly robust.
        difference: DR minus the mean outcome of the same decisions, paired.
        points: (n,) the terms whose mean DR is, for paired differences.
        weight: Mean weight; 1 if the log could have made every choice.
        effective: Decisions that an equally sure sample without weights would have.
        largest: Largest weight of a decision.
        agree: Share of the servers taken that the policy takes with some probability.
        clipped: Share of them whose weight was cut.
        supported: Whether the log can tell at all.
        cautions: What to know before believing it.
    """

    ips: Mean
    snips: Mean
    dr: Mean
    difference: Mean
    points: Float
    weight: Mean
    effective: float
    largest: float
    agree: float
    clipped: float
    supported: bool
    cautions: tuple[str, ...]


def block_length(n: int) -> int:
    """Consecutive decisions in a block: n^(1/3), rounded up."""
    return max(1, int(np.ceil(n ** (1.0 / 3.0))))


def block_mean(values: Float) -> Mean:
    """The mean of values in order of time, with an interval from blocks of consecutive ones.

    Args:
        values: (n,) one per decision.
    """
    n = len(values)
    if n == 0:
        return Mean(0.0, float("inf"))
    mean = float(values.mean())
    starts = np.arange(0, n, block_length(n))
    blocks = len(starts)
    if blocks < LEAST_BLOCKS:
        return Mean(mean, float("inf"))
    sums = np.add.reduceat(values - mean, starts)
    error = float(np.sqrt((sums**2).sum() * blocks / (blocks - 1))) / n
    return Mean(mean, float(stdtrit(blocks - 1, 0.975)) * error)


def estimate(
    chance: Float,
    taken: tuple[Int, Float, Float],
    guess: Float,
    clip: float | None = None,
    decision: Int | None = None,
) -> Estimates:
    """IPS, SNIPS and DR of one policy.

    Args:
        chance: (n, R) probability that each server is taken under the policy, rows that sum to k.
        taken: (m,) server, propensity and outcome of each that was taken.
        guess: (n, R) what a choice is guessed to be worth, from other data than these.
        clip: Largest weight; larger ones are cut to it, which biases what they are part of.
        decision: (m,) the decision that took it, in order; None where each took one (m = n).
    """
    server, propensity, outcome = taken
    n, m = len(chance), len(server)
    of = np.arange(m) if decision is None else decision
    k = np.maximum(np.bincount(of, minlength=n), 1)

    def summed(values: Float) -> Float:
        return np.bincount(of, values, minlength=n).astype(np.float64)

    whole = chance[of, server] / propensity
    used = whole if clip is None else np.minimum(whole, clip)
    share = float(used.sum()) / m if m else 0.0
    ratio = float((used * outcome).sum()) / (m * share) if share > 0 else 0.0
    spread = (
        block_mean(summed(used * (outcome - ratio) / share)) if share > 0 else Mean(0.0, np.inf)
    )
    points = (chance * guess).sum(axis=1) + summed(used * (outcome - guess[of, server]))
    weight, own = block_mean(summed(whole) / k), summed(used) / k
    total = float(own.sum())
    found = Estimates(
        ips=block_mean(summed(used * outcome)),
        snips=Mean(ratio * m / n if n else 0.0, spread.half_width),
        dr=block_mean(points),
        difference=block_mean(points - summed(outcome)),
        points=points,
        weight=weight,
        effective=total**2 / float((own**2).sum()) if total > 0 else 0.0,
        largest=float(own.max(initial=0.0)),
        agree=float((chance[of, server] > 0).mean()) if n else 0.0,
        clipped=float((used < whole).mean()) if n else 0.0,
        supported=weight.value + _finite(weight.half_width) >= SUPPORTED and total > 0,
        cautions=(),
    )
    return _with_cautions(found, n, total)


def _with_cautions(found: Estimates, n: int, total: float) -> Estimates:
    told = []
    if not found.supported:
        told.append(
            f"no support: about {max(0.0, 1.0 - found.weight.value):.0%} of the choices of the "
            "policy were never possible in the log; nothing can be said of it from these decisions"
        )
    elif found.effective < FEW_EFFECTIVE:
        told.append(
            f"the weights leave {found.effective:.1f} of {n} decisions: the interval is itself "
            "unsure"
        )
    elif total > 0 and found.largest > HEAVY * total:
        told.append(f"one decision has {found.largest / total:.0%} of all weight")
    if found.weight.value - found.weight.half_width > 1.0 / SUPPORTED:
        told.append(
            f"the mean weight is {found.weight.value:.3g}, which no true propensities give: are "
            "they the probabilities of being taken, for a task of several servers among them?"
        )
    if found.clipped > 0:
        told.append(
            f"{found.clipped:.1%} of the weights were cut: the estimates lean to the log's choices"
        )
    return replace(found, cautions=tuple(told))


def _finite(half_width: float) -> float:
    return half_width if np.isfinite(half_width) else 0.0
