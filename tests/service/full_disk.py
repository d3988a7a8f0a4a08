"""A disk that is full when a test says so: SQLite is told that it cannot write."""

from __future__ import annotations

import apsw


class Disk(apsw.VFS):
    """Where SQLite writes by default until ``unregister``.

    Attributes:
        full: Whether nothing more can be written.
    """

    def __init__(self) -> None:
        self.full = False
        self.base = apsw.vfs_names()[0]
        super().__init__("full-disk", self.base, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> _File:  # noqa: N802
        """Open a file (SQLite asks)."""
        return _File(self, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        super().__init__(disk.base, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        """Write (SQLite asks)."""
        if self._disk.full:
            raise apsw.FullError("database or disk is full")
        super().xWrite(data, offset)
