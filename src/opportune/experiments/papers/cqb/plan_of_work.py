"""What is run: places, horizons, policies with their knobs, and how many replications."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from opportune.experiments.papers.cqb.units import Arm, Piece, Place
from opportune.experiments.resume import Record

Knobs = tuple[tuple[str, Any], ...]

HARD = Place("hard-v1")
JOINT, DISJOINT = Place("cqb-joint-v1"), Place("cqb-disjoint-v1")
REPLAY, FITTED = Place("dcreplay-v1"), Place("dcfit-v1")

CELL_FRACTIONS = ((0.01, 0.02), (0.05, 0.1), (0.2, 0.3))
CELL_SCALES = (0.0, 0.01, 0.1)
RIDGES = (0.1, 1.0)
"""Cells of CQB-eta-2 that the default learner is set beside: ends of phases as shares of T, the
factor of the radius, and the ridge."""

PIECE_COST = 8.0
"""Millions of rounds of all policies in a piece of work, ten seconds or so."""


@dataclass(frozen=True)
class Setting:
    """One instance at one horizon with some policies.

    Attributes:
        section: Part of the page that it belongs to.
        name: Unique within the section.
        place: The instance.
        horizon: T.
        arms: Policies; differences are taken to the first.
        replications: Coupled runs.
        seed: Added to the seed of the run: other streams for choosing than for telling.
    """

    section: str
    name: str
    place: Place
    horizon: int
    arms: tuple[Arm, ...]
    replications: int
    seed: int = 0

    def pieces(self, seed: int) -> list[Piece]:
        """The replications cut into pieces of a few seconds."""
        whole = Piece(self.place, self.horizon, self.arms, 0, self.replications, seed + self.seed)
        each = max(1, int(self.replications * PIECE_COST / max(whole.cost, PIECE_COST)))
        return [
            Piece(
                self.place,
                self.horizon,
                self.arms,
                first,
                min(each, self.replications - first),
                seed + self.seed,
            )
            for first in range(0, self.replications, each)
        ]


@dataclass(frozen=True)
class Extent:
    """How much is run.

    Attributes:
        hard: By horizon of the hard instance: replications of the sign rule, and of policies.
        drawn: Replications of the generated instances by horizon.
        table: Replications of the set-ups of both papers.
        ours: Replications of the comparison with the default learner, generated instances.
        real: Replications on real contexts.
        loads: Loads of the replay.
    """

    hard: tuple[tuple[int, int, int], ...]
    drawn: tuple[tuple[int, int], ...]
    table: int
    ours: int
    real: int
    loads: tuple[float, ...]


FULL = Extent(
    hard=(
        (100, 60_000, 10_000),
        (400, 60_000, 10_000),
        (1600, 60_000, 6_000),
        (6400, 30_000, 2_000),
        (25_600, 3_000, 600),
        (100_000, 600, 150),
    ),
    drawn=((100, 2000), (500, 2000), (2000, 1000), (10_000, 300), (50_000, 80), (100_000, 40)),
    table=1000,
    ours=1000,
    real=200,
    loads=(0.5, 0.7, 0.85, 0.95),
)
QUICK = Extent(
    hard=((100, 300, 20), (400, 60, 10), (1600, 10, 4)),
    drawn=((100, 20), (500, 10), (2000, 3)),
    table=3,
    ours=3,
    real=2,
    loads=(0.7,),
)


def arm(policy: str, name: str = "", **knobs: Any) -> Arm:
    """An arm; its name is the policy's unless said."""
    return Arm(name or policy, policy, tuple(sorted(knobs.items())))


def eta_2(fractions: tuple[float, float], scale: float, ridge: float, **knobs: Any) -> Arm:
    """A cell of CQB-eta-2, named by its knobs."""
    name = f"cqb-eta-2 ({fractions[0]:g}, {fractions[1]:g}) x {scale:g}, ridge {ridge:g}"
    return arm("cqb-eta-2", name, fractions=fractions, scale=scale, ridge=ridge, **knobs)


HARD_RULE = arm("cqb-eta-2", "sign rule", fractions=(0.2, 0.2), scale=0.0)
"""Phase 1 up to .2 T, then the sign of the estimate, which goes on learning."""


def settings(extent: Extent, with_data: bool) -> list[Setting]:
    """All settings, in the order of the work: the longest last."""
    found = default_settings(extent, with_data)
    for load in extent.loads if with_data else ():
        place = Place(REPLAY.instance, (("load", load),))
        found.append(Setting("loads", f"load {load:g}", place, 2000, load_arms(), extent.real))
    found += summary_settings(extent.table)
    for name, place in (("joint", JOINT), ("disjoint", DISJOINT)):
        found += [
            Setting("rates", f"{name} T {horizon}", place, horizon, rate_arms(), n)
            for horizon, n in extent.drawn
        ]
    found += first_paper_settings(extent.table)
    found += [
        Setting("hard", f"T {horizon}{of}", HARD, horizon, arms, n)
        for horizon, rule, policies in extent.hard
        for of, arms, n in (("", (HARD_RULE,), rule), (", policies", hard_arms(), policies))
    ]
    return found


def hard_arms() -> tuple[Arm, ...]:
    """Policies on the hard instance; all pairs are equally wide there, so the scale is idle."""
    return (
        arm("cqb-eta-2", scale=0.1),
        arm("cqb-eps", scale=0.1),
        arm("acqb-ucb", scale=0.1),
        arm("acqb-ts", scale=0.1),
        arm("eta-forever", scale=0.1),
        arm("optimistic"),
    )


def rate_arms() -> tuple[Arm, ...]:
    """Policies whose regret is followed over the horizon on drawn instances."""
    return (
        arm("cqb-eta-2", scale=0.1),
        arm("cqb-eps", scale=0.1),
        arm("acqb-ucb", scale=0.1),
        arm("optimistic"),
    )


def summary_arms(scale: float) -> tuple[Arm, ...]:
    """The rows of the summary's tables."""
    return (
        arm("cqb-eta-2", scale=scale),
        arm("cqb-eps", scale=scale),
        arm("acqb-ts", scale=scale),
        arm("acqb-ucb", scale=scale),
        arm("eta-forever", scale=scale),
        arm("fifo-random"),
        arm("random"),
    )


def summary_settings(n: int) -> list[Setting]:
    """The set-up of 2606.09668, T = 2000, d = 10, K = 5, and its ablations."""
    changes: tuple[tuple[str, Knobs], ...] = (
        ("base", ()),
        ("slack 0.05", (("slack", 0.05),)),
        ("slack 0.15", (("slack", 0.15),)),
        ("K 3", (("servers", 3),)),
        ("K 10", (("servers", 10),)),
    )
    found = []
    for (name, change), scale in product(changes, (0.1, 0.01)):
        arms = summary_arms(scale) if name == "base" else summary_arms(scale)[:5]
        place = Place(JOINT.instance, change)
        found.append(Setting("summary", f"{name}, x {scale:g}", place, 2000, arms, n))
    return found


def first_paper_settings(n: int) -> list[Setting]:
    """The set-up of 2601.19300: T = 5000, d = 5 a server, three slacks."""
    found = []
    for slack, scale in product((0.05, 0.1, 0.15), (0.1, 0.01)):
        place = Place(DISJOINT.instance, (("slack", slack),))
        arms = (
            arm("cqb-eps", scale=scale),
            arm("cqb-opt", scale=scale),
            arm("cqb-eta-2", scale=scale),
            *((arm("random"), arm("q-ucb"), arm("q-ths")) if slack == 0.1 else ()),
        )
        name = f"slack {slack:g}, x {scale:g}"
        found.append(Setting("first paper", name, place, 5000, arms, n))
    return found


def cells() -> tuple[Arm, ...]:
    """The cells of CQB-eta-2 that may be the best."""
    return tuple(
        eta_2(fractions, scale, ridge)
        for ridge, fractions, scale in product(RIDGES, CELL_FRACTIONS, CELL_SCALES)
    )


def default_settings(extent: Extent, with_data: bool) -> list[Setting]:
    """The default learner beside CQB-eta-2, whose best cell is chosen on other streams."""
    ours = (
        arm("optimistic"),
        arm("greedy-decay"),
        arm("optimistic", "greedy", deviations=0.0),
        arm("optimistic", "one deviation", deviations=1.0),
        *cells(),
    )
    places = [("joint", JOINT, extent.ours), ("disjoint", DISJOINT, extent.ours)]
    if with_data:
        places += [("dcreplay", REPLAY, extent.real), ("dcfit", FITTED, extent.real)]
    found = []
    for name, place, n in places:
        found.append(Setting("default", name, place, 2000, ours, n))
        choosing = (arm("optimistic"), *cells())
        found.append(Setting("choosing", name, place, 2000, choosing, max(4, n // 2), seed=1))
    return found


def load_arms() -> tuple[Arm, ...]:
    """Learners, and who knows more, on recorded answers."""
    return (
        arm("optimistic"),
        arm("greedy-decay"),
        eta_2((0.05, 0.1), 0.01, 0.1),
        arm("best-single"),
        arm("full-information"),
        arm("fifo-random"),
        arm("random"),
    )


Results = dict[tuple[str, str], Sequence[Record]]
"""Records of the pieces by section and name of their setting."""
