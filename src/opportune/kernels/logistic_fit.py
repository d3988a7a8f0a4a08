"""Fits of the logistic model: exact with and without the norm constraint, and one step at a time.

Implements: CQB 2.1, theta_hat = argmin of the regularized loss over ||theta|| <= S (loss quoted,
constraint reconstructed), by Newton steps on the exact information or on a nearby one. A step that
gains too little is followed by a fresh information and the damping log(1 + v) / v, v the largest
change of a logit, under which a generalized self-concordant loss falls at every step (Sun and
Tran-Dinh 2019), from any start. With the constraint a step goes to the exact minimum of
the quadratic model over the ball. A fit ends when no entry of gradient + nu theta exceeds the
tolerance, nu >= 0 being 0 inside the ball: for a convex problem that is the optimum.

Online estimator (ours, heuristic): the proximal step theta <- argmin of the new outcome's loss +
1/2 ||theta - old||^2 in the norm of the information, as in ECOLog (Faury et al. 2022). It lies on a
line and costs O(p^2); it would be exact if the past were exactly quadratic. With growth refits the
data are fitted exactly each time they grew by a factor, so the steps bridge at most that factor.
Where the norm constraint binds, the steps go on without it, from where the quadratic model of the
last fit has its minimum, and theta is the nearest point of the ball in the norm of the information:
stepping from the ball itself would forget what pushed against it (ECOLog is published that way).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from opportune.kernels.jit import jit_in_place
from opportune.kernels.logistic import (
    COUNT,
    COVARIANCE,
    DESIGN,
    DESIGN_INVERSE,
    FACTOR,
    FAILED,
    FEATURES,
    FREE,
    GRADIENT,
    INFORMATION,
    INNER,
    LEARNED,
    LOSSES,
    MULTIPLIER,
    PHI,
    POINT,
    REACH,
    REFIT,
    RESIDUAL,
    RIGHT,
    START,
    THETA,
    Float,
    Learner,
    add_outcome,
    append_outcome,
    departure_probability,
    departure_slope,
    factor_block,
    image_of_phi,
    invert_block,
    log_loss,
    pass_over_data,
)

NO_ESTIMATOR, EXACT, ONLINE, ECOLOG = 0, 1, 2, 3
"""Estimators: none; the exact optimum after every outcome; proximal steps, with exact refits where
``Fitting.growth`` is finite; proximal steps that also run up ECOLog's losses."""

ENOUGH = 0.25
"""A step on an old information must shrink the gradient to this share, or a new one is taken."""

PATIENCE = 2
"""Steps on an old information before a new one is taken anyway."""

CAREFUL = 0.1
"""(Largest ||phi||) ||step|| above which the largest change of a logit is computed instead."""

NEAR = 1e-10
"""Relative distance from the sphere ||theta|| = S up to which theta counts as on it."""


class Fitting(NamedTuple):
    """What is fitted and how closely; nothing here changes during a run."""

    ridge: float  # lambda_0, above 0
    norm_bound: float  # S, infinite for no constraint
    tolerance: float  # largest entry of the gradient at the optimum; see ``allowed``
    growth: float  # exact refit when the data grew by this factor; infinite: never
    limit: int  # steps after which a fit gives up


@jit_in_place
def allowed(fitting: Fitting, number: Float) -> float:
    """Largest entry of the gradient at an optimum: rounding grows with the sum and its terms."""
    return fitting.tolerance * (1.0 + 1e-3 * number[LEARNED]) * max(1.0, number[REACH])


@jit_in_place
def norm_of_theta(vector: Float) -> float:
    """||theta||_2 over all blocks."""
    square = 0.0
    for b in range(vector.shape[1]):
        for j in range(vector.shape[2]):
            square += vector[THETA, b, j] * vector[THETA, b, j]
    return math.sqrt(square)


@jit_in_place
def largest_change(learner: Learner, first: int, last: int) -> float:
    """Largest |<phi, POINT - theta>| over the outcomes of the blocks first .. last - 1."""
    _, vector, pool, segment, _ = learner
    largest = 0.0
    for b in range(first, last):
        start = segment[START, b]
        data = pool[:, start : start + segment[COUNT, b]]
        change = data[RESIDUAL]
        change[:] = 0.0
        for j in range(vector.shape[2]):
            step, row = vector[POINT, b, j] - vector[THETA, b, j], data[FEATURES + j]
            for i in range(row.shape[0]):
                change[i] += step * row[i]
        for i in range(change.shape[0]):
            largest = max(largest, abs(change[i]))
    return largest


@jit_in_place
def move_theta(learner: Learner, first: int, last: int) -> float:
    """Move theta of the blocks first .. last - 1 toward POINT, damped; the share of the way."""
    vector = learner.vector
    length = 0.0
    for b in range(first, last):
        for j in range(vector.shape[2]):
            length += (vector[POINT, b, j] - vector[THETA, b, j]) ** 2
    length = learner.number[REACH] * math.sqrt(length)
    if length > CAREFUL:
        length = largest_change(learner, first, last)
    share = math.log1p(length) / length if length > 1e-8 else 1.0
    for b in range(first, last):
        for j in range(vector.shape[2]):
            vector[THETA, b, j] += share * (vector[POINT, b, j] - vector[THETA, b, j])
    return share


@jit_in_place
def fit_block(learner: Learner, b: int, fitting: Fitting, known: bool) -> None:
    """Minimize the loss of block b without norm constraint, from the present theta.

    ``known``: the gradient at theta and a near covariance are there already, for a new outcome.
    """
    matrix, vector, _, _, number = learner
    size = matrix.shape[2]
    before = math.inf
    for step in range(fitting.limit):
        if step > 0 or not known:
            largest = pass_over_data(learner, b, fitting.ridge, False)
            if largest <= allowed(fitting, number):
                return
            if step == 0 or step == PATIENCE or largest > ENOUGH * before:
                pass_over_data(learner, b, fitting.ridge, True)
                invert_block(matrix, INFORMATION, b)
            before = largest
        for j in range(size):
            s = vector[THETA, b, j]
            for k in range(size):
                s -= matrix[COVARIANCE, b, j, k] * vector[GRADIENT, b, k]
            vector[POINT, b, j] = s
        move_theta(learner, b, b + 1)
    number[FAILED] += 1


@jit_in_place
def ball_point(matrix: Float, vector: Float, norm_bound: float) -> float:
    """Minimize the quadratic model theta' A theta / 2 - r' theta over ||theta|| <= S.

    A is the information, r stands at RIGHT, the minimum goes to POINT.
    Newton on 1 / ||theta(nu)|| rises to the multiplier nu from below (More and Sorensen 1983).

    Returns:
        The multiplier, 0 if the constraint does not bind.
    """
    n_blocks, size = vector.shape[1], vector.shape[2]
    nu = 0.0
    for _ in range(60):
        square, inner = 0.0, 0.0
        for b in range(n_blocks):
            factor_block(matrix, INFORMATION, b, nu)
            for j in range(size):
                s = vector[RIGHT, b, j]
                for i in range(j):
                    s -= matrix[FACTOR, b, j, i] * vector[POINT, b, i]
                vector[POINT, b, j] = s / matrix[FACTOR, b, j, j]
            for j in range(size - 1, -1, -1):
                s = vector[POINT, b, j]
                for i in range(j + 1, size):
                    s -= matrix[FACTOR, b, i, j] * vector[POINT, b, i]
                vector[POINT, b, j] = s / matrix[FACTOR, b, j, j]
                square += vector[POINT, b, j] * vector[POINT, b, j]
            for j in range(size):
                s = vector[POINT, b, j]
                for i in range(j):
                    s -= matrix[FACTOR, b, j, i] * vector[INNER, b, i]
                vector[INNER, b, j] = s / matrix[FACTOR, b, j, j]
                inner += vector[INNER, b, j] * vector[INNER, b, j]
        norm = math.sqrt(square)
        if norm <= norm_bound * (1.0 + 1e-14):
            return nu
        step = square / inner * (norm - norm_bound) / norm_bound
        if step <= 1e-15 * nu:
            return nu
        nu += step
    return nu


@jit_in_place
def set_right(matrix: Float, vector: Float, share: float) -> None:
    """RIGHT <- A theta - share gradient, A the information."""
    for b in range(vector.shape[1]):
        for j in range(vector.shape[2]):
            s = -share * vector[GRADIENT, b, j]
            for k in range(vector.shape[2]):
                s += matrix[INFORMATION, b, j, k] * vector[THETA, b, k]
            vector[RIGHT, b, j] = s


@jit_in_place
def scale_theta(vector: Float, share: float) -> None:
    """theta <- share theta."""
    for b in range(vector.shape[1]):
        for j in range(vector.shape[2]):
            vector[THETA, b, j] *= share


@jit_in_place
def multiplier(vector: Float, norm_bound: float) -> float:
    """The nu >= 0 with which gradient + nu theta is least; 0 inside the ball."""
    norm = norm_of_theta(vector)
    inner = 0.0
    if norm >= norm_bound * (1.0 - NEAR):
        for b in range(vector.shape[1]):
            for j in range(vector.shape[2]):
                inner -= vector[GRADIENT, b, j] * vector[THETA, b, j]
    return max(0.0, inner / (norm * norm)) if inner > 0.0 else 0.0


@jit_in_place
def fit_ball(learner: Learner, fitting: Fitting) -> None:
    """Minimize the loss over ||theta|| <= S, from the present theta."""
    matrix, vector, _, _, number = learner
    norm = norm_of_theta(vector)
    if norm > fitting.norm_bound:
        scale_theta(vector, fitting.norm_bound / norm)
    done = False
    for _ in range(fitting.limit):
        for b in range(vector.shape[1]):
            pass_over_data(learner, b, fitting.ridge, False)
            pass_over_data(learner, b, fitting.ridge, True)
        nu = multiplier(vector, fitting.norm_bound)
        number[MULTIPLIER] = nu
        largest = 0.0
        for b in range(vector.shape[1]):
            for j in range(vector.shape[2]):
                largest = max(largest, abs(vector[GRADIENT, b, j] + nu * vector[THETA, b, j]))
        if largest <= allowed(fitting, number):
            done = True
            break
        set_right(matrix, vector, 1.0)
        nu = ball_point(matrix, vector, fitting.norm_bound)
        share = move_theta(learner, 0, vector.shape[1])
        if nu > 0.0 and share > 0.9:
            scale_theta(vector, fitting.norm_bound / norm_of_theta(vector))
    if not done:
        number[FAILED] += 1
    for b in range(vector.shape[1]):
        invert_block(matrix, INFORMATION, b)


@jit_in_place
def line_step(z: float, square: float, outcome: float, twice: float) -> float:
    """The root c of c = outcome - twice mu(z + c square), by Newton inside its bracket."""
    low, high = outcome - twice, outcome
    c = 0.0
    for _ in range(40):
        at = z + c * square
        value = c - outcome + twice * departure_probability(at)
        if value > 0.0:
            high = c
        else:
            low = c
        new = c - value / (1.0 + twice * departure_slope(at) * square)
        if not low <= new <= high:
            new = 0.5 * (low + high)
        if abs(new - c) <= 1e-15:
            return new
        c = new
    return c


@jit_in_place
def set_free(matrix: Float, vector: Float, known: bool) -> None:
    """FREE <- theta, or with the gradient ``known`` theta - A^-1 gradient, A the information."""
    for b in range(vector.shape[1]):
        for j in range(vector.shape[2]):
            s = vector[THETA, b, j]
            if known:
                for k in range(vector.shape[2]):
                    s -= matrix[COVARIANCE, b, j, k] * vector[GRADIENT, b, k]
            vector[FREE, b, j] = s


@jit_in_place
def step_online(learner: Learner, b: int, outcome: float, fitting: Fitting, watch: bool) -> None:
    """The proximal step for an outcome, already appended, of the features at PHI.

    ``watch``: as ECOLog does: steps from the ball, and a running difference of losses
    (reconstructed from the authors' program): 2 (1 + S) (loss at bar theta - loss at theta) -
    1/2 ||theta - bar theta||^2, bar theta being the step that expects either outcome.
    """
    matrix, vector, _, _, number = learner
    z = 0.0
    for j in range(vector.shape[2]):
        z += vector[FREE, b, j] * vector[PHI, 0, j]
    square = image_of_phi(matrix, vector, COVARIANCE, b)
    c = line_step(z, square, outcome, 1.0)
    for j in range(vector.shape[2]):
        vector[FREE, b, j] += c * vector[POINT, b, j]
    if watch:
        bar = line_step(z, square, 1.0, 2.0)
        gain = log_loss(z + bar * square, outcome) - log_loss(z + c * square, outcome)
        number[LOSSES] += 2.0 * (1.0 + fitting.norm_bound) * gain
        number[LOSSES] -= 0.5 * (c - bar) ** 2 * square
    add_outcome(learner, INFORMATION, b, departure_slope(z + c * square), square)
    for i in range(vector.shape[1]):
        for j in range(vector.shape[2]):
            vector[THETA, i, j] = vector[FREE, i, j]
    if norm_of_theta(vector) > fitting.norm_bound:  # the nearest point of the ball, in that norm
        set_right(matrix, vector, 0.0)
        ball_point(matrix, vector, fitting.norm_bound)
        for i in range(vector.shape[1]):
            for j in range(vector.shape[2]):
                vector[THETA, i, j] = vector[POINT, i, j]
        if watch:
            set_free(matrix, vector, False)


@jit_in_place
def refit(learner: Learner, first: int, last: int, fitting: Fitting, fresh: int) -> None:
    """The exact optimum, where only the blocks first .. last - 1 have new outcomes.

    ``fresh``: 0 the gradient at theta is known and the information may be old, 1 the same but the
    exact information is wanted, 2 nothing is known.
    """
    matrix, vector, _, _, number = learner
    if number[MULTIPLIER] == 0.0:
        for b in range(first, last):
            fit_block(learner, b, fitting, fresh < 2)
            if fresh > 0:
                pass_over_data(learner, b, fitting.ridge, True)
                invert_block(matrix, INFORMATION, b)
    if number[MULTIPLIER] > 0.0 or norm_of_theta(vector) > fitting.norm_bound:
        fit_ball(learner, fitting)
    number[REFIT] = number[LEARNED]


@jit_in_place
def learn(
    learner: Learner, b: int, outcome: float, fitting: Fitting, how: tuple[int, bool]
) -> None:
    """Learn from an outcome of the features at PHI on block b.

    ``how``: the estimator, and whether widths are measured by V = V_0 I + sum of phi phi' (then V
    is kept) or by the information (then it is kept exact where the estimator is).
    """
    matrix, vector, _, _, number = learner
    estimator, by_design = how
    append_outcome(learner, b, outcome)
    if by_design:
        square = image_of_phi(matrix, vector, DESIGN_INVERSE, b)
        add_outcome(learner, DESIGN, b, 1.0, square)
    first, last, fresh = 0, vector.shape[1], 2
    if estimator == EXACT:
        z = 0.0
        for j in range(vector.shape[2]):
            z += vector[THETA, b, j] * vector[PHI, 0, j]
        miss = departure_probability(z) - outcome
        for j in range(vector.shape[2]):
            vector[GRADIENT, b, j] += miss * vector[PHI, 0, j]
        square = image_of_phi(matrix, vector, COVARIANCE, b)
        add_outcome(learner, INFORMATION, b, departure_slope(z), square)
        first, last, fresh = b, b + 1, 0 if by_design else 1
    else:
        step_online(learner, b, outcome, fitting, estimator == ECOLOG)
    if estimator == EXACT or number[LEARNED] > fitting.growth * number[REFIT]:
        refit(learner, first, last, fitting, fresh)
        if estimator != EXACT:
            set_free(matrix, vector, True)
