"""Which module may import which, and where."""

from __future__ import annotations

import ast
import graphlib
import sys
from collections.abc import Iterable, Iterator

from tests.structure.sources import Source, functions

LAYERS = (
    ("errors", "markup"),
    ("kernels",),
    ("model",),
    ("pricing", "learning"),
    ("policies",),
    ("simulate",),
    ("experiments", "service", "router", "gym"),
    ("client",),
    ("cli", "litellm_strategy"),
    ("__main__",),
)
"""Imports point to a line above, or stay inside one package; never to a neighbor on a line."""

HEIGHT = {package: height for height, layer in enumerate(LAYERS) for package in layer}

LAZY = {"src/opportune/__init__.py", "src/opportune/cli/__init__.py"}
"""The tables of names and commands, which import what is asked for when it is asked for."""

KERNEL_IMPORTS = {"numpy", "numba"} | sys.stdlib_module_names


def imported(source: Source) -> Iterator[tuple[ast.stmt, str]]:
    """Every import with its full dotted target: module, or module.name for ``from``."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            for alias in node.names:
                yield node, f"{module}.{alias.name}"


def direction_problems(source: Source) -> list[str]:
    """Imports that do not point down the layers."""
    own = _package(source.module)
    problems = []
    if own and own not in HEIGHT:
        problems.append(f"{source.path}: '{own}' stands in no layer (tests/structure/layers.py)")
    for node, target in imported(source):
        if target.startswith("."):
            problems.append(source.at(node, f"relative import '{target}'"))
            continue
        if own == "kernels" and not _kernel_may_import(target):
            problems.append(source.at(node, f"a kernel imports '{target}'"))
            continue
        if target.split(".")[0] != "opportune" or not own:
            continue
        other = _package(target)
        if other in ("", own, "__version__"):
            if not other:
                problems.append(source.at(node, "imports the package 'opportune' as a whole"))
        elif other not in HEIGHT:
            problems.append(source.at(node, f"'{target}' is not imported where it is defined"))
        elif own in HEIGHT and HEIGHT[other] >= HEIGHT[own]:
            problems.append(source.at(node, f"'{own}' imports '{other}', which is not below it"))
    return problems


def hidden_import_problems(source: Source) -> list[str]:
    """Imports inside functions, also those disguised as a call with a fixed name."""
    if source.path in LAZY:
        return []
    problems = {}  # by node: a nested function is walked twice
    for function in functions(source.tree):
        for node in ast.walk(function):
            if isinstance(node, ast.Import | ast.ImportFrom):
                problems[node] = source.at(node, f"import inside '{function.name}'")
            elif isinstance(node, ast.Call) and _imports_fixed_name(node):
                problems[node] = source.at(node, f"import by call inside '{function.name}'")
    return list(problems.values())


def cycle_problems(sources: Iterable[Source]) -> list[str]:
    """One cycle of imports among the modules, if there is any."""
    by_module = {source.module: source for source in sources}
    graph = {
        module: {
            found
            for _, target in imported(source)
            if (found := _known_module(target, by_module)) and found != module
        }
        for module, source in by_module.items()
        if source.path not in LAZY
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return ["import cycle: " + " <- ".join(error.args[1])]
    return []


def _package(module: str) -> str:
    """The part after ``opportune``: ``kernels`` of ``opportune.kernels.jit``."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def _kernel_may_import(target: str) -> bool:
    return target.startswith("opportune.kernels.") or target.split(".")[0] in KERNEL_IMPORTS


def _imports_fixed_name(call: ast.Call) -> bool:
    name = ast.unparse(call.func).split(".")[-1]
    return (
        name in ("import_module", "__import__")
        and bool(call.args)
        and isinstance(call.args[0], ast.Constant)
    )


def _known_module(target: str, known: dict[str, Source]) -> str:
    """The longest leading part of a dotted name that is a module."""
    while target and target not in known:
        target = target.rpartition(".")[0]
    return target
