"""What the figures were measured on, and how a process is kept on one core."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import opportune

PACKAGES = ("numpy", "numba", "llvmlite", "scipy", "highspy", "piqp")

AT_START = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
"""Cores of this process before it was pinned."""


def pin_to_one_core() -> str:
    """Keep this process and its children on one core; returns a sentence that says so.

    Outside Linux there is no such call, and the sentence says that instead.
    """
    if not hasattr(os, "sched_setaffinity"):
        return "not pinned: this system has no call for it, so a second core may help"
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return f"pinned to core {core}, children too"


@contextmanager
def all_cores() -> Iterator[int]:
    """Every core that this process was given at its start, for the time inside; their number."""
    if not hasattr(os, "sched_setaffinity"):
        yield os.cpu_count() or 1
        return
    pinned = os.sched_getaffinity(0)
    os.sched_setaffinity(0, AT_START)
    try:
        yield len(AT_START)
    finally:
        os.sched_setaffinity(0, pinned)


def machine_facts() -> dict[str, str | int]:
    """Cores, processor, system, Python and the packages that decide the speed."""
    facts: dict[str, str | int] = {
        "cores": os.cpu_count() or 1,
        "processor": _processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "opportune": opportune.__version__,
    }
    if hasattr(os, "getloadavg"):
        facts["load_average"] = f"{os.getloadavg()[0]:.2f}"
    for package in PACKAGES:
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = "missing"
    return facts


def _processor() -> str:
    """The model's name as the system tells it."""
    listing = Path("/proc/cpuinfo")
    if listing.is_file():
        for line in listing.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or "unknown"
