"""The command line: exit codes, JSON shapes, messages that say what to change."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from opportune.cli import run
from opportune.cli.options import parse_loads
from opportune.errors import InputError

QUICK = ["--steps", "5000", "--replications", "2"]


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    code = run(list(words))
    out, err = capsys.readouterr()
    return code, out, err


def record(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """The JSON of a command that must succeed, with NaN and Infinity refused."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} in JSON")

    code, out, err = call(capsys, *words, "--format", "json")
    assert code == 0, err
    loaded: dict[str, Any] = json.loads(out, parse_constant=refuse)
    return loaded


def test_compare_has_the_documented_shape(capsys: pytest.CaptureFixture[str]) -> None:
    """CONVENTIONS: the keys of ``compare --format json``."""
    got = record(capsys, "compare", "priority-v1", "--load", "0.7", *QUICK)
    assert {"instance", "load", "steps", "replications", "seed", "priced_at"} <= set(got)
    assert got["load"] == 0.7
    assert got["priced_at"] == "zero"
    assert set(got["bound"]) == {"name", "value", "blocking", "gap", "label"}
    assert got["bound"]["name"] == "occ-lp"
    assert got["bound"]["label"] == "proven"
    assert got["bounds"][0] == got["bound"]
    for row in got["policies"]:
        assert {
            "policy",
            "reward",
            "percent_of_bound",
            "half_width",
            "blocking",
            "left_to_gain",
        } <= set(row)
        assert 0 < row["percent_of_bound"] < 110


def test_one_replication_has_an_interval_from_batches(capsys: pytest.CaptureFixture[str]) -> None:
    """lag.md section 6: with one replication over 20 batches."""
    got = record(
        capsys, "compare", "priority-v1", "--load", "0.5", "--steps", "9000", "--replications", "1"
    )
    assert all(row["half_width"] > 0 for row in got["policies"])


def test_plan_has_the_documented_shape(capsys: pytest.CaptureFixture[str]) -> None:
    """CONVENTIONS: the keys of ``plan --format json``; rows by type, columns by server."""
    got = record(capsys, "plan", "priority-v1", "--load", "0.7")
    n_types, n_servers = len(got["task_types"]), len(got["servers"])
    assert (n_types, n_servers) == (2, 8)
    for key in ("index", "assignment_rate"):
        assert len(got[key]) == n_types
        assert {len(row) for row in got[key]} == {n_servers}
    assert len(got["demand_price"]) == n_types
    assert len(got["capacity_price"]) == len(got["free_fraction"]) == n_servers
    assert got["max_load"] == pytest.approx(0.875)
    assert got["value"] == pytest.approx(got["dual_value"], rel=1e-9)
    assert {"gap", "solver", "seconds", "memory", "bounds", "seed"} <= set(got)
    assert set(got["blocking"]) >= {"value", "method", "half_width", "erlang_b"}
    assert got["blocking"]["method"] == "exact"


def test_forbidden_pairs_are_null(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """CONVENTIONS: no number for a forbidden pair."""
    path = tmp_path / "small.toml"
    path.write_text(
        "match_reward = [[1.0, 0.5, 0.2], [0.0, 0.9, 0.3]]\n"
        "arrival_rate = [0.1, 0.1]\nservers_per_task = 1\n"
        'duration = {kind = "deterministic", steps = 2}\n'
        "allowed = [[true, true, false], [true, true, true]]\n"
    )
    got = record(capsys, "plan", str(path))
    assert got["index"][0][2] is None
    assert got["assignment_rate"][0][2] is None
    assert got["index"][1][2] is not None
    result = record(capsys, "compare", str(path), *QUICK)
    assert result["bound"]["name"] == "occ-lp-at-most"
    assert result["bound"]["label"] == "proven"


def test_overload_stops_plan_with_remedies(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 1 and the remedies; ``--price-at blocking`` goes on."""
    code, _, err = call(capsys, "plan", "specialist-v1", "--load", "0.93")
    assert code == 1
    assert "load 0.93 is above 1 - k/R = 0.8571 (R=7, k=1)" in err
    assert "lower the arrival rate by 7.9 % (rounded up), or add 1 server" in err
    got = record(capsys, "plan", "specialist-v1", "--load", "0.93", "--price-at", "blocking")
    assert got["priced_at"] == "blocking"


def test_overload_lets_compare_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    """One warning, prices at blocking, and the result says so."""
    code, out, err = call(
        capsys, "compare", "specialist-v1", "--load", "0.93", *QUICK, "--format", "json"
    )
    assert code == 0
    assert err.count("warning:") == 1
    assert json.loads(out)["priced_at"] == "blocking"


def test_as_many_servers_as_a_task_needs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """R = k is legal: its limit is 0, so plan too prices at B without an error."""
    path = tmp_path / "all.toml"
    path.write_text(
        "match_reward = [[1.0, 0.5], [0.3, 0.9]]\narrival_rate = [0.1, 0.05]\n"
        'servers_per_task = 2\nduration = {kind = "geometric", mean = 4}\n'
    )
    got = record(capsys, "plan", str(path))
    assert got["priced_at"] == "blocking"
    result = record(capsys, "compare", str(path), *QUICK)
    assert len({row["reward"] for row in result["policies"]}) == 1
    assert call(capsys, "check", str(path))[0] == 0


def test_sweep_includes_the_stop(capsys: pytest.CaptureFixture[str]) -> None:
    """CONVENTIONS: start:stop:step with the stop included, ``{"runs": [...]}``."""
    got = record(
        capsys, "sweep", "priority-v1", "--load", ".1:.3:.1", "--policies", "lag,greedy", *QUICK
    )
    assert [one["load"] for one in got["runs"]] == [0.1, 0.2, 0.3]
    assert [row["policy"] for row in got["runs"][0]["policies"]] == ["lag", "greedy"]


def test_csv_has_a_row_per_policy_and_load(capsys: pytest.CaptureFixture[str]) -> None:
    """CSV for spreadsheets."""
    code, out, _ = call(
        capsys, "sweep", "priority-v1", "--load", ".2,.4", "--policies", "lag", *QUICK,
        "--format", "csv",
    )  # fmt: skip
    lines = out.splitlines()
    assert code == 0
    assert lines[0].startswith("load,policy,reward,percent_of_bound")
    assert [line.split(",")[:2] for line in lines[1:]] == [["0.2", "lag"], ["0.4", "lag"]]


def test_check_lists_problems(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """All problems of a file at once, as records, with exit code 1."""
    path = tmp_path / "bad.toml"
    path.write_text(
        "match_reward = [[1.0, -0.5], [0.0, 0.9]]\narrival_rate = [0.1, 2.0]\n"
        'servers_per_task = 1\nduration = {kind = "deterministic", steps = 0}\n'
    )
    code, out, _ = call(capsys, "check", str(path), "--format", "json")
    got = json.loads(out)
    assert code == 1
    assert got["ok"] is False
    fields = " ".join(problem["field"] for problem in got["problems"])
    assert "match_reward" in fields
    assert "arrival_rate" in fields
    assert "duration" in fields
    assert all(set(p) == {"field", "value", "expected", "remedy"} for p in got["problems"])


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["compare", "nosuch", "--load", ".7"], 1, "an id of the catalog"),
        (["compare", "priority-v1"], 1, "--load"),
        (["compare", "priority-v1", "--load", "x"], 2, "--load"),
        (["compare", "priority-v1", "--bogus", "1"], 2, "--bogus"),
        (["compare", "priority-v1", "--load", ".7", "--policies", "lga"], 1, "one of lag"),
        (["compare", "priority-v1", "--load", ".7", "--policies", "lag,lag"], 1, "once"),
        (["compare", "priority-v1", "--load", ".7", "--steps", "0"], 1, "steps"),
        (["compare", "priority-v1", "--load", ".7", "--seed", "-1"], 1, "seed"),
        (["compare", "priority-v1", "--load", ".7", "--workers", "0"], 1, "workers"),
        (["compare", "priority-v1", "--load", ".7", "--backend", "ray!"], 2, "threads"),
        (["compare", "priority-v1", "--load", "0"], 1, "above 0"),
        (["compare", "priority-v1", "--load", "-1"], 1, "above 0"),
        (["compare", "priority-v1", "--load", "nan"], 1, "above 0"),
        (["sweep", "priority-v1"], 2, "--load"),
        (["sweep", "priority-v1", "--load", ".9:.1:.1"], 1, "--load"),
        (["plan", "priority-v1", "--load", ".7", "--out", "x.txt"], 1, ".json"),
        (["compare", "priority-v1", "--load", ".7", "--report", "x.pdf"], 1, ".html"),
        (["nonsense"], 2, "nonsense"),
    ],
)
def test_wrong_words(
    capsys: pytest.CaptureFixture[str], words: list[str], code: int, told: str
) -> None:
    """1 for bad input, 2 for wrong usage; the message names what is wrong."""
    got, out, err = call(capsys, *words)
    assert (got, out) == (code, "")
    assert told in err
    assert "Traceback" not in err


def test_zero_is_a_legal_seed(capsys: pytest.CaptureFixture[str]) -> None:
    """litellm#12108: zero is honored, not replaced by the default."""
    zero = record(capsys, "compare", "priority-v1", "--load", ".7", "--seed", "0", *QUICK)
    one = record(capsys, "compare", "priority-v1", "--load", ".7", *QUICK)
    assert zero["seed"] == 0
    assert zero["policies"] != one["policies"]


def test_same_seed_same_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    """The whole output is equal for one and two workers."""
    words = ("compare", "priority-v1", "--load", ".7", *QUICK, "--format", "json")
    first = call(capsys, *words)[1]
    assert call(capsys, *words, "--workers", "2")[1] == first


def test_plan_is_written_reproducibly(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """JSON + NPZ, equal bytes of JSON on a second run."""
    for name in ("a.json", "b.json"):
        assert (
            call(capsys, "plan", "priority-v1", "--load", ".7", "--out", str(tmp_path / name))[0]
            == 0
        )
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert (tmp_path / "a.npz").exists()


@pytest.mark.parametrize(
    ("text", "loads"),
    [
        (".1:.9:.1", (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)),
        ("0.5", (0.5,)),
        (".3,.7", (0.3, 0.7)),
        (".2:.2:.1", (0.2,)),
        ("1e-3:2e-3:1e-3", (0.001, 0.002)),
    ],
)
def test_loads(text: str, loads: tuple[float, ...]) -> None:
    """Decimal steps: nine loads, exact."""
    assert parse_loads(text) == loads


@pytest.mark.parametrize(
    "text", ["", "a", "0", "1:2", ".1:.9:0", ".1:.9:-.1", "nan", "inf", ".1,,.2", "0:9:1e-9"]
)
def test_no_loads(text: str) -> None:
    """Refused with what to write instead."""
    with pytest.raises(InputError, match="start:stop:step"):
        parse_loads(text)


def test_the_installed_command_survives_a_closed_pipe() -> None:
    """``opportune ... | head`` ends quietly."""
    command = f"{sys.executable} -m opportune policies | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0


def test_scale_has_the_documented_shape(capsys: pytest.CaptureFixture[str]) -> None:
    """CONVENTIONS: rows n, m, steps, percent_of_bound, half_width, blocking; m = floor(sqrt n)."""
    got = record(
        capsys, "scale", "specialist-v1", "--load", ".8", "--n", "1,9", "--steps", "300",
        "--replications", "2",
    )  # fmt: skip
    assert [(row["n"], row["m"]) for row in got["rows"]] == [(1, 1), (9, 3)]
    for row in got["rows"]:
        assert {"steps", "percent_of_bound", "half_width", "blocking"} <= set(row)
    assert call(capsys, "scale", "specialist-v1", "--load", ".8", "--n", "1,x")[0] == 1


def test_policies_and_catalog_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """What can be compared, and on what."""
    policies = record(capsys, "policies")["policies"]
    assert policies[0] == {
        "policy": "lag", "usual": "yes", "title": "LAG: score minus opportunity cost",
    }  # fmt: skip
    ids = [one["instance"] for one in record(capsys, "catalog")["instances"]]
    assert {"specialist-v1", "priority-v1", "bank-v1"} <= set(ids)


def test_every_policy_that_fits_runs_with_all(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With ``all`` one that does not fit is left out with its reason; named, it fails."""
    path = tmp_path / "small.toml"
    path.write_text(
        "match_reward = [[1.0, 0.5, 0.2], [0.0, 0.9, 0.3]]\narrival_rate = [0.1, 0.1]\n"
        'duration = {kind = "deterministic", steps = 2}\n'
        "allowed = [[true, true, false], [true, true, true]]\n"
    )
    got = record(capsys, "compare", str(path), "--policies", "all", *QUICK)
    ran = {row["policy"] for row in got["policies"]}
    assert {"lag", "greedy", "auto"} <= ran
    assert "optimal" not in ran
    assert any(text.startswith("optimal is left out") for text in got["warnings"])
    assert call(capsys, "compare", str(path), "--policies", "optimal", *QUICK)[0] == 1


def test_names_are_text_not_markup(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Names in brackets are printed as they are, in titles and in cells."""
    path = tmp_path / "markup.toml"
    path.write_text(
        'name = "[bold]x[/bold] [/red]"\nmatch_reward = [[1.0, 0.5], [0.3, 0.2]]\n'
        'arrival_rate = [0.1, 0.1]\nservers = ["[/nope]", "[bold]"]\n'
        'task_types = ["[red]x", "b"]\nduration = {kind = "geometric", mean = 3}\n'
    )
    code, out, _ = call(capsys, "plan", str(path))
    assert code == 0
    assert all(name in out for name in ("[/nope]", "[bold]", "[red]x", "[bold]x[/bold] [/red]"))
    assert call(capsys, "compare", str(path), "--policies", "lag", *QUICK)[0] == 0
    assert call(capsys, "check", "[/x].toml")[0] == 1


def test_numbers_that_would_overflow_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A reward of 1e308 has no finite sum with another one."""
    path = tmp_path / "huge.toml"
    path.write_text(
        "match_reward = [[1e308, 1e308]]\narrival_rate = [0.1]\n"
        'duration = {kind = "geometric", mean = 3}\n'
    )
    code, _, err = call(capsys, "compare", str(path))
    assert code == 1
    assert "choose a larger unit" in err.lower()


def test_whole_numbers_are_not_rounded(capsys: pytest.CaptureFixture[str]) -> None:
    """2.9 steps are no 3 steps."""
    for option in ("--steps", "--seed", "--replications", "--workers"):
        assert call(capsys, "compare", "priority-v1", "--load", ".5", option, "2.9")[0] == 2


def test_closed_and_full_streams_end_no_run() -> None:
    """Without a standard output, without a standard error, on a full disk."""
    command = f"{sys.executable} -m opportune plan priority-v1 --load .5"
    for end, code in ((">&-", 0), ("2>&-", 0), (">/dev/full", 1)):
        done = subprocess.run(
            f"{command} {end}", shell=True, capture_output=True, text=True, check=False
        )
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), end


def test_all_bounds_on_request(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """``--bounds all`` adds the statistical bound where durations are fixed."""
    path = tmp_path / "fixed.toml"
    path.write_text(
        "match_reward = [[1.0, 0.5], [0.3, 0.2]]\narrival_rate = [0.1, 0.1]\n"
        'duration = {kind = "deterministic", steps = 3}\n'
    )
    quick = record(capsys, "plan", str(path))
    thorough = record(capsys, "plan", str(path), "--bounds", "all")
    assert [bound["name"] for bound in quick["bounds"]] == ["occ-lp"]
    assert [bound["name"] for bound in thorough["bounds"]] == ["occ-lp", "pathwise"]
    assert thorough["bounds"][1]["label"] == "statistical"
