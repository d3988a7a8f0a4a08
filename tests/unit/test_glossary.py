"""The glossary page is current, and the metadata it is made from fits itself and the arrays."""

from __future__ import annotations

from dataclasses import is_dataclass, make_dataclass
from typing import Annotated, Any, get_origin, get_type_hints

import numpy as np
import pytest
from generate_glossary import (
    PAGE,
    axes_of,
    dataclasses_with_quantities,
    inconsistencies,
    render,
)

import opportune
from opportune.model.axes import Quantity, quantities
from opportune.policies.base import loss_policy

KINDS = dataclasses_with_quantities()


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run: make docs"


def test_the_core_types_are_in_it() -> None:
    names = {kind.__name__ for kind in KINDS}
    assert names >= {
        "LossInstance",
        "Deterministic",
        "Geometric",
        "Empirical",
        "Relaxation",
        "Plan",
    }


def test_symbols_axes_and_units_agree() -> None:
    assert inconsistencies(KINDS) == []


def test_every_array_of_a_public_type_has_a_quantity() -> None:
    assert [place for name in opportune.__all__ for place in _bare_arrays(name)] == []


def _bare_arrays(name: str) -> list[str]:
    """Fields of a public dataclass that are arrays without symbol, axes and unit."""
    kind = getattr(opportune, name)
    if not is_dataclass(kind):
        return []
    hints = get_type_hints(kind, include_extras=True)
    return [f"{name}.{field}" for field, hint in hints.items() if get_origin(hint) is np.ndarray]


@pytest.mark.parametrize(
    ("quantity", "problem"),
    [
        (Quantity("x_v", "Z", "reward", ""), "unknown axes"),
        (Quantity("s_vr", "R,V", "reward", ""), "not in the order"),
        (Quantity("x_vr", "V", "reward", ""), "does not fit"),
        (Quantity("x", "V", "reward", ""), "does not fit"),
        (Quantity("X(v,r)", "R", "reward", ""), "does not fit"),
        (Quantity("s_vr", "V,R", "points", ""), "points, but reward in LossInstance"),
    ],
)
def test_a_contradiction_is_found(quantity: Quantity, problem: str) -> None:
    planted = make_dataclass("Planted", [("field", Annotated[float, quantity])], frozen=True)
    found = inconsistencies([opportune.LossInstance, planted])
    assert len(found) == 1
    assert problem in found[0]


def _examples() -> list[Any]:
    instance = opportune.loss_instance(
        [[1.0, 0.5, 0.2], [0.1, 0.4, 0.8]],
        [0.1, 0.05],
        [opportune.Geometric(4.0), opportune.Empirical(np.array([1, 3]), np.array([0.5, 0.5]))],
        availability=[1.0, 1.0, 0.9],
    )
    plan = loss_policy("greedy").plan(instance)
    return [instance, *instance.duration, plan, opportune.price(instance)]


def test_arrays_have_the_axes_they_claim() -> None:
    size = {"V": 2, "R": 3, "d": 2}
    checked = 0
    for value in _examples():
        for field, quantity in quantities(type(value)).items():
            written = [letter for letter in quantity.axes.split(",") if letter]
            array = getattr(value, field)
            shape = (len(array),) if isinstance(array, tuple) else np.shape(array)
            assert shape == tuple(size[letter] for letter in written), f"{type(value)}.{field}"
            checked += 1
    assert checked >= 15


def test_a_duration_describes_one_type() -> None:
    mean = quantities(opportune.Geometric)["mean"]
    assert axes_of(opportune.Geometric, mean) == ["V"]
    assert axes_of(opportune.LossInstance, mean) == []
