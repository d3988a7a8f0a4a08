"""Files and functions stay small, and files are named after concepts."""

from __future__ import annotations

import pytest

from tests.structure.sizes import (
    FILE_LINES,
    FUNCTION_LINES,
    KERNEL_LINES,
    PARAMETERS,
    name_problems,
    size_problems,
)
from tests.structure.sources import Source, sources, tracked_files


@pytest.mark.parametrize("source", sources(), ids=lambda source: source.path)
def test_files_functions_and_parameter_lists_are_small(source: Source) -> None:
    assert size_problems(source) == []


def test_no_file_name_says_nothing() -> None:
    assert name_problems(tracked_files()) == []


def test_a_long_file_is_found() -> None:
    path = "src/opportune/model/planted.py"
    assert size_problems(Source(path, "x = 1\n" * FILE_LINES)) == []
    assert size_problems(Source(path, "x = 1\n" * (FILE_LINES + 1))) == [
        f"{path}: 401 lines, at most 400"
    ]


@pytest.mark.parametrize(
    ("folder", "limit"), [("model", FUNCTION_LINES), ("kernels", KERNEL_LINES)]
)
def test_a_long_function_is_found(folder: str, limit: int) -> None:
    path = f"src/opportune/{folder}/planted.py"
    head = "class Planted:\n    async def long(self):\n"
    assert size_problems(Source(path, head + "        x = 1\n" * (limit - 1))) == []
    (problem,) = size_problems(Source(path, head + "        x = 1\n" * limit))
    assert problem == f"{path}:2 'long': {limit + 1} lines > {limit}"


def test_a_long_parameter_list_is_found() -> None:
    path = "src/opportune/model/planted.py"
    text = "def wide(self, a, b, /, c, d, *rest, e, f{more}, **options):\n    return a\n"
    assert size_problems(Source(path, text.format(more=""))) == []
    (problem,) = size_problems(Source(path, text.format(more=", g=1")))
    assert problem == f"{path}:1 'wide': 7 parameters > {PARAMETERS}"


@pytest.mark.parametrize(
    "path", ["src/opportune/utils.py", "src/opportune/core/loss.py", "tests/_helpers.py"]
)
def test_a_vague_name_is_found(path: str) -> None:
    assert len(name_problems([path, "src/opportune/errors.py", "docs/score.py"])) == 1
