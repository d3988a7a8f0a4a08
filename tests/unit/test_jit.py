"""The compile cache: a change in any kernel recompiles all of them, and nothing else does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core.errors import TypingError

from opportune.kernels import allocate, jit, loss, markov, streams
from opportune.kernels.jit import KERNELS_STAMP

MAIN = "from little.outer import twice\nprint(twice(3))\n"
OUTER = "from little.inner import inner\nfrom little.jit import jit\n\n\n@jit\ndef twice(x):\n    "
OUTER += "return 2 * inner(x)\n"
INNER = "from little.jit import jit\n\n\n@jit\ndef inner(x):\n    return x + {}\n"
PLAIN = "import numba\n\n\ndef jit(function):\n    return numba.njit(cache=True)(function)\n"


def compiled_kernels() -> list[Any]:
    """Every compiled function of the kernels."""
    modules = (allocate, loss, markov, streams)
    return [f for m in modules for f in vars(m).values() if hasattr(f, "py_func")]


def test_every_kernel_is_stamped_with_the_text_of_all() -> None:
    kernels = compiled_kernels()
    assert len(kernels) > 12
    for function in kernels:
        assert function._cache._cache_file._source_stamp == KERNELS_STAMP
        assert function.targetoptions["nogil"]
        assert function.targetoptions["error_model"] == "numpy"
        assert not function.targetoptions.get("fastmath", False)
        assert function.nopython_signatures or not function.signatures


def test_the_stamp_follows_the_text_of_every_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(jit.__file__).parent
    for path in folder.glob("*.py"):
        shutil.copy(path, tmp_path / path.name)
    monkeypatch.setattr(jit, "__file__", str(tmp_path / "jit.py"))
    assert jit._stamp() == KERNELS_STAMP
    for path in sorted(tmp_path.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        path.write_text(text + "\n# changed\n", encoding="utf-8")
        assert jit._stamp() != KERNELS_STAMP, path.name
        path.write_text(text, encoding="utf-8")
    assert jit._stamp() == KERNELS_STAMP


def run_little(folder: Path) -> str:
    """What the little program prints in a process of its own."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-B", "-c", MAIN],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def written(folder: Path) -> dict[str, int]:
    """Compiled files of the cache, with the time they were written."""
    return {path.name: path.stat().st_mtime_ns for path in (folder / "cache").rglob("*.nbc")}


@pytest.mark.parametrize("stamped", [True, False])
def test_a_change_in_a_called_function_of_another_file_recompiles(
    tmp_path: Path, stamped: bool
) -> None:
    """With numba's own stamp it does not: that is what ours is for."""
    little = tmp_path / "little"
    little.mkdir()
    own = Path(jit.__file__).read_text(encoding="utf-8")
    files = {"__init__": "", "jit": own if stamped else PLAIN, "outer": OUTER}
    for name, text in files.items():
        (little / f"{name}.py").write_text(text, encoding="utf-8")
    (little / "inner.py").write_text(INNER.format(1), encoding="utf-8")
    assert run_little(tmp_path) == "8"
    first = written(tmp_path)
    assert first
    assert run_little(tmp_path) == "8"
    assert written(tmp_path) == first  # nothing compiled again
    (little / "inner.py").write_text(INNER.format(10), encoding="utf-8")
    assert run_little(tmp_path) == ("26" if stamped else "8")


def test_without_a_place_for_a_cache_it_compiles_all_the_same() -> None:
    namespace: dict[str, Any] = {}
    exec("def plus(x):\n    return x + 1\n", namespace)
    plus = jit.jit(namespace["plus"])
    assert plus(1) == 2
    assert plus.targetoptions["error_model"] == "numpy"


def test_division_by_zero_follows_the_floating_point_standard() -> None:
    namespace: dict[str, Any] = {}
    exec("def divide(x, y):\n    return x / y\n", namespace)
    assert jit.jit(namespace["divide"])(1.0, 0.0) == float("inf")


def test_in_place_is_for_what_allocates_nothing() -> None:
    namespace: dict[str, Any] = {"np": np}
    exec("def double(x):\n    x[:] = 2.0 * x[0]\n", namespace)
    exec("def room(n):\n    return np.zeros(n)\n", namespace)
    values = np.array([1.5, 0.0])
    jit.jit_in_place(namespace["double"])(values)
    assert values.tolist() == [3.0, 3.0]
    with pytest.raises(TypingError, match="No implementation"):
        jit.jit_in_place(namespace["room"])(3)
