"""Every policy that is found keeps the contract of a policy, on instances of every kind."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, fields, is_dataclass
from functools import cache

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.experiments.prices import choose_prices
from opportune.kernels.streams import LossStreams
from opportune.model.catalog import catalog, catalog_instance
from opportune.model.duration import Deterministic, Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.model.streams import draw_block, loss_law, stream_key
from opportune.policies.base import LossPolicy, Plan, check_policy, loss_policies_by_id
from opportune.pricing.relaxation import Relaxation
from opportune.simulate.loss import Run, busy_paths
from tests.instances import STATIC, Shape, random_instance

STEPS = 10_000

POLICIES = list(loss_policies_by_id().values())


@dataclass(frozen=True)
class Made:
    """A policy whose plan is made already, at the prices that a run would hand to it."""

    id: str
    made: Plan
    title = ""

    def plan(self, instance: LossInstance, prices: Relaxation | None = None) -> Plan:
        """That plan."""
        return self.made


def some_instances() -> dict[str, LossInstance]:
    """Small and large, tied and not, forbidden pairs, k per type, R = k, overload, zero rates."""
    rng = np.random.default_rng(71)
    made = {
        entry.id: catalog_instance(entry.id, 0.7) for entry in catalog() if not entry.needs_data
    }
    shapes = {
        "smooth": Shape(),
        "tied": Shape(scores="levels", duration="mixed"),
        "forbidden": Shape(forbidden=True, scores="levels"),
        "k per type": Shape(per_type=True, duration="mixed"),
        "forbidden, k per type": Shape(forbidden=True, per_type=True, duration="mixed"),
    }
    for name, shape in shapes.items():
        for i in range(3):
            made[f"{name} {i}"] = random_instance(rng, shape, load=0.3 + 0.3 * i)
    one = [Geometric(3), Deterministic(4)]
    few = [[True, False, True, False], [True, True, True, True]]
    made |= {
        "one of each": loss_instance([[0.5]], [0.3], Deterministic(2)),
        "one type": loss_instance(rng.random((1, 6)), [0.4], Geometric(6), 2),
        "R = k": loss_instance(rng.random((3, 3)), [0.1, 0.1, 0.1], Geometric(4), 3),
        "R = k of one type": loss_instance(rng.random((2, 3)), [0.1, 0.1], Geometric(4), [3, 1]),
        "overload": loss_instance(rng.random((2, 4)), [0.4, 0.4], one),
        "overload, forbidden": loss_instance(rng.random((2, 4)), [0.4, 0.4], one, 2, allowed=few),
        "last feasible load": loss_instance(np.eye(4), [0.05] * 4, Geometric(9)).with_load(0.75),
        "no reward": loss_instance(np.zeros((2, 4)), [0.2, 0.2], one),
        "a rate of zero": loss_instance(rng.random((2, 4)), [0.0, 0.2], one),
        "a rare type": loss_instance(rng.random((2, 4)), [1e-9, 0.2], one),
        "a task at every step": loss_instance(rng.random((2, 4)), [0.5, 0.5], Deterministic(1)),
        "many servers": loss_instance(rng.random((1, 120)), [0.5], Geometric(40), 3),
        "many types": loss_instance(rng.integers(0, 2, (50, 4)), [0.01] * 50, Geometric(3), 2),
    }
    return made


INSTANCES = some_instances()


@cache
def prices_of(name: str) -> Relaxation:
    """The prices that ``compare`` would choose."""
    return choose_prices(INSTANCES[name])[0]


@cache
def plan_for(policy: LossPolicy, name: str) -> Plan | None:
    """The policy's plan, None where it says that it is not for this instance."""
    try:
        return policy.plan(INSTANCES[name], prices_of(name))
    except InputError as error:
        fields_told = {problem.field for problem in error.problems}
        if policy.id in STATIC or fields_told != {"policy"}:
            raise
        return None


def test_the_policies_of_the_issue_are_found() -> None:
    """In the order of their rank; policies that come later may stand anywhere between."""
    assert [policy.id for policy in POLICIES if policy.id in STATIC] == list(STATIC)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.id)
def test_a_policy_is_an_immutable_value(policy: LossPolicy) -> None:
    assert isinstance(policy, LossPolicy)
    assert is_dataclass(policy)
    assert type(policy)() == policy
    assert hash(type(policy)()) == hash(policy)
    assert policy.title
    assert policy.id == policy.id.lower().strip()
    for field in fields(policy):
        with pytest.raises(FrozenInstanceError):
            setattr(policy, field.name, None)


@pytest.mark.parametrize("name", INSTANCES)
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.id)
def test_its_plan_can_be_trusted(policy: LossPolicy, name: str) -> None:
    instance = INSTANCES[name]
    made = plan_for(policy, name)
    if made is None:
        return
    plan = check_policy(Made(policy.id, made), instance)  # type: ignore[arg-type]
    tables = plan.tables
    assert plan.policy == policy.id
    assert plan.index.shape == instance.match_reward.shape
    forbidden = plan.index[~instance.allowed]
    assert np.all(np.isneginf(forbidden) | (forbidden == 0.0))
    assert np.all(np.isfinite(plan.index[instance.allowed]))
    assert tables.n_allowed.tolist() == instance.allowed.sum(axis=1).tolist()
    if policy.id in STATIC:
        assert policy.plan(instance, prices_of(name)).digest == plan.digest


@pytest.mark.parametrize("name", INSTANCES)
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.id)
def test_every_task_gets_k_free_permitted_servers_or_there_were_fewer(
    policy: LossPolicy, name: str
) -> None:
    """Over 10,000 random steps, replayed by hand: openreview/openreview-matcher#101 and #248."""
    instance = INSTANCES[name]
    plan = plan_for(policy, name)
    if plan is None:
        return
    _, chosen = busy_paths(instance, [plan], Run(STEPS, 0, seed=3))
    streams = joined_blocks(instance, len(chosen[0]))
    free_from = np.zeros(instance.n_servers, dtype=np.int64)
    at = np.cumsum(streams.gap) - 1
    assert np.searchsorted(at, STEPS) == len(chosen[0])
    for i, picks in enumerate(chosen[0]):
        v = streams.task_type[i]
        k = instance.servers_per_task[v]
        usable = instance.allowed[v] & (free_from <= at[i])
        taken = picks[picks >= 0]
        if usable.sum() < k:
            assert len(taken) == 0
            continue
        assert len(taken) == k
        assert len(set(taken.tolist())) == k
        assert np.all(usable[taken])
        free_from[taken] = at[i] + streams.duration[i] + 1


def joined_blocks(instance: LossInstance, n: int) -> LossStreams:
    """The first n arrivals of seed 3, and at least one more."""
    law, k = loss_law(instance), int(instance.servers_per_task.max())
    return draw_block(stream_key(3, 0), 0, law, k, size=4 * (n // 4 + 1))
