"""Load a queue: a catalog id or an instance file (TOML)."""

from __future__ import annotations

from pathlib import Path

from opportune.errors import InputError, OpportuneError
from opportune.model.catalog import QUEUE_IDS
from opportune.model.files import InstanceCheck, read_toml
from opportune.model.queue import QueueInstance
from opportune.model.queue_capacity import queue_capacity
from opportune.model.queue_catalog import QueueChoice, catalog_queue, choice_keys
from opportune.model.queue_description import read_queue
from opportune.model.queue_generator import QueueWorld
from opportune.model.spelling import counted


def load_queue(source: str | Path, choice: QueueChoice | None = None) -> QueueWorld:
    """The queue instance of a catalog id or an instance file.

    Args:
        source: An id such as ``"hard-v1"``, ``"cqb-joint-v1"``, or a path ending in .toml.
        choice: Horizon, arrival rate and the like in place of what the id or the file says.

    Raises:
        InputError: Every problem found: field, value, what was expected and what to change.
        MissingExtraError: If a package is missing for a file.
    """
    choice = QueueChoice() if choice is None else choice
    if isinstance(source, str) and not source.lower().endswith(".toml"):
        return catalog_queue(source, choice)
    path = Path(source)
    data = read_toml(path)
    choice.refuse(("dimension", "servers"), path.name)
    return read_queue(data, path.parent, path.stem, choice_keys(choice))


def is_queue(source: str | Path) -> bool:
    """Whether a source is a queue: an id of one, or a file with contexts."""
    if str(source) in QUEUE_IDS:
        return True
    if not str(source).lower().endswith(".toml"):
        return False
    try:
        return "contexts" in read_toml(Path(source))
    except InputError:  # for the reader of the file to say
        return False


def check_queue(source: str | Path, load: float | None = None) -> InstanceCheck:
    """Everything that is wrong with a queue, and a summary; never raises for bad input."""
    try:
        world = load_queue(source, QueueChoice(load=load))
    except OpportuneError as error:
        told = counted(len(error.problems), "problem")
        return InstanceCheck(error.problems, f"{source}: {told}")
    return InstanceCheck((), queue_summary(world))


def queue_summary(world: QueueWorld) -> str:
    """The queue in one line."""
    kind = "a weight each" if world.disjoint else "one weight"
    parts = [
        counted(world.n_servers, "server"),
        f"{counted(world.dimension, 'number')} to learn ({kind})",
        f"{world.arrival_rate:.4g} arrivals per step",
    ]
    if isinstance(world, QueueInstance):
        parts.append(f"the oracle serves {queue_capacity(world).tasks_per_step:.4g}")
    return f"{world.name}: " + ", ".join([*parts, *world.notes])
