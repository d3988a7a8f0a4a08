"""Run every page and write below its blocks what they print.

Run by ``make docs``. A test fails when a page shows anything else.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from executed_pages import DATA, ROOT, comparable, needs_data, pages, run_page


def refresh(page: Path) -> bool:
    """Run a page and write its outputs where they have changed; whether it was written."""
    text = page.read_text(encoding="utf-8")
    if needs_data(text) and not os.environ.get(DATA):
        print(f"left as it is, {DATA} is not set: {page.relative_to(ROOT)}")
        return False
    with TemporaryDirectory() as folder:
        now = run_page(text, page.relative_to(ROOT).as_posix(), Path(folder).resolve())
    if comparable(now) == comparable(text):
        return False
    page.write_text(now, encoding="utf-8")
    return True


if __name__ == "__main__":
    for one in pages():
        if refresh(one):
            print(f"written: {one.relative_to(ROOT)}")
