"""Clocks, dates in one number, names for nobody: logs as switches and spreadsheets write them."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.learning.fit.clock import compact_dates
from opportune.learning.fit.columns import columns_of, read_columns
from opportune.learning.fit.log import Log, LogRules, read_log
from tests.fit_logs import write_log

RAW = {
    "date": "date",
    "time": "vru_entry",
    "start": "ser_start",
    "end": "ser_exit",
    "task_type": "type",
    "server": "server",
    "nobody": ["NO_SERVER"],
    "wait": ["vru_time", "q_time"],
    "leave_out": {"outcome": ["PHANTOM"]},
    "day": 86_400,
}
"""The columns of the Anonymous Bank's own files."""

RAW_HEADER = (
    "date",
    "vru_entry",
    "vru_time",
    "q_time",
    "outcome",
    "ser_start",
    "ser_exit",
    "ser_time",
    "type",
    "server",
)


def told(log: Log) -> str:
    return "\n".join(map(str, log.findings))


def test_the_switchs_own_way_to_write(tmp_path: Path) -> None:
    path = write_log(
        tmp_path / "log.csv",
        "date,vru_entry,vru_time,q_time,outcome,ser_start,ser_exit,type,server",
        "990831,23:59:50,5,10,AGENT,0:00:05,0:01:05,PS,A",
        "990831,9:00:00,5,0,AGENT,9:00:05,9:00:35,PS,A",
        "990901,0:00:00,5,30,HANG,0:00:00,0:00:00,PS,NO_SERVER",
        "990901,23:50:00,5,5,AGENT,23:50:10,0:10:10,NW,B",
        "990901,24:00:00,5,5,PHANTOM,0:00:00,0:00:00,NW,NO_SERVER",
        "990901,24:00:00,0,5,AGENT,24:00:00,24:00:00,NW,B",
    )
    log = read_log(path, columns_of(RAW), LogRules(too_short="one-step"))
    day = 86_400.0
    assert log.arrival.tolist() == [32_400.0, day - 10, day, 2 * day - 600, 2 * day]
    assert log.servers == ("A", "B")
    assert log.start.tolist() == [32_405.0, day + 5, 2 * day - 590, 2 * day]
    assert log.duration.tolist() == [30.0, 60.0, 1200.0, 0.0]
    text = told(log)
    assert "a date written as one number: 5 rows (line 2, 3, 4, ...); read as year" in text
    assert "the server is NO_SERVER: 1 row (line 4); taken for nobody" in text
    assert "the service began after midnight: 1 row (line 2)" in text
    assert "the service ended after midnight: 2 rows (line 2, 5); taken for the next day" in text
    assert "the service did not begin when the wait was over: 1 row (line 7)" in text
    assert "zero duration: 1 row (line 7)" in text


def test_a_service_cannot_end_the_day_before(tmp_path: Path) -> None:
    path = write_log(
        tmp_path / "log.csv", "d,t,server,start,end", "1,10,x,11,9", "1,70,y,71,5", "1,1,x,2,3"
    )
    columns = columns_of({"date": "d", "time": "t", "server": "server", "day": 100} | TIMES)
    with pytest.raises(InputError, match=r"negative duration in 1 row of log\.csv: line 2"):
        read_log(path, columns)


TIMES = {"start": "start", "end": "end"}


def test_a_month_ends_and_the_days_go_on() -> None:
    wanted = [0.0, 1.0, 2.0, 124.0]
    for dates in ([990830, 990831, 990901, 1_000_101 - 999_999], [19990830, 19990831, 19990901]):
        found = compact_dates(np.array(dates[:3], dtype=float))
        assert found is not None
        assert (found - found[0]).tolist() == wanted[:3]
    found = compact_dates(np.array([20000101.0, np.nan, 19990830.0]))
    assert found is not None
    assert found[0] - found[2] == 124.0
    assert np.isnan(found[1])


@pytest.mark.parametrize(
    "value", [[1, 2, 31], [19990832, 19990801], [990801.5], [np.nan], [19990801, 3], [-990801]]
)
def test_other_numbers_are_days_as_they_are(value: list[float]) -> None:
    assert compact_dates(np.array(value, dtype=float)) is None


@pytest.mark.parametrize("cell", ["25:61:00", "8:5", "noon", "8:05:60", "-1:00:00", "24:00:01"])
def test_what_is_no_clock_is_refused(tmp_path: Path, cell: str) -> None:
    path = write_log(tmp_path / "log.csv", "d,t,server,duration", "1,8:00:00,x,9", f"1,{cell},x,9")
    columns = columns_of({"date": "d", "time": "t", "server": "server", "day": 86_400})
    with pytest.raises(InputError, match="line 3"):
        read_log(path, columns)


def test_a_clock_without_a_date_is_refused(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.csv", "time,server,duration", "8:00:00,x,9", "9:00:00,x,9")
    with pytest.raises(InputError, match="no time in 2 rows"):
        read_log(path)


def test_names_for_nobody(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.csv", "time,server,duration", "0,x,4", "9,-,0", "12,none,0")
    log = read_log(path, read_columns("time=time,server=server,duration=duration,nobody=-+none"))
    assert log.servers == ("x",)
    assert log.served.tolist() == [1, 0, 0]
    assert "the server is - or none: 2 rows (line 3, 4)" in told(log)
    with pytest.raises(InputError, match="a list of names"):
        columns_of({"time": "t", "server": "s", "nobody": "none"})


def clock(second: int) -> str:
    """Seconds of a day as the switch wrote them."""
    return f"{second // 3600}:{second // 60 % 60:02d}:{second % 60:02d}"


def test_the_month_in_the_banks_own_format_is_the_same_log(data: Path, tmp_path: Path) -> None:
    source = data / "anonymous_bank" / "calls_aug1999.csv"
    with source.open(encoding="utf-8") as stream:
        raw = list(csv.DictReader(stream))[:6000]
    path, plain = tmp_path / "raw.csv", tmp_path / "plain.csv"
    with plain.open("w", newline="", encoding="utf-8") as stream:
        short = csv.DictWriter(stream, list(raw[0]))
        short.writeheader()
        short.writerows(raw)
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(RAW_HEADER)
        for row in raw:
            served = row["service_start_s"] != ""
            start = int(row["service_start_s"] or 0)
            end = (start + int(row["service_s"])) % 86_400 if served else 0
            agent = row["agent"] if served and row["agent"] else "NO_SERVER"
            if served and agent == "NO_SERVER":
                agent = "UNKNOWN"
            arrival = clock(int(row["arrive_s"]))
            took = row["service_s"] if served else 0
            writer.writerow(
                (
                    f"9908{int(row['day']):02d}",
                    arrival,
                    row["vru_s"],
                    row["queue_s"],
                    row["outcome"],
                    clock(start),
                    clock(end),
                    took,
                    row["type"],
                    agent,
                )
            )
    rules = LogRules(too_short="one-step")
    own = {key: value for key, value in RAW.items() if key != "end"} | {"duration": "ser_time"}
    log = read_log(path, columns_of(own), rules)
    columns = {
        "time": "arrive_s",
        "date": "day",
        "day": 86_400,
        "task_type": "type",
        "server": "agent",
        "start": "service_start_s",
        "duration": "service_s",
        "wait": ["vru_s", "queue_s"],
        "leave_out": {"outcome": ["PHANTOM"]},
    }
    same = read_log(plain, columns_of(columns), rules)
    np.testing.assert_array_equal(log.arrival, same.arrival)
    np.testing.assert_array_equal(log.task, same.task)
    np.testing.assert_array_equal(log.start, same.start)
    np.testing.assert_array_equal(log.duration, same.duration)
    names = [log.servers[r] for r in log.server]
    assert names == ["UNKNOWN" if r < 0 else same.servers[r] for r in same.server]
    ended = read_log(path, columns_of(RAW), rules)
    kept = np.isfinite(ended.duration) & (same.duration < 43_200)
    np.testing.assert_array_equal(ended.duration[kept], same.duration[kept])
    assert kept.mean() > 0.99
