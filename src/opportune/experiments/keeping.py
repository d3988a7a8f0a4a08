"""Finished replications kept in a folder, so that an interrupted run goes on where it stopped.

A file is named after a hash of everything that decides its content: the instance, the plans, the
run and the code that computes. One that is there is whole (it is written beside its place and
moved), and its numbers are the very bits that were computed.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from opportune.experiments.code_version import code_version
from opportune.experiments.storing import put
from opportune.kernels.loss import Trace


@dataclass(frozen=True)
class Kept:
    """A folder of finished replications.

    Attributes:
        folder: Made when the first one is saved.
    """

    folder: Path

    def path(self, parts: Sequence[Any]) -> Path:
        """The file of a replication.

        Args:
            parts: What decides its traces, each with a ``repr`` that says all of it.
        """
        text = repr((*parts, code_version()))
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.npz"

    def load(self, parts: Sequence[Any]) -> list[Trace] | None:
        """The traces of a replication, None if its file is not there or damaged."""
        try:
            content = io.BytesIO(self.path(parts).read_bytes())
            with np.load(content, allow_pickle=False) as arrays:
                columns = [arrays[name] for name in Trace._fields]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None
        return [Trace(*one) for one in zip(*columns, strict=True)]

    def save(self, parts: Sequence[Any], traces: Sequence[Trace]) -> None:
        """Keep the traces of a replication.

        Raises:
            InputError: If the folder cannot be written to.
        """
        content = io.BytesIO()
        columns = {
            name: np.array([getattr(trace, name) for trace in traces]) for name in Trace._fields
        }
        np.savez_compressed(content, **columns)  # type: ignore[arg-type]
        put(self.path(parts), content.getvalue(), "--keep")
