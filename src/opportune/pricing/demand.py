"""What share of the tasks must be served: one value handed to every LP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, shorten
from opportune.model.axes import Quantity
from opportune.model.loss import LossInstance

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Demand:
    """The right-hand side of constraint (2): sum_r u_vr = k_v lambda_v (1 - B_v), or at most.

    Attributes:
        blocking: B, one number or one per type; 0 is the fluid limit that LAG is priced at.
        at_most: Whether tasks may be turned away at will: ``<=`` with B = 0, always feasible.
    """

    blocking: Annotated[
        float | tuple[float, ...], Quantity("B_v", "V", "probability", "blocking")
    ] = 0.0
    at_most: bool = False

    def __post_init__(self) -> None:
        values = np.atleast_1d(np.asarray(self.blocking, dtype=np.float64))
        if not bool(np.all((values >= 0) & (values <= 1))):
            raise InputError(
                Problem("blocking", shorten(self.blocking), "a probability from 0 to 1")
            )

    @property
    def name(self) -> str:
        """Name of the bound in results: ``occ-lp`` or ``occ-lp-at-most``."""
        return "occ-lp-at-most" if self.at_most else "occ-lp"

    def by_type(self, instance: LossInstance) -> Float:
        """(V,) blocking per type."""
        blocking = np.asarray(self.blocking, dtype=np.float64)
        return np.array(np.broadcast_to(blocking, (instance.n_types,)))

    def servers_per_arrival(self, instance: LossInstance) -> Float:
        """(V,) k_v (1 - B_v): servers that an arriving task takes on average."""
        return np.asarray(instance.servers_per_task * (1.0 - self.by_type(instance)))


FULL = Demand()
"""Serve every task: OCC-LP(0)."""

AT_MOST = Demand(at_most=True)
"""Serve at most every task: OCC-LP(<=), a bound for every policy, forbidden pairs included."""
