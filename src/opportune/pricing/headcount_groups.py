"""HC-group-LP: HC-LP with one arm for each group of equal servers, and its index.

An arm has state (l, n): the group's tasks and the headcount (``headcount_arms``). Variables are
conditional on n: x(l|n), and u_vc(l|n), type v arrives and takes c of the group. The LP couples
the arms only by the demand sum c u = k lambda_v at every n < M. Every work-conserving policy
gives a feasible point, so it bounds all of them; averaging over the equal servers of a group
gives a feasible point of HC-LP, so it is never looser; with two groups it is exact, because
then one arm determines the other (proofs: ``docs/explanation/headcount.md``; ours).

Certificate, for any prices a and any values h_g(l, n):

    UB = k sum_n pi_n sum_v lambda_v a[v,n] + sum_g sum_n pi_n max_l { T_g h_g - h_g }(l, n),
    (T_g h)(l,n) = sum_v lambda_v max_c [c (s_vg - a[v,n]) + E h(c taken)] + (1-L) E h(no arrival).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix, identity
from scipy.sparse.linalg import splu

from opportune.errors import InputError, Problem, SolverError
from opportune.model.loss import LossInstance
from opportune.pricing.blas import one_thread
from opportune.pricing.headcount_arms import Arm, count_arm_states, make_arm
from opportune.pricing.headcount_certificate import ROUNDING
from opportune.pricing.headcount_chain import (
    HeadcountChain,
    headcount_chain,
    headcount_problem,
)
from opportune.pricing.headcount_group_program import group_program
from opportune.pricing.lp import Program, Solution, solve_to_center
from opportune.pricing.merged import Merged, arriving, merge

Float = NDArray[np.float64]

MAX_VARIABLES = 150_000
"""Largest linear program that is made."""

TOLERANCES = (1e-9, 1e-8, 1e-7, 1e-6)
"""Asked of the solver, one after another until it ends."""

RARE = 1e-7
"""Headcounts this much rarer than the commonest have no price of their own: the solver's
tolerance is absolute, and their rows weigh less than it."""


@dataclass(frozen=True, eq=False)
class GroupPrices:
    """HC-group-LP solved and certified.

    Attributes:
        instance: What was priced.
        merged: Arriving classes of types, groups of equal servers.
        chain: The headcount chain.
        arms: One for each group.
        prices: (C, M) a[v,n] in reward.
        values: For each group (S_g,) h_g(l, n) in reward, 0 for the empty group.
        bound: UB(a, h) in reward per step.
        value: Primal value that the solver reached.
        gap: (bound - value) / bound.
        surrogate: As for ``HeadcountPrices``.
        seconds: Time it took.
    """

    instance: LossInstance
    merged: Merged
    chain: HeadcountChain
    arms: tuple[Arm, ...]
    prices: Float
    values: tuple[Float, ...]
    bound: float
    value: float
    gap: float
    surrogate: bool
    seconds: float

    def index(self, group: int) -> Float:
        """(V, m+1, M+1) I(v,g|b,n) of one server of a group with b busy, k = 1; -inf off the LP.

        s_vg + E[h_g] if the task begins here minus E[h_g] if it begins elsewhere. Where all
        other servers are busy there is no elsewhere: then only the reward counts.
        """
        arm, value = self.arms[group], self.values[group]
        reward = self.instance.match_reward[:, np.flatnonzero(self.merged.group_of == group)[0]]
        copies, size = int(self.merged.copies[group]), self.chain.size
        out = np.full((len(reward), copies + 1, size + 1), -np.inf)
        after = arm.begin @ value
        difference = np.zeros((copies + 1, size + 1))
        here, there = arm.pair_take == 1, arm.pair_take == 0
        difference[arm.busy[arm.pair_state[here]], arm.level[arm.pair_state[here]]] += after[here]
        both = there & np.isin(arm.pair_state, arm.pair_state[here])
        difference[arm.busy[arm.pair_state[both]], arm.level[arm.pair_state[both]]] -= after[both]
        at = (arm.busy[arm.pair_state[here]], arm.level[arm.pair_state[here]])
        out[:, at[0], at[1]] = reward[:, None] + difference[at]
        return out


@lru_cache(maxsize=16)
def group_prices(instance: LossInstance) -> GroupPrices:
    """Solve HC-group-LP and certify it; the last few results are remembered.

    Raises:
        InputError: If the headcount depends on the policy, or the LP is too large.
        SolverError: If the solver ends without an optimal solution.
    """
    problem = headcount_problem(instance, surrogate=True)
    if problem is not None:
        raise InputError(problem)
    start = time.perf_counter()
    merged = arriving(merge(instance))
    chain = headcount_chain(instance)
    sizes = sum(count_arm_states(int(m), chain) for m in merged.copies)
    if sizes * (1 + merged.n_classes * (chain.k + 1)) > MAX_VARIABLES:
        raise InputError(
            Problem("instance", f"{sizes} states of its groups", "fewer for the LP by group")
        )
    arms = tuple(make_arm(int(m), instance.n_servers, chain) for m in merged.copies)
    unit = float(instance.match_reward.max()) or 1.0
    with one_thread():
        prices, value = _solve(merged, chain, arms, unit)
        values = tuple(
            arm_value(arm, chain, merged.reward[:, g], (merged.rate, prices))
            for g, arm in enumerate(arms)
        )
    bound = group_upper_bound(merged, chain, arms, prices, values)
    return GroupPrices(
        instance=instance,
        merged=merged,
        chain=chain,
        arms=arms,
        prices=prices,
        values=values,
        bound=bound,
        value=value,
        gap=max(bound - value, 0.0) / bound if bound > 0 else 0.0,
        surrogate=headcount_problem(instance) is not None,
        seconds=time.perf_counter() - start,
    )


def group_upper_bound(
    merged: Merged,
    chain: HeadcountChain,
    arms: tuple[Arm, ...],
    prices: Float,
    values: tuple[Float, ...],
) -> float:
    """UB(a, h) in reward per step, for any prices (C, M) and any values of the arms."""
    total = chain.k * float(merged.rate @ prices @ chain.take_law)
    size = abs(total)
    for g, (arm, value) in enumerate(zip(arms, values, strict=True)):
        excess = _best(arm, value, merged.reward[:, g], (merged.rate, prices))[0] - value
        most = np.full(chain.size + 1, -np.inf)
        np.maximum.at(most, arm.level, excess)
        total += float(most @ chain.law)
        size += float(np.abs(most) @ chain.law)
    return total + ROUNDING * size


def arm_value(arm: Arm, chain: HeadcountChain, reward: Float, market: tuple[Float, Float]) -> Float:
    """(S,) h of an arm at given prices, by policy iteration.

    Args:
        arm: The arm.
        chain: The headcount chain.
        reward: (C,) match reward of one of its servers.
        market: Rates (C,) and prices (C, M).

    Raises:
        SolverError: If it does not end.
    """
    value = np.zeros(arm.n_states)
    before = None
    for _ in range(200):
        _, choice = _best(arm, value, reward, market, before)
        if before is not None and np.array_equal(choice, before):
            return value
        value, before = _evaluate(arm, reward, market, choice), choice
    raise SolverError("no fixed point", "a group's value at given prices")


def _worth(arm: Arm, value: Float, reward: Float, prices: Float) -> Float:
    """(E, C) c (s - a[v,n]) + E h for every pair of a state and an action."""
    earned = arm.pair_take[:, None] * (reward - prices[:, arm.level[arm.pair_state]].T)
    return np.asarray(earned + (arm.begin @ value)[:, None])


def _best(
    arm: Arm,
    value: Float,
    reward: Float,
    market: tuple[Float, Float],
    before: NDArray[np.int64] | None = None,
) -> tuple[Float, NDArray[np.int64]]:
    """T h (S,) and the best pair (S, C) of each state and type; a choice stays if as good."""
    rate, prices = market
    worth = _worth(arm, value, reward, prices)
    best = np.full((arm.n_states, len(rate)), -np.inf)
    np.maximum.at(best, arm.pair_state, worth)
    slack = 1e-11 * (1.0 + np.abs(best[arm.pair_state]))
    pair = np.where(worth >= best[arm.pair_state] - slack, np.arange(len(worth))[:, None], -1)
    choice = np.full((arm.n_states, len(rate)), -1)
    np.maximum.at(choice, arm.pair_state, pair)
    if before is not None:
        served = before >= 0
        kept = np.take_along_axis(worth, np.maximum(before, 0), axis=0)
        limit = best - 1e-11 * (1.0 + np.abs(best))
        choice = np.where(served & (kept >= limit), before, choice)
    serving = choice[:, 0] >= 0 if len(rate) else np.zeros(arm.n_states, dtype=np.bool_)
    quiet = np.asarray(arm.stay @ value)
    total = np.where(serving, rate @ np.where(serving[:, None], best, 0.0).T, 0.0)
    return total + np.where(serving, 1.0 - rate.sum(), 1.0) * quiet, choice


def _evaluate(
    arm: Arm, reward: Float, market: tuple[Float, Float], choice: NDArray[np.int64]
) -> Float:
    """h of a policy: h - P h + g = r, with h = 0 in the first state."""
    rate, prices = market
    n, n_pairs = arm.n_states, len(arm.pair_state)
    state, kind = np.nonzero(choice >= 0)
    picks = coo_matrix((rate[kind], (state, choice[state, kind])), shape=(n, n_pairs)).tocsr()
    serving = np.asarray(picks.sum(axis=1)).ravel()
    move = picks @ arm.begin + arm.stay.multiply((1.0 - serving)[:, None])
    earned = arm.pair_take[:, None] * (reward - prices[:, arm.level[arm.pair_state]].T)
    gain = np.zeros(n)
    np.add.at(gain, state, rate[kind] * earned[choice[state, kind], kind])
    # h - P h + g = r with g in the place of h(first): its column is all ones instead.
    system = (identity(n) - move).tolil()
    system[:, 0] = 1.0
    solved = splu(system.tocsc()).solve(gain)
    solved[0] = 0.0
    return np.asarray(solved)


def _solve(
    merged: Merged, chain: HeadcountChain, arms: tuple[Arm, ...], unit: float
) -> tuple[Float, float]:
    """Prices (C, M) from the duals of the demand rows, and the primal value."""
    prices = np.zeros((merged.n_classes, chain.size))
    if not merged.n_classes:
        return prices, 0.0
    program = group_program(merged, chain, arms, unit)
    solution = _solve_patiently(program)
    weight = merged.rate[:, None] * chain.take_law
    dual = solution.row_dual[: prices.size].reshape(prices.shape)
    prices = unit * np.divide(dual, weight, out=np.zeros_like(dual), where=weight > 0)
    return _mend(prices, chain), unit * solution.value


def _solve_patiently(program: Program) -> Solution:
    """The solution at the smallest tolerance at which the solver ends: the certificate is ours."""
    for tolerance in TOLERANCES[:-1]:
        try:
            return solve_to_center(program, "HC-group-LP", tolerance)
        except SolverError:
            continue
    return solve_to_center(program, "HC-group-LP", TOLERANCES[-1])


def _mend(prices: Float, chain: HeadcountChain) -> Float:
    """Levels too rare for the solver's tolerance copy the nearest one; a forced one has 0."""
    common = chain.take_law >= RARE * chain.take_law.max()
    if chain.forced is not None:
        common[chain.forced] = False
    if common.any():
        known = np.flatnonzero(common)
        nearest = np.abs(np.arange(chain.size)[:, None] - known).argmin(axis=1)
        prices = prices[:, known[nearest]]
    if chain.forced is not None:
        prices[:, chain.forced] = 0.0
    return prices
