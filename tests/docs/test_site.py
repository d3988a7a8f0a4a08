"""The site builds, offline and without a warning, and loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from executed_pages import ROOT, pages

LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=\"(?:https?:)?//[^\"]*\"")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site; whatever reaches for a network meets a closed port."""
    out = tmp_path_factory.mktemp("site")
    words = ["-m", "sphinx", "-W", "--keep-going", "--quiet", "-d", str(out / "doctrees")]
    closed = {f"{kind}_proxy": "http://127.0.0.1:9" for kind in ("http", "https")}
    done = subprocess.run(
        [sys.executable, *words, str(ROOT / "docs"), str(out / "html")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **closed},
    )
    assert done.returncode == 0, done.stderr
    return out / "html"


def test_every_page_is_in_it(site: Path) -> None:
    docs = ROOT / "docs"
    names = [page.relative_to(docs).with_suffix(".html").as_posix() for page in pages()[1:]]
    assert [name for name in names if not (site / name).is_file()] == []
    start = (site / "index.html").read_text(encoding="utf-8")
    assert [name for name in names if name != "index.html" and f'"{name}"' not in start] == []


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    found = {
        (page.name, match[0])
        for page in site.rglob("*.html")
        for match in LOADED.finditer(page.read_text(encoding="utf-8"))
    }
    assert found == set()


def test_arrays_are_described_from_their_metadata(site: Path) -> None:
    """Symbol and unit of a field, which stand in no docstring, are on the Python page."""
    text = (site / "reference" / "python.html").read_text(encoding="utf-8")
    assert "assignments per step: assignment rate" in re.sub(r"<[^>]+>", "", text)
    assert "Annotated[" not in text
    assert "TypeAliasForwardRef" not in text


@pytest.mark.parametrize(
    ("tag", "elsewhere"),
    [
        ('<script defer src="https://cdn.example/x.js"></script>', True),
        ('<link rel="stylesheet" href="//cdn.example/x.css">', True),
        ('<script src="_static/x.js"></script>', False),
        ('<a href="https://example.org/">a link is not loaded</a>', False),
    ],
)
def test_what_is_loaded_from_elsewhere_is_seen(tag: str, elsewhere: bool) -> None:
    assert bool(LOADED.search(tag)) is elsewhere
