"""Errors: their text, and that one raised in a worker process arrives whole."""

from __future__ import annotations

import pickle

import pytest

from opportune.errors import (
    InputError,
    MissingExtraError,
    OpportuneError,
    OverloadError,
    Problem,
    SolverError,
    shorten,
)

PROBLEM = Problem("k", "5", "at most 3", "add servers")


@pytest.mark.parametrize(
    "error",
    [
        InputError(PROBLEM),
        InputError([PROBLEM, Problem("x", "y", "")]),
        OverloadError(PROBLEM, 0.9),
        SolverError("Unknown", "OCC-LP"),
        MissingExtraError("pyarrow", "parquet", "reading x"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_survives_the_way_between_processes(error: OpportuneError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert again.problems == error.problems
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_a_problem_is_one_sentence_and_a_remedy() -> None:
    assert str(PROBLEM) == "k: 5; expected at most 3. Add servers"
    assert str(Problem("k", "5", "")) == "k: 5"


def test_values_are_shortened_to_one_line() -> None:
    assert shorten("a\nb") == r"'a\nb'"
    assert shorten([1, 2]) == "[1, 2]"
    assert shorten("x" * 100) == "'" + "x" * 56 + "..."
    assert shorten(10**5000) == "a very long int"
