"""A router in your own process: five lines from a score matrix to a decision.

::

    import opportune

    router = opportune.Router([[0.9, 0.2, 0.1], [0.8, 0.7, 0.1]])
    decision = router.decide(0)
    print(decision.servers)
    router.complete(decision.id)

With rates and durations (or a :class:`~opportune.model.loss.LossInstance`) it decides by score
minus opportunity cost, with the same plan and the same kernel as the simulator and the live
service. It keeps its ledger in memory only: what must survive a crash belongs into
``opportune serve``.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike, NDArray

from opportune.errors import InputError, Problem, is_whole, shorten
from opportune.kernels.allocate import PlanTables, Task
from opportune.kernels.live import Explained, draw_words, explained_of, pick_explained
from opportune.model.duration import Deterministic
from opportune.model.loss import LossInstance, loss_instance
from opportune.model.servers import MAX_SERVERS
from opportune.model.streams import stream_key
from opportune.policies.base import Plan, check_plan, loss_policy
from opportune.policies.slots import by_server, first_slot, slot_owner, with_slots
from opportune.pricing.demand import AT_MOST
from opportune.pricing.occupancy import price
from opportune.pricing.relaxation import Relaxation

DRAWN_AT_ONCE = 4096
"""Words of the stream that are drawn together."""


class Decision(NamedTuple):
    """Who serves a task, and what that was worth; no servers if the task is dropped.

    Attributes:
        id: Number of the decision, to be named when the task is over.
        task_type: Name of the task's type.
        servers: Names, in the order in which they were picked.
        scores: Match reward of each.
        opportunity_cost: l_v + E[D_v] q_r of each; without prices 0.
        propensity: Probability of each pick, given the free servers and the picks before.
        plan: Id of the policy that made the plan.
        reason: Why there are no servers; empty if there are.
    """

    id: int
    task_type: str
    servers: tuple[str, ...]
    scores: tuple[float, ...]
    opportunity_cost: tuple[float, ...]
    propensity: tuple[float, ...]
    plan: str
    reason: str = ""


class RouterState(Struct, frozen=True, forbid_unknown_fields=True):
    """What a router must not forget: ``msgspec.json`` writes and reads it.

    Attributes:
        digest: Of the instance: a state belongs to one.
        last: Number of the latest decision.
        drawn: Words used of the stream.
        running: Servers by decision that is not over.
    """

    digest: str
    last: int
    drawn: int
    running: list[tuple[int, list[str]]]


class Router:
    """Decides which free servers take a task, and keeps count of who is free.

    All methods may be called from any thread. A server is busy from the decision until
    :meth:`complete`, however long that takes.

    Args:
        world: (V, R) scores, or an instance.
        policy: Id of a policy; None: ``lag`` where rates and durations are known, else ``greedy``.
        seed: Of the stream that ties are resolved with: same seed and calls, same decisions.
        capacity: Tasks that each server serves at once, one number or (R,) of them.
        **options: As of :func:`~opportune.model.loss.loss_instance`: ``arrival_rate``,
            ``duration``, ``servers_per_task``, ``allowed``, ``task_types``, ``servers``.

    Raises:
        InputError: Naming what is wrong with the scores or options.
        OverloadError: If the policy needs prices that do not exist.
    """

    def __init__(
        self,
        world: ArrayLike | LossInstance,
        policy: str | None = None,
        seed: int = 0,
        capacity: int | Sequence[int] = 1,
        **options: Any,
    ) -> None:
        self.instance, priced = _instance_of(world, options)
        name = policy if policy is not None else "lag" if priced else "greedy"
        self._owner = slot_owner(_capacities(capacity, self.instance.n_servers))
        slots = with_slots(self.instance, self._owner)
        prices = price(slots, AT_MOST) if priced else None
        self._key = stream_key(seed, 0)
        self._lock = threading.Lock()
        n = self.instance.n_servers
        self._capacity: list[int] = np.bincount(self._owner).tolist()
        self._types = {name: v for v, name in enumerate(self.instance.task_types)}
        self._k: list[int] = self.instance.servers_per_task.tolist()
        self._most = max(self._k)
        self._closed = np.zeros(n, dtype=np.int64)
        self._n_open = [0] * n
        self._explained: Explained = explained_of(n)
        self._running: dict[int, list[int]] = {}
        self._last = 0
        self._drawn = 0
        self._block = np.zeros(0, dtype=np.uint32)
        self._block_start = 0
        self._n_busy = 0
        self.plan: Plan
        self._tables: PlanTables
        self._cost: NDArray[np.float64]
        self.use(by_server(loss_policy(name).plan(slots, prices), self._owner), prices)

    def use(self, plan: Plan, prices: Relaxation | None = None) -> None:
        """Decide by another plan from now on; tasks in service are not touched.

        Args:
            plan: A plan of this router's instance.
            prices: What it was made of, of the instance or of its slots (``policies.slots``).

        Raises:
            InputError: If it is no plan for this router's instance.
        """
        if not isinstance(plan, Plan):
            raise InputError(Problem("plan", shorten(plan), "a plan, such as a policy's plan()"))
        check_plan(plan, self.instance)
        shape = self.instance.match_reward.shape
        cost = np.zeros(shape) if prices is None else prices.opportunity_cost
        if cost.shape == (shape[0], len(self._owner)):
            cost = cost[:, first_slot(self._owner)]
        if cost.shape != shape:
            raise InputError(Problem("prices", f"shape {cost.shape}", f"shape {shape}"))
        with self._lock:
            self.plan, self._cost = plan, cost
            self._tables = _writable(plan.tables)

    def decide(self, task_type: int | str) -> Decision:
        """Pick servers for a task and hold them; a decision without servers is a drop.

        Args:
            task_type: Its index or name.

        Raises:
            InputError: If there is no such type; nothing has changed then.
        """
        v = self._type_index(task_type)
        k = self._k[v]
        with self._lock:
            tables, explained = self._tables, self._explained
            level = min(self._n_busy // k, tables.order.shape[1] - 1)
            found = pick_explained(
                tables, self._closed, Task(0, v, level, k), self._draw(self._most), explained
            )
            self._last += 1
            number = self._last
            if found < k:
                free = int(explained.n_free[0])
                return self._dropped(number, v, free)
            picks = explained.picks[:k].tolist()
            chances = explained.propensity[:k].tolist()
            self._hold(number, picks)
        names, reward, cost = self.instance.servers, self.instance.match_reward, self._cost
        return Decision(
            number,
            self.instance.task_types[v],
            tuple([names[r] for r in picks]),
            tuple([float(reward[v, r]) for r in picks]),
            tuple([float(cost[v, r]) for r in picks]),
            tuple(chances),
            self.plan.policy,
        )

    def complete(self, decision: int) -> bool:
        """The task of a decision is over: its servers are free.

        Returns:
            Whether it was running; False for one that is over already, or was dropped.

        Raises:
            InputError: If there never was such a decision; nothing has changed then.
        """
        with self._lock:
            whole = is_whole(decision)
            if not whole or not 1 <= decision <= self._last:
                raise InputError(
                    Problem(
                        "decision", shorten(decision), f"the id of a decision, 1 to {self._last}"
                    )
                )
            servers = self._running.pop(int(decision), None)
            if servers is None:
                return False
            for r in servers:
                self._n_open[r] -= 1
                self._closed[r] = self._n_open[r] >= self._capacity[r]
            self._n_busy -= len(servers)
            return True

    @property
    def free(self) -> tuple[str, ...]:
        """Servers with a slot free."""
        with self._lock:
            return tuple(self.instance.servers[r] for r in np.flatnonzero(self._closed == 0))

    @property
    def running(self) -> dict[int, tuple[str, ...]]:
        """Servers by decision that is not over."""
        names = self.instance.servers
        with self._lock:
            return {number: tuple(names[r] for r in rs) for number, rs in self._running.items()}

    def state(self) -> RouterState:
        """What is running, to be kept somewhere and given to :meth:`restore`."""
        with self._lock:
            names = self.instance.servers
            running = [(number, [names[r] for r in rs]) for number, rs in self._running.items()]
            return RouterState(self.instance.digest, self._last, self._drawn, running)

    def restore(self, state: RouterState) -> None:
        """Go on where a router of the same instance and seed was.

        Raises:
            InputError: If the state is of another instance, or holds more slots than there are.
        """
        if not isinstance(state, RouterState):
            raise InputError(Problem("state", shorten(state), "what Router.state() gave"))
        if state.digest != self.instance.digest:
            told = f"of instance {state.digest}"
            raise InputError(Problem("state", told, f"of instance {self.instance.digest}"))
        index = {name: r for r, name in enumerate(self.instance.servers)}
        self._check_running(state, index)
        with self._lock:
            self._closed[:] = 0
            self._n_open = [0] * len(index)
            self._running, self._n_busy = {}, 0
            for number, names in state.running:
                self._hold(number, [index[name] for name in names])
            self._last, self._drawn = state.last, state.drawn
            self._block = np.zeros(0, dtype=np.uint32)

    def _check_running(self, state: RouterState, index: dict[str, int]) -> None:
        """What runs in a state fits the servers.

        Raises:
            InputError: Naming what does not.
        """
        held: Counter[str] = Counter()
        for number, names in state.running:
            unknown = [name for name in names if name not in index]
            if unknown or len(set(names)) != len(names) or not 1 <= number <= state.last:
                told = "a decision up to the latest, with servers of the instance, each once"
                raise InputError(Problem("state.running", shorten((number, names)), told))
            held.update(names)
        numbers = {number for number, _ in state.running}
        if len(numbers) != len(state.running) or state.drawn < 0:
            told = "every decision once, and words drawn from 0"
            raise InputError(Problem("state", f"{len(state.running)} decisions", told))
        for name, n in held.items():
            most = int(self._capacity[index[name]])
            if n > most:
                told = f"at most its capacity, {most}"
                raise InputError(Problem("state.running", f"{n} slots of {name!r}", told))

    def _hold(self, number: int, servers: list[int]) -> None:
        for r in servers:
            self._n_open[r] += 1
            self._closed[r] = self._n_open[r] >= self._capacity[r]
        self._running[number] = servers
        self._n_busy += len(servers)

    def _draw(self, k: int) -> NDArray[np.uint32]:
        """The next k words of the stream, (1, k)."""
        at = self._drawn - self._block_start
        if at < 0 or at + k > len(self._block):
            self._block_start = self._drawn - self._drawn % 4
            self._block = np.empty(DRAWN_AT_ONCE + k + 4 - k % 4, dtype=np.uint32)
            draw_words(self._key, np.uint64(self._block_start), self._block)
            at = self._drawn - self._block_start
        self._drawn += k
        return self._block[at : at + k].reshape(1, k)

    def _dropped(self, number: int, v: int, free: int) -> Decision:
        k, permitted = self._k[v], int(self._tables.n_allowed[v])
        reason = f"{free} of {permitted} permitted servers are free, {k} are needed"
        name = self.instance.task_types[v]
        return Decision(number, name, (), (), (), (), self.plan.policy, reason)

    def _type_index(self, task_type: int | str) -> int:
        whole = is_whole(task_type)
        if whole and 0 <= int(task_type) < len(self._k):
            return int(task_type)
        if isinstance(task_type, str) and task_type in self._types:
            return self._types[task_type]
        expected = f"a name or an index from 0 to {len(self._k) - 1}"
        raise InputError(Problem("task_type", shorten(task_type), expected))


def _instance_of(
    world: ArrayLike | LossInstance, options: dict[str, Any]
) -> tuple[LossInstance, bool]:
    """The instance, and whether rates and durations are known."""
    if isinstance(world, LossInstance):
        if options:
            told = ", ".join(sorted(options))
            raise InputError(Problem("options", told, "none beside an instance"))
        return world, bool(np.any(world.arrival_rate > 0))
    given = dict(options)
    rate, duration = given.pop("arrival_rate", None), given.pop("duration", None)
    k = given.pop("servers_per_task", 1)
    if (rate is None) != (duration is None):
        missing = "duration" if duration is None else "arrival_rate"
        told = "not given"
        raise InputError(
            Problem(missing, told, "both arrival_rate and duration, or neither", "give it too")
        )
    if rate is None:
        shape = np.shape(world)
        rate = np.zeros(shape[0] if len(shape) == 2 else 1)
        return loss_instance(world, rate, Deterministic(1), k, **given), False
    instance = loss_instance(world, rate, duration, k, **given)
    return instance, bool(np.any(instance.arrival_rate > 0))


def _capacities(capacity: int | Sequence[int], n_servers: int) -> list[int]:
    given: list[Any] = list(capacity) if isinstance(capacity, Sequence) else [capacity] * n_servers
    if len(given) != n_servers:
        told = f"{len(given)} numbers"
        raise InputError(Problem("capacity", told, f"one per server, {n_servers}"))
    for r, slots in enumerate(given):
        if not is_whole(slots) or not slots >= 1:
            expected = "a whole number of slots, at least 1"
            raise InputError(Problem(f"capacity[{r}]", shorten(slots), expected))
    if sum(map(int, given)) > MAX_SERVERS:
        told, remedy = f"{sum(map(int, given))} slots", "a slot is what serves one task at a time"
        raise InputError(Problem("capacity", told, f"at most {MAX_SERVERS} slots in all", remedy))
    return [int(slots) for slots in given]


def _writable(tables: PlanTables) -> PlanTables:
    """Contiguous copies: the compiled function knows arrays that may be written only."""
    return tables._replace(
        order=np.array(tables.order, order="C"),
        level=np.array(tables.level, order="C"),
        n_allowed=np.array(tables.n_allowed, order="C"),
        weight=np.array(tables.weight, order="C"),
    )
