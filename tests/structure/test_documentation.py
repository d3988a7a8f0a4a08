"""Public things have docstrings, functions have types and do something."""

from __future__ import annotations

import pytest

from tests.structure.documentation import (
    annotation_problems,
    docstring_problems,
    stub_problems,
)
from tests.structure.sources import Source, sources

PLANTED = "src/opportune/model/planted.py"


@pytest.mark.parametrize("source", sources("src"), ids=lambda source: source.module)
def test_public_things_have_docstrings(source: Source) -> None:
    assert docstring_problems(source) == []


@pytest.mark.parametrize("source", sources("src"), ids=lambda source: source.module)
def test_functions_are_annotated(source: Source) -> None:
    assert annotation_problems(source) == []


@pytest.mark.parametrize("source", sources("src"), ids=lambda source: source.module)
def test_functions_do_something(source: Source) -> None:
    assert stub_problems(source) == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("x = 1\n", "the module"),
        ('"""Module."""\ndef f(): return 1\n', "'f'"),
        ('"""Module."""\nasync def f(): return 1\n', "'f'"),
        ('"""Module."""\nclass C: x = 1\n', "'C'"),
        ('"""Module."""\nclass C:\n    """A class."""\n    def m(self): return 1\n', "'m'"),
        (
            '"""Module."""\nclass C:\n    """A class."""\n    @property\n'
            "    def p(self): return 1\n    @p.setter\n    def p(self, value): self.q = value\n",
            "'p'",
        ),
    ],
)
def test_a_missing_docstring_is_found(text: str, missing: str) -> None:
    (problem,) = docstring_problems(Source(PLANTED, text))
    assert missing in problem


def test_private_things_need_no_docstring() -> None:
    text = (
        '"""Module."""\ndef _f(): return 1\nclass _C:\n    def m(self): return 1\n'
        'def f():\n    """A function."""\n    def inner(): return 1\n    return inner\n'
    )
    assert docstring_problems(Source(PLANTED, text)) == []


@pytest.mark.parametrize(
    ("signature", "bare"),
    [
        ("f(a) -> int", "['a']"),
        ("f(a: int)", "['return']"),
        ("f(*a) -> int", "['a']"),
        ("f(**a) -> int", "['a']"),
        ("f(a: int, *, b=1) -> int", "['b']"),
        ("f(self, a, cls)", "['a', 'return']"),
    ],
)
def test_a_missing_annotation_is_found(signature: str, bare: str) -> None:
    (problem,) = annotation_problems(Source(PLANTED, f"def {signature}: return 1\n"))
    assert problem == f"{PLANTED}:1 'f': no type for {bare}"


def test_full_annotations_pass() -> None:
    text = "def f(self, a: int, *b: int, c: int = 1, **d: int) -> int: return 1\n"
    assert annotation_problems(Source(PLANTED, text)) == []


@pytest.mark.parametrize(
    "body",
    [
        "pass",
        "...",
        "'''To do.'''",
        "raise NotImplementedError",
        "'''To do.'''\n    raise NotImplementedError('soon')",
    ],
)
def test_a_stub_is_found(body: str) -> None:
    text = f"def planted():\n    {body}\n"
    assert len(stub_problems(Source(PLANTED, text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    return None\n",
        "class P(Protocol):\n    def m(self): ...\n",
        "class P(typing.Protocol[T]):\n    def m(self):\n        '''What it does.'''\n",
        "@overload\ndef f(a: int) -> int: ...\n",
        "class Planted(Exception):\n    '''An error.'''\n",
    ],
)
def test_what_needs_no_body_is_no_stub(text: str) -> None:
    assert stub_problems(Source(PLANTED, text)) == []
