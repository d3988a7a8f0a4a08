"""What every replaying peer shares: the arrivals it is given, and how it is asked to run.

A peer is started as ``python -m benchmarks.peers.NAME FILE``. It reads the arrivals once; for
every line of its input, the name of an order, it replays them and answers with one line of
JSON, an :class:`Outcome`. It takes the time itself (``time.process_time``): of the replay, not of
reading or of building what can be built beforehand.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

Order = list[list[int]]
"""By task type, the servers in the order in which they are tried."""


class Arrivals(NamedTuple):
    """Arrivals and what they earn, in plain lists. All servers are free before step 0."""

    gap: list[int]  # (n,) steps since the previous arrival (the first: since step -1)
    task_type: list[int]  # (n,)
    duration: list[int]  # (n,) busy at steps t+1..t+D, free again at t+D+1
    servers_per_task: int
    match_reward: list[list[float]]  # (V, R)
    orders: dict[str, Order]

    @property
    def n_servers(self) -> int:
        """Number of servers R."""
        return len(self.match_reward[0])


class Outcome(NamedTuple):
    """What a replay came to, and the seconds of processor time it took."""

    reward: float
    dropped: int
    seconds: float


Replay = Callable[[Arrivals, Order], Outcome]


def read_arrivals(path: Path) -> Arrivals:
    """Arrivals as :func:`write_arrivals` wrote them."""
    return Arrivals(**json.loads(path.read_text(encoding="utf-8")))


def write_arrivals(arrivals: Arrivals, path: Path) -> None:
    """Write arrivals as JSON, every number in full."""
    path.write_text(json.dumps(arrivals._asdict()), encoding="utf-8")


def answer(replay: Replay) -> None:
    """Be the peer: serve requests from standard input until it ends."""
    arrivals = read_arrivals(Path(sys.argv[1]))
    for line in sys.stdin:
        outcome = replay(arrivals, arrivals.orders[line.strip()])
        print(json.dumps(outcome._asdict()), flush=True)
