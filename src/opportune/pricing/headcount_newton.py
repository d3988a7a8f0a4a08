"""The Newton system of HC-LP: servers eliminated one by one, prices left.

HC-LP in the variables of one server (all conditional on the headcount n, pi its law):

    max sum_n pi_n sum_v s_v u[v,n],   0 <= u[v,n] <= lam_v (1 - x_n),
    x = Pi^-1 C' Pi x + Pi^-1 A' Pi sum_v u[v],      coupled by  sum_r u_r[v,n] = k lam_v.

With slack s = lam (1 - x) - u, multipliers zl of u >= 0, zu of s >= 0, W of the balance and a of
the demand, al = zl / u, be = zu / s, ga = 1 / (al + be), bg = be ga, and sums over types
P = sum lam bg, E = sum lam^2 al bg, Gam = sum ga, the Newton equations reduce per server to

    E dx - K dW = R1 + p(da),                      K = I - C + diag(P) A,   p = sum_v lam bg da
    K' Pi dx + A' Pi Gam A dW = Pi R2 - A' Pi q(da),                        q = sum_v ga da.

In t = Pi dx and y = K dW, with F = (Pi Gam)^(1/2) A K^-1 and D = E / Pi, this is

    t = (I + F'F D)^-1 c + F' Q^-1 (F p - (Pi / Gam)^(1/2) q),      Q = I + F D F',

and the Schur complement in the prices is a sum of squares:

    H = sum_r m_r { Pi [diag(ga) - ga ga' / Gam] + T_r' Q_r^-1 T_r },
    T_r da = F p(da) - (Pi / Gam)^(1/2) q(da).

K is an M-matrix with row sums at least f, Q is at least the identity, E = 0 (where no task can
begin) is harmless: only H carries the ill-conditioning of an interior point. Cost: R products of
Q x Q matrices and one Cholesky factor of order V M, a tenth of solving 2M x 2M systems with V M
right-hand sides. The form is ours. A forced level has no price: there u = lam (1 - x), bg = 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from opportune.pricing.headcount_chain import HeadcountChain
from opportune.pricing.merged import Merged

Float = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ServerProblem:
    """What every iteration needs: G groups of servers, C classes, P take and Q busy levels.

    Attributes:
        chain: The chain, possibly on part of the levels.
        reward: (G, C, 1) match rewards divided by the largest.
        rate: (1, C, 1) arrival rates.
        copies: (G,) servers per group.
        open: (P,) take levels with a price; all but a forced one.
    """

    chain: HeadcountChain
    reward: Float
    rate: Float
    copies: Float
    open: NDArray[np.bool_]

    def to_take(self, busy: Float) -> Float:
        """(G, P) values at the take levels from (G, Q) at the busy ones, 0 at n = 0."""
        both, own = self.chain.overlap
        out = np.zeros((len(busy), len(self.chain.taken)))
        out[:, both] = busy[:, own]
        return out

    def to_busy(self, take: Float) -> Float:
        """(G, Q) values at the busy levels from (G, P) at the take levels, 0 at n = M."""
        both, own = self.chain.overlap
        out = np.zeros((len(take), len(self.chain.busy)))
        out[:, own] = take[:, both]
        return out

    def advantage(self, prices: Float, loss: Float) -> Float:
        """(G, C, P) s_vr - a[v,n] - (A W_r)(n)."""
        return np.asarray(self.reward - prices - (loss @ self.chain.taken.T)[:, None, :])

    def total(self, values: Float) -> Float:
        """(C, P) sum over servers."""
        return np.asarray(np.tensordot(self.copies, values, (0, 0)))


def server_problem(merged: Merged, chain: HeadcountChain, unit: float) -> ServerProblem:
    """Arrays of an instance on a chain; rewards are divided by ``unit``."""
    is_open = np.ones(len(chain.taken), dtype=np.bool_)
    if chain.forced is not None:
        is_open[chain.forced] = False
    return ServerProblem(
        chain=chain,
        reward=np.ascontiguousarray(merged.reward.T[:, :, None] / unit),
        rate=merged.rate[None, :, None],
        copies=merged.copies.astype(np.float64),
        open=is_open,
    )


@dataclass(frozen=True, eq=False)
class Point:
    """A primal and dual point, or a direction: u, slack, zl, zu (G, C, P), x, W (G, Q), a (C, P).

    At a forced level u = lam (1 - x) and zu is the advantage, slack and zl are 0.
    """

    taken: Float
    slack: Float
    low: Float
    up: Float
    busy: Float
    loss: Float
    prices: Float


@dataclass(frozen=True, eq=False)
class Residual:
    """What is left of each equation: of u (G, C, P), s, W (G, Q), x, demand (C, P)."""

    taken: Float
    slack: Float
    loss: Float
    busy: Float
    demand: Float

    @property
    def worst(self) -> float:
        """The largest of them."""
        parts = (self.taken, self.slack, self.loss, self.busy, self.demand)
        return max(float(np.abs(part).max(initial=0.0)) for part in parts)


def residual(problem: ServerProblem, point: Point) -> Residual:
    """The residuals of all linear equations at a point."""
    chain, rate, is_open = problem.chain, problem.rate, problem.open
    free = 1.0 - problem.to_take(point.busy)[:, None, :]
    advantage = problem.advantage(point.prices, point.loss)
    earned = problem.to_busy((rate * point.up).sum(axis=1))
    inflow = (point.busy * chain.busy_law) @ chain.busy
    inflow += (point.taken.sum(axis=1) * chain.take_law) @ chain.taken
    short = chain.take_law * (chain.k * rate[0] - problem.total(point.taken))
    return Residual(
        taken=np.where(is_open, advantage - point.up + point.low, 0.0),
        slack=np.where(is_open, rate * free - point.taken - point.slack, 0.0),
        loss=point.loss - point.loss @ chain.busy.T - earned,
        busy=point.busy - inflow / chain.busy_law,
        demand=np.where(is_open, short, 0.0),
    )


@dataclass(frozen=True, eq=False)
class Factor:
    """The factored system at a point. Names as in the formulas above."""

    al: Float
    be: Float
    ga: Float
    bg: Float
    D: Float
    K_inverse: Float
    F: Float
    FQ: Float  # F' Q^-1
    weight: Float
    cholesky: tuple[Float, bool]
    scale: Float


def factor(problem: ServerProblem, point: Point) -> Factor:
    """Eliminate the servers and factor the Schur complement of the prices.

    Raises:
        LinAlgError: If it is not positive definite to working precision.
    """
    chain, rate, is_open = problem.chain, problem.rate, problem.open
    al, be, ga = (np.zeros_like(point.taken) for _ in range(3))
    bg = np.ones_like(point.taken)
    al[:, :, is_open] = point.low[:, :, is_open] / point.taken[:, :, is_open]
    be[:, :, is_open] = point.up[:, :, is_open] / point.slack[:, :, is_open]
    ga[:, :, is_open] = 1.0 / (al + be)[:, :, is_open]
    bg[:, :, is_open] = (be * ga)[:, :, is_open]
    take = (rate * bg).sum(axis=1)
    sum_ga = ga.sum(axis=1)
    both, own = chain.overlap
    K = np.tile(np.eye(len(chain.busy)) - chain.busy, (len(take), 1, 1))
    K[:, own] += take[:, both, None] * chain.taken[both]
    inverse = np.asarray(np.linalg.inv(K), dtype=np.float64)
    F = np.sqrt(chain.take_law * sum_ga)[:, :, None] * (chain.taken @ inverse)
    D = problem.to_busy((rate**2 * al * bg).sum(axis=1)) / chain.busy_law
    Q = (F * D[:, None, :]) @ F.transpose(0, 2, 1)
    Q += np.eye(F.shape[1])
    Q = np.linalg.inv(Q)
    turned = F.transpose(0, 2, 1) @ Q
    weight = np.sqrt(chain.take_law / np.where(sum_ga > 0, sum_ga, 1.0)) * (sum_ga > 0)
    H = _schur(problem, (rate * bg, weight[:, None, :] * ga), (turned @ F, turned, Q))
    _add_diagonal_blocks(problem, ga, sum_ga, H)
    H = H[is_open][:, :, is_open].reshape(2 * (int(is_open.sum()) * ga.shape[1],))
    scale = np.sqrt(np.maximum(np.diag(H), 1e-300)).astype(np.float64)
    H /= scale
    H /= scale[:, None]
    H[np.diag_indices(len(scale))] = 1.0 + 1e-14
    cholesky = cho_factor(H, lower=False, overwrite_a=True, check_finite=False)
    return Factor(al, be, ga, bg, D, inverse, F, turned, weight, cholesky, scale)


def _schur(
    problem: ServerProblem, columns: tuple[Float, Float], squares: tuple[Float, Float, Float]
) -> Float:
    """sum_r m_r T_r' Q_r^-1 T_r as (P, C, P, C), its upper half in the levels.

    T_r has column F[:, n] lam bg[v,n] - e_n weight_n ga[v,n] for the price of (v, n).
    """
    inner, turned, Q = squares
    both, own = problem.chain.overlap
    n_groups, n_classes, n_levels = columns[0].shape
    N, M = np.zeros_like(Q), np.zeros_like(Q)
    N[:, both, both], M[:, both] = inner[:, own, own], turned[:, own]
    across = np.ascontiguousarray(M.transpose(0, 2, 1))
    first, second = (np.ascontiguousarray(one.transpose(0, 2, 1)) for one in columns)
    left = np.concatenate([first, second]) * np.tile(problem.copies, 2)[:, None, None]
    left = np.ascontiguousarray(left.transpose(1, 2, 0))  # (P, C, 2G)
    H = np.zeros((n_levels, n_classes, n_levels, n_classes))
    room, spare = np.empty(2 * first.size), np.empty(first.size)
    for n in range(n_levels):
        m = n_levels - n
        right = room[: 2 * n_groups * m * n_classes].reshape(2 * n_groups, m, n_classes)
        other = spare[: n_groups * m * n_classes].reshape(n_groups, m, n_classes)
        b, g = first[:, n:], second[:, n:]
        np.multiply(b, N[:, n, n:, None], out=right[:n_groups])
        np.multiply(g, M[:, n, n:, None], out=other)
        right[:n_groups] -= other
        np.multiply(g, Q[:, n, n:, None], out=right[n_groups:])
        np.multiply(b, across[:, n, n:, None], out=other)
        right[n_groups:] -= other
        H[n, :, n:] = (left[n] @ right.reshape(2 * n_groups, -1)).reshape(n_classes, m, n_classes)
    return H


def _add_diagonal_blocks(problem: ServerProblem, ga: Float, sum_ga: Float, H: Float) -> None:
    """Add sum_r m_r pi_n [diag(ga) - ga ga' / Gam] to the blocks of equal levels."""
    law = problem.chain.take_law
    share = problem.copies[:, None] / np.where(sum_ga > 0, sum_ga, 1.0)
    on_diagonal = problem.total(ga)
    for n in range(len(law)):
        outer = (ga[:, :, n] * share[:, n, None]).T @ ga[:, :, n]
        H[n, :, n] += law[n] * (np.diag(on_diagonal[:, n]) - outer)


def direction(problem: ServerProblem, at: tuple[Residual, Factor], cu: Float, cl: Float) -> Point:
    """The Newton direction for complementarity right-hand sides cu (of s) and cl (of u)."""
    left, f = at
    chain, rate = problem.chain, problem.rate
    g0 = left.taken - cu + cl + f.be * left.slack
    r1 = left.loss - problem.to_busy((rate * (cu - f.be * left.slack + f.bg * g0)).sum(axis=1))
    r2 = ((f.ga * g0).sum(axis=1) * chain.take_law) @ chain.taken - chain.busy_law * left.busy
    c = _times(f.K_inverse, r2, turned=True) + _times(f.F, _times(f.F, r1), turned=True)
    t = c - _times(f.FQ, _times(f.F, f.D * c))

    def step(t: Float, da: Float, p: Float) -> tuple[Float, Float, Float]:
        dw = _times(f.K_inverse, f.D * t - r1 - p)
        dx = t / chain.busy_law
        du = f.ga * (g0 - da - (dw @ chain.taken.T)[:, None, :])
        return du - f.bg * rate * problem.to_take(dx)[:, None, :], dx, dw

    still = np.zeros_like(left.demand)
    du, dx, dw = step(t, still, np.zeros_like(r1))
    right = chain.take_law * problem.total(du) - left.demand
    solved = cho_solve(f.cholesky, right[:, problem.open].T.ravel() / f.scale, check_finite=False)
    da = still
    da[:, problem.open] = (solved / f.scale).reshape(-1, len(da)).T
    p = problem.to_busy((rate * f.bg * da).sum(axis=1))
    t = t + _times(f.FQ, _times(f.F, p) - f.weight * (f.ga * da).sum(axis=1))
    du, dx, dw = step(t, da, p)
    ds = left.slack - du - rate * problem.to_take(dx)[:, None, :]
    return Point(du, ds, cl - f.al * du, cu - f.be * ds, dx, dw, da)


def _times(matrix: Float, vector: Float, turned: bool = False) -> Float:
    """Batched matrix (G, a, b), or its transpose, by vector."""
    if turned:
        return np.asarray((vector[:, None, :] @ matrix)[:, 0])
    return np.asarray((matrix @ vector[:, :, None])[:, :, 0])
