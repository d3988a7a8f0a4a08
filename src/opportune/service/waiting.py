"""Tasks that wait: by type, each type in the order of priority + age weight x wait.

Of two tasks of one type the order never changes while they wait, since both age alike: a sorted
list per type suffices, and a freed server looks at the heads of the lists.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field

Entry = tuple[float, float, int]
"""(age weight x created - priority, created, number of the task): smaller goes first."""


@dataclass(slots=True)
class WaitingTasks:
    """The waiting tasks of a pool."""

    by_type: dict[int, list[Entry]] = field(default_factory=dict)
    size: int = 0

    def add(self, task_type: int, entry: Entry) -> None:
        """A task begins to wait."""
        insort(self.by_type.setdefault(task_type, []), entry)
        self.size += 1

    def remove(self, task_type: int, entry: Entry) -> None:
        """A task does not wait any more."""
        entries = self.by_type[task_type]
        del entries[bisect_left(entries, entry)]
        self.size -= 1

    def position(self, entry: Entry) -> int:
        """How many waiting tasks of all types go before, plus one."""
        return 1 + sum(bisect_left(entries, entry) for entries in self.by_type.values())

    def in_order(self) -> Iterator[Entry]:
        """All entries, first ones first."""
        yield from sorted(entry for entries in self.by_type.values() for entry in entries)


def entry_of(age_weight: float, priority: float, created: float, number: int) -> Entry:
    """Where a task stands in its list."""
    return age_weight * created - priority, created, number
