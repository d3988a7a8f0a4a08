"""Every queue policy that is found keeps the contract of one, on worlds of every kind."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.kernels.queue import QueueStreams, QueueTables, exploration, radius_at
from opportune.model.queue import QueueInstance
from opportune.model.queue_catalog import QueueChoice
from opportune.model.queue_files import load_queue
from opportune.model.queue_generator import QueueWorld
from opportune.model.queue_pool import PoolOptions, queue_from_data
from opportune.model.queue_streams import Feedback, queue_streams
from opportune.policies.base import (
    QueuePolicy,
    queue_policies_by_id,
    queue_policy,
)
from opportune.simulate.queue import queue_path

HORIZON = 150

POLICIES = list(queue_policies_by_id().values())

ASKED_FOR = {
    *("cqb-eta-2", "cqb-eps", "cqb-opt", "acqb-ts", "acqb-ucb", "fifo-random", "random"),
    *("oracle", "eta-forever", "ucb", "q-ucb", "q-ths", "optimistic", "greedy-decay"),
    *("width-criterion", "laplace-thompson", "ofuglb-e", "ecolog"),
}


def recorded() -> QueueInstance:
    """Recorded outcomes of four servers."""
    rng = np.random.default_rng(3)
    outcomes = rng.random((40, 4)) < 0.5
    outcomes[~outcomes.any(axis=1), 1] = True
    return queue_from_data(rng.normal(size=(40, 2)), outcomes, options=PoolOptions(load=0.8))


@cache
def world(kind: str) -> QueueWorld:
    """A world by its kind."""
    if kind == "recorded":
        return recorded()
    if kind == "hard":
        return load_queue("hard-v1", QueueChoice(horizon=HORIZON, dimension=2, servers=5))
    return load_queue(f"cqb-{kind}-v1", QueueChoice(horizon=HORIZON))


KINDS = ("joint", "disjoint", "hard", "recorded")


@cache
def streams(kind: str, m: int, feedback: Feedback | None = None) -> QueueStreams:
    """Streams of one replication with m servers at once."""
    return queue_streams(world(kind), HORIZON, 5, 2, m, feedback)


def test_every_policy_of_the_issue_is_there() -> None:
    assert set(queue_policies_by_id()) >= ASKED_FOR
    assert next(iter(queue_policies_by_id())) == "optimistic"  # the default leads the tables
    usual = {one.id for one in POLICIES if getattr(one, "usual", True)}
    assert not usual & {"width-criterion", "laplace-thompson", "ofuglb-e", "ecolog", "ucb"}


def test_an_unknown_id_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="optimistic"):
        queue_policy("thompson")


@pytest.mark.parametrize("policy", POLICIES, ids=lambda one: one.id)
def test_a_policy_is_an_immutable_value(policy: QueuePolicy) -> None:
    assert is_dataclass(policy)
    assert policy.title
    assert isinstance(policy, QueuePolicy)
    with pytest.raises((FrozenInstanceError, AttributeError)):
        policy.id = "other"  # type: ignore[misc]
    assert replace(policy) == policy  # type: ignore[type-var]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("policy", POLICIES, ids=lambda one: one.id)
def test_tables_are_what_the_kernel_was_compiled_for(policy: QueuePolicy, kind: str) -> None:
    """Equal types, so that nothing is compiled again; probabilities and radii are numbers."""
    plan = policy.plan(world(kind), HORIZON)
    assert plan.policy == policy.id
    model = queue_policy("random").plan(world(kind), HORIZON).tables
    assert kinds_of(plan.tables) == kinds_of(model)
    assert plan == policy.plan(world(kind), HORIZON)
    assert plan.digest == policy.plan(world(kind), HORIZON).digest
    for t in (1, 2, 10, HORIZON - 1, 10**6):
        share = exploration(plan.tables.schedule, t, True)
        assert 0 <= share <= 2  # a phase's share and a decaying one may add up
        assert 0 <= radius_at(plan.tables.radius, float(t), 0.0) < math.inf
    assert plan.tables.fitting.ridge > 0


def kinds_of(tables: QueueTables) -> list[Any]:
    """Types of all entries, nested tuples included."""
    return [
        kinds_of(value) if isinstance(value, tuple) else type(value)  # type: ignore[arg-type]
        for value in tables
    ]


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("policy", POLICIES, ids=lambda one: one.id)
def test_only_waiting_tasks_are_served_and_queues_add_up(
    policy: QueuePolicy, kind: str, m: int
) -> None:
    """Q(t+1) = Q(t) - departures + arrivals; distinct tasks and servers; no idle round."""
    drawn = streams(kind, m)
    log = queue_path(drawn, policy.plan(world(kind), HORIZON))
    n_servers = drawn.rate.shape[1]
    waiting: list[int] = []
    tried: set[tuple[int, int]] = set()
    arrived = 0
    for t in range(1, HORIZON):
        while arrived < len(drawn.arrival_round) and drawn.arrival_round[arrived] < t:
            waiting.append(arrived)
            arrived += 1
        assert log.queue[t] == len(waiting)
        tasks = [int(i) for i, _ in log.pair[t] if i >= 0]
        servers = [int(a) for i, a in log.pair[t] if i >= 0]
        assert len(set(tasks)) == len(tasks)
        assert len(set(servers)) == len(servers)
        assert set(tasks) <= set(waiting)
        assert all(0 <= a < n_servers for a in servers)
        if not drawn.once:
            assert len(tasks) == min(m, len(waiting), n_servers)  # work-conserving
        else:
            assert bool(tasks) == any(
                (i, a) not in tried for i in waiting for a in range(n_servers)
            )
        for turn, pair in enumerate(zip(tasks, servers, strict=True)):
            departs = drawn.uniform[t, turn] < drawn.rate[pair]
            assert bool(log.flag[t, turn, 0]) == departs
            if drawn.once:
                assert pair not in tried
                tried.add(pair)
            if departs:
                waiting.remove(pair[0])
    waiting += range(arrived, int(np.sum(drawn.arrival_round < HORIZON)))
    assert log.queue[HORIZON] == len(waiting)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda one: one.id)
def test_the_same_streams_give_the_same_choices(policy: QueuePolicy) -> None:
    plan = policy.plan(world("joint"), HORIZON)
    first, second = queue_path(streams("joint", 1), plan), queue_path(streams("joint", 1), plan)
    assert np.array_equal(first.pair, second.pair)
    assert np.array_equal(first.theta, second.theta)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda one: one.id)
def test_outcomes_that_never_come_are_never_learned_from(policy: QueuePolicy) -> None:
    """microsoft/mwt-ds#90: every outcome late beyond the end, or lost: all stay pending."""
    plan = policy.plan(world("joint"), HORIZON)
    drawn = streams("joint", 1)
    late = drawn._replace(delay=np.full(HORIZON, HORIZON, dtype=np.int32))
    lost = drawn._replace(copies=np.zeros(HORIZON, dtype=np.int8))
    for missing in (late, lost):
        log = queue_path(missing, plan)
        attempts, used, pending = log.counts[0], log.counts[4], log.counts[7]
        assert pending == attempts > 0
        assert used == 0
        assert not log.theta.any()
    assert np.array_equal(queue_path(late, plan).pair, queue_path(lost, plan).pair)


def knobs(policy: QueuePolicy) -> list[str]:
    """Names of a policy's fields."""
    return [one.name for one in fields(policy)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "policy", [one for one in POLICIES if "estimator" in knobs(one)], ids=lambda one: one.id
)
def test_estimators_can_be_chosen_and_others_are_refused(policy: Any) -> None:
    found = {}
    for name in ("exact", "growth", "online"):
        plan = replace(policy, estimator=name).plan(world("joint"), HORIZON)
        found[name] = queue_path(streams("joint", 1), plan).theta
    assert not np.array_equal(found["exact"], found["online"])
    for name in ("growth", "online"):  # other choices, other data, the same truth
        alike = float((found["exact"] * found[name]).sum())
        assert alike > 0.2 * np.linalg.norm(found["exact"]) * np.linalg.norm(found[name])
    with pytest.raises(InputError, match="estimator"):
        replace(policy, estimator="newton").plan(world("joint"), HORIZON)


@pytest.mark.parametrize(
    ("policy", "name", "value"),
    [
        ("optimistic", "deviations", -0.5),
        ("optimistic", "ridge", 0.0),
        ("greedy-decay", "exploration", -1.0),
        ("greedy-decay", "power", math.nan),
        ("cqb-eta-2", "fractions", (0.5, 0.2)),
        ("cqb-eta-2", "eta", 1.5),
        ("cqb-eta-2", "scale", math.inf),
        ("cqb-eta-2", "delta", 0.0),
        ("cqb-eps", "fraction", 2.0),
        ("acqb-ts", "exploration", "1"),
        ("width-criterion", "factor", 0.0),
        ("ofuglb-e", "delta", 2.0),
    ],
)
def test_a_knob_out_of_range_is_refused_by_name(policy: str, name: str, value: object) -> None:
    known: Any = queue_policy(policy)
    with pytest.raises(InputError, match="fractions" if name == "fraction" else name):
        replace(known, **{name: value}).plan(world("joint"), HORIZON)


def test_zero_is_a_legal_knob() -> None:
    """VowpalWabbit#3680, litellm#12108: eta, exploration, deviations, delay of 0 mean 0."""
    none: Any = queue_policy("greedy-decay")
    log = queue_path(
        streams("joint", 1), replace(none, exploration=0.0).plan(world("joint"), HORIZON)
    )
    assert log.counts[1] == 0
    greedy: Any = queue_policy("optimistic")
    same = queue_path(
        streams("joint", 1), replace(greedy, deviations=0.0).plan(world("joint"), HORIZON)
    )
    assert np.array_equal(log.pair, same.pair)
    eta: Any = queue_policy("cqb-eta-2")
    phases = {"fractions": (0.0, 1.0), "scale": 0.0}
    for share in (0.0, 1.0):
        plan = replace(eta, eta=share, **phases).plan(world("joint"), HORIZON)
        log = queue_path(streams("joint", 1), plan)
        fresh = np.isin(np.arange(HORIZON) - 1, streams("joint", 1).arrival_round)
        explored = log.flag[:, 0, 1] > 0
        assert np.array_equal(explored[1:], fresh[1:] & (share == 1.0))


def test_the_exact_schedule_says_that_it_does_not_fit() -> None:
    eta: Any = queue_policy("cqb-eta-2")
    with pytest.raises(InputError, match="at least"):
        replace(eta, fractions=None).plan(world("joint"), 2000)
    eps: Any = queue_policy("cqb-eps")
    with pytest.raises(InputError, match="fractions of the horizon"):
        replace(eps, fraction=None).plan(world("joint"), 2000)
    tiny = replace(eta, fractions=None, scale=1e-9, delta=0.5)
    plan = tiny.plan(world("hard"), 10**9)
    assert 0 < plan.tables.schedule.tau_1 < plan.tables.schedule.tau_2 < 10**9
