"""Equal servers and equal task types, counted instead of listed.

Two servers are equal when every type earns the same with both and may use both; two types
when they earn the same everywhere and need the same number of servers for equally long.
Whatever depends on servers and types only through these is solved once per group (ours).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from opportune.model.loss import LossInstance

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Merged:
    """An instance with equal servers and equal types merged: G groups, C classes of types.

    Attributes:
        rate: (C,) arrival probability per step, summed over the types of a class.
        reward: (C, G) match reward per server.
        allowed: (C, G) permitted pairs.
        mean: (C,) mean duration in steps.
        k: (C,) servers per task.
        copies: (G,) servers in each group.
        class_of: (V,) class of each type.
        group_of: (R,) group of each server.
    """

    rate: Float
    reward: Float
    allowed: Bool
    mean: Float
    k: Int
    copies: Int
    class_of: Int
    group_of: Int

    @property
    def n_classes(self) -> int:
        """Number of classes of types C."""
        return len(self.rate)

    @property
    def n_groups(self) -> int:
        """Number of groups of servers G."""
        return len(self.copies)


def merge(instance: LossInstance, servers: bool = True) -> Merged:
    """Merge equal types, and equal servers if ``servers``; groups in order of first appearance."""
    reward, allowed = instance.match_reward, instance.allowed
    mean, k = instance.mean_duration, instance.servers_per_task
    columns = [reward[:, r].tobytes() + allowed[:, r].tobytes() for r in range(reward.shape[1])]
    group_of = _first_appearance(columns if servers else list(range(len(columns))))
    rows = [
        reward[v].tobytes() + allowed[v].tobytes() + mean[v].tobytes() + k[v].tobytes()
        for v in range(len(mean))
    ]
    class_of = _first_appearance(rows)
    type_at, server_at = _first_places(class_of), _first_places(group_of)
    return Merged(
        rate=np.bincount(class_of, weights=instance.arrival_rate).astype(np.float64),
        reward=np.ascontiguousarray(reward[np.ix_(type_at, server_at)]),
        allowed=np.ascontiguousarray(allowed[np.ix_(type_at, server_at)]),
        mean=mean[type_at],
        k=k[type_at],
        copies=np.bincount(group_of),
        class_of=class_of,
        group_of=group_of,
    )


def _first_appearance(keys: list[bytes] | list[int]) -> Int:
    """Number of each key in the order in which keys first appear."""
    number: dict[bytes | int, int] = {}
    return np.array([number.setdefault(key, len(number)) for key in keys], dtype=np.int64)


def _first_places(number: Int) -> Int:
    return np.unique(number, return_index=True)[1]


def arriving(merged: Merged) -> Merged:
    """Only the classes of types that arrive at all; types of the others get class -1."""
    used = merged.rate > 0
    place = np.where(used, np.cumsum(used) - 1, -1)
    return replace(
        merged,
        rate=merged.rate[used],
        reward=merged.reward[used],
        allowed=merged.allowed[used],
        mean=merged.mean[used],
        k=merged.k[used],
        class_of=place[merged.class_of],
    )
