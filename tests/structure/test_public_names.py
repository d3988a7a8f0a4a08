"""``import opportune`` is light, and its names lead where they say."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import opportune

NAMES = [name for name in opportune.__all__ if name != "__version__"]


def _python(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_resolves(name: str) -> None:
    module, _, own_name = opportune._MODULES[name].partition(":")
    assert getattr(opportune, name) is getattr(importlib.import_module(module), own_name or name)


def test_table_and_all_agree() -> None:
    assert sorted(opportune._MODULES) == sorted(NAMES)
    assert sorted(opportune.__all__) == opportune.__all__
    assert set(opportune.__all__) <= set(dir(opportune))


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(opportune.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    typed = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            own_name = f":{alias.name}" if alias.asname else ""
            typed[alias.asname or alias.name] = f"{node.module}{own_name}"
    assert typed == opportune._MODULES


def test_no_public_name_is_a_subpackage() -> None:
    subpackages = {module.name for module in pkgutil.iter_modules(opportune.__path__)}
    assert subpackages & set(opportune.__all__) == set()


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'opportune' has no attribute 'nonsense'"):
        _ = opportune.nonsense
    assert not hasattr(opportune, "nonsense")


def test_import_loads_nothing_outside_the_standard_library() -> None:
    loaded = _python(
        "import sys; before = set(sys.modules)\n"
        "import opportune; print(*sorted(set(sys.modules) - before))"
    ).split()
    outside = {name.split(".")[0] for name in loaded} - sys.stdlib_module_names
    assert outside == {"opportune"}
    assert [name for name in loaded if name.startswith("opportune.")] == []


def test_import_takes_less_than_a_second() -> None:
    """Of a processor, whatever else the machine does."""
    seconds = [
        float(_python("import opportune, time; print(time.process_time())")) for _ in range(3)
    ]
    assert min(seconds) < 1.0
