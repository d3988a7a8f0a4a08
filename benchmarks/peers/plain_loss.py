"""The loss system in plain Python lists: a loop over arrivals, nothing else."""

from __future__ import annotations

import time

from benchmarks.peers.replay import Arrivals, Order, Outcome, answer


def replay(arrivals: Arrivals, order: Order) -> Outcome:
    """The first k free servers of the type's list, or the task is dropped."""
    start = time.process_time()
    k, match_reward = arrivals.servers_per_task, arrivals.match_reward
    busy_until = [0] * arrivals.n_servers
    clock, total, dropped = -1, 0.0, 0
    for gap, v, duration in zip(arrivals.gap, arrivals.task_type, arrivals.duration, strict=True):
        clock += gap
        picks = []
        for r in order[v]:
            if busy_until[r] <= clock:
                picks.append(r)
                if len(picks) == k:
                    break
        else:
            dropped += 1
            continue
        row = match_reward[v]
        for r in picks:
            busy_until[r] = clock + duration + 1
            total += row[r]
    return Outcome(total, dropped, time.process_time() - start)


if __name__ == "__main__":
    answer(replay)
