"""The exact optimum over all work-conserving policies, and the exact value of any policy.

Average-reward dynamic programming on the states of ``pricing.states`` (memoryless durations;
means, servers per task and permitted pairs may differ). Policy iteration with a matrix-free
Krylov solve; the proof is not the solver's: for every h,

    min_b (T h - h)(b)  <=  optimal reward per step  <=  max_b (T h - h)(b),

T the optimality operator (Odoni 1969), and the policy greedy for h earns at least the minimum.
The same with the operator of a policy brackets the reward of that policy.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, gmres

from opportune.errors import SolverError
from opportune.kernels.states import follow, improve
from opportune.model.loss import LossInstance
from opportune.pricing.blas import one_thread
from opportune.pricing.states import MAX_STATES, StateSpace, state_space

Float = NDArray[np.float64]
Action = NDArray[np.int32]

SPAN = 1e-10
"""Width of the bracket at which iteration ends, in units of the largest match reward."""

MAX_SWEEPS = 200_000
"""Value iterations before giving up."""


@dataclass(frozen=True, eq=False)
class ExactValue:
    """Reward per step, exactly.

    Attributes:
        space: The states.
        value: Reward per step, the middle of the bracket.
        span: Width of the bracket that proves it.
        bias: (N,) relative value of each state in reward, 0 for the empty system.
        action: (N, C) kind of task that a class gets in a state, -1 where it is dropped; None
            for the value of a policy that was handed in.
        seconds: Time it took.
    """

    space: StateSpace
    value: float
    span: float
    bias: Float
    action: Action | None
    seconds: float

    @property
    def upper(self) -> float:
        """Upper end of the bracket: a proven bound."""
        return self.value + self.span / 2


def optimum(
    instance: LossInstance, limit: int = MAX_STATES, space: StateSpace | None = None
) -> ExactValue:
    """The largest reward per step of any work-conserving policy, and a policy that earns it.

    Raises:
        InputError: If a duration is not memoryless or there are more than ``limit`` states.
        SolverError: If the bracket does not close.
    """
    with one_thread():
        return _optimum(state_space(instance, limit) if space is None else space)


def _optimum(space: StateSpace) -> ExactValue:
    start = time.perf_counter()
    action = np.full((space.n_states, space.merged.n_classes), -1, dtype=np.int32)
    bias = np.zeros(space.n_states)
    value = np.empty(space.n_states)
    for _ in range(100):
        span = _improve(space, bias, action, value)
        if span <= SPAN:
            break
        policy = action.copy()
        bias = _bias(space, *policy_rates(space, policy), bias)
        _improve(space, bias, action, value)
        if np.array_equal(policy, action):
            break
    bias, span = _sweep(lambda h: _improve(space, h, action, value), bias, value)
    gain = float(value.max() + value.min()) / 2
    scale = space.unit
    seconds = time.perf_counter() - start
    return ExactValue(space, gain * scale, span * scale, bias * scale, action, seconds)


def evaluate(space: StateSpace, weight: Float, reward: Float) -> ExactValue:
    """The reward per step of a given policy.

    Args:
        space: The states.
        weight: (N, J) probability that a step brings a task that the policy gives kind j.
        reward: (N,) reward per step in each state.

    Raises:
        SolverError: If the bracket does not close.
    """
    start = time.perf_counter()
    own = reward / space.unit
    with one_thread():
        bias = _bias(space, weight, own, np.zeros(space.n_states))
    value = np.empty(space.n_states)

    def step(h: Float) -> float:
        value[:] = _expected(space, weight, h) + own - h
        return float(value.max() - value.min())

    bias, span = _sweep(step, bias, value)
    gain = float(value.max() + value.min()) / 2 * space.unit
    seconds = time.perf_counter() - start
    return ExactValue(space, gain, span * space.unit, bias * space.unit, None, seconds)


def policy_rates(space: StateSpace, action: Action) -> tuple[Float, Float]:
    """Weights (N, J) and rewards (N,), in units of the largest reward, of a table of actions."""
    offers = space.offers
    weight = np.zeros((space.n_states, len(space.team)))
    reward = np.zeros(space.n_states)
    for c, rate in enumerate(offers.rate):
        own = slice(offers.start[c], offers.start[c + 1])
        earns = np.zeros(len(space.team))
        earns[offers.kind[own]] = offers.reward[own]
        served = np.flatnonzero(action[:, c] >= 0)
        kind = action[served, c]
        weight[served, kind] += rate
        reward[served] += rate * earns[kind]
    return weight, reward


def _improve(space: StateSpace, bias: Float, action: Action, value: Float) -> float:
    """T h - h into ``value``, the greedy policy into ``action``; returns the span."""
    after, swift = space.begun(bias)
    improve(after, space.moves, space.offers, swift, SPAN / 100, (value, action))
    value -= bias
    return float(value.max() - value.min())


def _expected(space: StateSpace, weight: Float, bias: Float) -> Float:
    after, swift = space.begun(bias)
    value = np.empty_like(bias)
    follow(after, space.moves, weight, swift, value)
    return value


def _bias(space: StateSpace, weight: Float, reward: Float, guess: Float) -> Float:
    """Solve h - P h + g = r with h(empty) = 0, as h - P h + h(empty) = r for h + g."""

    def apply(h: Float) -> Float:
        return np.asarray(h - _expected(space, weight, h) + h[0])

    n = space.n_states
    operator = LinearOperator((n, n), matvec=apply, dtype=np.float64)
    start = guess + float(reward.mean())
    solved, _ = gmres(operator, reward, x0=start, rtol=1e-13, atol=0.0, restart=60, maxiter=20)
    return np.asarray(solved - solved[0])


def _sweep(step: Callable[[Float], float], bias: Float, value: Float) -> tuple[Float, float]:
    """Value iteration from ``bias`` until the span of ``value`` = T h - h is small enough."""
    best = np.inf
    stalled = 0
    for _ in range(MAX_SWEEPS):
        span = step(bias)
        stalled = 0 if span < 0.99 * best else stalled + 1
        best = min(best, span)
        if span <= SPAN or (stalled > 50 and span <= 100 * SPAN):
            return bias - bias[0], span
        bias = bias + value - value[0]
    raise SolverError(f"span {best:.2g} after {MAX_SWEEPS} sweeps", "the exact optimum")
