"""The occupancy LP: our ``price`` beside a plain HiGHS solve of the same instance."""

from __future__ import annotations

from benchmarks.instances import LOAD, review_instance
from benchmarks.peers import linprog_occupancy
from benchmarks.rounds import interleaved, ratios, timed
from benchmarks.sections import Effort, Report, Row, Say, Section, Target
from opportune.model.loss import LossInstance
from opportune.pricing.occupancy import price

SIZES = {(10, 30): (9, 3), (30, 100): (9, 3), (100, 300): (5, 0)}
"""Size (V, R) -> rounds, full and quick; 0 leaves it out."""

TARGETS = {(100, 300): Target(500, at_most=True)}
"""Milliseconds, where DESIGN.md names a time."""

AGREEMENT = 1e-7
"""Relative difference of the two values up to which they solve the same LP."""


def measure(effort: Effort, say: Say) -> Report:
    """All rows of the section."""
    rows: list[Row] = []
    gaps, apart, left_out = [0.0], [0.0], []
    for (n_types, n_servers), (full, quick) in SIZES.items():
        name = f"{n_types} x {n_servers}"
        rounds = effort.n_rounds(full, quick)
        if rounds == 0:
            left_out.append(name)
            continue
        say(f"pricing: {name}")
        instance = review_instance(n_types, n_servers)
        ours = price(instance)
        theirs = _linprog(instance)
        gaps.append(ours.gap)
        apart.append(abs(theirs - ours.dual_value) / ours.dual_value)
        if not apart[-1] <= AGREEMENT:
            raise ValueError(f"{name}: HiGHS finds {theirs!r}, ours is {ours.dual_value!r}")
        rows += _rows_of(instance, name, rounds, TARGETS.get((n_types, n_servers)))
    notes = [
        f"OCC-LP(0) at load {LOAD:g}, k = 3, uniform scores; ours includes the feasibility check, "
        "unique rates by least squares and the certificate, theirs the solve alone, unscaled",
        f"largest relative gap of ours {max(gaps):.1e}; values agree to {max(apart):.1e}",
    ]
    if left_out:
        notes.append(f"left out by --quick: {', '.join(left_out)}")
    return Report(tuple(rows), tuple(notes))


def _rows_of(
    instance: LossInstance, name: str, rounds: int, target: Target | None
) -> tuple[Row, ...]:
    jobs = {
        "ours": timed(lambda: price(instance)),
        "linprog": timed(lambda: _linprog(instance)),
    }
    seconds = interleaved(jobs, rounds)
    ours, theirs = (tuple(1000 * one for one in seconds[job]) for job in jobs)
    return (
        Row(f"{name}: opportune price", "ms", ours, target),
        Row(f"{name}: scipy linprog (HiGHS)", "ms", theirs),
        Row(f"  {name}: linprog takes longer by", "x", ratios(theirs, ours)),
    )


def _linprog(instance: LossInstance) -> float:
    return linprog_occupancy.solve(
        instance.match_reward,
        instance.arrival_rate,
        instance.mean_duration,
        instance.servers_per_task,
    )


SECTION = Section("pricing", "Occupancy LP", 30, measure)
