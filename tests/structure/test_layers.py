"""Imports point down the layers, stand at the top of the module and form no cycle."""

from __future__ import annotations

import pytest

from tests.structure.layers import (
    HEIGHT,
    LAYERS,
    cycle_problems,
    direction_problems,
    hidden_import_problems,
)
from tests.structure.sources import Source, sources

SRC = "src/opportune"


@pytest.mark.parametrize("source", sources(SRC), ids=lambda source: source.module)
def test_imports_point_down(source: Source) -> None:
    assert direction_problems(source) == []


@pytest.mark.parametrize("source", sources(SRC), ids=lambda source: source.module)
def test_no_import_inside_a_function(source: Source) -> None:
    assert hidden_import_problems(source) == []


def test_no_import_cycle() -> None:
    assert cycle_problems(sources(SRC)) == []


def test_the_checks_see_the_package() -> None:
    modules = {source.module for source in sources(SRC)}
    assert {"opportune", "opportune.errors", "opportune.kernels.jit"} <= modules


UPWARD = [
    (high, low) for high in HEIGHT for low in HEIGHT if HEIGHT[high] >= HEIGHT[low] and high != low
]


@pytest.mark.parametrize(("high", "low"), UPWARD)
def test_an_upward_or_sideways_import_is_found(high: str, low: str) -> None:
    text = f"from opportune.{high}.thing import name\n"
    found = direction_problems(Source(f"{SRC}/{low}/planted.py", text))
    assert len(found) == 1
    assert f"{SRC}/{low}/planted.py:1 " in found[0]


@pytest.mark.parametrize(("low", "high"), [(low, high) for high, low in UPWARD])
def test_a_downward_import_is_fine(low: str, high: str) -> None:
    text = f"import opportune.{low}.thing\nfrom opportune.{high}.thing import name\n"
    source = Source(f"{SRC}/{high}/planted.py", text)
    allowed = HEIGHT[low] < HEIGHT[high] and high != "kernels"
    assert (direction_problems(source) == []) == allowed


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("kernels/planted.py", "import highspy\n", "a kernel imports 'highspy'"),
        ("kernels/planted.py", "import scipy.special\n", "a kernel imports"),
        ("kernels/planted.py", "from opportune.errors import Problem\n", "a kernel imports"),
        ("model/planted.py", "from .loss import LossInstance\n", "relative import"),
        ("model/planted.py", "from opportune import LossInstance\n", "where it is defined"),
        ("model/planted.py", "import opportune\n", "as a whole"),
        ("magic/planted.py", "import math\n", "'magic' stands in no layer"),
        (
            "model/planted.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import opportune.cli.app\n",
            "'model' imports 'cli'",
        ),
    ],
)
def test_other_wrong_imports_are_found(path: str, text: str, message: str) -> None:
    found = direction_problems(Source(f"{SRC}/{path}", text))
    assert len(found) == 1
    assert message in found[0]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("kernels/planted.py", "import math\nimport numba\nfrom numpy.typing import NDArray\n"),
        ("kernels/planted.py", "from opportune.kernels.jit import jit\n"),
        ("cli/planted.py", "from opportune import __version__\n"),
        ("pricing/planted.py", "import highspy\nfrom opportune.model.loss import LossInstance\n"),
    ],
)
def test_right_imports_pass(path: str, text: str) -> None:
    assert direction_problems(Source(f"{SRC}/{path}", text)) == []


@pytest.mark.parametrize(
    "body",
    [
        "import math",
        "from math import pi",
        "importlib.import_module('math')",
        "__import__('math')",
        "return [(lambda: importlib.import_module('math'))()]",
        "def inner():\n        import math",
    ],
)
def test_an_import_inside_a_function_is_found(body: str) -> None:
    text = f"def planted():\n    {body}\n"
    assert len(hidden_import_problems(Source(f"{SRC}/model/planted.py", text))) == 1
    assert hidden_import_problems(Source(f"{SRC}/cli/__init__.py", text)) == []


def test_an_import_through_a_table_is_fine() -> None:
    text = "def load(name):\n    return importlib.import_module(TABLE[name])\n"
    assert hidden_import_problems(Source(f"{SRC}/model/planted.py", text)) == []


def test_a_cycle_is_found() -> None:
    ring = [
        Source(f"{SRC}/model/a.py", "from opportune.model.b import name\n"),
        Source(f"{SRC}/model/b.py", "import opportune.model.c\n"),
        Source(f"{SRC}/model/c.py", "from opportune.model import a\n"),
    ]
    (problem,) = cycle_problems(ring)
    for module in "abc":
        assert f"opportune.model.{module}" in problem
    assert cycle_problems(ring[:2]) == []


def test_every_layer_is_named_once() -> None:
    assert len(HEIGHT) == sum(len(layer) for layer in LAYERS)
