"""Finished replications kept in a folder, so that an interrupted run goes on where it stopped.

A file is named after a hash of everything that decides its content: the instance, the plans, the
run and the code that computes. One that is there is whole (it is written beside its place and
moved), and its numbers are the very bits that were computed: a seal over its name and its arrays
says so. A file that was damaged, edited or renamed counts as not there and is computed again.
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
from numpy.typing import NDArray

from opportune.experiments.code_version import code_version
from opportune.kernels.loss import Trace
from opportune.model.writing import npz_bytes, put

SEAL = "seal"
"""Name of the array that holds the seal."""


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
        path = self.path(parts)
        try:
            content = io.BytesIO(path.read_bytes())
            with np.load(content, allow_pickle=False) as arrays:
                columns = [arrays[name] for name in Trace._fields]
                if str(arrays[SEAL]) != _seal(path, columns):
                    return None
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None
        return [Trace(*one) for one in zip(*columns, strict=True)]

    def save(self, parts: Sequence[Any], traces: Sequence[Trace]) -> None:
        """Keep the traces of a replication.

        Raises:
            InputError: If the folder cannot be written to.
        """
        columns = {
            name: np.array([getattr(trace, name) for trace in traces]) for name in Trace._fields
        }
        path = self.path(parts)
        columns[SEAL] = np.array(_seal(path, list(columns.values())))
        put(path, npz_bytes(columns), "--keep")


def _seal(path: Path, columns: Sequence[NDArray[Any]]) -> str:
    """A hash of a file's name and of its arrays."""
    state = hashlib.sha256(path.stem.encode())
    for column in columns:
        state.update(f"{column.dtype}{column.shape}".encode())
        state.update(np.ascontiguousarray(column).tobytes())
    return state.hexdigest()
