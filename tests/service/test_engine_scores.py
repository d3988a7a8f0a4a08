"""Scores, eligibility, pins and conflicts: who may serve whom."""

from __future__ import annotations

import msgspec
import pytest

from opportune.service.commands import (
    CreateTask,
    PutPool,
    PutScores,
    PutServer,
)
from opportune.service.reading import server_body
from opportune.service.resources import PoolSettings, ScoreRow, ServerSettings
from tests.service.pools import Pool, names, pool_of
from tests.service.priced import two_types

# ------------------------------------------------------------------------------- scores


def test_scores_are_taken_all_or_none() -> None:
    pool = two_types()
    bad = [
        [ScoreRow("a", "s9", 1.0), ScoreRow("z", "s0", 1.0)],
        [ScoreRow("a", "s0", 1.0), ScoreRow("a", "s0", 2.0)],
        [ScoreRow("a", "s0", float("nan"))],
        [ScoreRow("a", "s0", float("inf"))],
        [ScoreRow("a", "s0", -1.0)],
    ]
    for rows in bad:
        answer = pool.do(PutScores(rows=rows))
        assert answer.problem is not None
        assert answer.events == []
    assert "'s9'" in pool.do(PutScores(rows=[ScoreRow("a", "s9", 1.0)])).problem.detail
    body = pool.ok(PutScores(rows=[ScoreRow("a", "s0", 7.0)]))
    assert (body.version, body.pairs) == (2, 6)
    body = pool.ok(PutScores(rows=[ScoreRow("a", "s0", 7.0)], replace=True))
    assert (body.version, body.pairs) == (3, 1)


def test_a_missing_score_forbids_the_pair_or_is_nothing() -> None:
    for missing, code in (("forbid", "invalid"), ("zero", "")):
        pool = pool_of({"a": [1.0, None]}, missing_score=missing)
        answer = pool.do(CreateTask(task_type="a", k=2))
        assert (answer.problem.code if answer.problem else "") == code


def test_attributes_and_lists_say_who_is_eligible() -> None:
    pool = pool_of(
        {"a": [None] * 3}, {"a": {"requires": {"language": ["de", "fr"]}, "eligible": ["s0", "s1"]}}
    )
    for name, language in (("s0", "de"), ("s1", "en"), ("s2", "de")):
        own = ServerSettings(id=name, attributes={"language": language})
        pool.ok(PutServer(settings=own))
    assert names(pool.task("a")) == ["s0"]
    pool.ok(PutServer(settings=ServerSettings(id="s1", attributes={"language": "fr"})))
    assert names(pool.task("a")) == ["s1"]
    assert server_body(pool.state, "s2").state == "free"


def test_pins_that_make_no_sense_are_refused() -> None:
    pool = pool_of({"a": [3.0, 2.0, None]}, k=2)
    for options in (
        {"pins": ["s9"]},
        {"conflicts": ["s9"]},
        {"pins": ["s2"]},
        {"pins": ["s0", "s0"]},
        {"pins": ["s0"], "conflicts": ["s0"]},
        {"pins": ["s0", "s1"], "k": 1},
        {"conflicts": ["s0"]},
    ):
        assert pool.refused(CreateTask(task_type="a", **options)) == "invalid"
    assert pool.refused(CreateTask(task_type="z")) == "not-found"


def test_pool_settings_take_zero_for_zero() -> None:
    """BerriAI/litellm#12108: a cool-down of 0 seconds was replaced by the default."""
    settings = msgspec.json.decode(
        b'{"wrap_up":0,"age_weight":0,"reserve_after":0}', type=PoolSettings
    )
    pool = Pool()
    pool.ok(PutPool(settings=settings))
    assert pool.state.settings.reserve_after == 0
    assert pool.state.settings is settings
    for text in (b'{"lease":0}', b'{"k":0}', b'{"quarantine_after":0}', b'{"unknown":1}'):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(text, type=PoolSettings)
