"""How large a file and a function may be, and what a file may be called."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from tests.structure.sources import Function, Source, functions

FILE_LINES = 400
FUNCTION_LINES = 60
KERNEL_LINES = 120
PARAMETERS = 6

VAGUE = {"util", "utils", "helper", "helpers", "common", "core", "manager", "managers", "misc"}
"""Names that say nothing: a file is a concept of the field."""


def size_problems(source: Source) -> list[str]:
    """A file, its functions and their parameter lists that are too long."""
    problems = []
    lines = len(source.text.splitlines())
    if lines > FILE_LINES:
        problems.append(f"{source.path}: {lines} lines, at most {FILE_LINES}")
    limit = KERNEL_LINES if "/kernels/" in source.path else FUNCTION_LINES
    for function in functions(source.tree):
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        if length > limit:
            problems.append(source.at(function, f"'{function.name}': {length} lines > {limit}"))
        count = len(parameters(function))
        if count > PARAMETERS:
            problems.append(
                source.at(function, f"'{function.name}': {count} parameters > {PARAMETERS}")
            )
    return problems


def parameters(function: Function) -> list[str]:
    """Names of the parameters, without self, cls, *args and **kwargs."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [one.arg for one in named if one.arg not in ("self", "cls")]


def name_problems(paths: Iterable[str]) -> list[str]:
    """Files and folders with a name that says nothing."""
    return [
        f"{path}: '{part}' says nothing; name the concept"
        for path in paths
        for part in PurePosixPath(path).with_suffix("").parts
        if part.lower().strip("_") in VAGUE
    ]
