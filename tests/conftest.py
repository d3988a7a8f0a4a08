"""What all tests share: the folder of real data, and a quiet hypothesis."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("opportune", deadline=None, derandomize=True)
settings.load_profile("opportune")


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder that ``OPPORTUNE_DATA`` names; the test is skipped where it is not set."""
    folder = os.environ.get("OPPORTUNE_DATA", "")
    if not folder:
        pytest.skip("OPPORTUNE_DATA is not set: this test reads real data that is not shipped")
    if not Path(folder).is_dir():
        pytest.skip(f"OPPORTUNE_DATA names no folder: {folder}")
    return Path(folder).resolve()


WriteInstance = Callable[..., Path]


@pytest.fixture
def write_instance(tmp_path: Path) -> WriteInstance:
    """Write ``instance.toml`` from a text, and files beside it; returns its path.

    A file is given as ``scores_csv="a,1"`` for ``scores.csv``: text, bytes, or a dict of arrays
    for an NPZ file. Keys that a good instance needs and the text lacks are filled in: two task
    types and three servers, geometric durations.
    """

    def write(text: str = "", **files: str | bytes | dict[str, np.ndarray]) -> Path:
        for key, content in files.items():
            stem, _, suffix = key.rpartition("_")
            place = tmp_path / f"{stem}.{suffix}"
            if isinstance(content, dict):
                np.savez(place, **content)  # type: ignore[arg-type]
            else:
                place.write_bytes(content.encode() if isinstance(content, str) else content)
        filled = text + "\n"
        if "match_reward" not in text:
            filled = "match_reward = [[1, 2, 3], [4, 5, 6]]\n" + filled
        if "arrival_rate" not in text and "type_share" not in text:
            filled = "arrival_rate = [0.1, 0.2]\n" + filled
        if "duration" not in text:
            filled = 'duration = {kind = "geometric", mean = 5}\n' + filled
        path = tmp_path / "instance.toml"
        path.write_text(filled, encoding="utf-8")
        return path

    return write
