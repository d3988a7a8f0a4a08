"""Committed text names no machine's path and no registry; news fragments are in order."""

from __future__ import annotations

import re
import tomllib

import pytest

import opportune
from tests.structure.sources import ROOT, tracked_files
from tests.structure.texts import fragment_problems, place_problems


def test_no_machine_path_and_no_registry_in_any_file() -> None:
    problems = []
    for path in tracked_files():
        try:
            text = (ROOT / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # not a text file
        problems += place_problems(path, text)
    assert problems == []


@pytest.mark.parametrize(
    "line",
    [
        "cd /ho" + "me/someone/project",
        "'/ro" + "ot/.cache'",
        "path = /wo" + "rk/main",
        "see /tmp/ba" + "sh_jobs.0/1",
        "C:\\Use" + "rs\\someone",
        "https://py" + "pi.org/simple",
        "--extra-index" + "-url somewhere",
    ],
)
def test_a_machine_path_or_registry_is_found(line: str) -> None:
    (problem,) = place_problems("planted.md", f"fine\n{line}\n")
    assert problem.startswith("planted.md:2 ")


@pytest.mark.parametrize(
    "line", ["../work/plan", "~/work/main", "/tmp/out.html", "https://x/home/"]
)
def test_other_paths_are_fine(line: str) -> None:
    assert place_problems("planted.md", line) == []


def test_news_fragments_are_in_order() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    kinds = [kind["directory"] for kind in config["tool"]["towncrier"]["type"]]
    folder = ROOT / config["tool"]["towncrier"]["directory"]
    fragments = {
        path.name: path.read_text(encoding="utf-8")
        for path in folder.iterdir()
        if path.name != "README.md"
    }
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    just_released = re.search(rf"^## {re.escape(opportune.__version__)} ", changelog, re.MULTILINE)
    assert fragment_problems(fragments, kinds) == []
    assert fragments or just_released, "no news fragment since the last release"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("news.md", "Something."),
        ("2.exciting.md", "Something."),
        ("2.added.txt", "Something."),
        ("2.added.md", " \n"),
    ],
)
def test_a_wrong_fragment_is_found(name: str, text: str) -> None:
    good = {"2.added.md": "Something.", "2-lag.added.md": "More.", "3.added.1.md": "Else."}
    assert fragment_problems(good, ["added"]) == []
    assert len(fragment_problems({name: text}, ["added"])) == 1
