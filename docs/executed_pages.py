"""Run a page of documentation from top to bottom, in one empty folder.

What runs, in the order of the page:

- a fenced block below a line that holds only a file name and a colon, such as ```skills.csv`:``,
  is that file (all files are there from the start; each is written again where it stands);
- a ``toml`` block is read as an instance, or as a map of columns. If it lacks a reward or a
  duration it replaces keys of the page's ``instance.toml``. A file that a command below it refuses
  is left to that command;
- a ``python`` block runs; the blocks of a page share their names;
- lines of an ``sh`` block that start, ask or end a service run (``served_pages``);
- every other ``opportune`` line of an ``sh`` block runs; ``# exit code 1`` behind it says what it
  ends with if not 0. Commands that no output is shown of run short, those in ``ELSEWHERE`` not.

A page whose code names ``OPPORTUNE_DATA`` runs only where that is set (``needs_data``); commands
may write ``$OPPORTUNE_DATA/...`` for files of that folder.

A ``text`` block right below a ``python`` or ``sh`` block is what that block prints. It is compared
(``tests/docs``) and written (``generate_outputs.py``), but for what differs between machines.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from served_pages import LiveService, is_live

from opportune.cli import run
from opportune.errors import OpportuneError
from opportune.learning.fit.columns import columns_of
from opportune.model.description import read_description
from opportune.model.queue_description import read_queue

ROOT = Path(__file__).resolve().parents[1]
"""The checkout."""

FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"(?:^|\n)`([\w.-]+\.(?:csv|toml))`:\n\n\Z")
EXIT_CODE = re.compile(r"#.*\bexit code (\d+)")
SHORT = {"--steps": "2000", "--replications": "2"}
RUNNING = ("compare", "sweep")
"""Commands that take ``SHORT`` where they say nothing else."""

ELSEWHERE = ("paper", "serve", "stress")
"""Commands that take a minute or more or never end, and are run by tests of their own."""

PER_MACHINE = re.compile(
    r"gap \S+(?=[;,])|highs [\d.]+|\d+\.\d+ s$|\b\d{10}\.\d+|(?<=\.\d{10})\d+|\b\d+ bytes"
    r"|\b[0-9a-f]{16}\b|\"draws\": \[[^\]]*\]|\"draws\":\[[^\]]*\]|(?<=\"retry_after\":)[\d.]+",
    re.MULTILINE,
)
"""What differs between machines and runs: shown as it was, never compared.

Rounding errors (and digits behind the tenth), the solver's version, seconds, points in time, sizes,
hashes, draws.
"""

ANY_LOAD = 0.5
"""Load at which a block is read that has shares of the task types only."""


class PageError(AssertionError):
    """Something on a page does not do what the page says."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        language: The word behind the fence.
        text: What is inside.
        line: Line of the page where the inside starts.
        span: Where the inside stands in the page's text.
        file: The file that it is, or nothing.
        is_output: Whether it shows what the block before it prints.
    """

    language: str
    text: str
    line: int
    span: tuple[int, int]
    file: str = ""
    is_output: bool = False


@dataclass
class Story:
    """A page while it runs: where, the names its Python blocks share, and what was printed."""

    page: str
    folder: Path
    module: ModuleType = field(default_factory=lambda: ModuleType("page_block"))
    printed: str = ""
    live: LiveService = field(default_factory=LiveService)

    def fail(self, block: Block, told: str) -> PageError:
        """The error of a block, with its place."""
        return PageError(f"{self.page}:{block.line}: {told}")


DATA = "OPPORTUNE_DATA"
"""Names the folder of real data that some pages read."""


def needs_data(text: str) -> bool:
    """Whether the code of a page reads the data folder."""
    return any(DATA in block.text for block in blocks(text) if block.language in ("sh", "python"))


def pages() -> list[Path]:
    """All pages: the README and everything below ``docs``."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found: list[Block] = []
    end, before = 0, ""
    for match in FENCE.finditer(text):
        between = text[end : match.start()]
        language = match[1].strip()
        named = FILE_NAME.search(between)
        found.append(
            Block(
                language,
                match[2],
                text.count("\n", 0, match.start(2)) + 1,
                match.span(2),
                named[1] if named else "",
                language == "text" and before in ("python", "sh") and not between.strip(),
            )
        )
        end, before = match.end(), language
    return found


def prose(text: str) -> str:
    """A page without its fenced blocks and without code inside of lines."""
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))


def comparable(text: str) -> str:
    """The text without what differs between machines and runs."""
    return PER_MACHINE.sub("...", text)


def command_lines(block: Block) -> Iterator[tuple[str, list[str], int]]:
    """The ``opportune`` lines of a shell block: the line, its words, the exit code it names."""
    for line in block.text.replace("\\\n", " ").splitlines():
        if line.startswith("opportune "):
            code = EXIT_CODE.search(line)
            words = shlex.split(line, comments=True)[1:]
            data = os.environ.get(DATA, f"${DATA}")
            words = [word.replace(f"${DATA}", data) for word in words]
            yield line, words, int(code[1]) if code else 0


def run_page(text: str, page: str, folder: Path) -> str:
    """Run a page; its text with every output as it came out now.

    Args:
        text: The page.
        page: Its name, for messages.
        folder: An empty folder to run in; files that the page makes stay there.

    Raises:
        PageError: Naming the line of the first block that fails.
    """
    story, found = Story(page, folder), blocks(text)
    if not (folder / "examples").exists():
        os.symlink(ROOT / "examples", folder / "examples", target_is_directory=True)
    for block in found:
        if block.file:
            (folder / block.file).write_text(block.text, encoding="utf-8")
    parts, end = [], 0
    try:
        with chdir(folder), _known_as_module(story.module):
            for block, rest in ((block, found[i + 1 :]) for i, block in enumerate(found)):
                if block.is_output:
                    parts += [text[end : block.span[0]], story.printed]
                    end = block.span[1]
                else:
                    _run_block(story, block, rest)
    finally:
        story.live.stop()
    return "".join([*parts, text[end:]])


def _run_block(story: Story, block: Block, rest: list[Block]) -> None:
    if block.file:
        (story.folder / block.file).write_text(block.text, encoding="utf-8")
    if block.language == "toml" and not _is_refused(block, rest):
        _read_toml(story, block)
    elif block.language == "python":
        _run_python(story, block)
    elif block.language == "sh":
        _run_commands(story, block, shown=bool(rest) and rest[0].is_output)


def _is_refused(block: Block, rest: list[Block]) -> bool:
    """Whether a command further down, before the file is written again, is said to refuse it."""
    for other in rest if block.file else ():
        if other.file == block.file:
            return False
        if other.language == "sh":
            for _, words, code in command_lines(other):
                if code and block.file in words:
                    return True
    return False


def _read_toml(story: Story, block: Block) -> None:
    try:
        data: dict[str, Any] = tomllib.loads(block.text)
        if "contexts" in data:
            read_queue(data, story.folder, "block")
            return
        if "time" in data and data.keys() & {"server", "every_outcome"}:
            columns_of(data)
            return
        if not {"match_reward", "duration"} <= set(data):
            whole = tomllib.loads((story.folder / "instance.toml").read_text(encoding="utf-8"))
            for one, other in (("arrival_rate", "type_share"), ("type_share", "arrival_rate")):
                if one in data:
                    whole.pop(other, None)
            data = whole | data
        draft = read_description(data, story.folder, "block")
        draft.at_load(ANY_LOAD if draft.shares_only else None)
    except (OpportuneError, tomllib.TOMLDecodeError, OSError) as error:
        raise story.fail(block, str(error)) from error


def _run_python(story: Story, block: Block) -> None:
    printed = io.StringIO()
    try:
        with redirect_stdout(printed), redirect_stderr(io.StringIO()):
            code = story.live.placed(block.text)
            exec(compile(code, f"{story.page}:{block.line}", "exec"), vars(story.module))
    except Exception as error:
        raise story.fail(block, f"{type(error).__name__}: {error}") from error
    story.printed = _tidy(printed.getvalue())


def _run_commands(story: Story, block: Block, shown: bool) -> None:
    printed = io.StringIO()
    for text in block.text.replace("\\\n", " ").splitlines():
        if is_live(text):
            try:
                printed.write(story.live.run(text, story.folder))
            except ValueError as error:
                raise story.fail(block, f"{text}: {error}") from error
        for line, words, expected in (
            () if is_live(text) else command_lines(replace(block, text=text))
        ):
            _run_command(story, block, (line, words, expected), printed, shown)
    story.printed = _tidy(printed.getvalue())


def _run_command(
    story: Story,
    block: Block,
    command: tuple[str, list[str], int],
    printed: io.StringIO,
    shown: bool,
) -> None:
    line, words, expected = command
    words = [story.live.expanded(word) for word in words]
    if words[0] in ELSEWHERE or "humble" in line:  # a policy that the reader has yet to write
        return
    short = SHORT.items() if words[0] in RUNNING and not shown else ()
    arguments = [*words, *(word for one in short if one[0] not in words for word in one)]
    with redirect_stdout(printed), redirect_stderr(printed), story.live.in_environment():
        code = run(arguments)
    if code != expected:
        raise story.fail(block, f"exit code {code} of: {line}\n{printed.getvalue()}")
    if "--report" in words:
        report = story.folder / words[words.index("--report") + 1]
        if not report.stat().st_size > 1000:
            raise story.fail(block, f"no report written by: {line}")


def _tidy(printed: str) -> str:
    """Lines without blanks at their end, none empty at the end."""
    lines = "\n".join(line.rstrip() for line in printed.splitlines()).rstrip()
    return lines + "\n" if lines else ""


@contextmanager
def _known_as_module(module: ModuleType) -> Iterator[None]:
    """While it lasts, the module is in ``sys.modules``: dataclasses look their own up there."""
    sys.modules[module.__name__] = module
    try:
        yield
    finally:
        del sys.modules[module.__name__]
