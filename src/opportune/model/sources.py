"""Where the files of an instance lie, and reading their bytes as text or arrays.

Text is UTF-8. Nothing is ever unpickled, nothing is fetched from a network.
"""

from __future__ import annotations

import re
import tokenize
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, shorten
from opportune.model.spelling import did_you_mean

ARRAY_FILES = (".npz", ".npy")
SHEET_FILES = (".csv", ".parquet")
PICKLES = (".pkl", ".pickle", ".joblib", ".dill")
OTHER_SHEETS = (".tsv", ".xls", ".xlsx", ".txt", ".ods")

UNREADABLE = (
    ValueError,
    OSError,
    EOFError,
    KeyError,
    SyntaxError,
    NotImplementedError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What NumPy may raise on a damaged or foreign file."""


def is_file(path: Path) -> bool:
    """Whether the path is a file that can be seen; no path at all is no error."""
    try:
        return path.is_file()
    except OSError:  # a name too long, a folder that may not be entered
        return False


def neighbors(path: Path) -> list[str]:
    """Names of the files in the folder of a path, none if it cannot be seen."""
    try:
        return sorted(one.name for one in path.parent.iterdir())
    except OSError:
        return []


def resolve(field: str, text: object, base: Path) -> Path:
    """The path of a file named in an instance file; relative to ``base``.

    Raises:
        InputError: If it is no text, a URL, starts with ``~``, does not exist, is no file, or
            is of a kind that is not read.
    """
    if not isinstance(text, str) or not text.strip():
        raise InputError(Problem(f"{field}.file", shorten(text), "the name of a file"))
    remedy = ""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", text):
        expected, remedy = "a file on this machine, not a URL", "download it first"
    elif text.startswith("~"):
        expected = "a path relative to the instance file, or an absolute one, without ~"
    elif Path(text).suffix.lower() in PICKLES:
        expected, remedy = "no pickle: they can run code", "save the array with numpy.savez"
    elif Path(text).suffix.lower() not in ARRAY_FILES + SHEET_FILES:
        expected = "a file ending in " + ", ".join(SHEET_FILES + ARRAY_FILES)
        if Path(text).suffix.lower() in OTHER_SHEETS:
            remedy = "save it as CSV, separated by commas"
    else:
        path = base / text
        if is_file(path):
            return path
        expected = f"a file, looked for in {shorten(path.parent, 200)}"
        remedy = did_you_mean(path.name, neighbors(path)) or "paths are relative to the instance"
    raise InputError(Problem(f"{field}.file", shorten(text, 200), expected, remedy))


def read_text(field: str, path: Path, file: str) -> str:
    """The text of a UTF-8 file, without a byte order mark.

    Raises:
        InputError: If it cannot be read, is no UTF-8 or holds zero bytes.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(Problem(field, f"{file}: {error.strerror}", "a readable file")) from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(
            Problem(
                field,
                f"{file} is not UTF-8 text (byte 0x{data[error.start]:02x} in line {line})",
                "text in UTF-8",
                "save the file with the encoding UTF-8",
            )
        ) from error
    if "\0" in text:
        raise InputError(
            Problem(field, f"{file} holds zero bytes", "text in UTF-8", "is it UTF-16, or binary?")
        )
    return text


def read_arrays(
    field: str, path: Path, file: str, choose: Callable[[list[str]], list[str]]
) -> dict[str, NDArray[Any]]:
    """Arrays of an NPZ file by name, or the one of an NPY file under ``""``.

    Args:
        field: What they are read for.
        path: The file.
        file: Its name as the user wrote it.
        choose: Given the names in an NPZ file, those to load (the others are not touched).

    Raises:
        InputError: If the file is unreadable or a chosen array holds pickled objects.
    """
    try:
        with path.open("rb") as stream:
            loaded = np.load(stream, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return {"": loaded}
            return {name: loaded[name] for name in choose(list(loaded.files))}
    except UNREADABLE as error:
        pickled = "pickle" in str(error).lower()
        raise InputError(
            Problem(
                field,
                f"{file} holds pickled objects" if pickled else f"{file}: {shorten(error, 120)}",
                "arrays of numbers in an NPZ or NPY file",
                "save the arrays with numpy.savez" + (", as numbers" if pickled else ""),
            )
        ) from error
