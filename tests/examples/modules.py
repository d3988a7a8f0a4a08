"""Modules of an example, which has no package: two examples may have a module of the same name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@contextmanager
def modules_of(example: str) -> Iterator[Callable[[str], ModuleType]]:
    """Import modules of an example by name; they are forgotten afterwards."""
    folder = str(EXAMPLES / example)
    sys.path.insert(0, folder)
    try:
        yield importlib.import_module
    finally:
        sys.path.remove(folder)
        for name, module in list(sys.modules.items()):
            if Path(getattr(module, "__file__", None) or "/").parent == Path(folder):
                del sys.modules[name]
