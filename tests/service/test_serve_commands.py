"""The commands of the live service, as a user runs them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from opportune.cli import run
from opportune.service.stress_target import MARK
from tests.service.serving import declare, service

INSTANCE = """
name = "Night Desk"
match_reward = [[0.9, 0.5, 0.0], [0.2, 0.8, 0.4]]
allowed = [[true, true, false], [true, true, true]]
task_types = ["calls", "mails"]
servers = ["ann", "bob", "cleo"]
servers_per_task = [1, 2]
arrival_rate = [0.05, 0.02]
duration = { kind = "geometric", mean = 6 }
"""


@contextmanager
def served(*words: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`opportune serve` on a free port; the process and its address."""
    command = [sys.executable, "-m", "opportune", "serve", "--port", "0", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=folder)
    try:
        for line in process.stderr or ():
            if line.startswith(MARK):
                break
        else:
            raise AssertionError("it does not serve")
        yield process, line.removeprefix(MARK).split()[0]
    finally:
        process.kill()
        process.communicate()


def ask(address: str, path: str, body: Any = None) -> Any:
    """A request; the body of the answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        address + path, data, {"content-type": "application/json"} if data else {}
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.loads(response.read())


def test_an_instance_is_served_and_all_is_there_the_next_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "desk.toml").write_text(INSTANCE, encoding="utf-8")
    with served("desk.toml", "--step", "10", folder=tmp_path) as (process, address):
        pool = ask(address, "/v1/pools/night-desk")
        assert (pool["servers"], pool["plan"], pool["degraded"]) == (3, "plan-1", "")
        types = ask(address, "/v1/pools/night-desk/task-types")
        calls, mails = (one["settings"] for one in types)
        assert (calls["rate"], calls["mean_duration"], calls["k"]) == (0.005, 60.0, 1)
        assert [one["n_permitted"] for one in types] == [2, 3]
        assert mails["k"] == 2
        made = ask(address, "/v1/pools/night-desk/assignments", {"task_type": "calls"})
        assert made["plan"] == "plan-1"
        copy = tmp_path / "copy.db"
        assert run(["backup", str(copy), "--database", str(tmp_path / "opportune.db")]) == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    with served("desk.toml", folder=tmp_path) as (process, address):
        assert ask(address, f"/v1/assignments/{made['assignment_id']}") == made
        assert ask(address, "/v1/pools/night-desk/task-types") == types
    capsys.readouterr()
    for database in ("copy.db", "opportune.db"):
        words = ["verify", "--database", str(tmp_path / database), "--format", "json"]
        assert run(words) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["ok"], told["problems"]) == (True, [])
        (found,) = told["pools"]
        assert (found["pool"], found["decisions"], found["different"]) == ("night-desk", 1, 0)


def test_a_second_service_on_the_same_database_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(folder=tmp_path):
        database = str(tmp_path / "opportune.db")
        assert run(["serve", "--port", "0", "--database", database]) == 1
        assert "no other process has open" in capsys.readouterr().err
        assert run(["verify", "--database", database]) == 1


def test_a_port_that_is_taken_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(folder=tmp_path) as (_, address):
        port = address.rpartition(":")[2]
        assert run(["serve", "--port", port, "--memory"]) == 1
        assert "a free address" in capsys.readouterr().err


def test_verify_finds_a_decision_that_is_not_what_the_engine_decides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The best server's name is exchanged for another's, with a right checksum."""
    database = tmp_path / "p.db"
    with service(database) as client:
        declare(client, 2, {"t": [0.9, 0.1]})
        client.assign()
    connection = apsw.Connection(str(database))
    connection.create_scalar_function("crc32", zlib.crc32, 1)
    for name, data in connection.execute("SELECT id, data FROM frame").fetchall():
        if b"Offered" in data:
            changed = data.replace(b"\xa6server\xa2s0", b"\xa6server\xa2s1", 1)
            assert changed != data
            connection.execute(
                "UPDATE frame SET data = ?1, checksum = crc32(?1) WHERE id = ?2", (changed, name)
            )
    connection.close()
    capsys.readouterr()
    assert run(["verify", "--database", str(database), "--format", "json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["pools"][0]["different"] == 1
    assert "decision 1" in told["problems"][0]["value"]
    assert "leads elsewhere" in told["problems"][1]["value"]


@pytest.mark.parametrize("words", [["verify"], ["backup", "out.db"]])
def test_there_must_be_a_journal(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, "--database", str(tmp_path / "none.db")]) == 1
    assert "a journal's file" in capsys.readouterr().err
    assert not (tmp_path / "none.db").exists()


def test_stress_measures_and_loses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--servers", "60", "--types", "3", "--connections", "8", "--seconds", "0.5"]
    assert run(["stress", *words, "--rate", "50", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["failed"] for one in told["loads"]] == [0, 0, 0]
    assert [one["capacity_mismatch"] for one in told["loads"]] == [0, 0, 0]
    assert all(one["per_second"] > 0 for one in told["loads"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--servers", "0"], "--servers"),
        (["--rate", "0"], "--rate"),
        (["--url", "https://example.org"], "--url"),
        (["--url", "nonsense"], "--url"),
        (["--url", "http://127.0.0.1:9"], "a running service"),
    ],
)
def test_stress_refuses_what_makes_no_sense(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["stress", *words]) == 1
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"x", b"time,server\n" + b"1,2\n" * 3000])
@pytest.mark.parametrize("words", [["verify"], ["backup", "OUT"], ["log", "calls"]])
def test_a_file_that_is_no_journal_stays_as_it_is(
    words: list[str], content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty or nearly empty file was made a journal, and verified as one without problems."""
    file = tmp_path / "other.db"
    file.write_bytes(content)
    named = [str(tmp_path / "copy.db") if word == "OUT" else word for word in words]
    assert run([*named, "--database", str(file)]) == 1
    assert "a journal's file" in capsys.readouterr().err
    assert file.read_bytes() == content
    assert [one.name for one in tmp_path.iterdir()] == ["other.db"]
