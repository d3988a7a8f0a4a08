"""river: LinUCB with a ridge regression a server, a rank-one update an outcome."""

from __future__ import annotations

import time

from river.bandit import LinUCBDisjoint

from benchmarks.peers.replay import Outcome
from benchmarks.peers.tries import Tries, answer


def learn(tries: Tries) -> Outcome:
    """Choose among the servers, then learn the given outcome."""
    contexts = [
        {f"x{j}": value for j, value in enumerate(rows[server])}
        for rows, server in zip(tries.features, tries.server, strict=True)
    ]
    servers = list(range(len(tries.features[0])))
    start = time.process_time()
    model = LinUCBDisjoint(alpha=0.5, seed=1)
    for context, server, departed in zip(contexts, tries.server, tries.departed, strict=True):
        model.pull(servers, context=context)
        model.update(server, context, departed)
    return Outcome(0.0, len(tries.server), time.process_time() - start)


if __name__ == "__main__":
    answer(learn)
