"""Plans in force, what stands in for them, and what explains a decision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from opportune.errors import InputError
from opportune.kernels.allocate import SAMPLE
from opportune.model.duration import Geometric
from opportune.model.loss import loss_instance
from opportune.model.server_durations import server_durations
from opportune.policies.base import loss_policy
from opportune.policies.slots import slot_owner, with_slots
from opportune.pricing.demand import AT_MOST
from opportune.pricing.occupancy import price
from opportune.service import engine
from opportune.service.commands import (
    ActivatePlan,
    Complete,
    CreateTask,
    PutPlan,
    PutPool,
    PutScores,
    PutServer,
    RankRequest,
    RemoveServer,
    RollbackPlan,
    ShadowPlan,
)
from opportune.service.events import decode, encode
from opportune.service.planning import instance_of, plan_document, plan_pool
from opportune.service.reading import decision_body, plan_bodies, pool_body, server_body
from opportune.service.resources import Array, PlanDocument, PoolSettings, ScoreRow, ServerSettings
from opportune.service.routing import GREEDY, PRIORS, RANDOM, STALE
from tests.service.pools import Pool, names, pool_of

PRIOR = {"rate": 0.1, "mean_duration": 4.0}


def priced(policy: str = "lag", plan_id: str = "plan", **options: Any) -> PlanDocument:
    """A plan for types a, b and servers s0, s1, s2."""
    instance = loss_instance(
        [[4.0, 2.0, 1.0], [3.0, 3.0, 0.0]],
        [0.1, 0.2],
        [Geometric(4.0), Geometric(5.0)],
        task_types=["a", "b"],
        servers=["s0", "s1", "s2"],
        **options,
    )
    prices = price(instance)
    return plan_document(plan_id, loss_policy(policy).plan(instance, prices), prices)


def two_types(**settings: Any) -> Pool:
    return pool_of({"a": [4.0, 2.0, 1.0], "b": [3.0, 3.0, 0.0]}, **settings)


def why(pool: Pool, body: Any) -> Any:
    return decision_body(pool.state, body.decision_id).why


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


# ------------------------------------------------------------------------------- planner


def test_a_pool_is_priced_in_seconds_from_its_priors() -> None:
    pool = pool_of(
        {"a": [4.0, 2.0, None], "b": [3.0, 3.0, 1.0]},
        {"a": {"rate": 0.02, "mean_duration": 20.0}, "b": {"rate": 0.03, "mean_duration": 40.0}},
    )
    instance, step = instance_of(pool.state)
    assert step == pytest.approx(1.0)
    assert instance.mean_duration.tolist() == [20.0, 40.0]
    assert instance.allowed.tolist() == [[True, True, False], [True, True, True]]
    assert instance.load == pytest.approx((0.02 * 20 + 0.03 * 40) / 3)
    document = plan_pool(pool.state, "p1")
    assert document.source == "priors"
    assert document.bound == pytest.approx(price(instance, AT_MOST).dual_value / step)
    assert document.gap is not None
    assert pool.do(PutPlan(plan=document, activate=True)).created


def test_the_length_of_the_step_does_not_change_the_prices_per_second() -> None:
    options = {"a": {"rate": 3.0, "mean_duration": 0.5}, "b": {"rate": 2.0, "mean_duration": 0.25}}
    pool = pool_of({"a": [4.0, 2.0, 1.0], "b": [3.0, 3.0, 1.0]}, options)
    instance, step = instance_of(pool.state)
    assert float(instance.arrival_rate.sum()) <= 0.5
    assert step <= 0.25 / 20
    document = plan_pool(pool.state, "p1")
    prices = price(instance, AT_MOST)
    cost = np.array(document.demand_price)[:, None] + np.outer(
        document.mean_duration, document.capacity_price
    )
    assert cost == pytest.approx(prices.opportunity_cost)


def test_slots_of_one_server_are_priced_together() -> None:
    pool = pool_of({"a": [4.0, 2.0]}, {"a": {"rate": 0.2, "mean_duration": 5.0}})
    pool.ok(PutServer(settings=ServerSettings(id="s0", capacity=3)))
    document = plan_pool(pool.state, "p1")
    slots = loss_instance([[4.0, 4.0, 4.0, 2.0]], [0.05], Geometric(20.0))
    assert document.bound == pytest.approx(price(slots, AT_MOST).dual_value / 0.25)
    assert document.servers == ["s0", "s1"]
    assert document.n_allowed.numpy().tolist() == [2]
    assert pool.ok(PutPlan(plan=document, activate=True)).active
    assert [names(pool.task("a")) for _ in range(4)] == [["s0"]] * 3 + [["s1"]]
    weighted = plan_pool(pool.state, "p2", "alg-sc-lp")
    pool.ok(PutPlan(plan=weighted, activate=True))
    assert pool.state.active_plan.weight.shape == [1, 2]


def test_a_pool_that_says_too_little_cannot_be_priced() -> None:
    for pool in (Pool(), pool_of({"a": [1.0]}), pool_of({"a": [1.0]}, {"a": {"rate": 0.1}}, k=9)):
        with pytest.raises(InputError):
            plan_pool(pool.state, "p1")


# ------------------------------------------------------------------------------- ranking


def ranking(pool: Pool, draws: Any = (1, 2, 3), **request: Any) -> Any:
    before = pool.replayed() and len(pool.log)
    answer = engine.rank(pool.state, RankRequest(**request), 0.0, draws)
    assert answer.events == []
    assert len(pool.log) == before
    return answer


def test_a_ranking_is_the_plans_order_of_the_candidates() -> None:
    pool = two_types()
    document = priced()
    pool.ok(PutPlan(plan=document, activate=True))
    order = [f"s{r}" for r in document.order.numpy()[0, 0]]
    body = ranking(pool, task_type="a", candidates=["s2", "s0", "s1", "s9"], k=2).body
    assert [one.id for one in body.servers] == order
    assert body.excluded == ["s9"]
    assert (body.plan, body.degraded, body.k) == ("plan", "", 2)
    busy = names(pool.task("a"))
    assert [one.id for one in ranking(pool, task_type="a").body.servers] == [
        name for name in order if name not in busy
    ]
    everybody = ranking(pool, task_type="a", candidates=["s0", "s1", "s2"]).body
    assert [one.id for one in everybody.servers] == order  # the caller knows who is free
    assert ranking(pool, task_type="a", candidates=[]).body.servers == []


def test_own_scores_are_weighed_against_the_prices() -> None:
    pool = two_types()
    pool.ok(PutPlan(plan=priced(), activate=True))
    cost = {
        one.id: one.opportunity_cost
        for one in ranking(pool, task_type="b", candidates=["s0", "s1", "s2"]).body.servers
    }
    scores = {"s0": cost["s0"] + 0.1, "s1": cost["s1"] + 0.3, "s2": cost["s2"] + 0.2}
    body = ranking(pool, task_type="b", candidates=list(scores), scores=list(scores.values())).body
    assert [one.id for one in body.servers] == ["s1", "s2", "s0"]
    assert body.servers[0].index == pytest.approx(0.3)


def test_rankings_that_make_no_sense_are_refused() -> None:
    pool = two_types()
    for request in (
        {"task_type": "z"},
        {"task_type": "a", "candidates": ["s0", "s0"]},
        {"task_type": "a", "candidates": ["s0"], "scores": [1.0, 2.0]},
        {"task_type": "a", "scores": [1.0]},
    ):
        assert ranking(pool, **request).problem is not None


# ------------------------------------------------------------------------------- scores


def test_scores_are_taken_all_or_none() -> None:
    pool = two_types()
    bad = [
        [ScoreRow("a", "s9", 1.0), ScoreRow("z", "s0", 1.0)],
        [ScoreRow("a", "s0", 1.0), ScoreRow("a", "s0", 2.0)],
        [ScoreRow("a", "s0", float("nan"))],
        [ScoreRow("a", "s0", float("inf"))],
        [ScoreRow("a", "s0", -1.0)],
    ]
    for rows in bad:
        answer = pool.do(PutScores(rows=rows))
        assert answer.problem is not None
        assert answer.events == []
    assert "'s9'" in pool.do(PutScores(rows=[ScoreRow("a", "s9", 1.0)])).problem.detail
    body = pool.ok(PutScores(rows=[ScoreRow("a", "s0", 7.0)]))
    assert (body.version, body.pairs) == (2, 6)
    body = pool.ok(PutScores(rows=[ScoreRow("a", "s0", 7.0)], replace=True))
    assert (body.version, body.pairs) == (3, 1)


def test_a_missing_score_forbids_the_pair_or_is_nothing() -> None:
    for missing, code in (("forbid", "invalid"), ("zero", "")):
        pool = pool_of({"a": [1.0, None]}, missing_score=missing)
        answer = pool.do(CreateTask(task_type="a", k=2))
        assert (answer.problem.code if answer.problem else "") == code


def test_attributes_and_lists_say_who_is_eligible() -> None:
    pool = pool_of(
        {"a": [None] * 3}, {"a": {"requires": {"language": ["de", "fr"]}, "eligible": ["s0", "s1"]}}
    )
    for name, language in (("s0", "de"), ("s1", "en"), ("s2", "de")):
        own = ServerSettings(id=name, attributes={"language": language})
        pool.ok(PutServer(settings=own))
    assert names(pool.task("a")) == ["s0"]
    pool.ok(PutServer(settings=ServerSettings(id="s1", attributes={"language": "fr"})))
    assert names(pool.task("a")) == ["s1"]
    assert server_body(pool.state, "s2").state == "free"


def test_pins_that_make_no_sense_are_refused() -> None:
    pool = pool_of({"a": [3.0, 2.0, None]}, k=2)
    for options in (
        {"pins": ["s9"]},
        {"conflicts": ["s9"]},
        {"pins": ["s2"]},
        {"pins": ["s0", "s0"]},
        {"pins": ["s0"], "conflicts": ["s0"]},
        {"pins": ["s0", "s1"], "k": 1},
        {"conflicts": ["s0"]},
    ):
        assert pool.refused(CreateTask(task_type="a", **options)) == "invalid"
    assert pool.refused(CreateTask(task_type="z")) == "not-found"


def test_pool_settings_take_zero_for_zero() -> None:
    """BerriAI/litellm#12108: a cool-down of 0 seconds was replaced by the default."""
    settings = msgspec.json.decode(
        b'{"wrap_up":0,"age_weight":0,"reserve_after":0}', type=PoolSettings
    )
    pool = Pool()
    pool.ok(PutPool(settings=settings))
    assert pool.state.settings.reserve_after == 0
    assert pool.state.settings is settings
    for text in (b'{"lease":0}', b'{"k":0}', b'{"quarantine_after":0}', b'{"unknown":1}'):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(text, type=PoolSettings)


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
