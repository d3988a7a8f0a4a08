"""An experiment is data: what is run, how long, from which seed, by how many workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from opportune.errors import InputError, Problem, shorten, whole_problems
from opportune.experiments.backends import MAX_WORKERS, backend_problems
from opportune.policies.base import loss_policies_by_id, loss_policy

Progress = Callable[[float, str], None]
"""Called now and then with the share of the work done, from 0 to 1, and what is being done."""

MAX_REPLICATIONS = 100_000

EVERY = "all"
"""In place of policy ids: every policy that the instance admits."""


def repeated_problems(policies: Sequence[str]) -> list[Problem]:
    """What is wrong where a policy is asked for twice."""
    doubles = sorted({one for one in policies if policies.count(one) > 1})
    return [Problem("policies", ", ".join(doubles), "every policy once")] if doubles else []


def asked_ids(policies: tuple[str, ...], known: Mapping[str, object]) -> tuple[str, ...]:
    """The policies to run: the ones named, the usual ones if none is, or all.

    Args:
        policies: Ids as asked for; ``("all",)`` is every one.
        known: The policies by id; those with ``usual = False`` run only when named.
    """
    if policies == (EVERY,):
        return tuple(known)
    return policies or tuple(one for one in known if getattr(known[one], "usual", True))


class Named(Protocol):
    """A row of a result, about a policy."""

    @property
    def policy(self) -> str:
        """Policy id."""
        ...


R = TypeVar("R", bound=Named)


def row_of(rows: Sequence[R], policy: str) -> R:
    """The row of a policy id.

    Raises:
        InputError: If that policy was not run.
    """
    for row in rows:
        if row.policy == policy:
            return row
    known = ", ".join(row.policy for row in rows)
    raise InputError(Problem("policy", repr(policy), f"one of the rows: {known}"))


@dataclass(frozen=True)
class Settings:
    """How a comparison is run.

    Attributes:
        policies: Policy ids, in the order of the table; empty means the usual ones, those
            without ``usual = False``; ``("all",)`` every one that the instance admits.
        steps: Counted steps per replication, after the warm-up.
        replications: Independent runs; replication i is the same whatever the workers.
        seed: Seed of all streams.
        workers: Replications run at the same time.
        backend: ``threads``, ``loky`` or ``ray``.
        bounds: ``quick`` (bounds that take a fraction of a second) or ``all`` (up to a minute).
        price_at: ``None`` (at zero blocking, or the fallback under overload) or ``"blocking"``.
        keep: Folder of finished replications: those that are there are not run again.

    Raises:
        InputError: Naming the setting that is wrong.
        MissingExtraError: If the package of the backend is not installed.
    """

    policies: tuple[str, ...] = ()
    steps: int = 200_000
    replications: int = 5
    seed: int = 1
    workers: int = 1
    backend: str = "threads"
    price_at: str | None = None
    bounds: str = "quick"
    keep: Path | None = None

    def __post_init__(self) -> None:
        if isinstance(self.policies, str):
            told = "a tuple of ids"
            raise InputError(Problem("policies", repr(self.policies), told, 'write ("lag",)'))
        object.__setattr__(self, "policies", tuple(self.policies))
        if self.keep is not None:
            object.__setattr__(self, "keep", Path(self.keep))
        problems = whole_problems(
            (
                ("steps", self.steps, 1, 10**15),
                ("replications", self.replications, 1, MAX_REPLICATIONS),
                ("seed", self.seed, 0, 2**64 - 1),
                ("workers", self.workers, 1, MAX_WORKERS),
            )
        )
        problems += backend_problems(self.backend)
        if self.bounds not in ("quick", "all"):
            problems.append(Problem("bounds", shorten(self.bounds), "quick or all"))
        if self.price_at not in (None, "blocking"):
            problems.append(Problem("price_at", shorten(self.price_at), "blocking, or nothing"))
        problems += repeated_problems(self.policies)
        if problems:
            raise InputError(problems)
        for one in self.policies:
            if one != EVERY or len(self.policies) > 1:
                loss_policy(one)

    @property
    def policy_ids(self) -> tuple[str, ...]:
        """The policies to run: the ones named, the usual ones, or all."""
        return asked_ids(self.policies, loss_policies_by_id())

    @property
    def by_name(self) -> bool:
        """Whether the policies were named, so that one that cannot be used is an error."""
        return bool(self.policies) and self.policies != (EVERY,)
