"""One call that picks the gear by size and structure, and says which it was.

==========  ==================================================================================
full-lp     HiGHS on the whole LP: for small instances, where it takes milliseconds.
dual        Newton's method on the rounded dual: a certified bound at once (``pricing.dual``).
sifting     Barrier over the pairs near the dual's prices, priced out (``pricing.sifting``).
barrier     Barrier over all pairs: where most of them are near (``pricing.interior``).
==========  ==================================================================================

All end with prices, rates and a gap that we compute from them; no gear's word is taken for it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, OverloadError, Problem, SolverError, shorten
from opportune.model.loss import LossInstance
from opportune.pricing.demand import FULL, Demand
from opportune.pricing.dual import LEVELS, descend, first_prices
from opportune.pricing.lp import solve
from opportune.pricing.pairs import PairProblem, expand, pair_problem
from opportune.pricing.program import occupancy_program
from opportune.pricing.recovery import offer_feasible, rounded_rates
from opportune.pricing.search import Search, Stop, relative_gap
from opportune.pricing.sifting import sift

Float = NDArray[np.float64]
Int = NDArray[np.int64]

FULL_LP, DUAL, SIFTING, BARRIER, AUTO = "full-lp", "dual", "sifting", "barrier", "auto"

SMALL = 2_000
"""Pairs up to which the whole LP goes to HiGHS."""
