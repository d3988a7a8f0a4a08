"""Exploration: propensities are those of the mixture, and it takes only what it may."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from opportune.kernels.allocate import PRIORITY, PRIORITY_TIES, SAMPLE
from opportune.service import engine, events
from opportune.service.applying import apply
from opportune.service.commands import (
    CancelTask,
    CreateTask,
    PutLearned,
    PutPlan,
    PutPool,
    ReportOutcome,
)
from opportune.service.learner_estimates import document, estimate
from opportune.service.learner_reading import learning_body
from opportune.service.resources import Array, LearnerSettings, PlanDocument, PoolSettings
from opportune.service.state import State, empty_state
from opportune.service.verifying import verify
from tests.service.pools import Pool, pool_of
from tests.service.test_learner import learned_from

N = 2500
"""Decisions whose frequencies are compared."""


def planned(pool: Pool, rule: int, level: list[int], weight: list[float]) -> None:
    """A plan that lists s0, s1, ... with these levels and weights."""
    n = len(level)
    servers = [server.settings.id for server in pool.state.servers]
    plan = PlanDocument(
        id=f"rule-{rule}",
        policy="test",
        task_types=["a"],
        servers=servers,
        order=Array.of(np.arange(n, dtype=np.uint32).reshape(1, 1, n)),
        level=Array.of(np.array(level, dtype=np.int32).reshape(1, 1, n)),
        n_allowed=Array.of(np.array([n], dtype=np.int32)),
        weight=Array.of(np.array([weight]) if rule == SAMPLE else np.zeros((1, 0))),
        rule=rule,
        index=Array.of(np.linspace(1.0, 0.0, n).reshape(1, n)),
    )
    pool.ok(PutPlan(plan=plan, activate=True))


def settings(share: float, k: int = 1, floor: float = 0.0) -> PoolSettings:
    learner = LearnerSettings(exploration=share, floor=floor)
    return PoolSettings(k=k, learning="on", learner=learner)


def decisions(pool: Pool, n: int, seed: int = 1) -> list[events.Offered]:
    """The same task decided again and again, all servers free."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        before = len(pool.log)
        draws = rng.integers(0, 2**32, 16, dtype=np.uint32)
        answer = engine.decide(pool.state, CreateTask(task_type="a"), pool.now, draws)
        pool.log += answer.events
        found += [event for event in pool.log[before:] if isinstance(event, events.Offered)]
        cancel = CancelTask(task=answer.body.task_id)
        pool.log += engine.decide(pool.state, cancel, pool.now, draws).events
    return found


def state_before(pool: Pool, event: events.Event) -> State:
    """The pool right before something happened."""
    state = empty_state("p")
    for one in pool.log[: next(i for i, e in enumerate(pool.log) if e is event)]:
        apply(state, one)
    return state


CASES = [
    pytest.param(PRIORITY, [0, 1, 2, 3, 4], [], 1, 0.3, id="list"),
    pytest.param(PRIORITY, [0, 1, 2, 3, 4], [], 2, 0.3, id="list-k2"),
    pytest.param(PRIORITY_TIES, [0, 0, 0, 1, 1], [], 1, 0.2, id="ties"),
    pytest.param(PRIORITY_TIES, [0, 1, 1, 1, 2], [], 3, 0.2, id="ties-k3"),
    pytest.param(SAMPLE, [0, 1, 2, 3, 4], [3.0, 2.0, 1.0, 0.0, 0.0], 1, 0.25, id="weights"),
    pytest.param(SAMPLE, [0, 1, 1, 2, 2], [3.0, 0.0, 0.0, 0.0, 0.0], 1, 0.0, id="weights-eps0"),
]


@pytest.mark.parametrize(("rule", "level", "weight", "k", "share"), CASES)
def test_propensities_are_the_frequencies(
    rule: int, level: list[int], weight: list[float], k: int, share: float
) -> None:
    """Each server has one propensity when it is picked: how often it is, within 4.5 deviations."""
    pool = pool_of({"a": [1.0] * len(level)})
    pool.ok(PutPool(settings=settings(share, k)))
    planned(pool, rule, level, weight)
    found = decisions(pool, N)
    picked: Counter[str] = Counter()
    told: dict[str, set[float]] = {}
    for event in found:
        for pick in event.picks:
            picked[pick.server] += 1
            told.setdefault(pick.server, set()).add(round(pick.propensity, 12))
    total = 0.0
    for server, values in told.items():
        (p,) = values
        total += p
        spread = (p * (1 - p) / N) ** 0.5
        assert abs(picked[server] / N - p) <= 4.5 * spread + 1e-12
    assert total == pytest.approx(k)
    explored = sum(event.why.explored for event in found) / N
    assert abs(explored - share) <= 4.5 * (share * (1 - share) / N) ** 0.5


def test_by_weight_propensities_of_several_picks_are_those_of_their_order() -> None:
    """k = 2 by weight: the product is how often the two come in this order."""
    pool = pool_of({"a": [1.0] * 4})
    pool.ok(PutPool(settings=settings(0.4, 2)))
    planned(pool, SAMPLE, [0, 1, 2, 2], [3.0, 1.0, 0.0, 0.0])
    found = decisions(pool, N)
    often = Counter(tuple(pick.server for pick in event.picks) for event in found)
    told: dict[tuple[str, ...], set[float]] = {}
    for event in found:
        order = tuple(pick.server for pick in event.picks)
        chance = float(np.prod([pick.propensity for pick in event.picks]))
        told.setdefault(order, set()).add(round(chance, 12))
    assert len(told) == 12
    assert sum(next(iter(values)) for values in told.values()) == pytest.approx(1.0)
    for order, values in told.items():
        (p,) = values
        assert abs(often[order] / N - p) <= 4.5 * (p * (1 - p) / N) ** 0.5


def test_explored_decisions_can_be_made_again_and_say_what_they_gave_up() -> None:
    pool = pool_of({"a": [1.0, 1.0, 1.0, 1.0]}, {"a": {"k": 2}})
    pool.ok(PutPool(settings=settings(0.5)))
    planned(pool, PRIORITY, [0, 1, 2, 3], [])
    for event in decisions(pool, 40):
        assert verify(state_before(pool, event), event)
        index = {"s0": 1.0, "s1": 2 / 3, "s2": 1 / 3, "s3": 0.0}
        own = sum(index[pick.server] for pick in event.picks)
        expected = 1.0 + 2 / 3 - own if event.why.explored else 0.0
        assert event.why.given_up == pytest.approx(expected)
        assert not {pick.server for pick in event.why.alternates} & {p.server for p in event.picks}
    counts = learned_from(pool.log)
    body = learning_body(counts, pool.state)
    given_up = sum(e.why.given_up for e in pool.log if isinstance(e, events.Offered))
    assert body.exploration.explored == sum(
        e.why.explored for e in pool.log if isinstance(e, events.Offered)
    )
    assert body.exploration.price == pytest.approx(given_up)
    assert body.exploration.price_per_task == pytest.approx(given_up / 40)
    assert body.support.certain_share == 0.0


def test_exploration_takes_permitted_pairs_above_the_floor_only() -> None:
    pool = pool_of({"a": [1.0, 1.0, 1.0, None]}, learning="on")
    for value in (1.0, 0.0, 1.0) * 8:
        for name in ("s0", "s1", "s2"):
            body = pool.task(pins=[name])
            pool.ok(CancelTask(task=body.task_id))
            outcome = value if name != "s2" else 0.0
            pool.ok(ReportOutcome(subject=body.assignment_id, value=outcome))
    counts = learned_from(pool.log)
    pool.ok(PutLearned(learned=document(estimate(counts, pool.state), counts, 1)))
    pool.ok(PutPool(settings=settings(1.0, floor=0.6)))
    planned(pool, PRIORITY, [0, 1, 2, 3], [])
    seen = {pick.server for event in decisions(pool, 60) for pick in event.picks}
    assert seen == {"s0", "s1"}
    pool.restart()
    pool.ok(PutPool(settings=settings(1.0, floor=0.0)))
    assert {p.server for e in decisions(pool, 60) for p in e.picks} == {"s0", "s1", "s2"}


def test_where_too_few_qualify_the_plan_decides_with_its_own_propensities() -> None:
    pool = pool_of({"a": [1.0, 1.0]})
    pool.ok(PutPool(settings=settings(1.0, floor=5.0)))
    planned(pool, PRIORITY, [0, 1], [])
    assert all(event.why.explored for event in decisions(pool, 5))  # nothing is known yet
    pool.ok(PutPool(settings=settings(1.0, k=2)))
    two = decisions(pool, 5)
    assert all([pick.propensity for pick in event.picks] == [1.0, 1.0] for event in two)


def test_nothing_is_explored_where_learning_is_not_on() -> None:
    for mode in ("off", "shadow"):
        learner = LearnerSettings(exploration=1.0)
        pool = pool_of({"a": [1.0, 0.5]}, learning=mode, learner=learner)
        planned(pool, PRIORITY, [0, 1], [])
        assert {p.server for e in decisions(pool, 20) for p in e.picks} == {"s0"}
