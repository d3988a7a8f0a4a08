"""The loss system in SimPy as its guide teaches it: a process a task, a resource a server.

One process brings the tasks. A server is released half a step before the step at which it is
free again, so that it is free for a task that arrives at that very step.
"""

from __future__ import annotations

import time
from collections.abc import Generator

import simpy

from benchmarks.peers.replay import Arrivals, Order, Outcome, answer

Steps = Generator[simpy.Event, None, None]


def replay(arrivals: Arrivals, order: Order) -> Outcome:
    """The first k free servers of the type's list, or the task is dropped."""
    start = time.process_time()
    k, match_reward = arrivals.servers_per_task, arrivals.match_reward
    env = simpy.Environment(initial_time=-1)
    servers = [simpy.Resource(env) for _ in range(arrivals.n_servers)]
    total, dropped = 0.0, 0

    def task(v: int, duration: int) -> Steps:
        nonlocal total, dropped
        picks = []
        for r in order[v]:
            if servers[r].count == 0:
                picks.append(r)
                if len(picks) == k:
                    break
        else:
            dropped += 1
            return
        row = match_reward[v]
        requests = []
        for r in picks:
            requests.append(servers[r].request())
            total += row[r]
        yield env.timeout(duration + 0.5)
        for r, request in zip(picks, requests, strict=True):
            servers[r].release(request)

    def source() -> Steps:
        for gap, v, duration in zip(
            arrivals.gap, arrivals.task_type, arrivals.duration, strict=True
        ):
            yield env.timeout(gap)
            env.process(task(v, duration))

    env.process(source())
    env.run()
    return Outcome(total, dropped, time.process_time() - start)


if __name__ == "__main__":
    answer(replay)
