"""What every function must carry: a docstring, all annotations, and a body that does something."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.structure.sources import Function, Source, functions


def docstring_problems(source: Source) -> list[str]:
    """Modules and public classes, functions and methods without a docstring."""
    problems = []
    if not ast.get_docstring(source.tree):
        problems.append(f"{source.path}: the module has no docstring")
    problems += [
        source.at(node, f"'{node.name}' has no docstring")
        for node in _public(source.tree)
        if not ast.get_docstring(node)
    ]
    return problems


def annotation_problems(source: Source) -> list[str]:
    """Functions with a parameter or a result that has no type."""
    problems = []
    for function in functions(source.tree):
        arguments = function.args
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every = [*named, *(one for one in (arguments.vararg, arguments.kwarg) if one)]
        bare = [
            one.arg for one in every if one.annotation is None and one.arg not in ("self", "cls")
        ]
        if function.returns is None:
            bare.append("return")
        if bare:
            problems.append(source.at(function, f"'{function.name}': no type for {bare}"))
    return problems


def stub_problems(source: Source) -> list[str]:
    """Functions that do nothing yet. Methods of a Protocol and overloads have no body."""
    bodiless = {
        id(function)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef) and _mentions(node.bases, "Protocol")
        for function in functions(node)
    }
    return [
        source.at(function, f"'{function.name}' does nothing")
        for function in functions(source.tree)
        if id(function) not in bodiless
        and not _mentions(function.decorator_list, "overload", "abstractmethod")
        and _does_nothing(function)
    ]


def _public(
    tree: ast.Module | ast.ClassDef,
) -> Iterator[ast.ClassDef | Function]:
    """Public classes and functions, and the public members of public classes."""
    for node in tree.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name.startswith("_") or _is_second_face(node):
            continue
        yield node
        if isinstance(node, ast.ClassDef):
            yield from _public(node)


def _is_second_face(node: ast.ClassDef | Function) -> bool:
    """An overload, or the setter or deleter of a property: described elsewhere."""
    return _mentions(node.decorator_list, "overload", "setter", "deleter")


def _mentions(expressions: list[ast.expr], *names: str) -> bool:
    """Whether an expression is, ends in, or is a subscript of one of the names."""
    return any(
        ast.unparse(one.value if isinstance(one, ast.Subscript) else one).split(".")[-1] in names
        for one in expressions
    )


def _does_nothing(function: Function) -> bool:
    body = [
        node
        for node in function.body
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]
    return all(isinstance(node, ast.Pass) or _not_implemented(node) for node in body)


def _not_implemented(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Raise)
        and node.exc is not None
        and "NotImplementedError" in ast.unparse(node.exc)
    )
