"""Documentation is executed: every command and every Python block of the pages runs."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from opportune.cli import run

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHORT = ["--steps", "2000", "--replications", "2"]


def blocks(language: str) -> list[tuple[str, str]]:
    """(page, text) of every fenced block of a language."""
    return [
        (str(page.relative_to(ROOT)), text)
        for page in PAGES
        for found, text in BLOCK.findall(page.read_text(encoding="utf-8"))
        if found == language
    ]


def commands() -> list[tuple[str, str]]:
    """(page, line) of every ``opportune`` line in a shell block."""
    return [
        (page, line)
        for page, text in blocks("sh")
        for line in text.replace("\\\n", " ").splitlines()
        if line.startswith("opportune ") and "humble" not in line
    ]


@pytest.mark.parametrize(("page", "line"), commands(), ids=lambda text: text[:60])
def test_commands_run(
    page: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands as written, but short, and writing below a temporary folder."""
    words = shlex.split(line, comments=True)[1:]
    for place, word in enumerate(words):
        if word.startswith("examples/"):
            words[place] = str(ROOT / word)
    if words[0] in ("compare", "sweep"):
        words += SHORT
    monkeypatch.chdir(tmp_path)
    assert run(words) == 0, f"{page}: {line}"
    if "--report" in words:
        assert (tmp_path / words[words.index("--report") + 1]).stat().st_size > 1000


@pytest.mark.parametrize(("page", "text"), blocks("python"), ids=lambda text: text[:40])
def test_python_runs(page: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python blocks run as modules of their own."""
    module = type(sys)("page_block")
    monkeypatch.setitem(sys.modules, "page_block", module)
    exec(compile(text, page, "exec"), module.__dict__)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Relative links of a page point at files that exist."""
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_command_is_in_the_readme_or_a_page() -> None:
    """A command nobody can read about does not exist."""
    shown = {shlex.split(line, comments=True)[1] for _, line in commands()}
    assert {"check", "plan", "compare", "sweep"} <= shown
