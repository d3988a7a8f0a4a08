"""Reading a log: what is refused, what is mended by a stated rule, and that all of it is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.learning.fit.columns import Columns, columns_of, read_columns
from opportune.learning.fit.log import Log, LogRules, read_log
from tests.fit_logs import write_log

HEADER = "time,task_type,server,duration,outcome"


def problems(path: Path, **rules: str) -> dict[str, str]:
    """What is wrong with a log, by field."""
    with pytest.raises(InputError) as caught:
        read_log(path, None, LogRules(**rules))  # type: ignore[arg-type]
    return {one.field: one.value for one in caught.value.problems}


def told(log: Log) -> str:
    """All findings."""
    return "\n".join(map(str, log.findings))


def test_a_plain_log(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.csv", HEADER, "5,b,x,2,1", "3,a,y,4,0", "9,a,,,")
    log = read_log(path)
    assert log.arrival.tolist() == [0.0, 2.0, 6.0]  # from the first arrival, sorted
    assert log.task_types == ("a", "b")
    assert log.servers == ("x", "y")
    assert log.task_type is not None
    assert log.task_type.tolist() == [0, 1, 0]
    assert log.task.tolist() == [0, 1]
    assert log.server.tolist() == [1, 0]
    assert log.duration.tolist() == [4.0, 2.0]
    assert log.outcome.tolist() == [0.0, 1.0]
    assert log.complete.all()
    assert log.n_tasks == 3
    assert log.served.tolist() == [1, 1, 0]
    assert "a task that nobody served: 1 row (line 4)" in told(log)
    assert "an earlier time than in the row before: 1 row (line 3); sorted" in told(log)


def test_all_bad_rows_are_told_together(tmp_path: Path) -> None:
    path = write_log(
        tmp_path / "log.csv",
        f"{HEADER},propensity",
        "1,a,x,2,1,0.5",
        "soon,a,x,2,1,0.5",
        "2,,x,2,1,0.5",
        '3,a,"x ",2,1,0.5',
        "4,a,x,0,1,0.5",
        "5,a,x,-3,1,0.5",
        "6,a,x,2,good,0.5",
        "7,a,x,2,1,0",
        "8,a,x,inf,1,1.5",
        "9,a,x,2,1,nan",
    )
    found = problems(path)
    assert found.keys() == {
        "log.time",
        "log.task_type",
        "log.server",
        "log.duration",
        "log.outcome",
        "log.propensity",
    }
    assert found["log.time"] == ("no time in 1 row of log.csv: line 3 holds 'soon'")
    assert found["log.propensity"] == (
        "no such probability in 2 rows of log.csv: line 9, 10; the first holds 0.0"
    )
    kept = read_log(path, None, LogRules(bad_rows="drop", too_short="one-step"))
    assert kept.n_tasks == 3  # lines 2, 6 and 7
    assert told(kept).count("left out") >= 5


def test_too_short_durations_by_rule(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.csv", HEADER, "1,a,x,0,1", "2,a,x,-3,1", "3,a,x,5,1")
    assert "zero duration in 1 row" in str(problems(path))
    one = read_log(path, None, LogRules(too_short="one-step"))
    assert len(one.task) == 3
    assert "zero duration: 1 row (line 2); counted as one step" in told(one)
    assert "negative duration: 1 row (line 3); counted as one step" in told(one)
    dropped = read_log(path, None, LogRules(too_short="drop"))
    assert dropped.n_tasks == 1
    assert "left out" in told(dropped)


def test_a_missing_outcome_is_never_a_success(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.csv", HEADER, "1,a,x,2,1", "2,a,x,2,", "3,a,x,,")
    assert np.isnan(read_log(path).outcome).tolist() == [False, True, True]
    zero = read_log(path, None, LogRules(missing_outcome="zero")).outcome
    assert zero[:2].tolist() == [1.0, 0.0]
    assert np.isnan(zero[2])


def test_a_missing_column_is_named_with_those_found(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.csv", "time,agent,duration", "1,x,2")
    assert "no column; log.csv has 'time', 'agent', 'duration'" in problems(path)["log.server"]
    with pytest.raises(InputError, match="no column 'servr'"):
        read_log(path, Columns({"time": "time", "server": "servr"}))


@pytest.mark.parametrize("name", ["log.txt", "gone.csv"])
def test_a_file_that_is_no_log(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"ending in \.csv|exists"):
        read_log(tmp_path / name)


def test_no_row_is_left(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.csv", HEADER, "1,a,x,0,1")
    with pytest.raises(InputError, match="no row is left"):
        read_log(path, None, LogRules(too_short="drop"))
    with pytest.raises(InputError, match="all rows are left out"):
        read_log(path, columns_of({"leave_out": {"server": ["x"]}}))


# ------------------------------------------------------------------------------ k per task


def test_rows_of_one_task_are_one_arrival(tmp_path: Path) -> None:
    path = write_log(
        tmp_path / "log.csv",
        "task,time,task_type,server,duration",
        "p1,1,a,x,2",
        "p1,1,a,y,5",
        "p2,3,a,x,1",
        "p1,1,a,z,2",
    )
    log = read_log(path)
    assert log.n_tasks == 2
    assert log.served.tolist() == [3, 1]
    assert log.server[log.task == 0].tolist() == [0, 1, 2]


def test_rows_of_one_task_that_contradict_each_other(tmp_path: Path) -> None:
    path = write_log(
        tmp_path / "log.csv",
        "task,time,task_type,server,duration",
        "p1,1,a,x,2",
        "p1,2,a,y,5",
        "p1,1,b,z,2",
        "p1,1,a,x,2",
        ",1,a,x,2",
    )
    with pytest.raises(InputError) as caught:
        read_log(path)
    values = [one.value for one in caught.value.problems]
    assert any("another time or type of one task in 2 rows" in one for one in values)
    assert any("the same task and server again in 1 row" in one for one in values)
    assert any("no task in 1 row" in one for one in values)


# ------------------------------------------------------------------------- times and clocks


def test_dates_are_seconds_from_midnight_and_make_days(tmp_path: Path) -> None:
    path = write_log(
        tmp_path / "log.csv",
        "time,server,start,end",
        "2026-03-01T09:00:00+01:00,x,2026-03-01 08:00:10Z,2026-03-01T08:01:10Z",
        "2026-03-02T00:00:01+00:00,y,2026-03-02T00:00:02Z,2026-03-02T00:00:04Z",
    )
    log = read_log(path)
    assert log.day == 86400.0
    assert log.arrival.tolist() == [28_800.0, 86_401.0]
    assert log.duration.tolist() == [60.0, 2.0]


def test_dates_and_numbers_do_not_mix(tmp_path: Path) -> None:
    path = write_log(
        tmp_path / "log.csv",
        "time,server,duration",
        "2026-03-01,x,1",
        "2026-03-02,x,1",
        "17,x,1",
    )
    assert problems(path)["log.time"] == ("no time in 1 row of log.csv: line 4 holds '17'")


def test_a_clock_of_the_day(tmp_path: Path) -> None:
    path = write_log(
        tmp_path / "log.csv",
        "day,clock,begun,took,who",
        "1,99,1,5,x",
        "2,10,12,5,y",
        "2,50,10,5,z",
        "3,98,99,5,x",
    )
    columns = columns_of(
        {
            "date": "day",
            "time": "clock",
            "start": "begun",
            "duration": "took",
            "server": "who",
            "day": 100,
        }
    )
    log = read_log(path, columns)
    assert log.arrival.tolist() == [99.0, 110.0, 150.0, 298.0]  # from the first midnight
    assert log.start.tolist()[:2] == [101.0, 112.0]
    assert np.isnan(log.start[2])
    assert log.duration[2] == 5.0
    text = told(log)
    assert "the service began after midnight: 1 row (line 2); taken for the next day" in text
    assert "the service began before the task arrived: 1 row (line 4)" in text
    assert "a service that ran past midnight: 1 row (line 5)" in text


WAITED = {
    "date": "day",
    "time": "clock",
    "start": "begun",
    "duration": "took",
    "server": "who",
    "day": 100,
}


def test_a_clock_that_nobody_set_is_no_midnight(tmp_path: Path) -> None:
    path = write_log(
        tmp_path / "log.csv",
        "day,clock,begun,took,who,menu,line",
        "1,90,0,1,x,1,0",  # 0 before the arrival, and the wait leads elsewhere: not set
        "1,98,0,1,y,1,1",  # the wait leads to midnight
        "2,0,0,5,x,0,0",  # a task of the first moment of a day
        "2,50,60,5,x,2,3",  # arrival and wait say 55
        "2,60,,,,1,1",
        "2,70,73,5,y,-1,2",
    )
    log = read_log(path, columns_of(WAITED | {"wait": ["menu", "line"]}))
    assert log.start.tolist() == [91.0, 100.0, 100.0, 160.0, 173.0]
    text = told(log)
    assert "the service began at 0 o'clock, before the task arrived: 1 row (line 2); taken" in text
    assert "arrival and wait say when it began" in text
    assert "the service began after midnight: 1 row (line 3)" in text
    assert "the service did not begin when the wait was over: 1 row (line 5)" in text
    assert "a negative wait in the column 'menu': 1 row (line 7); not used" in text
    without = read_log(path, columns_of(WAITED))
    assert np.isnan(without.start[:2]).all()
    assert "at 0 o'clock, before the task arrived: 2 rows (line 2, 3)" in told(without)


def test_a_wait_stands_for_a_start_that_the_log_does_not_have(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.csv", "time,server,duration,queued", "0,x,4,2.5", "9,y,1,")
    log = read_log(path, read_columns("time=time,server=server,duration=duration,wait=queued"))
    assert log.start.tolist() == [2.5, 9.0]
    with pytest.raises(InputError, match="a list of columns"):
        columns_of({"time": "t", "server": "s", "wait": 3})
    with pytest.raises(InputError, match="gone"):
        read_log(path, read_columns("time=time,server=server,wait=gone"))


def test_what_happened_twice_or_at_once_is_told(tmp_path: Path) -> None:
    path = write_log(
        tmp_path / "log.csv",
        "time,task_type,server,duration",
        "0,a,x,4",
        "0,a,x,4",
        "0,a,y,4",
        "7,a,,3",
        "7,a,,3",
    )
    log = read_log(path)
    text = told(log)
    assert "a task that arrived at the same time as another: 3 rows (line 3, 4, 6)" in text
    assert "the same service again: equal time, type, server, start and duration: 1 row" in text
    assert "a duration of a task that nobody served: 2 rows (line 5, 6); not used" in text
    assert log.n_tasks == 5


def test_a_long_service_overlaps_all_that_begin_in_it(tmp_path: Path) -> None:
    path = write_log(
        tmp_path / "log.csv", "time,server,duration", "0,x,50", "5,x,1", "20,x,1", "60,x,1", "3,y,9"
    )
    text = told(read_log(path))
    assert "before the server had ended an earlier one: 2 rows (line 3, 4)" in text


def test_a_clock_outside_its_day_is_refused(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.csv", "d,t,server,duration", "1,101,x,1", "1,-1,x,1")
    columns = columns_of({"date": "d", "time": "t", "server": "server", "day": 100})
    with pytest.raises(InputError, match="outside the day in 2 rows"):
        read_log(path, columns)


# ------------------------------------------------------------------------------- oddities


def test_services_without_an_end_are_censored_at_the_end_of_the_log(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.csv", "time,server,end", "0,x,4", "3,y,", "5,x,9")
    log = read_log(path)
    assert log.duration.tolist() == [4.0, 6.0, 4.0]
    assert log.complete.tolist() == [True, False, True]
    assert "the service had not ended: 1 row (line 3); censored" in told(log)


def test_a_flag_says_what_is_complete(tmp_path: Path) -> None:
    path = write_log(
        tmp_path / "log.csv", "time,server,duration,complete", "0,x,4,true", "3,y,2,false"
    )
    log = read_log(path)
    assert log.complete.tolist() == [True, False]
    assert log.duration.tolist() == [4.0, 2.0]


def test_overlaps_near_names_and_unused_negatives_are_told(tmp_path: Path) -> None:
    path = write_log(
        tmp_path / "log.csv",
        "time,server,duration,wait",
        "0,x,5,1",
        "3,x,1,-2",
        "9,X,1,0",
        "20,y,1,0",
        "21,y,1,-1",
    )
    text = told(read_log(path))
    assert "a service that began before the server had ended an earlier one: 1 row (line 3)" in text
    assert "names of servers that differ only by case or blanks ('X', 'x'): 3 rows" in text
    assert "a negative number in the column 'wait': 2 rows (line 3, 6)" in text


def test_a_service_without_a_server_and_a_server_without_a_service(tmp_path: Path) -> None:
    path = write_log(
        tmp_path / "log.csv", "time,server,start,duration", "0,,1,5", "3,x,,0", "4,x,5,2"
    )
    log = read_log(path)
    assert log.server.tolist() == [-1, 0]
    assert log.duration.tolist() == [5.0, 2.0]
    text = told(log)
    assert "a service without the name of its server: 1 row (line 2)" in text
    assert "a server is named but no service began: 1 row (line 3); counted as not served" in text


def test_parquet_and_csv_give_the_same_log(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = {"time": [1.0, 2.0], "server": [7, 8], "duration": [3.0, None], "outcome": [True, None]}
    parquet.write_table(pyarrow.table(rows), tmp_path / "log.parquet")
    first = read_log(tmp_path / "log.parquet")
    path = write_log(tmp_path / "log.csv", "time,server,duration,outcome", "1,7,3,1", "2,8,,")
    second = read_log(path)
    for name in ("arrival", "server", "duration", "complete", "outcome"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert first.servers == second.servers == ("7", "8")


# ------------------------------------------------------------------------- map of columns


def test_a_map_of_columns_from_a_file_and_from_pairs(tmp_path: Path) -> None:
    path = tmp_path / "columns.toml"
    path.write_text('time = "t"\nserver = "who"\ncontext = ["a", "b"]\nday = 24\n')
    from_file = read_columns(path)
    assert from_file == read_columns("time=t,server=who,context=a+b,day=24")
    assert from_file.context == ("a", "b")
    assert from_file.day == 24.0
    assert read_columns(None).named(("time", "x", "server")) == {"time": "time", "server": "server"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"agent": "x"}, "Did you mean 'server'"),
        ({"time": 3}, "the name of a column"),
        ({"context": "a"}, "a list of columns"),
        ({"leave_out": ["x"]}, "column ="),
        ({"day": 0}, "how many units"),
        ({"day": float("nan")}, "how many units"),
        ({"date": "d"}, "the units in a day"),
    ],
)
def test_a_wrong_map_of_columns(data: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        columns_of(data)


def test_pairs_that_are_none() -> None:
    with pytest.raises(InputError, match="role=column pairs"):
        read_columns("time")
