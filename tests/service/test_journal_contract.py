"""What every journal promises: order, fencing, all or nothing, snapshots, many threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opportune.service.journal import (
    Append,
    Journal,
    JournalError,
    Record,
    SequenceError,
    Snapshot,
    StaleTokenError,
)
from tests.service.journals import JOURNALS, ON_DISK, WAIT, write, written


@pytest.fixture(params=JOURNALS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def journal(kind: str, tmp_path: Path) -> Iterator[Journal]:
    opened = JOURNALS[kind](tmp_path, None)
    yield opened
    opened.close()


def test_records_come_back_in_order_with_their_numbers(journal: Journal) -> None:
    token = journal.acquire("a")
    written(journal, "a", token, b"one", b"two")
    written(journal, "a", token, b"")
    assert list(journal.read("a")) == [Record(1, b"one"), Record(2, b"two"), Record(3, b"")]
    assert journal.last("a") == 3


@pytest.mark.parametrize(
    ("after", "limit", "numbers"),
    [
        (0, 2, [1, 2]),
        (0, 3, [1, 2, 3]),
        (1, None, [2, 3, 4]),
        (2, 1, [3]),
        (4, None, []),
        (9, 5, []),
        (0, 0, []),
        (0, 1, [1]),
    ],
)
def test_reading_starts_behind_a_number_and_ends_at_a_limit(
    journal: Journal, after: int, limit: int | None, numbers: list[int]
) -> None:
    token = journal.acquire("a")
    written(journal, "a", token, b"1")
    written(journal, "a", token, b"2", b"3")
    written(journal, "a", token, b"4")
    assert [record.sequence for record in journal.read("a", after, limit)] == numbers


def test_an_unknown_pool_is_empty(journal: Journal) -> None:
    assert journal.pools() == ()
    assert journal.last("a") == 0
    assert list(journal.read("a")) == []
    assert journal.snapshot("a") is None


def test_pools_do_not_see_each_other(journal: Journal) -> None:
    a, b = journal.acquire("a"), journal.acquire("b")
    futures = [write(journal, "b", b, b"b1"), write(journal, "a", a, b"a1")]
    for future in futures:
        future.result(WAIT)
    assert journal.pools() == ("a", "b")
    assert list(journal.read("a")) == [Record(1, b"a1")]
    assert list(journal.read("b")) == [Record(1, b"b1")]


def test_tokens_grow_and_the_old_owner_cannot_append(journal: Journal) -> None:
    old = journal.acquire("a")
    written(journal, "a", old, b"1")
    new = journal.acquire("a")
    assert (old, new) == (1, 2)
    with pytest.raises(StaleTokenError, match="present owner, 2"):
        write(journal, "a", old, b"late").result(WAIT)
    with pytest.raises(StaleTokenError):
        journal.save_snapshot("a", old, Snapshot(1, b"s")).result(WAIT)
    written(journal, "a", new, b"2")
    assert [record.data for record in journal.read("a")] == [b"1", b"2"]


def test_nobody_appends_to_a_pool_that_nobody_acquired(journal: Journal) -> None:
    for token in (0, 1):
        with pytest.raises(StaleTokenError):
            write(journal, "a", token, b"1").result(WAIT)
    assert journal.pools() == ()


@pytest.mark.parametrize("first", [1, 2, 4])
def test_an_append_that_does_not_follow_is_refused_whole(journal: Journal, first: int) -> None:
    token = journal.acquire("a")
    written(journal, "a", token, b"1", b"2")
    with pytest.raises(SequenceError, match="the number behind the last"):
        journal.append(Append("a", token, first, [b"x", b"y"])).result(WAIT)
    assert [record.data for record in journal.read("a")] == [b"1", b"2"]


def test_an_append_of_nothing_is_refused(journal: Journal) -> None:
    token = journal.acquire("a")
    with pytest.raises(SequenceError):
        journal.append(Append("a", token, 1, [])).result(WAIT)


def test_a_refused_append_does_not_take_others_along(journal: Journal) -> None:
    """Queued together, judged one by one: the second follows the first though both wait."""
    token, stale = journal.acquire("a"), journal.acquire("b")
    journal.acquire("b")
    futures = [
        journal.append(Append("a", token, 1, [b"1"])),
        journal.append(Append("b", stale, 1, [b"x"])),
        journal.append(Append("a", token, 3, [b"x"])),
        journal.append(Append("a", token, 2, [b"2"])),
    ]
    errors = [type(future.exception(WAIT)) for future in futures]
    assert errors == [type(None), StaleTokenError, SequenceError, type(None)]
    assert [record.data for record in journal.read("a")] == [b"1", b"2"]
    assert list(journal.read("b")) == []


def test_the_latest_snapshot_is_found(journal: Journal) -> None:
    token = journal.acquire("a")
    written(journal, "a", token, b"1", b"2", b"3")
    for sequence in (0, 1, 3):
        journal.save_snapshot("a", token, Snapshot(sequence, b"s%d" % sequence)).result(WAIT)
    assert journal.snapshot("a") == Snapshot(3, b"s3")
    assert journal.check() == ()


def test_a_snapshot_may_be_queued_behind_its_records_but_not_ahead_of_them(
    journal: Journal,
) -> None:
    token = journal.acquire("a")
    write(journal, "a", token, b"1")
    journal.save_snapshot("a", token, Snapshot(1, b"s")).result(WAIT)
    with pytest.raises(JournalError, match="a record written, up to 1"):
        journal.save_snapshot("a", token, Snapshot(2, b"t")).result(WAIT)
    assert journal.snapshot("a") == Snapshot(1, b"s")


def test_nothing_is_written_after_closing(kind: str, tmp_path: Path) -> None:
    journal = JOURNALS[kind](tmp_path, None)
    token = journal.acquire("a")
    queued = write(journal, "a", token, b"1")
    journal.close()
    assert queued.exception(WAIT) is None
    with pytest.raises(JournalError, match="closed"):
        journal.append(Append("a", token, 2, [b"2"])).result(WAIT)
    with pytest.raises(JournalError, match="closed"):
        journal.save_snapshot("a", token, Snapshot(1, b"s")).result(WAIT)
    journal.close()


def test_every_write_is_told_to_who_watches(kind: str, tmp_path: Path) -> None:
    told: list[tuple[int, float]] = []
    journal = JOURNALS[kind](tmp_path, lambda count, seconds: told.append((count, seconds)))
    token = journal.acquire("a")
    written(journal, "a", token, b"1", b"2")
    written(journal, "a", token, b"3")
    assert [count for count, _ in told] == [2, 1]
    assert all(seconds >= 0 for _, seconds in told)
    journal.close()


def test_many_threads_one_stream_each(journal: Journal) -> None:
    """Appends of eight pools from eight threads: every stream is whole and in order."""
    errors: list[BaseException] = []

    def fill(pool: str) -> None:
        try:
            token = journal.acquire(pool)
            futures: list[Future[None]] = [
                journal.append(Append(pool, token, i + 1, [b"%d" % i])) for i in range(50)
            ]
            for future in futures:
                future.result(WAIT)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=fill, args=(f"pool-{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    for pool in journal.pools():
        assert [record.data for record in journal.read(pool)] == [b"%d" % i for i in range(50)]


@given(st.lists(st.lists(st.binary(max_size=8), min_size=1, max_size=4), max_size=8))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_appended_is_read(
    kind: str, tmp_path_factory: pytest.TempPathFactory, appends: list[list[bytes]]
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    journal = JOURNALS[kind](folder, None)
    token = journal.acquire("a")
    for records in appends:
        written(journal, "a", token, *records)
    if kind in ON_DISK:
        journal.close()
        journal = JOURNALS[kind](folder, None)
    expected = [record for records in appends for record in records]
    assert [record.data for record in journal.read("a")] == expected
    assert journal.check() == ()
    journal.close()


@pytest.mark.parametrize("stored", ON_DISK)
def test_all_is_there_after_reopening(stored: str, tmp_path: Path) -> None:
    journal = JOURNALS[stored](tmp_path, None)
    token = journal.acquire("a")
    written(journal, "a", token, b"1", b"2")
    journal.save_snapshot("a", token, Snapshot(1, b"s")).result(WAIT)
    journal.close()
    again = JOURNALS[stored](tmp_path, None)
    assert again.pools() == ("a",)
    assert again.last("a") == 2
    assert [record.data for record in again.read("a")] == [b"1", b"2"]
    assert again.snapshot("a") == Snapshot(1, b"s")
    with pytest.raises(StaleTokenError):  # who owned it before must acquire it again
        write(again, "a", 0, b"3").result(WAIT)
    assert again.acquire("a") == token + 1
    again.close()
