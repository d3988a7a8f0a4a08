"""Plans, the policy protocol, and the registry that finds every policy by itself.

To add a policy: put a file into ``policies/loss/`` with a frozen dataclass that has ``id``,
``title`` and ``plan(instance, prices)``. Nothing else needs to change; ``check_policy``
runs on it in the test suite. Optional: ``rank`` (place in tables) and ``usual = False`` (only
run when named, or with ``--policies all``). A policy that an instance does not admit raises
``InputError`` with the field "policy". Policies of the queue are found the same way in
``policies/queue/``; their ``plan(world, horizon)`` gives a :class:`QueuePlan`.
"""

from __future__ import annotations

import hashlib
import importlib
import pkgutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from types import ModuleType
from typing import Annotated, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

import opportune.policies.loss as loss_policies
import opportune.policies.queue as queue_policies
from opportune.errors import InputError, Problem, shorten
from opportune.kernels.allocate import PRIORITY, PRIORITY_TIES, SAMPLE, PlanTables
from opportune.kernels.group import GroupTables, StateTables
from opportune.kernels.queue import QueueTables
from opportune.model.axes import Quantity
from opportune.model.loss import LossInstance
from opportune.model.queue_generator import QueueWorld
from opportune.model.spelling import did_you_mean
from opportune.pricing.relaxation import Relaxation

Float = NDArray[np.float64]

EQUAL = 1e-12
"""Relative difference up to which two neighbors of a list are a tie."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What to do with an arriving task, as tables that the kernels read.

    Attributes:
        policy: Id of the policy that made it.
        tables: Order of the servers per type and headcount, ties, weights, rule.
        index: (V, R) what the order is sorted by, -inf for a forbidden pair.
        note: What a reader should know of it, for example "heuristic".
        counts: For a plan that looks at busy servers by group or at the whole state: its
            tables. Where they cannot be followed, ``tables`` is a list that comes near.
    """

    policy: str
    tables: PlanTables
    index: Annotated[
        Float,
        Quantity("L(v,r)", "V,R", "reward", "score minus opportunity cost, or the rule's own"),
    ]
    note: str = ""
    counts: GroupTables | StateTables | None = None

    @property
    def digest(self) -> str:
        """A hash of the tables: the same plan decides the same."""
        tables = self.tables if self.counts is None else self.counts
        state = hashlib.sha256(str(tables.rule).encode())
        for array in tables[:-1]:
            state.update(np.ascontiguousarray(array).tobytes())
        return state.hexdigest()[:16]


@runtime_checkable
class LossPolicy(Protocol):
    """A policy of the loss model. Implementations are frozen dataclasses."""

    id: ClassVar[str]
    title: ClassVar[str]

    def plan(self, instance: LossInstance, prices: Relaxation | None = None) -> Plan:
        """The plan for an instance; ``prices`` saves a second solve where they are known.

        Raises:
            OverloadError: If the policy needs prices, none are given and none exist.
        """
        ...


def list_plan(
    policy: str,
    instance: LossInstance,
    index: ArrayLike,
    tie_break: ArrayLike | None = None,
    note: str = "",
) -> Plan:
    """A PRIORITY plan: permitted servers by ``index`` descending.

    Args:
        policy: Id of the policy.
        instance: The instance.
        index: (V, R) larger is better.
        tie_break: (R,) or (V, R), smaller first, to order equal indices, then position; None
            leaves equal indices tied, to be resolved at random by the stream's ``choice``.
        note: What a reader should know.
    """
    index = np.where(instance.allowed, np.asarray(index, dtype=np.float64), -np.inf)
    shape = index.shape
    rank = np.zeros(shape) if tie_break is None else np.broadcast_to(tie_break, shape)
    order = np.empty(shape, dtype=np.int32)
    level = np.empty(shape, dtype=np.int32)
    for v in range(shape[0]):
        order[v] = np.lexsort((np.arange(shape[1]), rank[v], -index[v]))
        if tie_break is None:
            ordered = index[v][order[v]]
            apart = ordered[1:] < ordered[:-1] - EQUAL * np.abs(ordered[:-1])
            level[v] = np.concatenate([[0], np.cumsum(apart)])
        else:
            level[v] = np.arange(shape[1])
    return _plan(policy, instance, index, order, level, note)


def ordered_plan(
    policy: str, instance: LossInstance, index: ArrayLike, order: NDArray[np.int32], note: str = ""
) -> Plan:
    """A PRIORITY plan from a full order (V, R) of servers, forbidden ones last, no ties."""
    index = np.where(instance.allowed, np.asarray(index, dtype=np.float64), -np.inf)
    level = np.broadcast_to(np.arange(order.shape[1], dtype=np.int32), order.shape)
    return _plan(policy, instance, index, order, level, note)


def sampling_plan(policy: str, weight: ArrayLike, fallback: Plan, note: str = "") -> Plan:
    """A SAMPLE plan: free servers by ``weight`` (V, R), then by the fallback's list."""
    weight = np.ascontiguousarray(weight, dtype=np.float64)
    tables = fallback.tables._replace(weight=weight, rule=SAMPLE)
    return replace(fallback, policy=policy, tables=tables, index=weight, note=note)


def _plan(
    policy: str,
    instance: LossInstance,
    index: Float,
    order: NDArray[np.int32],
    level: NDArray[np.int32],
    note: str,
) -> Plan:
    n_allowed = instance.allowed.sum(axis=1).astype(np.int32)
    tied = any(bool(np.any(level[v, 1:n] == level[v, : n - 1])) for v, n in enumerate(n_allowed))
    tables = PlanTables(
        order=np.ascontiguousarray(order[:, None, :], dtype=np.uint32),
        level=np.ascontiguousarray(level[:, None, :], dtype=np.int32),
        n_allowed=n_allowed,
        weight=np.zeros((instance.n_types, 0)),
        rule=PRIORITY_TIES if tied else PRIORITY,
    )
    return Plan(policy=policy, tables=tables, index=index, note=note)


def check_policy(policy: LossPolicy, instance: LossInstance) -> Plan:
    """Make the policy's plan for an instance and check that the kernels can trust it.

    Raises:
        InputError: If the plan is not a full order of the permitted servers, or its
            weights are not nonnegative numbers.
    """
    plan = policy.plan(instance)
    check_plan(plan, instance)
    if plan.policy != policy.id:
        raise InputError(Problem("policy", repr(plan.policy), f"the policy's id, {policy.id!r}"))
    return plan


def check_plan(plan: Plan, instance: LossInstance) -> None:
    """Check that the kernels, which look at no bounds, can trust a plan's tables.

    Raises:
        InputError: If an order is not one of the permitted servers, a level falls, or a weight
            is not a number of at least 0.
    """
    tables = plan.tables
    problems = []
    name = plan.policy
    shape = (instance.n_types, tables.order.shape[1], instance.n_servers)
    if tables.order.shape != shape or tables.level.shape != shape:
        problems.append(Problem(f"{name}: order", f"shape {tables.order.shape}", f"shape {shape}"))
    elif not np.array_equal(tables.n_allowed, instance.allowed.sum(axis=1)):
        problems.append(Problem(f"{name}: n_allowed", "other counts", "permitted servers by type"))
    else:
        for v in range(instance.n_types):
            permitted = np.flatnonzero(instance.allowed[v])
            for h in range(shape[1]):
                n = int(tables.n_allowed[v])
                if not np.array_equal(np.sort(tables.order[v, h, :n]), permitted):
                    problems.append(
                        Problem(
                            f"{name}: order[{v},{h}]",
                            shorten(tables.order[v, h, :n]),
                            "every permitted server once",
                        )
                    )
                if np.any(np.diff(tables.level[v, h, :n]) < 0):
                    problems.append(Problem(f"{name}: level[{v},{h}]", "falls", "a rising level"))
    if tables.rule == SAMPLE and tables.weight.shape != instance.match_reward.shape:
        told = f"shape {tables.weight.shape}"
        problems.append(Problem(f"{name}: weight", told, f"shape {instance.match_reward.shape}"))
    elif tables.weight.size and not np.all((tables.weight >= 0) & np.isfinite(tables.weight)):
        problems.append(Problem(f"{name}: weight", "negative or not finite", "at least 0"))
    elif tables.rule == SAMPLE and np.any(tables.weight[~instance.allowed] != 0):
        problems.append(Problem(f"{name}: weight", "on a forbidden pair", "0 there"))
    if problems:
        raise InputError(problems)


@cache
def loss_policies_by_id() -> dict[str, LossPolicy]:
    """Every policy of ``policies/loss/`` by id, in the order of their ``rank``, then id."""
    return discovered(loss_policies)


def discovered(package: ModuleType) -> dict[str, Any]:
    """A value of every class with an ``id`` in a package's modules, by ``rank``, then id.

    Raises:
        InputError: If two of them have the same id.
    """
    found: dict[str, Any] = {}
    for module_info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{module_info.name}")
        for value in vars(module).values():
            if (
                isinstance(value, type)
                and value.__module__ == module.__name__
                and isinstance(getattr(value, "id", None), str)
            ):
                policy = value()
                if policy.id in found:
                    other = type(found[policy.id]).__module__
                    told = f"{policy.id!r} in {module.__name__} and in {other}"
                    remedy = "change the `id` of one of them"
                    raise InputError(Problem("id", told, "every id once", remedy))
                found[policy.id] = policy
    return dict(sorted(found.items(), key=lambda item: (getattr(item[1], "rank", 99), item[0])))


def loss_policy(policy_id: str) -> LossPolicy:
    """The policy of an id.

    Raises:
        InputError: If there is none, with the known ids.
    """
    _require_known(policy_id, loss_policies_by_id())
    return loss_policies_by_id()[policy_id]


def _require_known(policy_id: str, known: Iterable[str]) -> None:
    if policy_id not in known:
        expected = "one of " + ", ".join(known)
        meant = did_you_mean(policy_id, known) if isinstance(policy_id, str) else ""
        remedy = meant or "see: opportune policies"
        raise InputError(Problem("policy", repr(policy_id), expected, remedy))


# --------------------------------------------------------------------------------- queue


@dataclass(frozen=True)
class QueuePlan:
    """What to do in each round of a queue, as tables that the kernel reads.

    Attributes:
        policy: Id of the policy that made it.
        tables: Exploration schedule, rule, estimator, radius.
        note: What a reader should know of it, for example "heuristic".
    """

    policy: str
    tables: QueueTables
    note: str = ""

    @property
    def digest(self) -> str:
        """A hash of the tables: the same plan decides the same."""
        return hashlib.sha256(repr(self.tables).encode()).hexdigest()[:16]


@runtime_checkable
class QueuePolicy(Protocol):
    """A policy of the queue. Implementations are frozen dataclasses; their fields are knobs."""

    id: ClassVar[str]
    title: ClassVar[str]

    def plan(self, world: QueueWorld, horizon: int) -> QueuePlan:
        """The plan for an instance, or a law of instances, and a horizon.

        Raises:
            InputError: If a knob is out of range, or a schedule does not fit the horizon.
        """
        ...


@cache
def queue_policies_by_id() -> dict[str, QueuePolicy]:
    """Every policy of ``policies/queue/`` by id, in the order of their ``rank``, then id."""
    return discovered(queue_policies)


def queue_policy(policy_id: str) -> QueuePolicy:
    """The policy of an id.

    Raises:
        InputError: If there is none, with the known ids.
    """
    _require_known(policy_id, queue_policies_by_id())
    return queue_policies_by_id()[policy_id]
