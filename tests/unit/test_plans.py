"""Plans: orders, ties, sampling, what ``check_policy`` refuses, and how policies are found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest

import opportune.policies.loss as loss_policies
from opportune.errors import InputError
from opportune.kernels.allocate import PRIORITY, PRIORITY_TIES, SAMPLE
from opportune.model.duration import Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.policies import base
from opportune.policies.base import (
    Plan,
    check_policy,
    list_plan,
    loss_policies_by_id,
    loss_policy,
    ordered_plan,
    sampling_plan,
)
from opportune.pricing.relaxation import Relaxation

INSTANCE = loss_instance(
    np.ones((2, 4)),
    [0.1, 0.1],
    Geometric(3),
    allowed=[[True, True, True, True], [True, False, True, False]],
)
INDEX = np.array([[0.5, 0.9, 0.5, -1.0], [0.1, 7.0, 0.2, 8.0]])


def test_a_list_goes_by_index_and_leaves_equal_ones_tied() -> None:
    plan = list_plan("x", INSTANCE, INDEX)
    tables = plan.tables
    assert tables.order[0, 0].tolist() == [1, 0, 2, 3]
    assert tables.level[0, 0].tolist() == [0, 1, 1, 2]
    assert tables.order[1, 0, :2].tolist() == [2, 0]
    assert tables.n_allowed.tolist() == [4, 2]
    assert tables.rule == PRIORITY_TIES
    assert plan.index[1].tolist() == [0.1, -np.inf, 0.2, -np.inf]


def test_a_tie_break_orders_equal_ones_smaller_first_then_by_position() -> None:
    tables = list_plan("x", INSTANCE, INDEX, np.array([3.0, 1.0, 2.0, 0.0])).tables
    assert tables.order[0, 0].tolist() == [1, 2, 0, 3]
    assert tables.level[0, 0].tolist() == [0, 1, 2, 3]
    assert tables.rule == PRIORITY
    by_type = np.array([[0.0] * 4, [5.0, 0.0, 4.0, 0.0]])
    flat = list_plan("x", INSTANCE, np.zeros((2, 4)), by_type).tables
    assert flat.order[0, 0].tolist() == [0, 1, 2, 3]
    assert flat.order[1, 0, :2].tolist() == [2, 0]


def test_a_tie_among_forbidden_servers_is_no_tie() -> None:
    """Two forbidden servers share -inf; the rule is a plain list all the same."""
    one = replace(INSTANCE, arrival_rate=np.array([0.0, 0.1]))
    index = np.array([[4.0, 3.0, 2.0, 1.0], [1.0, 0.0, 2.0, 0.0]])
    assert list_plan("x", one, index).tables.rule == PRIORITY


def test_the_last_bits_do_not_break_a_tie() -> None:
    index = np.array([[0.1 + 0.2, 0.3, 0.3 * (1 + 1e-9), 0.0], [1.0, 0.0, 1.0, 0.0]])
    tables = list_plan("x", INSTANCE, index).tables
    assert tables.order[0, 0].tolist() == [2, 0, 1, 3]
    assert tables.level[0, 0].tolist() == [0, 1, 1, 2]


def test_a_full_order_is_taken_as_it_is() -> None:
    order = np.array([[3, 1, 0, 2], [2, 0, 1, 3]])
    plan = ordered_plan("x", INSTANCE, INDEX, order, note="by hand")
    assert plan.tables.order[:, 0].tolist() == order.tolist()
    assert plan.tables.rule == PRIORITY
    assert plan.note == "by hand"


def test_sampling_keeps_the_list_for_when_no_weight_is_left() -> None:
    weight = np.array([[0.0, 2.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0]])
    fallback = list_plan("y", INSTANCE, INDEX)
    plan = sampling_plan("x", weight, fallback)
    assert plan.policy == "x"
    assert plan.tables.rule == SAMPLE
    assert plan.tables.weight.tolist() == weight.tolist()
    assert plan.tables.order.tolist() == fallback.tables.order.tolist()
    assert fallback.tables.rule == PRIORITY_TIES  # the other plan is left as it was


def test_tables_are_what_the_kernels_are_compiled_for() -> None:
    order = np.asfortranarray(np.array([[3, 1, 0, 2], [2, 0, 1, 3]]))
    for plan in (list_plan("x", INSTANCE, INDEX), ordered_plan("x", INSTANCE, INDEX, order)):
        kinds = [array.dtype.name for array in plan.tables[:-1]]
        assert kinds == ["uint32", "int32", "int32", "float64"]
        assert all(array.flags.c_contiguous for array in plan.tables[:-1])
        assert plan.tables.order.shape == plan.tables.level.shape == (2, 1, 4)


def test_the_digest_of_a_plan_sees_every_table() -> None:
    plan = list_plan("x", INSTANCE, INDEX)
    tables = plan.tables
    others = [
        tables._replace(order=tables.order[:, :, ::-1]),
        tables._replace(level=tables.level + 1),
        tables._replace(n_allowed=tables.n_allowed - 1),
        tables._replace(weight=np.ones((2, 4))),
        tables._replace(rule=SAMPLE),
    ]
    digests = {plan.digest, *(replace(plan, tables=other).digest for other in others)}
    assert len(digests) == 6
    assert replace(plan, policy="y", note="z").digest == plan.digest


# ------------------------------------------------------------------------- the check


@dataclass(frozen=True)
class Fixed:
    """A policy that gives one plan, whatever the instance."""

    given: Plan
    id: ClassVar[str] = "x"
    title: ClassVar[str] = "Fixed"

    def plan(self, instance: LossInstance, prices: Relaxation | None = None) -> Plan:
        """The plan it was made with."""
        return self.given


def spoiled(**changed: Any) -> Fixed:
    """A good plan with some tables replaced."""
    plan = sampling_plan("x", np.where(INSTANCE.allowed, 1.0, 0.0), list_plan("x", INSTANCE, INDEX))
    policy = changed.pop("policy", "x")
    return Fixed(replace(plan, policy=policy, tables=plan.tables._replace(**changed)))


def order_with(row: list[int]) -> np.ndarray:
    """The good order with another first row."""
    order = list_plan("x", INSTANCE, INDEX).tables.order.copy()
    order[0, 0] = row
    return order


BAD: list[tuple[dict[str, Any], str]] = [
    ({"order": order_with([1, 0, 2, 2])}, r"order\[0,0\]: .* every permitted server once"),
    ({"n_allowed": np.array([3, 2])}, "n_allowed"),
    ({"n_allowed": np.array([4, 3])}, "n_allowed"),
    ({"order": np.zeros((2, 4, 1))}, r"order: shape \(2, 4, 1\); expected shape \(2, 4, 4\)"),
    ({"level": np.zeros((2, 2, 4))}, "order: shape"),
    ({"level": np.array([[[0, 2, 1, 3]], [[0, 1, 2, 3]]])}, r"level\[0,0\]: falls"),
    ({"weight": np.full((2, 4), -1.0)}, "weight: negative or not finite"),
    ({"weight": np.full((2, 4), np.nan)}, "weight: negative or not finite"),
    ({"weight": np.full((2, 4), np.inf)}, "weight: negative or not finite"),
    ({"weight": np.ones((2, 4))}, "weight: on a forbidden pair"),
    ({"policy": "y"}, "policy: 'y'; expected the policy's id, 'x'"),
]


@pytest.mark.parametrize(("changed", "told"), BAD, ids=range(len(BAD)))
def test_a_plan_that_kernels_cannot_trust_is_refused(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        check_policy(spoiled(**changed), INSTANCE)


def test_a_good_plan_passes() -> None:
    policy = spoiled()
    assert check_policy(policy, INSTANCE) is policy.given


# ----------------------------------------------------------------------- the registry


def test_a_policy_is_found_by_its_file_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of the folder with a class that has an id; its imports are not found twice."""
    module = ModuleType("opportune.policies.loss.planted")

    @dataclass(frozen=True)
    class Planted:
        """Found."""

        id: ClassVar[str] = "planted"
        rank: ClassVar[int] = 1

    Planted.__module__ = module.__name__
    module.Planted = Planted  # type: ignore[attr-defined]
    module.Fixed = Fixed  # type: ignore[attr-defined]  # imported, so not its own
    found = find(monkeypatch, {"planted": module})
    assert list(found) == ["planted"]


def find(monkeypatch: pytest.MonkeyPatch, modules: dict[str, ModuleType]) -> dict[str, Any]:
    """The registry, looking at these modules only."""

    @dataclass
    class Info:
        name: str

    prefix = f"{loss_policies.__name__}."
    monkeypatch.setattr(base.pkgutil, "iter_modules", lambda _: [Info(name) for name in modules])
    monkeypatch.setattr(
        base.importlib, "import_module", lambda name: modules[name.removeprefix(prefix)]
    )
    loss_policies_by_id.cache_clear()
    try:
        return dict(loss_policies_by_id())
    finally:
        loss_policies_by_id.cache_clear()


def test_two_policies_of_one_id_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {}
    for name in ("one", "two"):
        module = ModuleType(f"opportune.policies.loss.{name}")
        kind = type("Same", (), {"id": "same", "__module__": module.__name__})
        module.Same = kind  # type: ignore[attr-defined]
        modules[name] = module
    with pytest.raises(InputError, match=r"id: 'same' in .* every id once"):
        find(monkeypatch, modules)


def test_they_stand_in_the_order_of_their_rank_then_id(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("opportune.policies.loss.many")
    for name, rank in (("b", 2), ("a", 2), ("z", 1), ("c", None)):
        body: dict[str, Any] = {"id": name, "__module__": module.__name__}
        if rank is not None:
            body["rank"] = rank
        setattr(module, name.upper(), type(name.upper(), (), body))
    assert list(find(monkeypatch, {"many": module})) == ["z", "a", "b", "c"]


def test_an_unknown_policy_lists_the_known_ones() -> None:
    with pytest.raises(InputError) as caught:
        loss_policy("lagg")
    assert all(name in str(caught.value) for name in loss_policies_by_id())
    assert loss_policy("lag").id == "lag"
