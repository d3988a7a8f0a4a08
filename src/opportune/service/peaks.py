"""How much memory another process needed."""

from __future__ import annotations

from pathlib import Path


def peak_memory(pid: int) -> int | None:
    """Largest resident memory of a process in bytes; None where the system does not tell."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return None
