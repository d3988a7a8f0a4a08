"""Why a number differs from the paper's: what is known of each cell, and how it is told.

The paper gives neither the length nor the interval of its load sweeps. ``ASSUMED_STEPS`` is a
guess at the length of its runs, one run a cell; how large the differences are in the columns
that leave nothing open (``implied_steps``) is a check on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scipy.special import stdtrit

from opportune.experiments.metrics import LEVEL
from opportune.experiments.papers.lag.published import ROUNDING

ASSUMED_STEPS = 100_000
"""Steps of one run of the paper, assumed: as long as its convergence runs at m = 1 are here."""

NORMAL = 1.96
"""The paper's own quantile of a 95 % interval."""

EXACT_COLUMNS = ("whittle", "greedy", "random")
"""Policies whose definition leaves nothing open: their differences can only be noise."""

CLOSE = 1.5
"""Points within which a cell is asked to agree, where nothing but noise can part us."""

COMPARABLE = ("lag", "whittle", "greedy", "random")
"""Policies that are asked to agree on the paper's own instances."""

CAUSES = {
    "": "The difference lies within our interval and the rounding of the paper.",
    "noise": "Noise of the paper's run: the difference is larger than our interval but not than "
    f"the 95 % interval of a single run of {ASSUMED_STEPS:,} steps. The paper gives neither the "
    "length nor the interval of its load sweeps.",
    "matrix": "Another matrix: the paper's sub-sample is not available. ICLR is a TF-IDF rebuild, "
    "TMLR other reviewers of a part of the original matrix; see the ten samples for how much a "
    "sample matters.",
    "ties": "Tie rule: servers with index zero are not ordered by the paper. Ours takes the "
    "least-squares optimum of OCC-LP(0); 'lag-cheapest', which takes the lower capacity price "
    "first, comes within the interval.",
    "interior": "Solver: ALG-SC-LP draws in proportion to one of many optima of KIID-LP, and the "
    "paper does not say which. Ours is HiGHS's interior solution without crossover; the vertex is "
    "shown beside it. Another solver, or version, returns another optimum.",
    "unknown": "Not explained: beyond the 95 % interval of a single run of "
    f"{ASSUMED_STEPS:,} steps. One cell in twenty is expected to be, if the paper's runs are that "
    "long; cells of one row, and rows of one seed, go together.",
}
"""What stands behind the key of a cause."""

FIXED_LENGTH = (
    "at loads of .6 and more LAG, Whittle and Greedy earn up to about a point less in our full run "
    "than in the paper. Simulated with durations of 42 steps instead of 43 (prices and bound "
    "unchanged) they would earn as much more, so a step that is counted otherwise is not the cause"
)
NOTES = {
    "priority": "at load .8 LAG and Whittle decide alike; the exact optimum over all policies that "
    "serve whenever they can is 84.48",
    "unfriendly": FIXED_LENGTH,
    "lowrank": FIXED_LENGTH,
}
"""What else is known of the cells of an instance that are not explained. Measured by us."""


@dataclass(frozen=True)
class Compared:
    """A cell of a table beside the paper's.

    Attributes:
        instance: Short name.
        instance_id: Catalog id that was run.
        load: The load.
        policy: Policy id.
        ours: Percent of OCC-UB.
        half_width: Of it, 95 %; None with one replication.
        paper: What the paper has, None for a policy it does not have.
        paper_half_width: 95 % half width of one run of ``ASSUMED_STEPS`` steps, and the rounding.
        cause: Key into ``CAUSES``; empty if there is nothing to explain.
    """

    instance: str
    instance_id: str
    load: float
    policy: str
    ours: float
    half_width: float | None
    paper: float | None
    paper_half_width: float | None
    cause: str = ""

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's, in points."""
        return None if self.paper is None else self.ours - self.paper

    @property
    def tolerance(self) -> float:
        """How far apart two runs may be, ours and one assumed run of the paper's."""
        return math.hypot(self.half_width or 0.0, self.paper_half_width or ROUNDING)


def single_run(half_width: float | None, replications: int, steps: int) -> float | None:
    """95 % half width of one run of the assumed length, from that of ours; None if unknown."""
    if half_width is None or replications < 2:
        return None
    deviation = _deviation(half_width, replications)
    return math.hypot(NORMAL * deviation * math.sqrt(steps / ASSUMED_STEPS), ROUNDING)


def mean_of(trials: int, half_width: float | None, replications: int) -> float | None:
    """95 % half width, as the paper takes it, of the mean of some trials as long as ours."""
    if half_width is None or replications < 2:
        return None
    deviation = _deviation(half_width, replications)
    return math.hypot(NORMAL * deviation / math.sqrt(trials), ROUNDING)


def cause_of(cell: Compared, rebuilt: bool, cheapest: float | None) -> str:
    """The key of what explains a cell.

    Args:
        cell: The cell.
        rebuilt: Whether the instance's matrix is not the paper's.
        cheapest: Percent of OCC-UB of ``lag-cheapest`` in the same row, if it was run.
    """
    if cell.difference is None or cell.paper is None:
        return ""
    if abs(cell.difference) <= (cell.half_width or 0.0) + ROUNDING:
        return ""
    if rebuilt:
        return "matrix"
    if abs(cell.difference) <= cell.tolerance:
        return "noise"
    if cell.policy == "alg-sc-lp":
        return "interior"
    if cell.policy == "lag" and cheapest is not None:
        other = abs(cheapest - cell.paper)
        if other <= cell.tolerance:
            return "ties"
    return "unknown"


def implied_steps(cells: Iterable[Compared], replications: int, steps: int) -> float | None:
    """The length of one run of the paper that the differences suggest; None if they do not.

    Formula (ours): 1/T = mean over the cells of (d^2 - e^2/3) / s^2 - 1/(n S), where d is the
    difference, e the rounding, s^2 the variance of a run per step, n S our steps in all. Only
    policies that leave nothing open, on instances that are the paper's own.
    """
    if replications < 2:
        return None
    ratios = []
    for cell in cells:
        if cell.policy in EXACT_COLUMNS and cell.difference is not None and cell.half_width:
            variance = steps * _deviation(cell.half_width, replications) ** 2
            ratios.append((cell.difference**2 - ROUNDING**2 / 3) / variance)
    inverse = sum(ratios) / len(ratios) - 1 / (replications * steps) if ratios else 0.0
    return 1 / inverse if inverse > 0 else None


def counts(cells: Iterable[Compared]) -> Mapping[str, int]:
    """How many cells each cause explains, in the order of ``CAUSES``."""
    found = dict.fromkeys(CAUSES, 0)
    for cell in cells:
        if cell.paper is not None:
            found[cell.cause] += 1
    return found


def comparable(cells: Iterable[Compared], rebuilt: Iterable[str]) -> list[Compared]:
    """The cells that are asked to agree: ``COMPARABLE`` on the instances not in ``rebuilt``."""
    others = set(rebuilt)
    return [
        cell
        for cell in cells
        if cell.paper is not None and cell.policy in COMPARABLE and cell.instance not in others
    ]


def far(cells: Iterable[Compared]) -> list[Compared]:
    """The cells that differ by more than ``CLOSE`` points, the largest difference first."""
    apart = [cell for cell in cells if abs(cell.difference or 0.0) > CLOSE]
    return sorted(apart, key=lambda cell: -abs(cell.difference or 0.0))


def _deviation(half_width: float, replications: int) -> float:
    """Standard deviation of one replication from the half width of their mean."""
    quantile = float(stdtrit(replications - 1, (1 + LEVEL) / 2))
    return half_width * math.sqrt(replications) / quantile
