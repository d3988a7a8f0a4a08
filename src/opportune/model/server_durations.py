"""Durations that depend on the server as well as on the task type: a law for every pair.

Where they do, the headcount no longer fills and empties alike under every policy, so LAG
Lemma 3.1 fails: blocking depends on the policy, and OCC-LP(B) is no bound. What remains: with
E[D_vr] in (3), OCC-LP(<=) bounds every policy, its dual falls apart into servers as before, and
LAG's index is L(v,r) = s_vr - l_v - E[D_vr] q_r (ours).

A task that takes several servers draws one uniform number, and each server the quantile of its own
law there: a hard task takes long on all of them, and each is free again when it is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem
from opportune.model.axes import Quantity
from opportune.model.duration import Deterministic, Duration, Empirical, Geometric

Float = NDArray[np.float64]
Int = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ServerDurations:
    """Laws, and which one a pair follows.

    Attributes:
        laws: Different durations.
        which: (V, R) position among them.

    Raises:
        InputError: If a position is none of the laws.
    """

    laws: tuple[Duration, ...]
    which: Annotated[Int, Quantity("d_vr", "V,R", "number", "law of a pair's duration")]

    def __post_init__(self) -> None:
        which = np.array(self.which)
        if which.ndim != 2 or which.dtype.kind not in "iu" or not len(self.laws):
            told = "a matrix of positions, types by servers"
            raise InputError(Problem("server_duration", f"shape {which.shape}", told))
        if not bool(np.all((which >= 0) & (which < len(self.laws)))):
            told = f"positions from 0 to {len(self.laws) - 1}"
            raise InputError(Problem("server_duration", f"{which.min()} to {which.max()}", told))
        kinds = (Deterministic, Geometric, Empirical)
        if not all(isinstance(law, kinds) for law in self.laws):
            told = "Deterministic, Geometric or Empirical"
            raise InputError(Problem("server_duration", "another kind", told))
        which = which.astype(np.int64)
        which.setflags(write=False)
        object.__setattr__(self, "which", which)

    @property
    def mean(self) -> Float:
        """(V, R) E[D_vr] in steps."""
        return np.asarray(np.array([law.mean for law in self.laws])[self.which])


def server_durations(
    own: tuple[Duration, ...], others: Mapping[tuple[int, int], Duration], n_servers: int
) -> ServerDurations:
    """Every pair by its type's duration but for these.

    Args:
        own: (V,) duration of each type.
        others: By (type, server).
        n_servers: R.
    """
    laws = list(own)
    which = np.repeat(np.arange(len(own))[:, None], n_servers, axis=1)
    known: dict[Duration | int, int] = {}
    for (v, r), law in others.items():
        key = id(law) if isinstance(law, Empirical) else law
        if key not in known:
            known[key] = len(laws)
            laws.append(law)
        which[v, r] = known[key]
    return ServerDurations(tuple(laws), which)
