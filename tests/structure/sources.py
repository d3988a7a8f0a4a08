"""The project's files as the structure checks read them."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
"""A function or method, as a syntax tree."""

_NOT_OURS = {"__pycache__", "build", "dist", "out"}


@dataclass(frozen=True)
class Source:
    """A Python file.

    Attributes:
        path: From the root of the checkout, with slashes: ``src/opportune/kernels/jit.py``.
        text: Its text.
    """

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text, self.path)

    @property
    def module(self) -> str:
        """Dotted name: ``opportune.kernels.jit``, ``opportune.kernels`` for its __init__."""
        name = self.path.removeprefix("src/").removesuffix(".py").replace("/", ".")
        return name.removesuffix(".__init__")

    def at(self, node: ast.AST, message: str) -> str:
        """A problem with its place."""
        return f"{self.path}:{getattr(node, 'lineno', 1)} {message}"


def functions(tree: ast.AST) -> Iterator[Function]:
    """Every function and method, nested ones too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@cache
def tracked_files() -> tuple[str, ...]:
    """Paths of all files that are or would be committed, from the root, sorted.

    Outside a git checkout: every file that is not hidden, a cache or an output.
    """
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    if (ROOT / ".git").exists():
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        paths = [path for path in listed.stdout.split("\0") if path]
    else:
        paths = [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*")]
        paths = [path for path in paths if not _skipped(path)]
    return tuple(sorted(path for path in paths if (ROOT / path).is_file()))


@cache
def sources(folder: str = "") -> tuple[Source, ...]:
    """The Python files under a folder of the checkout."""
    prefix = f"{folder}/" if folder else ""
    return tuple(
        Source(path, (ROOT / path).read_text(encoding="utf-8"))
        for path in tracked_files()
        if path.startswith(prefix) and path.endswith(".py")
    )


def _skipped(path: str) -> bool:
    parts = path.split("/")
    return any(part.startswith(".") and part != ".ci" for part in parts[:-1]) or bool(
        _NOT_OURS.intersection(parts)
    )
