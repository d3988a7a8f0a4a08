"""What learning peers share: the tries they are given, and how they are asked to run.

As ``replay``, but of a queue: every round gives one waiting task's features for every server, the
server that tried it and whether the task departed. A peer scores all servers, then learns the
outcome; it is not asked to choose, so that all learn from the same data.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.peers.replay import Outcome

Scores = list[float]


class Tries(NamedTuple):
    """n rounds of tries, in plain lists."""

    features: list[list[list[float]]]  # (n, K, d)
    server: list[int]  # (n,)
    departed: list[int]  # (n,) 0 or 1
    ridge: float


Learner = Callable[[Tries], Outcome]


def read_tries(path: Path) -> Tries:
    """Tries as :func:`write_tries` wrote them."""
    return Tries(**json.loads(path.read_text(encoding="utf-8")))


def write_tries(tries: Tries, path: Path) -> None:
    """Write tries as JSON, every number in full."""
    path.write_text(json.dumps(tries._asdict()), encoding="utf-8")


def answer(learner: Learner) -> None:
    """Be the peer: learn anew for every line of standard input until it ends."""
    tries = read_tries(Path(sys.argv[1]))
    for _ in sys.stdin:
        print(json.dumps(learner(tries)._asdict()), flush=True)
