"""The map of the service names modules that are there."""

from __future__ import annotations

import importlib
import re
from importlib.util import find_spec
from types import ModuleType

from opportune import service


def test_every_name_on_the_map_is_a_module_or_in_one() -> None:
    named = re.findall(r"``([\w.]+)``", service.__doc__ or "")
    assert len(named) > 30
    missing = [name for name in named if not is_there(name)]
    assert not missing


def is_there(name: str) -> bool:
    """Whether a name, from ``opportune.service`` on, is a module or stands in one."""
    place: object = service
    for part in name.split("."):
        if isinstance(place, ModuleType) and hasattr(place, "__path__"):
            if find_spec(f"{place.__name__}.{part}") is None:
                return False
            place = importlib.import_module(f"{place.__name__}.{part}")
        elif hasattr(place, part):
            place = getattr(place, part)
        else:
            return False
    return True


def test_a_name_that_is_not_there_is_found() -> None:
    assert not is_there("nowhere")
    assert not is_there("engine.nowhere")
