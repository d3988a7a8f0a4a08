"""A wrong body is told by field, value and what would be right."""

from __future__ import annotations

import msgspec
import pytest

from opportune.errors import Problem
from opportune.service.api.calls import decoded
from opportune.service.commands import CreateTask, PutServer, RankRequest
from opportune.service.problems import RefusalError


def told(body: bytes, kind: type) -> Problem:
    with pytest.raises(RefusalError) as refused:
        decoded(body, msgspec.json.Decoder(kind))
    (item,) = msgspec.json.decode(refused.value.reply.body)["problems"]
    return Problem(item["field"], item["value"], item["expected"], item.get("remedy", ""))


@pytest.mark.parametrize(
    ("body", "kind", "field", "value", "remedy"),
    [
        (b'{"type":"billing"}', CreateTask, "type", "'billing'", "write task_type"),
        (b'{"task_type":"a","id":7}', CreateTask, "id", "7", "write external_id"),
        (b'{"task_type":"a","prioriti":1}', CreateTask, "prioriti", "1", "write priority"),
        (b'{"task_type":"a","colour":"red"}', CreateTask, "colour", "'red'", "leave it out"),
        (b'{"settings":{"id":"s","cap":2}}', PutServer, "settings.cap", "2", "leave it out"),
        (
            b'{"settings":{"id":"s","capacities":2}}',
            PutServer,
            "settings.capacities",
            "2",
            "write capacity",
        ),
    ],
)
def test_an_unknown_field_is_named_with_the_one_that_was_meant(
    body: bytes, kind: type, field: str, value: str, remedy: str
) -> None:
    problem = told(body, kind)
    assert (problem.field, problem.value, problem.remedy) == (field, value, remedy)
    assert problem.expected.startswith("one of the fields ")


@pytest.mark.parametrize(
    ("body", "kind", "field", "value"),
    [
        (b'{"task_type":"a","k":"two"}', CreateTask, "k", "'two'"),
        (b'{"settings":{"id":"s","capacity":0}}', PutServer, "settings.capacity", "0"),
        (
            b'{"task_type":"a","candidates":["x"],"scores":[1,"y"]}',
            RankRequest,
            "scores[1]",
            "'y'",
        ),
        (b"[" * 100_000, CreateTask, "body", ""),
    ],
)
def test_a_wrong_value_is_shown(body: bytes, kind: type, field: str, value: str) -> None:
    problem = told(body, kind)
    assert (problem.field, problem.value) == (field, value)
    assert problem.expected
