"""A statistical bound for deterministic durations: every server alone, on a known arrival path.

With D steps for every task the headcount is a function of the arrivals alone, the same for every
work-conserving policy. Give each server the whole path of arrivals (not the types), charge it
for knowing it by penalties of mean zero, price the coupling away, and its best value on the path
follows by backward recursion; the mean over paths bounds every policy. Derivation, choice of the
penalties and what was tried: ``docs/explanation/headcount.md`` (ours).

Differences to the first form: values behind the end of the path are 0 and a server starts in
whatever state is best for it, so no allowance for the ends is needed and the bound holds for the
long-run average. Prices minimize a smoothed sample average by L-BFGS; penalties are those of the
memoryless surrogate at these prices. Both are fixed before the certifying paths are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import stdtrit

from opportune.errors import InputError, Problem
from opportune.kernels.pathwise import (
    ArrivalPath,
    Market,
    Penalty,
    charge_all,
    takes_forward,
    values_backward,
    walk_headcount,
)
from opportune.model.duration import Deterministic
from opportune.model.loss import LossInstance
from opportune.model.streams import draw_block, loss_law, stream_key
from opportune.pricing.blas import one_thread
from opportune.pricing.headcount import headcount_prices
from opportune.pricing.headcount_chain import HeadcountChain, headcount_problem
from opportune.pricing.merged import Merged
from opportune.pricing.states import binomial_law

Float = NDArray[np.float64]

LEVEL = 0.99865
"""One-sided level of the bound: that of three standard errors of a normal mean."""

SMOOTH = (1e-2, 3e-3, 1e-3)
"""Widths of the smoothed maximum, in units of the largest reward, one after another."""

WARM_UP = 50
"""Durations D that a path runs before it counts."""

MAX_ROUNDS = 60
"""Policy iterations per server."""

TRAINING = 2**31
"""Replications from here on train; those from 0 on certify: the two never meet."""


@dataclass(frozen=True)
class Effort:
    """How long the bound is computed.

    Attributes:
        training_steps: Length of the path that prices are fitted on.
        steps: Length of each certifying path.
        paths: Number of certifying paths.
        rounds: How often penalties are made anew for the prices.
        iterations: L-BFGS iterations for each width of the maximum.
    """

    training_steps: int = 200_000
    steps: int = 150_000
    paths: int = 12
    rounds: int = 2
    iterations: int = 60


@dataclass(frozen=True, eq=False)
class PathwiseBound:
    """A statistical bound in reward per step.

    Attributes:
        value: Mean over the certifying paths plus Student's factor times its standard error.
        mean: Mean over the paths.
        standard_error: Of the mean.
        prices: (C, M) prices used.
        trained: Value on the training path.
    """

    value: float
    mean: float
    standard_error: float
    prices: Float
    trained: float


def pathwise_problem(instance: LossInstance) -> Problem | None:
    """Why there is no pathwise bound for an instance, or None."""
    problem = headcount_problem(instance, surrogate=True)
    if problem is not None:
        return problem
    steps = {d.steps if isinstance(d, Deterministic) else None for d in instance.duration}
    if len(steps) > 1 or None in steps:
        return Problem("duration", "not one fixed number of steps", "Deterministic, one for all")
    if not instance.arrival_rate.sum() > 0:
        return Problem("arrival_rate", "all zero", "a positive rate")
    return None


def pathwise_bound(
    instance: LossInstance, seed: int = 1, effort: Effort | None = None
) -> PathwiseBound:
    """Fit prices on one path, certify them on fresh ones.

    Raises:
        InputError: If durations are not deterministic and equal, or the headcount depends on
            the policy.
    """
    problem = pathwise_problem(instance)
    if problem is not None:
        raise InputError(problem)
    with one_thread():
        return _bound(instance, seed, Effort() if effort is None else effort)


def _bound(instance: LossInstance, seed: int, effort: Effort) -> PathwiseBound:
    found = headcount_prices(instance, tolerance=1e-6)
    unit = float(instance.match_reward.max()) or 1.0
    game = _Game.of(found.merged, found.chain, int(instance.duration[0].mean), unit)
    training = game.draw(instance, (seed, TRAINING), effort.training_steps)
    known = found.prices / unit
    flat = np.repeat((known @ found.chain.take_law)[:, None], game.chain.size, axis=1)
    flat /= found.chain.take_law.sum()
    starts = [game.closed(share * known + (1.0 - share) * flat) for share in (1.0, 0.5, 0.0)]
    penalties = [surrogate_penalty(game, one) for one in starts]
    values = [
        game.value(training, one, penalty) for one, penalty in zip(starts, penalties, strict=True)
    ]
    prices, penalty = starts[int(np.argmin(values))], penalties[int(np.argmin(values))]
    for _ in range(effort.rounds):
        prices = _fitted(game, training, prices, penalty, effort.iterations)
        penalty = surrogate_penalty(game, prices)
    certified = [
        game.value(game.draw(instance, (seed, i), effort.steps), prices, penalty)
        for i in range(effort.paths)
    ]
    mean = float(np.mean(certified))
    error = float(np.std(certified, ddof=1) / np.sqrt(len(certified)))
    return PathwiseBound(
        value=unit * (mean + float(stdtrit(len(certified) - 1, LEVEL)) * error),
        mean=unit * mean,
        standard_error=unit * error,
        prices=unit * prices,
        trained=unit * game.value(training, prices, penalty),
    )


@dataclass(frozen=True, eq=False)
class _Game:
    """What all servers share: G groups, C classes of types, D steps, rewards divided by unit."""

    chain: HeadcountChain
    reward: Float
    copies: Float
    share: Float
    steps: int

    @staticmethod
    def of(merged: Merged, chain: HeadcountChain, steps: int, unit: float) -> _Game:
        """The game of an instance whose equal servers and types are merged."""
        return _Game(
            chain=chain,
            reward=np.ascontiguousarray(merged.reward.T / unit),
            copies=merged.copies.astype(np.float64),
            share=merged.rate / merged.rate.sum(),
            steps=steps,
        )

    def draw(self, instance: LossInstance, key: tuple[int, int], steps: int) -> ArrivalPath:
        """A path of so many steps, begun after the headcount has forgotten the empty start."""
        warm = WARM_UP * self.steps
        arrived = _arrivals(instance, key, warm + steps)
        ring = np.zeros(self.steps, dtype=np.int8)
        walk_headcount(arrived[:warm], ring, self.chain.size)
        level, expired, admitted = walk_headcount(arrived[warm:], ring, self.chain.size)
        return ArrivalPath(arrived[warm:], level, expired, np.flatnonzero(admitted))

    def closed(self, prices: Float) -> Float:
        """Prices with 0 at a forced level, where they cancel."""
        prices = prices.copy()
        if self.chain.forced is not None:
            prices[:, self.chain.forced] = 0.0
        return prices

    def market(self, prices: Float, smooth: float = 0.0) -> Market:
        """Arguments of the kernels."""
        return Market(self.reward, np.ascontiguousarray(prices), self.share, smooth)

    def demand(self, path: ArrivalPath) -> Float:
        """(M,) servers wanted at each headcount, over the path."""
        counts = np.bincount(path.level[path.admitted], minlength=self.chain.size)
        return self.chain.k * counts[: self.chain.size].astype(np.float64)

    def value(self, path: ArrivalPath, prices: Float, penalty: Penalty) -> float:
        """Reward per step that bounds every policy, up to the noise of this path."""
        charged = np.zeros((len(self.reward), len(path.admitted)))
        charge_all(path, penalty, charged)
        gap = np.zeros_like(charged)
        values = values_backward(path, penalty, self.market(prices), charged, gap)
        paid = float(self.share @ prices @ self.demand(path))
        return (paid + float(self.copies @ values)) / len(path.level)


def _arrivals(instance: LossInstance, key: tuple[int, int], steps: int) -> NDArray[np.int8]:
    """(steps,) whether a task arrives, from the stream of a seed and a replication."""
    arrived = np.zeros(steps, dtype=np.int8)
    law, stream = loss_law(instance), stream_key(*key)
    at, block = -1, 0
    while at < steps:
        times = at + np.cumsum(draw_block(stream, block, law, 1).gap)
        arrived[times[times < steps]] = 1
        at, block = int(times[-1]), block + 1
    return arrived


def _fitted(
    game: _Game, path: ArrivalPath, prices: Float, penalty: Penalty, iterations: int
) -> Float:
    """Prices that nearly minimize the value on a path, the penalties held fixed.

    The value is convex in the prices, with kinks; it is smoothed less and less. The derivative
    is the demand minus the expected takes, per step.
    """
    charged = np.zeros((len(game.reward), len(path.admitted)))
    charge_all(path, penalty, charged)
    gap = np.zeros_like(charged)
    demand = game.demand(path)
    weight = np.sqrt(game.share[:, None] * np.maximum(demand, 1.0) / max(demand.sum(), 1.0))
    is_open = np.ones(game.chain.size, dtype=np.bool_)
    if game.chain.forced is not None:
        is_open[game.chain.forced] = False
    horizon = float(len(path.level))

    def at(x: Float) -> Float:
        out = prices.copy()
        out[:, is_open] = x.reshape(len(prices), -1) / weight[:, is_open]
        return out

    x = (prices * weight)[:, is_open].ravel()
    for smooth in SMOOTH:

        def objective(x: Float, smooth: float = smooth) -> tuple[float, Float]:
            market = game.market(at(x), smooth)
            values = values_backward(path, penalty, market, charged, gap)
            taken = np.zeros_like(prices)
            takes_forward(path, penalty, market, gap, game.copies, taken)
            total = float(game.share @ market.prices @ demand + game.copies @ values)
            slope = (game.share[:, None] * demand - taken) / weight
            return total / horizon, slope[:, is_open].ravel() / horizon

        options = {"maxiter": iterations, "maxcor": 20, "ftol": 1e-8}
        x = minimize(objective, x, jac=True, method="L-BFGS-B", options=options).x
    return at(x)


def surrogate_penalty(game: _Game, prices: Float) -> Penalty:
    """Penalties from one server against a memoryless headcount, its own residual kept exact.

    Its value h(j, n) with j steps left: h(1,.) = Qe h(0,.) - g, h(j,.) = Qo h(j-1,.) - g, where Qo
    and Qe move n while the server stays busy or ends; h(0,.) and the gain g by policy iteration.
    """
    chain, steps = game.chain, game.steps
    arrive, quiet, stay, leave = _moves(chain)
    power = np.linalg.matrix_power(stay, steps - 1) @ leave
    shape = (len(game.reward), steps + 1, chain.size + 1)
    busy, free = np.zeros(shape), np.zeros((len(game.reward), chain.size, 2))
    n = np.arange(chain.size)
    for g, reward in enumerate(game.reward):
        value, gain = _server_value(game, reward[:, None] - prices, (arrive, quiet, power))
        busy[g, 0] = value
        busy[g, 1] = leave @ value - gain
        for j in range(2, steps + 1):
            busy[g, j] = stay @ busy[g, j - 1] - gain
        for expired in (0, 1):
            after = np.maximum(n + 1 - expired, 0)
            worth = reward[:, None] - prices + busy[g, steps, after] - value[after]
            best = np.maximum(worth, 0.0)
            if chain.forced is not None:
                best[:, chain.forced] = worth[:, chain.forced]
            best = value[after] + game.share @ best
            free[g, :, expired] = best - value[np.maximum(n - expired, 0)]
    forced = chain.forced is not None
    return Penalty(free, busy, chain.arrival, chain.size, steps, forced)


def _moves(chain: HeadcountChain) -> tuple[Float, Float, Float, Float]:
    """Moves of n in the memoryless surrogate, all (M+1, M+1).

    Seen by a free server at an arrival and without one; by a busy one that stays, and that ends.
    """
    size, ended = chain.size, binomial_law(chain.size, chain.end)
    n, to = np.arange(size + 1)[:, None], np.arange(size + 1)[None, :]

    def law(tasks: NDArray[np.int64], more: int) -> Float:
        """P(to = tasks - ended + more)."""
        gone = tasks + more - to
        inside = (gone >= 0) & (gone <= tasks) & (tasks >= 0)
        return np.where(inside, ended[np.maximum(tasks, 0), np.clip(gone, 0, size)], 0.0)

    rate = np.where(n < size, chain.arrival, 0.0)
    stay = (1.0 - rate) * law(n - 1, 1) + rate * np.where(n < size, law(n - 1, 2), 0.0)
    leave = (1.0 - rate) * law(n - 1, 0) + rate * np.where(n < size, law(n - 1, 1), 0.0)
    stay[0], leave[0] = stay[1], leave[1]  # a busy server at n = 0 is never met
    return law(n, 1), law(n, 0), stay, leave


def _server_value(
    game: _Game, worth: Float, moves: tuple[Float, Float, Float]
) -> tuple[Float, float]:
    """h(0, n) (M+1,) and the gain of one server at rewards net of prices (C, M)."""
    chain = game.chain
    size, rate = chain.size, game.share * chain.arrival
    arrive, quiet, power = moves
    arrive = arrive.copy()
    arrive[size] = 0.0
    open_rate = np.append(np.full(size, chain.arrival), 0.0)
    value, gain, before = np.zeros(size + 1), 0.0, None
    for _ in range(MAX_ROUNDS):
        later = (arrive @ (power @ value - game.steps * gain - value))[:size]
        take = worth + later > 0
        if chain.forced is not None:
            take[:, chain.forced] = True
        if before is not None and np.array_equal(take, before):
            break
        before = take
        taken = np.append(rate @ take, 0.0)
        earned = np.append(rate @ np.where(take, worth, 0.0), 0.0)
        system = np.eye(size + 2)
        system[:-1, :-1] -= taken[:, None] * (arrive @ power)
        system[:-1, :-1] -= (open_rate - taken)[:, None] * arrive
        system[:-1, :-1] -= (1.0 - open_rate)[:, None] * quiet
        system[:-1, -1] = 1.0 + taken * game.steps
        system[-1] = 0.0
        system[-1, 0] = 1.0
        solved = np.linalg.solve(system, np.append(earned, 0.0))
        value, gain = solved[:-1], float(solved[-1])
    return value, gain
