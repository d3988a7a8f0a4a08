"""Documentation is executed: every page runs from top to bottom and shows what it prints."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from executed_pages import (
    DATA,
    ROOT,
    PageError,
    blocks,
    command_lines,
    comparable,
    needs_data,
    pages,
    prose,
    run_page,
)

from opportune.cli import COMMANDS

PAGES = pages()

INSTANCE = """
`instance.toml`:

```toml
match_reward = [[1.0, 0.5]]
arrival_rate = [0.1]
duration = { kind = "deterministic", steps = 2 }
```
"""


def name_of(page: Path) -> str:
    """A page as tests call it."""
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_does_and_shows_what_it_says(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if needs_data(text) and not os.environ.get(DATA):
        pytest.skip(f"{DATA} is not set: this page reads real data")
    now = run_page(text, name_of(page), tmp_path)
    assert comparable(now) == comparable(text), "what is shown is not what is printed: make docs"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    """Relative links point at files that exist, and at headings that the file has."""
    text = page.read_text(encoding="utf-8")
    for target, heading in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", prose(text)):
        other = page.parent / target if target else page
        assert other.exists(), f"{page.name} links to {target}"
        if heading:
            assert heading in headings(other), f"{page.name} links to {target}#{heading}"


def headings(page: Path) -> set[str]:
    """What links to the headings of a page are called."""
    lines = FENCED.sub("", page.read_text(encoding="utf-8")).splitlines()
    titles = [line.lstrip("#").strip() for line in lines if line.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_decimals_in_the_text_stand_in_an_output(page: Path) -> None:
    """A page that shows outputs names no figure of its own."""
    assert strange_decimals(page.read_text(encoding="utf-8")) == []


def strange_decimals(text: str) -> list[str]:
    """Decimals in the prose of a page with outputs that no block of it holds."""
    found = blocks(text)
    if not any(block.is_output for block in found):
        return []
    shown = "\n".join(block.text for block in found)
    said = re.sub(r"arXiv \S+|Python 3\.\d+|(?:Lemma|Theorem|Definition|Proposition) \S+", "", text)
    return [one for one in re.findall(r"\d+\.\d+", prose(said)) if one not in shown]


def test_every_command_is_in_the_readme_or_a_page() -> None:
    """A command nobody can read about does not exist; see EXAMPLES of generate_command_line."""
    shown = {
        words[0]
        for page in PAGES
        for block in blocks(page.read_text(encoding="utf-8"))
        if block.language == "sh"
        for _, words, _ in command_lines(block)
    }
    assert set(COMMANDS) <= shown


# ------------------------------------------------------- what a page does not get away with


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("```sh\nopportune check nowhere.toml\n```\n", "page.md:2: exit code 1"),
        ("```sh\nopportune policies  # exit code 1\n```\n", "page.md:2: exit code 0"),
        ("\n```python\n1 / 0\n```\n", "page.md:3: ZeroDivisionError"),
        (INSTANCE + "\n```toml\nservers_per_task = 3\n```\n", "page.md:11: servers_per_task: 3"),
        (INSTANCE.replace("0.1", "0,1"), "page.md:5: arrival_rate"),
        (INSTANCE.replace("{", "["), "page.md:5: "),
        ("```toml\nservers_per_task = 3\n```\n", "instance.toml"),
    ],
)
def test_a_fault_is_found_with_its_line(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(PageError) as error:
        run_page(text, "page.md", tmp_path)
    assert told in str(error.value)


def test_an_output_is_written_below_its_block(tmp_path: Path) -> None:
    text = "```python\nx = 6\nprint(7 * x)\n```\n\n```text\n41\n```\n\n```text\nno output\n```\n"
    now = run_page(text, "page.md", tmp_path)
    assert now == text.replace("41", "42")


def test_a_page_is_a_story(tmp_path: Path) -> None:
    """Files are there from the start, names are shared, a file may be refused and mended."""
    wrong = INSTANCE.replace("[0.1]", "[2]")
    refused = "\n```sh\nopportune check instance.toml  # exit code 1\n```\n"
    mended = INSTANCE + "\n```sh\nopportune check instance.toml\n```\n\n```text\n```\n"
    code = "\n```python\nfrom pathlib import Path\n\nn = len(Path('a.csv').read_text())\n```\n"
    printed = "\n```python\nprint(n)\n```\n\n```text\n```\n\n`a.csv`:\n\n```csv\n1,2\n```\n"
    now = run_page(wrong + refused + mended + code + printed, "page.md", tmp_path)
    assert "no problems found\n```\n" in now
    assert "```text\n4\n```" in now
    with pytest.raises(PageError, match="arrival_rate"):
        run_page(wrong + mended, "page.md", tmp_path)


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("gap 1.2e-16, priced", "gap 0.0e+00, priced", True),
        ("highs 1.16.0 simplex, 0.003 s", "highs 1.17.1 simplex, 0.011 s", True),
        ("value 0.70175522 per step", "value 0.70175523 per step", False),
        ("94.52 +/- 0.22", "94.52 +/- 0.23", False),
    ],
)
def test_only_what_differs_between_machines_is_not_compared(
    before: str, after: str, same: bool
) -> None:
    assert (comparable(before) == comparable(after)) is same


def test_a_strange_decimal_is_found() -> None:
    page = "It earns 9.55, not 8.77 (`1.23`, LAG Lemma 3.1).\n\n```sh\n```\n\n```text\n9.55\n```\n"
    assert strange_decimals(page) == ["8.77"]
    assert strange_decimals("It earns 9.55.\n") == []


def test_commands_find_the_data_folder_and_pages_that_need_it_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DATA, str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "one.toml").write_text(
        "match_reward = [[1.0, 0.5]]\narrival_rate = [0.1]\n"
        'duration = { kind = "deterministic", steps = 2 }\n'
    )
    text = '```sh\nopportune check "$OPPORTUNE_DATA/one.toml"\n```\n\n```text\n```\n'
    assert "no problems found" in run_page(text, "page.md", tmp_path)
    assert needs_data(text)
    assert needs_data('```python\nos.environ["OPPORTUNE_DATA"]\n```\n')
    assert not needs_data("`OPPORTUNE_DATA` names a folder.\n\n```text\n$OPPORTUNE_DATA\n```\n")
