"""A day: arrival rates that change by period, servers that come and go (ours).

The day repeats; what a file says of it is read by ``schedule_entry``. In period p the rates are
``base.arrival_rate * multiplier[p]``; a server takes no new task while it is off duty, and finishes
the one it has. Nothing here is stationary, so
the theorems of the loss model hold within a long period at best: what is priced per period is a
plan, not a bound on the day (servers also finish tasks after their shift, which (3) with a_r in
place of 1 does not know of).
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem, shorten
from opportune.model.axes import Quantity
from opportune.model.checks import RATE_TOLERANCE, name_problems
from opportune.model.loss import LossInstance

Float = NDArray[np.float64]
Int = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Day:
    """Periods of one length, their rates, and who is on duty when.

    Attributes:
        base: The instance whose rates the multipliers scale.
        period_steps: Length of a period in steps.
        multiplier: (P, V) factor on the base rates by period and task type.
        off_duty: (n, 3) rows server, from, to: absences in steps of the day, from included, to
            excluded, within 0 and P * period_steps.
        periods: Names of the periods.

    Raises:
        InputError: Naming the field that is wrong.
    """

    base: LossInstance
    period_steps: Annotated[int, Quantity("h", "", "steps", "length of a period of the day")]
    multiplier: Annotated[
        Float, Quantity("m_pv", "P,V", "factor", "arrival rate of a period by the base rate")
    ]
    off_duty: Annotated[
        Int, Quantity("(r, a, b)", "n", "steps", "absences: server, first step, end")
    ]
    periods: tuple[str, ...]

    def __post_init__(self) -> None:
        problems = _period_problems(self) or _absence_problems(self)
        if problems:
            raise InputError(problems)
        for name in ("multiplier", "off_duty"):
            array = np.ascontiguousarray(getattr(self, name))
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def n_periods(self) -> int:
        """Number of periods P."""
        return len(self.periods)

    @property
    def steps(self) -> int:
        """Steps of the whole day."""
        return self.n_periods * self.period_steps

    @property
    def on_duty(self) -> Float:
        """(P, R) share of each period that each server is on duty."""
        off = np.zeros((self.n_periods, self.base.n_servers))
        start = np.arange(self.n_periods)[:, None] * self.period_steps
        for server, first, end in self.off_duty:
            overlap = np.minimum(end, start + self.period_steps) - np.maximum(first, start)
            off[:, server] += np.maximum(overlap[:, 0], 0) / self.period_steps
        return np.clip(1.0 - off, 0.0, 1.0)

    def is_idle(self, p: int) -> bool:
        """Whether nothing can happen in period p: nobody is on duty, or nothing arrives."""
        rate = self.base.arrival_rate * self.multiplier[p]
        return not (rate.any() and self.on_duty[p].any())

    def period(self, p: int) -> LossInstance:
        """The instance of period p: its rates, its shares of time on duty.

        Raises:
            InputError: If nobody is on duty in it.
        """
        return replace(
            self.base,
            arrival_rate=self.base.arrival_rate * self.multiplier[p],
            availability=self.on_duty[p],
            name=f"{self.base.name} {self.periods[p]}",
        )

    @property
    def mean_day(self) -> LossInstance:
        """The instance with the day's mean rates: what one plan for all periods is made for."""
        return replace(
            self.base,
            arrival_rate=self.base.arrival_rate * self.multiplier.mean(axis=0),
            availability=self.on_duty.mean(axis=0),
            name=f"{self.base.name} (mean of the day)",
        )

    def with_load(self, load: float) -> Day:
        """The same day with all rates multiplied so that the mean day has this load.

        Raises:
            InputError: If the load cannot be had; see :meth:`LossInstance.with_load`.
        """
        mean = self.mean_day
        scaled = mean.with_load(load)
        factor = float(scaled.arrival_rate.sum() / mean.arrival_rate.sum())
        rate = self.base.arrival_rate * factor
        total = float(rate.sum())
        if total <= 1.0:
            return replace(self, base=replace(self.base, arrival_rate=rate))
        base = replace(self.base, arrival_rate=rate / total)  # the multipliers take the rest
        return replace(self, base=base, multiplier=self.multiplier * total)

    @cached_property
    def digest(self) -> str:
        """A hash of everything that decides a result."""
        state = hashlib.sha256(self.base.digest.encode())
        for array in (self.multiplier, merge_absences(self.off_duty)):
            state.update(np.ascontiguousarray(array).tobytes())
        state.update(repr((self.period_steps, self.periods)).encode())
        return state.hexdigest()[:16]


def merge_absences(off_duty: Int) -> Int:
    """(n, 3) absences with overlapping or touching ones of a server joined, by server and time."""
    merged: list[list[int]] = []
    for server, first, end in off_duty[np.lexsort((off_duty[:, 1], off_duty[:, 0]))]:
        if merged and merged[-1][0] == server and first <= merged[-1][2]:
            merged[-1][2] = max(merged[-1][2], int(end))
        else:
            merged.append([int(server), int(first), int(end)])
    return np.array(merged, dtype=np.int64).reshape(-1, 3)


def breaks_from_share(share: Float, n_periods: int, period_steps: int) -> Int:
    """Absences that leave each server on duty for ``share`` of every period.

    One break a period, of (1 - share) period_steps rounded to whole steps, at a place staggered
    from server to server (multiples of the golden ratio), so that not all leave at once. A
    choice of ours: a share says how much, not when.
    """
    rows = []
    for server, on in enumerate(share):
        length = round((1.0 - float(on)) * period_steps)
        if length == 0:
            continue
        place = int(((server * 0.6180339887498949) % 1.0) * (period_steps - length + 1))
        for p in range(n_periods):
            first = p * period_steps + place
            rows.append((server, first, first + length))
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def absences_of_shifts(shifts: Int, n_servers: int, steps: int) -> Int:
    """(n, 3) absences: what the shifts (rows server, from, to) leave of a day."""
    joined = merge_absences(shifts)
    rows = []
    for server in range(n_servers):
        free_from = 0
        for _, first, end in joined[joined[:, 0] == server]:
            if first > free_from:
                rows.append((server, free_from, first))
            free_from = end
        if free_from < steps:
            rows.append((server, free_from, steps))
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def _period_problems(day: Day) -> list[Problem]:
    if isinstance(day.period_steps, bool) or not (
        isinstance(day.period_steps, (int, np.integer)) and day.period_steps >= 1
    ):
        return [
            Problem("profile.period_steps", shorten(day.period_steps), "a whole number, at least 1")
        ]
    shape = np.shape(day.multiplier)
    if len(shape) != 2 or shape[1] != day.base.n_types or shape[0] != len(day.periods):
        return [
            Problem(
                "profile.multiplier",
                f"shape {shape}",
                f"a row per period ({len(day.periods)}), a column per type ({day.base.n_types})",
            )
        ]
    problems = name_problems("profile.periods", day.periods, len(day.periods))
    if problems:
        return problems
    bad = np.argwhere(~((day.multiplier >= 0) & np.isfinite(day.multiplier)))
    if len(bad):
        p, v = (int(i) for i in bad[0])
        return [
            Problem(
                f"profile.multiplier[{p},{v}]",
                f"{day.multiplier[p, v]}",
                "a finite factor, at least 0",
            )
        ]
    total = (day.base.arrival_rate * day.multiplier).sum(axis=1)
    worst = int(np.argmax(total))
    if total[worst] > 1 + RATE_TOLERANCE:
        most = float(total[worst])
        factor = math.ceil(most * 100) / 100 if most < 1e9 else most
        return [
            Problem(
                "profile.multiplier",
                f"period {day.periods[worst]} has {total[worst]:.4g} arrivals per step",
                "at most one arrival per step",
                f"shorten the step by a factor of {factor:g}",
            )
        ]
    return []


def _absence_problems(day: Day) -> list[Problem]:
    rows = np.asarray(day.off_duty)
    if rows.ndim != 2 or rows.shape[1] != 3 or rows.dtype.kind not in "iu":
        return [Problem("availability", f"shape {rows.shape}", "rows server, from, to in steps")]
    for server, first, end in rows.tolist():
        inside = 0 <= first < end <= day.steps and 0 <= server < day.base.n_servers
        if not inside:
            return [
                Problem(
                    "availability",
                    f"server {server} from {first} to {end}",
                    f"a known server and 0 <= from < to <= {day.steps} steps of the day",
                )
            ]
    return []
