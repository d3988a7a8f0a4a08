"""The page of ``opportune learn --report``."""

from __future__ import annotations

from pathlib import Path

import pytest

from opportune.cli import run

WORDS = ["learn", "priority-v1", "--load", "0.7", "--tasks", "400", "--replications", "2"]


def test_the_page_holds_pictures_and_numbers_and_fetches_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.html"
    policies = ["--policies", "greedy-known,lag-learned,greedy-learned"]
    assert run([*WORDS, *policies, "--report", str(path)]) == 0
    assert "report:" in capsys.readouterr().err
    text = path.read_text(encoding="utf-8")
    assert text.count("<svg") == 3
    assert "earns" in text
    assert "lag-learned" in text
    assert "--replications 2" in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "<script" not in text
