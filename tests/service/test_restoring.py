"""A backup that is served from gives no number twice: clients hold those that came after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opportune.service.replaying import replay
from opportune.service.restoring import SKIPPED, backup_journal
from opportune.service.sqlite import SqliteJournal
from tests.service.serving import declare, service


def _numbers(made: Any) -> tuple[str, str, int]:
    return made["assignment_id"], made["decision_id"], made["lease"]


@pytest.fixture
def copy(tmp_path: Path) -> tuple[Path, list[Any], list[Any]]:
    """A copy, the assignments that are in it, and those that came after it."""
    path, target = tmp_path / "journal.db", tmp_path / "copy.db"
    with service(path) as client:
        declare(client, 6)
        before = [client.assign() for _ in range(2)]
        backup_journal(path, target)
        after = [client.assign() for _ in range(2)]
    return target, before, after


def test_what_came_after_a_backup_is_not_somebody_elses(
    copy: tuple[Path, list[Any], list[Any]],
) -> None:
    """After a restore the same names were given again: completions ended other people's tasks."""
    path, before, after = copy
    with service(path) as client:
        made = [client.assign() for _ in range(2)]
        numbers = {_numbers(one) for one in (*before, *after)}
        assert not numbers & {_numbers(one) for one in made}
        assert made[0]["assignment_id"] == f"p.a{3 + SKIPPED}"
        assert made[0]["lease"] > max(one["lease"] for one in after)
        for lost in after:
            name = lost["assignment_id"]
            client.bad(404, "not-found", "GET", f"/v1/assignments/{name}")
            assert client.complete(lost).status_code == 404
        for kept in (*before, *made):
            assert client.complete(kept, lease=kept["lease"]).status_code == 200
        assert client.pool()["slots_open"] == 0
        assert len(client.free()) == 6


def test_a_copy_is_one_file_and_decides_the_same_again(
    copy: tuple[Path, list[Any], list[Any]],
) -> None:
    path, _, _ = copy
    assert sorted(one.name for one in path.parent.glob("copy*")) == ["copy.db"]
    with service(path) as client:
        client.complete(client.assign())
    again = path.with_name("again.db")
    backup_journal(path, again)
    journal = SqliteJournal(again)
    found = replay(journal, "p")
    journal.close()
    assert (found.decisions, found.different, found.problems) == (3, 0, [])


def test_an_empty_journal_may_be_copied(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    SqliteJournal(path).close()
    backup_journal(path, tmp_path / "copy.db")
    with service(tmp_path / "copy.db") as client:
        assert client.good("GET", "/v1/pools") == {"pools": []}
