"""Reference pages are complete and current: every key, option, number and name is on them."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import generate_command_line
import numpy as np
import pytest
from executed_pages import ROOT

import opportune
from opportune.cli import run
from opportune.model import description, duration_entry, references

REFERENCE = ROOT / "docs" / "reference"
QUICK = ["--steps", "500", "--replications", "2", "--policies", "lag,greedy"]
COMMANDS = {
    "compare": ["compare", "priority-v1", "--load", "0.7", *QUICK],
    "sweep": ["sweep", "priority-v1", "--load", "0.5,0.7", *QUICK],
    "plan": ["plan", "priority-v1", "--load", "0.7"],
    "split": ["split", "priority-v1", "--load", "0.7", "--into", "2", *QUICK],
    "check": ["check", "priority-v1", "--load", "0.95"],
    "policies": ["policies"],
    "learn": [
        *("learn", "priority-v1", "--load", "0.7", "--tasks", "200", "--replications", "2"),
        *("--policies", "greedy-known,lag-learned,greedy-learned"),
    ],
}


def page(name: str) -> str:
    """The text of a reference page."""
    return (REFERENCE / name).read_text(encoding="utf-8")


def section(text: str, title: str) -> str:
    """What stands below a heading of the second level, up to the next."""
    found = re.search(rf"^## `?{title}`?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[1]


def rows_of(text: str) -> Iterator[list[str]]:
    """The backticked words in the first cell of every table row."""
    for cell in re.findall(r"^\| ([^|]*) \|", text, re.MULTILINE):
        words = re.findall(r"`([^`]+)`", cell)
        if words:
            yield words


def test_the_command_line_page_is_current() -> None:
    assert page("command-line.md") == generate_command_line.render(), "run: make docs"


def test_every_option_has_its_help_on_the_page() -> None:
    text = page("command-line.md")
    for command in ("check", "plan", "compare", "sweep", "policies"):
        rows = section(text, f"opportune {command}")
        options = [one for one in rows_of(rows) if one[0].startswith("--")]
        assert len(options) >= 1
        assert not re.search(r"\|\s*\|$", rows, re.MULTILINE), f"{command}: an option without help"


# ------------------------------------------------------------------------------- results.md


def keys_of(value: Any, path: str = "") -> set[str]:
    """Paths of all keys of a JSON value: ``policies[].reward``."""
    if isinstance(value, list):
        return {key for item in value for key in keys_of(item, f"{path}[]")}
    if not isinstance(value, dict):
        return set()
    names = {f"{path}.{key}" if path else key for key in value}
    return names.union(*(keys_of(value[key], f"{path}.{key}" if path else key) for key in value))


@pytest.mark.parametrize("command", COMMANDS)
def test_the_keys_of_a_result_are_on_the_page(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*COMMANDS[command], "--format", "json"]) == (1 if command == "check" else 0)
    printed = keys_of(json.loads(capsys.readouterr().out))
    text = page("results.md")
    told = {word for row in rows_of(section(text, command)) for word in row}
    if command == "plan":  # told of the comparison, where they are the same
        compare = {word for row in rows_of(section(text, "compare")) for word in row}
        bounds = {word.replace("bound.", "bounds[].") for word in compare if "bound." in word}
        told |= bounds | {word for word in compare if word.startswith("blocking.")}
    if command == "sweep":
        told |= {f"runs[].{one}" for one in printed_by_compare(capsys)}
    if command == "compare":
        told |= {word.replace("bound.", "bounds[].") for word in told if word.startswith("bound.")}
        told -= {"occ-lp", "occ-lp-at-most", "zero", "blocking", "at-most"} - printed
    if command == "policies":
        told.add("policies")
    assert printed - told == set(), "not on the page"
    assert told - printed == set(), "on the page only"


def printed_by_compare(capsys: pytest.CaptureFixture[str]) -> set[str]:
    """The keys of a comparison."""
    assert run([*COMMANDS["compare"], "--format", "json"]) == 0
    return keys_of(json.loads(capsys.readouterr().out))


@pytest.mark.parametrize("command", COMMANDS)
def test_the_columns_of_csv_are_on_the_page(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run([*COMMANDS[command], "--format", "csv"])
    columns = next(csv.reader(io.StringIO(capsys.readouterr().out)))
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", section(page("results.md"), "CSV"), re.M))
    told = re.findall(r"`(\w+)`", rows[command])
    if command == "sweep":
        told = [told[0], *re.findall(r"`(\w+)`", rows["compare"])]
    assert columns == told


def test_the_arrays_of_a_plan_are_those_of_its_json(tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    assert run([*COMMANDS["plan"], "--out", str(out)]) == 0
    record = json.loads(out.read_text(encoding="utf-8"))
    assert {"seconds", "memory"}.isdisjoint(record)
    with np.load(out.with_suffix(".npz")) as arrays:
        for name in set(arrays.files) & set(record):
            np.testing.assert_array_equal(arrays[name], np.array(record[name]))


# ------------------------------------------------------------------------ instance-files.md

KEYS = {
    "Keys": description.KEYS,
    "match_reward": (
        "file",
        *references.ARRAY_KEYS,
        *references.NUMBER_KEYS,
        *references.LONG_KEYS,
        "forbid",
    ),
    "duration": {
        "kind",
        *duration_entry.KEYS["empirical"],
        *(f'"{kind}"' for kind in duration_entry.KEYS),
    },
}


@pytest.mark.parametrize("title", KEYS)
def test_every_key_of_an_instance_file_is_in_a_table(title: str) -> None:
    told = {word for row in rows_of(section(page("instance-files.md"), title)) for word in row}
    assert told == set(KEYS[title])


# -------------------------------------------------------------------------------- python.md


def test_every_public_name_is_on_the_python_page_once() -> None:
    found = re.findall(
        r"auto(?:class|function|exception):: opportune\.(\w+)$", page("python.md"), re.M
    )
    assert sorted(found) == [name for name in opportune.__all__ if name != "__version__"]
