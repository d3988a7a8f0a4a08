"""Plans in force, what stands in for them, and what explains a decision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from opportune.kernels.allocate import SAMPLE
from opportune.model.duration import Geometric
from opportune.model.loss import loss_instance
from opportune.model.server_durations import server_durations
from opportune.policies.base import loss_policy
from opportune.policies.slots import slot_owner, with_slots
from opportune.pricing.demand import AT_MOST
from opportune.pricing.occupancy import price
from opportune.service.commands import (
    ActivatePlan,
    Complete,
    CreateTask,
    PutPlan,
    PutScores,
    PutServer,
    RemoveServer,
    RollbackPlan,
    ShadowPlan,
)
from opportune.service.events import decode, encode
from opportune.service.plan_reading import plan_bodies
from opportune.service.planning import plan_document, plan_pool
from opportune.service.reading import decision_body, pool_body
from opportune.service.resources import Array, PlanDocument, ScoreRow, ServerSettings
from opportune.service.routing import GREEDY, PRIORS, RANDOM, STALE
from tests.service.pools import names, pool_of
from tests.service.priced import PRIOR, priced, two_types, why


def test_the_order_of_fallback() -> None:
    """Active plan, the same when stale, prices from the priors, scores, anybody."""
    pool = pool_of({"a": [None] * 3}, {"a": PRIOR}, plan_max_age=100.0)
    seen = [pool.task(now=0.0).degraded]
    pool.ok(PutScores(rows=[ScoreRow("a", f"s{r}", 3.0 - r) for r in range(3)]))
    pool.ok(Complete(assignment="p.a1"))
    seen.append(pool.task(now=1.0).degraded)
    pool.ok(PutPlan(plan=plan_pool(pool.state, "first")), 2.0)
    pool.ok(Complete(assignment="p.a2"))
    body = pool.task(now=3.0)
    assert body.plan == "first"
    seen.append(body.degraded)
    pool.ok(PutPlan(plan=plan_pool(pool.state, "real", source="plan"), activate=True), 10.0)
    pool.ok(Complete(assignment="p.a3"))
    for now in (110.0, 110.1):
        body = pool.task(now=now)
        assert body.plan == "real"
        seen.append(body.degraded)
        pool.ok(Complete(assignment=body.assignment_id))
    assert seen == [RANDOM, GREEDY, PRIORS, "", STALE]
    assert pool_body(pool.state, 111.0).degraded == STALE
    pool.ok(ActivatePlan(plan="real"), 120.0)  # it is what we want: fresh again
    assert pool.task(now=121.0).degraded == ""
    pool.replayed()


def test_a_decision_is_explained_by_the_prices() -> None:
    pool = two_types()
    document = priced()
    pool.ok(PutPlan(plan=document, activate=True))
    body = pool.task("b")
    told = why(pool, body)
    pick = decision_body(pool.state, body.decision_id).picks[0]
    v, r = 1, document.servers.index(pick.server)
    assert told.demand_price == document.demand_price[v]
    assert pick.capacity_price == document.capacity_price[r]
    cost = document.demand_price[v] + document.mean_duration[v] * document.capacity_price[r]
    assert pick.opportunity_cost == pytest.approx(cost)
    assert pick.index == pytest.approx(pick.score - cost, abs=1e-9)
    assert told.plan == "plan"
    assert told.degraded == ""


def test_the_price_of_a_server_turns_the_choice_around() -> None:
    """s0 is worth much to type a: type b leaves it alone although its score is as good."""
    pool = two_types()
    assert why(pool, pool.task("b")).rule == "list-ties"
    pool.ok(Complete(assignment="p.a1"))
    pool.ok(PutPlan(plan=priced(), activate=True))
    for _ in range(3):
        body = pool.task("b")
        assert names(body) == ["s1"]
        pool.ok(Complete(assignment=body.assignment_id))


def test_a_type_that_the_plan_does_not_know_falls_back_alone() -> None:
    pool = pool_of({"a": [4.0, 2.0, 1.0], "b": [3.0, 3.0, 0.0], "c": [1.0, 0.0, 5.0]})
    pool.ok(PutPlan(plan=priced(), activate=True))
    order = priced().order.numpy()[0, 0].tolist()
    for draw in (0, 2**31, 2**32 - 1):  # a list stays a list beside the ties of the fallback
        body = pool.ok(CreateTask(task_type="a"), draws=[draw])
        assert (body.degraded, names(body)) == ("", [f"s{order[0]}"])
        pool.ok(Complete(assignment=body.assignment_id))
    body = pool.task("c")
    assert (body.degraded, body.plan, names(body)) == (GREEDY, None, ["s2"])


def test_durations_that_depend_on_the_server_stand_in_the_cost() -> None:
    instance = loss_instance(
        [[4.0, 2.0, 1.0], [3.0, 3.0, 0.0]],
        [0.1, 0.2],
        [Geometric(4.0), Geometric(5.0)],
        task_types=["a", "b"],
        servers=["s0", "s1", "s2"],
    )
    own = server_durations(instance.duration, {(1, 1): Geometric(9.0)}, 3)
    instance = replace(instance, server_duration=own)
    prices = price(instance, AT_MOST)
    plan = loss_policy("lag").plan(instance, prices)
    document = plan_document("plan", plan, prices)
    pool = two_types()
    pool.ok(PutPlan(plan=document, activate=True))
    for name in ("s0", "s1", "s2"):
        others = [other for other in ("s0", "s1", "s2") if other != name]
        body = pool.task("b", conflicts=others)
        cost = prices.opportunity_cost[1, instance.servers.index(name)]
        assert body.servers[0].opportunity_cost == pytest.approx(cost)
        pool.ok(Complete(assignment=body.assignment_id))
    slots = with_slots(instance, slot_owner([1, 2, 1]))
    assert slots.pair_mean.tolist() == [[4.0] * 4, [5.0, 9.0, 9.0, 5.0]]
    bad = _with(document, "pair_mean", np.full((2, 3), -1.0))
    assert two_types().refused(PutPlan(plan=bad)) == "invalid"


def test_servers_that_the_plan_does_not_know_follow_by_score() -> None:
    pool = two_types()
    pool.ok(PutPlan(plan=priced(), activate=True))
    for name, score in (("s3", 9.0), ("s4", 10.0)):
        pool.ok(PutServer(settings=ServerSettings(id=name)))
        pool.ok(PutScores(rows=[ScoreRow("a", name, score)]))
    order = [names(pool.task("a"))[0] for _ in range(5)]
    assert order[3:] == ["s4", "s3"]
    assert set(order[:3]) == {"s0", "s1", "s2"}


def test_servers_and_pairs_that_are_gone_leave_the_order_as_it_was() -> None:
    pool = two_types()
    document = priced()
    pool.ok(PutPlan(plan=document, activate=True))
    order = document.order.numpy()[0, 0].tolist()
    pool.ok(RemoveServer(server=f"s{order[0]}"))
    assert names(pool.task("a")) == [f"s{order[1]}"]
    pool.ok(PutScores(rows=[ScoreRow("a", f"s{order[0]}", 1.0)], replace=True))
    assert pool.refused(CreateTask(task_type="a")) == "invalid"  # only the removed one is scored


def test_a_pair_that_is_forbidden_later_is_not_used_whatever_the_plan_says() -> None:
    pool = two_types()
    document = priced()
    pool.ok(PutPlan(plan=document, activate=True))
    first, second, _ = (f"s{r}" for r in document.order.numpy()[0, 0])
    rows = [ScoreRow("a", name, 1.0) for name in ("s0", "s1", "s2") if name != first]
    pool.ok(PutScores(rows=rows, replace=True))
    body = pool.task("a")
    assert names(body) == [second]
    assert why(pool, body).n_permitted == 2
    assert names(pool.task("a")) != [first]
    assert pool.refused(CreateTask(task_type="a")) == "no-capacity"


def test_a_server_that_a_tied_plan_does_not_know_comes_after_the_tie() -> None:
    pool = two_types()
    pool.ok(PutPlan(plan=priced("random"), activate=True))
    pool.ok(PutServer(settings=ServerSettings(id="s3")))
    pool.ok(PutScores(rows=[ScoreRow("a", "s3", 9.0)]))
    seen = set()
    for draw in range(0, 2**32, 2**28):
        body = pool.ok(CreateTask(task_type="a"), draws=[draw])
        seen |= set(names(body))
        pool.ok(Complete(assignment=body.assignment_id))
    assert seen == {"s0", "s1", "s2"}


@pytest.mark.parametrize("policy", ["alg-sc-lp", "random", "greedy", "headcount"])
def test_plans_of_every_rule_survive_journal_and_snapshot(policy: str) -> None:
    pool = two_types()
    document = priced(policy)
    assert decode(encode(pool.do(PutPlan(plan=document, activate=True)).events[0])).plan == document
    for i in range(6):
        pool.do(CreateTask(task_type="ab"[i % 2]), draws=[i * 2**29, 5])
    pool.replayed()
    as_json = msgspec.json.encode(PutPlan(plan=document))
    assert msgspec.json.decode(as_json, type=PutPlan).plan == document


def test_plans_are_stored_activated_and_rolled_back() -> None:
    pool = two_types()
    first, second = priced(plan_id="first"), priced("whittle", "second")
    assert pool.do(PutPlan(plan=first)).created
    assert pool.do(PutPlan(plan=first)).repeated
    assert pool.refused(PutPlan(plan=priced("whittle", "first"))) == "conflict"
    assert pool.refused(RollbackPlan()) == "conflict"
    assert pool.refused(ActivatePlan(plan="third")) == "not-found"
    pool.ok(ActivatePlan(plan="first"), 1.0)
    pool.ok(PutPlan(plan=second, activate=True), 2.0)
    assert [plan.active for plan in plan_bodies(pool.state)] == [False, True]
    assert pool.ok(RollbackPlan(), 3.0).id == "first"
    assert [(plan.active, plan.activated_at) for plan in plan_bodies(pool.state)] == [
        (True, 1.0),
        (False, 2.0),
    ]
    assert pool_body(pool.state, 5.0).plan_age == 4.0
    pool.replayed()


def test_old_plans_are_forgotten_but_not_the_active_one() -> None:
    pool = two_types()
    document = priced(plan_id="0")
    pool.ok(PutPlan(plan=document, activate=True))
    for i in range(1, 40):
        pool.ok(PutPlan(plan=msgspec.structs.replace(document, id=str(i))))
    assert len(pool.state.plans) == 16
    assert pool.state.active_plan.id == "0"
    pool.replayed()


def _with(document: PlanDocument, field: str, array: Any) -> PlanDocument:
    packed = array if isinstance(array, (Array, list)) else Array.of(np.asarray(array))
    return msgspec.structs.replace(document, **{field: packed})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("order", np.zeros((2, 1, 3), dtype=np.uint32)),
        ("order", np.full((2, 1, 3), 7, dtype=np.uint32)),
        ("order", np.zeros((2, 1, 4), dtype=np.uint32)),
        ("order", np.zeros((2, 3), dtype=np.uint32)),
        ("order", np.zeros((2, 0, 3), dtype=np.uint32)),
        ("level", np.array([[[2, 1, 0]]] * 2, dtype=np.int32)),
        ("level", np.zeros((2, 2, 3), dtype=np.int32)),
        ("n_allowed", np.array([4, 3], dtype=np.int32)),
        ("n_allowed", np.array([-1, 3], dtype=np.int32)),
        ("index", np.full((2, 3), np.nan)),
        ("index", np.zeros((3, 2))),
        ("weight", np.zeros((2, 3))),
        ("order", Array("uint32", [2, 1, 3], b"123")),
        ("order", Array("int32", [2, 1, 3], b"0" * 24)),
        ("order", Array("uint32", [2, -1, -3], b"0" * 24)),
        ("servers", ["s0", "s0", "s1"]),
        ("task_types", []),
        ("demand_price", [1.0]),
        ("capacity_price", [1.0, float("nan"), 2.0]),
        ("mean_duration", []),
    ],
)
def test_a_plan_that_the_kernels_could_not_trust_is_refused(field: str, value: Any) -> None:
    pool = two_types()
    answer = pool.do(PutPlan(plan=_with(priced(), field, value), activate=True))
    assert answer.problem is not None
    assert answer.problem.code == "invalid"
    assert answer.problem.field.split("[")[0] in (field, "level")
    assert answer.events == []


def test_weights_that_are_none_are_refused() -> None:
    document = priced("alg-sc-lp")
    assert document.rule == SAMPLE
    bad = _with(document, "weight", np.array([[1.0, -1.0, 0.0], [np.inf, 0.0, 0.0]]))
    assert two_types().refused(PutPlan(plan=bad)) == "invalid"


def test_plan_of_another_numbering_is_followed_by_name() -> None:
    """The document's order of servers and types is its own."""
    document = priced()
    instance = loss_instance(
        [[0.0, 3.0, 3.0], [1.0, 2.0, 4.0]],
        [0.2, 0.1],
        [Geometric(5.0), Geometric(4.0)],
        task_types=["b", "a"],
        servers=["s2", "s1", "s0"],
    )
    prices = price(instance)
    plan = replace(loss_policy("lag").plan(instance, prices), note="turned round")
    other = plan_document("other", plan, prices)
    chosen = []
    for one in (document, other):
        pool = two_types()
        pool.ok(PutPlan(plan=one, activate=True))
        chosen.append([names(pool.task(name)) for name in "aba"])
    assert chosen[0] == chosen[1]


def test_a_shadow_plan_is_noted_and_not_followed() -> None:
    pool, twin = two_types(), two_types()
    for one in (pool, twin):
        one.ok(PutPlan(plan=priced("greedy", "real"), activate=True))
    pool.ok(PutPlan(plan=priced(plan_id="other")))
    assert pool.refused(ShadowPlan(plan="third")) == "not-found"
    assert pool.ok(ShadowPlan(plan="other")).shadow
    assert pool.do(ShadowPlan(plan="other")).repeated
    differed = 0
    for i in range(8):
        draws = [i * 2**29, 3]
        ours, theirs = (one.do(CreateTask(task_type="b"), draws=draws) for one in (pool, twin))
        assert names(ours.body) == names(theirs.body)
        told = why(pool, ours.body)
        assert (told.plan, told.shadow, told.shadow_picks) == ("real", "other", ["s1"])
        differed += names(ours.body) != ["s1"]
        for one in (pool, twin):
            one.ok(Complete(assignment=ours.body.assignment_id))
    assert pool.state.counts["shadow_differed"] == differed > 0
    assert pool.state.counts["shadow_agreed"] == 8 - differed > 0
    pool.restart()
    pool.ok(ShadowPlan(plan=None))
    assert why(pool, pool.task("b")).shadow is None
