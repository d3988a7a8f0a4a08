"""Write an instance to a TOML file that :func:`files.load_instance` reads back bit by bit.

Matrices of more than ``INLINE_CELLS`` pairs go to an NPZ file of the same name beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem
from opportune.model.day import Day, absences_of_shifts
from opportune.model.duration import Deterministic, Duration, Geometric
from opportune.model.loss import LossInstance
from opportune.model.writing import npz_bytes, put_all

INLINE_CELLS = 400
"""Largest matrix (in pairs) that is written into the TOML file itself."""

LINE_ITEMS = 8
"""Numbers or names on one line of a long list."""


def save_instance(instance: LossInstance, path: str | Path) -> None:
    """Write an instance file; an existing one, and the NPZ file beside it, are replaced.

    Args:
        instance: The instance.
        path: Where to; must end in .toml. ``load_instance(path)`` gives an equal instance.

    Raises:
        InputError: If the path does not end in .toml, or cannot be written.
    """
    put_all(instance_files(instance, Path(path)), "path")


def instance_files(instance: LossInstance, path: Path) -> dict[Path, bytes]:
    """The content of an instance file, and of the NPZ file beside it if there is one.

    Args:
        instance: The instance.
        path: Where the first is to be; must end in .toml.

    Raises:
        InputError: If the path does not end in .toml.
    """
    duty = []
    if instance.availability is not None:
        duty = [f"availability = {_numbers(instance.availability)}"]
    return _files(instance, path, duty, [])


def save_day(day: Day, path: str | Path) -> None:
    """Write a day as an instance file with ``profile`` and ``availability``.

    Args:
        day: The day.
        path: Where to; must end in .toml. ``load_day(path)`` gives a day of equal digest.

    Raises:
        InputError: If the path does not end in .toml, or cannot be written.
    """
    put_all(day_files(day, Path(path)), "path")


def day_files(day: Day, path: Path) -> dict[Path, bytes]:
    """The content of the instance file of a day, and of the NPZ file beside it if there is one.

    Args:
        day: The day.
        path: Where the first is to be; must end in .toml.

    Raises:
        InputError: If the path does not end in .toml.
    """
    duty = []
    if len(day.off_duty):
        shifts = absences_of_shifts(day.off_duty, day.base.n_servers, day.steps)
        rows = "".join(
            f"  [{_text(day.base.servers[r])}, {first}, {end}],\n"
            for r, first, end in shifts.tolist()
        )
        duty = [f'availability = {{missing = "never", shifts = [\n{rows}]}}']
    profile = [
        "",
        "[profile]",
        f"period_steps = {day.period_steps}",
        f"periods = {_list(map(_text, day.periods))}",
        f"multiplier = {_matrix(day.multiplier)}",
    ]
    return _files(day.base, path, duty, profile)


def _files(
    instance: LossInstance, path: Path, duty: list[str], profile: list[str]
) -> dict[Path, bytes]:
    """The file: keys, then ``duty``, then tables, then the table ``profile``."""
    if path.suffix.lower() != ".toml":
        raise InputError(Problem("path", repr(str(path)), "a path ending in .toml"))
    lines = [
        f"name = {_text(instance.name)}",
        f"task_types = {_list(map(_text, instance.task_types))}",
        f"servers = {_list(map(_text, instance.servers))}",
        f"servers_per_task = {_servers_per_task(instance)}",
        f"arrival_rate = {_numbers(instance.arrival_rate)}",
    ]
    big = instance.match_reward.size > INLINE_CELLS
    arrays: dict[str, NDArray[Any]] = {"match_reward": instance.match_reward}
    if instance.has_forbidden_pairs:
        arrays["allowed"] = instance.allowed
    by_server = instance.server_duration
    if by_server is not None:
        arrays["which"] = by_server.which
    beside = path.with_suffix(".npz")
    file = _text(beside.name if not beside.name.startswith("~") else f"./{beside.name}")
    for name, array in arrays.items():
        reference = f'{{file = {file}, array = "{name}"}}' if big else _matrix(array)
        if by_server is not None and name == "which":
            laws = _list("{" + ", ".join(_duration(law)) + "}" for law in by_server.laws)
            reference = f"{{laws = {laws}, which = {reference}}}"
            name = "server_duration"
        lines.append(f"{name} = {reference}")
    lines += [*duty, *_durations(instance.duration), *profile]
    files = {beside: npz_bytes(arrays)} if big else {}
    return {**files, path: ("\n".join(lines) + "\n").encode()}


def _servers_per_task(instance: LossInstance) -> str:
    one = instance.one_k
    return str(one) if one is not None else _list(str(int(k)) for k in instance.servers_per_task)


def _durations(durations: Sequence[Duration]) -> list[str]:
    if all(duration == durations[0] for duration in durations):
        return ["", "[duration]", *_duration(durations[0])]
    return [line for one in durations for line in ("", "[[duration]]", *_duration(one))]


def _duration(duration: Duration) -> list[str]:
    if isinstance(duration, Deterministic):
        return ['kind = "deterministic"', f"steps = {duration.steps}"]
    if isinstance(duration, Geometric):
        return ['kind = "geometric"', f"mean = {duration.mean!r}"]
    return [
        'kind = "empirical"',
        f"steps = {_list(str(int(d)) for d in duration.steps)}",
        f"weight = {_numbers(duration.weight)}",
    ]


def _matrix(array: NDArray[Any]) -> str:
    return "[\n" + "".join(f"  {_numbers(row)},\n" for row in array) + "]"


def _numbers(array: NDArray[Any]) -> str:
    if array.dtype == np.bool_:
        return _list("true" if flag else "false" for flag in array)
    return _list(repr(float(number)) for number in array)


def _list(items: Iterable[str]) -> str:
    texts = list(items)
    if len(texts) <= 4 * LINE_ITEMS:
        return "[" + ", ".join(texts) + "]"
    parts = [texts[i : i + LINE_ITEMS] for i in range(0, len(texts), LINE_ITEMS)]
    return "[\n" + "".join("  " + ", ".join(part) + ",\n" for part in parts) + "]"


def _text(text: str) -> str:
    """A TOML basic string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda m: f"\\u{ord(m[0]):04x}", escaped) + '"'
