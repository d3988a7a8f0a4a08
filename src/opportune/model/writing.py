"""Files that are written whole or not at all, and the places that they may have.

What is written goes into a file beside its place, which is moved there when all of it is written:
on a full disk or an interrupt what stood there before is still there. Several files that belong
together are moved at the end, one after the other.
"""

from __future__ import annotations

import errno
import io
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem

OUT = "--out"

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of the system that say that there is no room."""


@contextmanager
def written_whole(paths: Sequence[Path], option: str = OUT) -> Iterator[list[Path]]:
    """Files to write in place of others; they are moved there if the block ends well.

    Args:
        paths: Where the files belong; their folders are made. What is there and no file, such as
            ``/dev/stdout``, is written to itself.
        option: What the user gave the path by, for the message.

    Yields:
        The files to write, one for each path.

    Raises:
        InputError: If one cannot be written; then none of them is.
    """
    made: list[Path] = []
    path = paths[0]
    try:
        made.extend(map(_beside, paths))
        yield made
        for one, path in zip(made, paths, strict=True):
            if one != path:
                if path.exists():
                    one.chmod(path.stat().st_mode & 0o777)  # who may read it is as before
                os.replace(one, path)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(_unwritten(path, option, error)) from error
    finally:
        for one, path in zip(made, paths, strict=False):
            if one != path:
                one.unlink(missing_ok=True)


def put(path: Path, content: bytes, option: str = OUT) -> None:
    """Write a file.

    Args:
        path: The file.
        content: All of it.
        option: What the user gave the path by, for the message.

    Raises:
        InputError: If it cannot be written; then nothing is.
    """
    put_all({path: content}, option)


def put_all(files: Mapping[Path, bytes], option: str = OUT) -> None:
    """Write files that belong together: all of them, or none if one cannot be written.

    Args:
        files: All of the content of each file.
        option: What the user gave the paths by, for the message.

    Raises:
        InputError: If one cannot be written.
    """
    with written_whole(list(files), option) as made:
        for one, content in zip(made, files.values(), strict=True):
            one.write_bytes(content)


def npz_bytes(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """An NPZ file of arrays, compressed."""
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def check_place(path: Path, option: str = OUT) -> None:
    """Refuse a path that cannot be written, before the work that it is for; nothing is made.

    Raises:
        InputError: If it is a folder, or there can be no file at its place.
    """
    try:
        above = next(one for one in path.absolute().parents if one.exists())
        if path.is_dir():
            told = "is a folder"
        elif not above.is_dir():
            told = f"{above} is no folder"
        elif not os.access(above, os.W_OK | os.X_OK):
            told = f"the folder {above} cannot be written to"
        else:
            path.exists()  # a name that is too long
            return
    except (OSError, ValueError) as error:
        told = str(getattr(error, "strerror", None) or error)
    raise InputError(
        Problem(
            option,
            f"{path}: {told}",
            "a place that can be written to",
            "name a file in a folder that you may write to",
        )
    )


def check_apart(path: Path, source: Path, option: str = OUT) -> None:
    """Refuse to write over the file that is read, by whatever name it is reached.

    Raises:
        InputError: If both are one file.
    """
    if path.exists() and source.exists() and path.samefile(source):
        raise InputError(
            Problem(
                option,
                f"{path} is the file that is read",
                "another file",
                "it would be overwritten; name another",
            )
        )


def check_companion(path: Path, companion: Path, what: str, option: str = OUT) -> None:
    """Refuse to write over a file that lies beside a place and is not of that place.

    Args:
        path: The file that the user names.
        companion: The file that is written beside it.
        what: Whose ``path`` is, for the message: ``plan``.
        option: What the user gave the path by.

    Raises:
        InputError: If the companion is there without ``path``: then it is somebody else's.
    """
    if companion.exists() and not path.exists():
        told = f"{companion} is there, without the {path.name} of a {what}"
        remedy = "it would be overwritten; name another, or remove it"
        expected = f"a name whose {companion.suffix} is free"
        raise InputError(Problem(option, told, expected, remedy))


def _beside(path: Path) -> Path:
    """A new empty file in the folder of a path; the path itself if it is there and no file."""
    if path.exists() and not path.is_file() and not path.is_dir():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_name(f".{path.name[:40]}.{secrets.token_hex(6)}")
    made.touch(exist_ok=False)
    return made


def _unwritten(path: Path, option: str, error: OSError) -> Problem:
    remedy = "name one in a folder that you may write to"
    if error.errno in FULL:
        remedy = "make room there, or name another"
    told = f"{path}: {error.strerror or error}"
    return Problem(option, told, "a place that can be written to", remedy)
