"""What a pool goes by: learned values where learning is on and there are any, else the declared.

The learner publishes a ``resources.LearnedDocument``; the declared scores, rates and durations stay
beside it, say which pairs are permitted, and hold again as soon as learning is off.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opportune.errors import Problem
from opportune.service.resources import Array, LearnedDocument, PoolSettings
from opportune.service.state import State

Float = NDArray[np.float64]

QUALIFIES = 2.0
"""Standard deviations above the estimate up to which exploration hopes for a pair."""


def in_force(state: State) -> LearnedDocument | None:
    """What was learned, if the pool goes by it."""
    settings = state.settings
    return None if settings is None or settings.learning != "on" else state.learned


def scores_of(state: State) -> Float:
    """(V, R) match rewards that count; NaN where there is none."""
    own = state.score[: len(state.types), : len(state.servers)]
    learned = in_force(state)
    return own if learned is None else _laid_over(state, learned, own, learned.score)


def upper_of(state: State) -> Float:
    """(V, R) estimate plus ``QUALIFIES`` standard deviations; infinite where nothing is known."""
    nothing = np.full((len(state.types), len(state.servers)), np.inf)
    learned = in_force(state)
    if learned is None:
        return nothing
    upper = learned.mean.numpy() + QUALIFIES * learned.deviation.numpy()
    return _laid_over(state, learned, nothing, Array.of(upper))


def _laid_over(state: State, learned: LearnedDocument, under: Float, values: Array) -> Float:
    """``under`` with the learned values where the pool still has the names and there are any."""
    types = {settings.id: v for v, settings in enumerate(state.types)}
    servers = {server.settings.id: r for r, server in enumerate(state.servers)}
    v = np.array([types.get(name, -1) for name in learned.task_types], dtype=np.int64)
    r = np.array([servers.get(name, -1) for name in learned.servers], dtype=np.int64)
    over, places = values.numpy()[np.ix_(v >= 0, r >= 0)], np.ix_(v[v >= 0], r[r >= 0])
    found = under.copy()
    found[places] = np.where(np.isnan(over), found[places], over)
    return found


def weights_of(state: State) -> Float | None:
    """(R, p) what was learned of contexts, in the pool's numbering; None where types decide.

    A server that nothing was published of has weights of 0: it is taken for a middling one.
    """
    learned, settings = in_force(state), state.settings
    if learned is None or learned.weight is None or settings is None:
        return None
    if learned.features != [one.name for one in settings.learner.features]:
        return None
    known = learned.weight.numpy()
    found = np.zeros((len(state.servers), known.shape[1]))
    place = {name: r for r, name in enumerate(learned.servers)}
    for r, server in enumerate(state.servers):
        own = place.get(server.settings.id)
        if own is not None:
            found[r] = known[own]
    return found


def rates_of(state: State) -> list[float | None]:
    """(V,) arrivals per second that count; None where nobody knows."""
    return _by_type(state, "rate")


def durations_of(state: State) -> list[float | None]:
    """(V,) mean seconds of service that count; None where nobody knows."""
    return _by_type(state, "mean_duration")


def _by_type(state: State, field: str) -> list[float | None]:
    found = [getattr(settings, field) for settings in state.types]
    learned = in_force(state)
    if learned is not None:
        known = dict(zip(learned.task_types, getattr(learned, field), strict=True))
        for v, settings in enumerate(state.types):
            own = known.get(settings.id)
            found[v] = found[v] if own is None else own
    return found


def learner_problem(settings: PoolSettings) -> Problem | None:
    """What is wrong with a pool's settings for learning."""
    learner = settings.learner
    if settings.learning != "off" and settings.partitions > 1:
        told = f"{settings.learning!r} with {settings.partitions} partitions"
        return Problem("learning", told, "off: the parts of a split pool do not learn")
    if not learner.low < learner.high:
        told = f"{learner.low} to {learner.high}"
        return Problem("learner.low", told, "less than learner.high")
    for one in learner.features:
        if one.name not in settings.context:
            return Problem("learner.features", repr(one.name), "a name in the pool's context")
        if not one.low < one.high:
            told = f"{one.name}: {one.low} to {one.high}"
            return Problem("learner.features", told, "two rising numbers")
    return None


def learned_problem(state: State, learned: LearnedDocument) -> Problem | None:
    """What is wrong with a publication."""
    settings = state.settings
    version = 1 if state.learned is None else state.learned.version + 1
    if settings is None or settings.learning == "off":
        return Problem("learning", "off", "shadow or on")
    if learned.version != version:
        return Problem("version", str(learned.version), str(version))
    for field, names, known in (
        ("task_types", learned.task_types, state.type_index),
        ("servers", learned.servers, state.server_index),
    ):
        unknown = [name for name in names if name not in known]
        if unknown or len(set(names)) != len(names):
            return Problem(field, repr(unknown[:5]), "names of the pool, each once")
    shape = [len(learned.task_types), len(learned.servers)]
    for field in ("score", "mean", "deviation"):
        problem = _array_problem(field, getattr(learned, field), shape)
        if problem is not None:
            return problem
    weight = learned.weight
    if weight is not None:
        problem = _array_problem("weight", weight, [shape[1], 1 + len(learned.features)])
        if problem is not None or np.isnan(weight.numpy()).any():
            return problem or Problem("weight", "NaN", "numbers")
    for field in ("rate", "mean_duration"):
        values = getattr(learned, field)
        good = len(values) == shape[0] and all(
            value is None or 0 <= value < np.inf for value in values
        )
        if not good:
            return Problem(
                field, f"{len(values)} values", f"{shape[0]} finite ones from 0, or None"
            )
    return None


def _array_problem(field: str, packed: Array, shape: list[int]) -> Problem | None:
    size = 8 * int(np.prod(shape, dtype=np.int64))
    if packed.dtype != "float64" or packed.shape != shape or len(packed.data) != size:
        return Problem(field, f"{packed.dtype} {packed.shape}", f"float64 {shape}")
    values = packed.numpy()
    if np.isinf(values).any() or (field != "weight" and bool((values < 0).any())):
        return Problem(field, "negative or infinite", "finite numbers from 0, or NaN")
    return None
