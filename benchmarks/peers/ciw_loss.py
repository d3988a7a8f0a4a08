"""The loss system in Ciw: a node without a queue, a customer class per task type.

A customer of Ciw takes one server, so a task of k servers is a batch of k customers with one
service time. That is the same system as long as all tasks take k servers and k divides the
number of servers: then the free servers always come in whole tasks, and a batch is admitted
whole or not at all. The list of a type is a server priority function. Service ends half a step
before the server is free again, as with SimPy. Only the simulation is timed, not building the
network and not adding up the records.
"""

from __future__ import annotations

import time

import ciw

from benchmarks.peers.replay import Arrivals, Order, Outcome, answer


class GivenGaps(ciw.dists.Distribution):  # type: ignore[misc]
    """The gaps between the given arrivals of one class, then never again."""

    def __init__(self, times: list[int]) -> None:
        self.gaps = iter([b - a for a, b in zip([0, *times[:-1]], times, strict=False)])

    def sample(self, t: float | None = None, ind: object = None) -> float:
        """The next gap."""
        return next(self.gaps, float("inf"))


class GivenServices(ciw.dists.Distribution):  # type: ignore[misc]
    """The service time that belongs to the task that arrives at this moment."""

    def __init__(self, service_at: dict[float, float]) -> None:
        self.service_at = service_at

    def sample(self, t: float = 0.0, ind: object = None) -> float:
        """The service time of the task that arrived at ``t``."""
        return self.service_at[t]


def replay(arrivals: Arrivals, order: Order) -> Outcome:
    """The first k free servers of the type's list, or the task is dropped.

    Raises:
        ValueError: If k does not divide the number of servers.
    """
    simulation, end = _simulation(arrivals, order)
    start = time.process_time()
    simulation.simulate_until_max_time(end)
    seconds = time.process_time() - start
    total, rejected = 0.0, 0
    for record in simulation.get_all_records():
        if record.record_type == "service":
            v = int(record.customer_class)
            total += arrivals.match_reward[v][record.server_id - 1]
        else:
            rejected += 1
    return Outcome(total, rejected // arrivals.servers_per_task, seconds)


def _simulation(arrivals: Arrivals, order: Order) -> tuple[ciw.Simulation, float]:
    """The simulation, and a time at which all is over."""
    k, n_servers = arrivals.servers_per_task, arrivals.n_servers
    if n_servers % k:
        raise ValueError(f"Ciw cannot express k = {k} with {n_servers} servers")
    names = [f"{v:04d}" for v in range(len(order))]
    times: dict[str, list[int]] = {name: [] for name in names}
    service_at: dict[float, float] = {}
    clock = 0  # one step later than elsewhere: Ciw starts at 0, not at -1
    for gap, v, duration in zip(arrivals.gap, arrivals.task_type, arrivals.duration, strict=True):
        clock += gap
        times[names[v]].append(clock)
        service_at[clock] = duration + 0.5
    rank = {
        name: {r + 1: place for place, r in enumerate(order[v])} for v, name in enumerate(names)
    }
    network = ciw.create_network(
        arrival_distributions={name: [GivenGaps(times[name])] for name in names},
        service_distributions={name: [GivenServices(service_at)] for name in names},
        batching_distributions={name: [ciw.dists.Deterministic(k)] for name in names},
        routing={name: [[0.0]] for name in names},
        number_of_servers=[n_servers],
        queue_capacities=[0],
        server_priority_functions=[
            lambda server, customer: rank[customer.customer_class][server.id_number]
        ],
    )
    return ciw.Simulation(network), clock + max(arrivals.duration) + 1.0


if __name__ == "__main__":
    answer(replay)
