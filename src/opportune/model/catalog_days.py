"""Days by id: the shape of real days, on the agents, scores and durations of ``bank-v1``.

``bank-day-v1@Sun`` to ``@Sat``: the calls of the bank by weekday, hour and type.
``bank-calls-day-v1@Mon`` to ``@Fri``: the calls of another bank by half hour, 7:00 to 21:00,
without types, so all types of ``bank-v1`` follow them. Agents of both work shifts that a rule of
ours makes (:func:`greedy_shifts`): no source says when they worked. Both need the data folder.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError, Problem
from opportune.model.catalog import (
    BANK_STEP,
    MOST_CALLS,
    catalog,
    catalog_instance,
    data_folder,
    stretched,
)
from opportune.model.day import Day, absences_of_shifts
from opportune.model.loss import LossInstance, load_problem
from opportune.model.spelling import did_you_mean
from opportune.model.tables import read_sheet

Float = NDArray[np.float64]
Int = NDArray[np.int64]

HOURLY = "anonymous_bank/hourly_arrivals.csv"
FIVE_MINUTES = "bank_calls/five_minute_counts.csv"

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
WORKDAYS = WEEKDAYS[:5]

SHIFT_HOURS = 8
"""Length of a shift."""

HALF_HOUR = 30
"""Minutes of a period of the days without types."""

FIRST_HOUR, LAST_HOUR = 7, 21
"""When the days without types begin and end."""


def catalog_day(day_id: str, load: float | None, shifts: bool = True) -> Day:
    """The day of an id, its mean at a load.

    Args:
        day_id: For example ``"bank-day-v1@Wed"``; without a weekday, Wednesday. Every id of
            :func:`catalog.catalog` is a day of one period.
        load: The load; required, since the data have shapes of days only.
        shifts: Agents work in shifts; otherwise everybody is on duty all day.

    Raises:
        InputError: If there is no such id or weekday, no load, or the data are missing.
    """
    name, at, weekday = day_id.partition("@")
    if name not in DAYS:
        known = [*DAYS, *(entry.id for entry in catalog())]
        if name not in known:
            raise InputError(
                Problem(
                    "instance",
                    repr(day_id),
                    "a day (" + ", ".join(DAYS) + "), an id of the catalog, or a .toml path",
                    did_you_mean(name, known),
                )
            )
        base = catalog_instance(day_id, load)
        steps = max(1_000, int(np.ceil(10 * base.mean_duration.max())))
        nobody = np.zeros((0, 3), dtype=np.int64)
        return Day(base, steps, np.ones((1, base.n_types)), nobody, ("all day",))
    build, days = DAYS[name]
    weekday = weekday if at else "Wed"
    if weekday not in days:
        told = f"{name}@ and one of {', '.join(days)}"
        raise InputError(Problem("instance", repr(day_id), told, did_you_mean(weekday, days)))
    if load is None:
        raise InputError(Problem("load", "not given", "a load, for example --load 0.7"))
    problem = load_problem(load)
    if problem is not None:
        raise InputError(problem)
    periods, minutes, rates = build(weekday)
    return _at_load(f"{name}@{weekday}", (periods, minutes, rates), load, shifts)


def _bank_day(weekday: str) -> tuple[tuple[str, ...], int, Float]:
    """Hours of a weekday: names, minutes, (24, V) calls."""
    name = "bank-day-v1"
    folder = data_folder(name, (HOURLY,))
    sheet = read_sheet(name, folder / HOURLY, HOURLY).with_header(name)
    days, types = sheet.names(0), sheet.names(2)
    hours, calls = sheet.numbers(name, 1), sheet.numbers(name, 3)
    task_types = catalog_instance("bank-v1", 0.1).task_types
    rates = np.zeros((24, len(task_types)))
    for day, hour, kind, number in zip(days, hours, types, calls, strict=True):
        if day == weekday and kind in task_types:
            rates[int(hour), task_types.index(kind)] += number
    return tuple(f"{hour:02d}:00" for hour in range(24)), 60, rates


def _bank_calls_day(weekday: str) -> tuple[tuple[str, ...], int, Float]:
    """Half hours of a working day: names, minutes, (P, V) calls, shares of types as always."""
    name = "bank-calls-day-v1"
    folder = data_folder(name, (FIVE_MINUTES,))
    sheet = read_sheet(name, folder / FIVE_MINUTES, FIVE_MINUTES).with_header(name)
    counts = sheet.numbers(name, 1)
    calls = np.zeros((LAST_HOUR - FIRST_HOUR) * 60 // HALF_HOUR)
    for told, number in zip(sheet.names(0), counts, strict=True):
        at = datetime.datetime.fromisoformat(told)
        place = ((at.hour - FIRST_HOUR) * 60 + at.minute) // HALF_HOUR
        if WEEKDAYS[at.weekday()] == weekday and 0 <= place < len(calls):
            calls[place] += number
    instance = catalog_instance("bank-v1", 0.1)
    share = instance.arrival_rate / instance.arrival_rate.sum()
    starts = [FIRST_HOUR * 60 + p * HALF_HOUR for p in range(len(calls))]
    names = tuple(f"{start // 60:02d}:{start % 60:02d}" for start in starts)
    return names, HALF_HOUR, calls[:, None] * share


def _at_load(
    name: str, shape: tuple[tuple[str, ...], int, Float], load: float, shifts: bool
) -> Day:
    """The day on the agents of ``bank-v1``; steps so short that at most one call arrives in one."""
    periods, minutes, rates = shape
    base = catalog_instance("bank-v1", 0.1)
    mean = rates.mean(axis=0)
    multiplier = np.divide(rates, mean, out=np.ones_like(rates), where=mean > 0)
    work = rates @ base.mean_duration
    shift = min(SHIFT_HOURS * 60 // minutes, len(periods) - 1)
    starts = greedy_shifts(work, base.n_servers, shift) if shifts else []
    on_duty = len(starts) * shift / len(periods) if shifts else base.n_servers
    calls = _calls_per_step(base, mean, load * on_duty)
    parts = max(1, int(np.ceil(calls * multiplier_peak(rates) / MOST_CALLS - 1e-9)))
    period_steps = parts * minutes * 60 // BANK_STEP
    day = Day(
        replace(
            base,
            arrival_rate=mean / mean.sum() * min(1.0, calls / parts),
            duration=tuple(stretched(one, parts) for one in base.duration),
            name=name if parts == 1 else f"{name} (steps of {BANK_STEP / parts:.3g} s)",
        ),
        period_steps,
        multiplier,
        absences_of_shifts(
            np.array([(r, a * period_steps, (a + shift) * period_steps) for r, a in starts]),
            base.n_servers,
            len(periods) * period_steps,
        )
        if shifts
        else np.zeros((0, 3), dtype=np.int64),
        periods,
    )
    return day.with_load(load)


def multiplier_peak(rates: Float) -> float:
    """Calls in the busiest period over those of the mean one."""
    total = rates.sum(axis=1)
    return float(total.max() / total.mean())


def _calls_per_step(base: LossInstance, mean: Float, busy: float) -> float:
    """Calls per step at which that many servers are busy on average."""
    share = mean / mean.sum()
    return float(busy / (share @ base.mean_duration))


def greedy_shifts(work: Float, n_servers: int, length: int) -> list[tuple[int, int]]:
    """Shifts of one length that follow the work: (server, first period), server by server (ours).

    Each server in turn starts where the work per server that is on duty so far is largest.

    Args:
        work: (P,) work that arrives in each period.
        n_servers: R.
        length: Periods of a shift.
    """
    there = np.zeros(len(work))
    starts = []
    for server in range(n_servers):
        missing = work / (there + 1.0)
        window = np.convolve(missing, np.ones(length), "valid")
        start = int(np.argmax(window))
        there[start : start + length] += 1.0
        starts.append((server, start))
    return starts


_Builder = Callable[[str], tuple[tuple[str, ...], int, Float]]
DAYS: dict[str, tuple[_Builder, tuple[str, ...]]] = {
    "bank-day-v1": (_bank_day, WEEKDAYS),
    "bank-calls-day-v1": (_bank_calls_day, WORKDAYS),
}
"""Id -> what reads its shape, and the weekdays that it has."""
