"""The loss model: tasks arrive, take k servers for a while, or are dropped.

At each step at most one task arrives, of type v with probability ``arrival_rate[v]``.
It takes ``servers_per_task[v]`` free permitted servers for one common duration, or is
dropped when fewer are free (LAG section 1, quoted). A pair earns ``match_reward[v, r]``.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opportune.errors import InputError, Problem, shorten
from opportune.model.axes import Quantity
from opportune.model.checks import (
    RATE_TOLERANCE,
    ROUNDING,
    allowed_problems,
    availability_problems,
    demand_problems,
    eligibility_problems,
    name_problems,
    number_problem,
    plain_array,
    rate_problems,
    reward_problems,
)
from opportune.model.duration import Deterministic, Duration, Empirical, Geometric, memoryless_mean
from opportune.model.server_durations import ServerDurations

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class LossInstance:
    """Task types, servers, and how well they suit each other.

    Build one with :func:`loss_instance` (which fills in defaults), a catalog id or a file.
    All arrays are read-only. Two instances are equal when their :attr:`digest` is.

    Raises:
        InputError: Naming every field that is wrong, its value and what to change.
    """

    arrival_rate: Annotated[
        Float, Quantity("lambda_v", "V", "probability per step", "arrival rate")
    ]
    match_reward: Annotated[Float, Quantity("s_vr", "V,R", "reward", "match reward")]
    allowed: Annotated[Bool, Quantity("a_vr", "V,R", "yes/no", "allowed (not forbidden) pair")]
    duration: Annotated[
        tuple[Duration, ...], Quantity("D_v", "V", "steps", "duration of a task of type v")
    ]
    servers_per_task: Annotated[Int, Quantity("k_v", "V", "servers", "servers per task")]
    task_types: tuple[str, ...]
    servers: tuple[str, ...]
    name: str = "instance"
    availability: Annotated[
        Float | None, Quantity("a_r", "R", "share of time", "share of time on duty; None is 1")
    ] = None
    server_duration: ServerDurations | None = None

    def __post_init__(self) -> None:
        if isinstance(self.duration, list):
            object.__setattr__(self, "duration", tuple(self.duration))
        problems = loss_problems({field.name: getattr(self, field.name) for field in fields(self)})
        if problems:
            raise InputError(problems)
        rate = np.array(plain_array(self.arrival_rate), dtype=np.float64) + 0.0
        total = math.fsum(rate)
        if total > 1.0 + ROUNDING:  # inside the tolerance of rate_problems: single precision
            rate /= total
        reward = np.array(plain_array(self.match_reward), dtype=np.float64, order="C")
        reward += 0.0  # no -0.0
        allowed = np.array(plain_array(self.allowed), dtype=np.bool_, order="C")
        reward[~allowed] = 0.0
        k = np.array(plain_array(self.servers_per_task), dtype=np.int64)
        for field_name, array in (
            ("arrival_rate", rate),
            ("match_reward", reward),
            ("allowed", allowed),
            ("servers_per_task", k),
        ):
            array.setflags(write=False)
            object.__setattr__(self, field_name, array)
        object.__setattr__(self, "availability", _part_time(self.availability))

    @property
    def n_types(self) -> int:
        """Number of task types V."""
        return int(self.match_reward.shape[0])

    @property
    def n_servers(self) -> int:
        """Number of servers R."""
        return int(self.match_reward.shape[1])

    @property
    def mean_duration(self) -> Float:
        """(V,) mean duration E[D_v] in steps."""
        return np.array([duration.mean for duration in self.duration])

    @property
    def pair_mean(self) -> Float:
        """E[D] in steps: (V, 1), or (V, R) where durations depend on the server."""
        if self.server_duration is not None:
            return self.server_duration.mean
        return self.mean_duration[:, None]

    def busy_share(self, rates: Float) -> Float:
        """(R,) sum_v E[D_vr] u_vr of assignment rates u (V, R)."""
        if self.server_duration is None:
            return np.asarray(self.mean_duration @ rates)
        return np.asarray((self.server_duration.mean * rates).sum(axis=0))

    @property
    def load(self) -> float:
        """rho = sum_v lambda_v k_v E[D_v] / R: the busy share if nothing were dropped.

        Where servers are off duty at times, R is the servers on duty at a time, sum_r a_r; where
        durations depend on the server, E[D_v] is the mean over a type's permitted servers.
        """
        mean = self.mean_duration
        if self.server_duration is not None:
            total = np.where(self.allowed, self.server_duration.mean, 0.0).sum(axis=1)
            mean = total / self.allowed.sum(axis=1)
        work = self.arrival_rate * self.servers_per_task * mean
        return float(work.sum() / self.servers_on_duty)

    @property
    def has_forbidden_pairs(self) -> bool:
        """Whether any pair of task type and server is forbidden."""
        return not bool(self.allowed.all())

    @property
    def on_duty(self) -> Float:
        """(R,) a_r, the share of time that each server is on duty."""
        return np.ones(self.n_servers) if self.availability is None else self.availability

    @property
    def servers_on_duty(self) -> float:
        """sum_r a_r: servers on duty at a time, on average; R where all always are."""
        return float(self.n_servers if self.availability is None else self.availability.sum())

    @property
    def is_part_time(self) -> bool:
        """Whether any server is off duty at times."""
        return self.availability is not None

    def part_time_problem(self, what: str) -> Problem | None:
        """Why something that supposes all servers on duty does not apply; None if it does."""
        if self.availability is None:
            return None
        r = int(np.argmin(self.availability))
        return Problem(
            "availability",
            f"server {self.servers[r]} is on duty {self.availability[r]:.3g} of the time",
            f"every server always on duty, for {what}",
            "use 'opportune day', or leave availability out",
        )

    def one_headcount_problem(self, what: str) -> Problem | None:
        """Why something does not apply that supposes one headcount for all policies, or None."""
        if self.server_duration is not None:
            return Problem(
                "server_duration",
                "durations that depend on the server",
                f"durations by task type only, for {what}",
                "the proven bound is OCC-LP(<=); use lag, greedy or random",
            )
        return self.part_time_problem(what)

    @property
    def one_k(self) -> int | None:
        """Servers per task if it is the same for all types, else None."""
        return int(self.servers_per_task[0]) if np.ptp(self.servers_per_task) == 0 else None

    @property
    def memoryless_mean(self) -> float | None:
        """The common mean duration if all types are memoryless with one mean, else None."""
        return None if self.server_duration is not None else memoryless_mean(self.duration)

    def with_load(self, load: float) -> LossInstance:
        """The same instance with all arrival rates multiplied so that its load is ``load``.

        Raises:
            InputError: If ``load`` is not positive, all rates are 0, or the scaled rates
                sum to more than one per step.
        """
        problem = load_problem(load)
        if problem is not None:
            raise InputError(problem)
        if not self.load > 0:
            raise InputError(
                Problem("arrival_rate", "all zero", "a positive rate to scale to a load")
            )
        factor = load / self.load
        total = float(self.arrival_rate.sum()) * factor
        if not total <= 1.0 + RATE_TOLERANCE:
            told = f"{load:g} needs {total:.4g} arrivals per step"
            remedy = "lower the load"
            if math.isfinite(total * 100):
                remedy = (
                    f"shorten the step by a factor of {math.ceil(total * 100) / 100:g} "
                    "(durations in steps grow by the same factor)"
                )
            raise InputError(Problem("load", told, "at most one arrival per step", remedy))
        return replace(self, arrival_rate=self.arrival_rate * factor)

    @cached_property
    def digest(self) -> str:
        """A hash of everything that decides a result (names included), for provenance."""
        state = hashlib.sha256()
        for array in (self.arrival_rate, self.match_reward, self.allowed, self.servers_per_task):
            state.update(np.ascontiguousarray(array).tobytes())
        for duration in self.duration:
            state.update(_duration_bytes(duration))
        state.update(repr((self.task_types, self.servers)).encode())
        if self.server_duration is not None:
            state.update(b"server duration" + self.server_duration.which.tobytes())
            for duration in self.server_duration.laws:
                state.update(_duration_bytes(duration))
        if self.availability is not None:
            state.update(b"availability" + self.availability.tobytes())
        return state.hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LossInstance) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


def loss_instance(
    match_reward: ArrayLike,
    arrival_rate: ArrayLike,
    duration: Duration | Sequence[Duration],
    servers_per_task: int | Sequence[int] = 1,
    **options: Any,
) -> LossInstance:
    """Build a :class:`LossInstance` from plain lists, with defaults filled in.

    Args:
        match_reward: (V, R) rewards, at least 0.
        arrival_rate: (V,) arrival probability per step.
        duration: One for all types, or one per type.
        servers_per_task: k, one for all types or one per type.
        **options: ``allowed`` (V, R) bool (default: every pair), ``task_types``, ``servers``
            (default: ``type-1``, ..., ``server-1``, ...), ``name``, ``availability`` (R,),
            ``server_duration`` (:class:`ServerDurations`).

    Raises:
        InputError: Naming every field that is wrong.
    """
    known = ("allowed", "task_types", "servers", "name", "availability", "server_duration")
    unknown = set(options) - set(known)
    if unknown:
        told = "only " + ", ".join(known)
        raise InputError(Problem("options", ", ".join(sorted(unknown)), told))
    problem = number_problem("match_reward", match_reward)
    shape = plain_array(match_reward).shape
    if problem or len(shape) != 2 or 0 in shape:
        raise InputError(
            problem
            or Problem("match_reward", f"shape {shape}", "a matrix, types by servers, not empty")
        )
    n_types, n_servers = shape
    k: Any = servers_per_task
    if isinstance(k, str) or plain_array(k).ndim == 0:
        k = [servers_per_task] * n_types
    allowed = options.get("allowed")
    return LossInstance(
        arrival_rate=arrival_rate,  # type: ignore[arg-type]
        match_reward=match_reward,  # type: ignore[arg-type]
        allowed=np.ones(shape, dtype=np.bool_) if allowed is None else allowed,
        duration=tuple(duration) if isinstance(duration, (list, tuple)) else (duration,) * n_types,
        servers_per_task=k,
        task_types=_names(options.get("task_types"), "type", n_types),
        servers=_names(options.get("servers"), "server", n_servers),
        name=options.get("name", "instance"),
        availability=options.get("availability"),
        server_duration=options.get("server_duration"),
    )


def _duration_bytes(duration: Duration) -> bytes:
    """What a hash reads of a duration."""
    if not isinstance(duration, Empirical):
        return repr(duration).encode()
    head = f"Empirical({len(duration.steps)})".encode()
    return head + duration.steps.tobytes() + duration.weight.tobytes()


def _part_time(availability: Any) -> Float | None:
    """The shares as a read-only array; None where all are 1."""
    if availability is None:
        return None
    share = np.array(plain_array(availability), dtype=np.float64) + 0.0
    share.setflags(write=False)
    return None if bool(np.all(share == 1.0)) else share


def numbered(word: str, n: int) -> tuple[str, ...]:
    """Names for what has none: ``type-1``, ``type-2``, ..."""
    return tuple(f"{word}-{i + 1}" for i in range(n))


def _names(given: Any, word: str, n: int) -> Any:
    if given is None:
        return numbered(word, n)
    return tuple(given) if isinstance(given, (list, np.ndarray)) else given


def load_problem(load: Any) -> Problem | None:
    """A problem if ``load`` is not a finite number above 0."""
    number = isinstance(load, (int, float, np.integer, np.floating)) and not isinstance(load, bool)
    if number and 0 < load < math.inf:
        return None
    return Problem("load", shorten(load), "a number above 0")


def loss_problems(values: Mapping[str, Any]) -> list[Problem]:
    """Everything that is wrong with the fields of a :class:`LossInstance`, as far as given.

    Args:
        values: Fields by name. One that is missing is not known yet and not checked, so an
            unreadable matrix does not hide a bad rate.
    """
    problems: list[Problem] = []
    shape: tuple[int, ...] = ()
    if "match_reward" in values:
        problems += reward_problems(values["match_reward"], values.get("allowed"))
        shape = plain_array(values["match_reward"]).shape
    if "arrival_rate" in values:
        problems += rate_problems(values["arrival_rate"])
    name = values.get("name", "instance")
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        problems.append(Problem("name", shorten(name), "printable text"))
    if len(shape) != 2 or 0 in shape:
        return problems
    n_rates = plain_array(values.get("arrival_rate", np.zeros(shape[0]))).size
    if n_rates != shape[0]:
        expected = f"one per row of match_reward, {shape[0]} task types"
        problems.append(Problem("arrival_rate", f"{n_rates} rates", expected))
    for field_name, n in (("task_types", shape[0]), ("servers", shape[1])):
        if field_name in values:
            problems += name_problems(field_name, values[field_name], n)
    if "duration" in values:
        problems += _duration_problems(values["duration"], shape[0])
    by_server = values.get("server_duration")
    if by_server is not None and by_server.which.shape != shape:
        told = f"the shape of match_reward, {shape}"
        problems.append(Problem("server_duration", f"shape {by_server.which.shape}", told))
    if values.get("availability") is not None:
        problems += availability_problems(values["availability"], shape[1])
    pairs = []
    if "allowed" in values:
        pairs += allowed_problems(values["allowed"], shape)
    if "servers_per_task" in values:
        pairs += demand_problems(values["servers_per_task"], shape)
    if not pairs and "allowed" in values and "servers_per_task" in values:
        types = values.get("task_types")
        if not isinstance(types, tuple) or len(types) != shape[0]:
            types = numbered("type", shape[0])
        pairs += eligibility_problems(values["allowed"], values["servers_per_task"], types)
    return problems + pairs


def _duration_problems(duration: Any, n_types: int) -> list[Problem]:
    if not isinstance(duration, tuple):
        duration = (duration,)
    wrong = [
        Problem(
            f"duration[{v}]",
            shorten(one),
            "Deterministic, Geometric or Empirical",
            "for example Deterministic(steps=3)",
        )
        for v, one in enumerate(duration)
        if not isinstance(one, (Deterministic, Geometric, Empirical))
    ]
    if wrong and len(set(map(id, duration))) == 1:  # one value, given for all types
        return [replace(wrong[0], field="duration")]
    if len(duration) != n_types:
        wrong.append(Problem("duration", f"{len(duration)} given", f"one per task type, {n_types}"))
    return wrong
