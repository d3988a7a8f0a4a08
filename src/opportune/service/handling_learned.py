"""What the pool's learner publishes."""

from __future__ import annotations

from opportune.service.commands import PutLearned
from opportune.service.events import LearnedPut
from opportune.service.learned import learned_problem
from opportune.service.refusing import Refused, Reply, nothing
from opportune.service.turn import Turn


def put_learned(turn: Turn, command: PutLearned) -> Reply:
    """Take a publication in: versions follow each other, so none is taken twice or too late.

    Raises:
        Refused: If the pool does not learn, it is not the next version, or it does not fit the
            pool.
    """
    problem = learned_problem(turn.state, command.learned)
    if problem is not None:
        told = f"{problem.value}, expected {problem.expected}"
        raise Refused("conflict", problem.field, told, "learn from what was written since")
    turn.emit(LearnedPut(time=turn.now, learned=command.learned))
    return Reply(body=nothing, created=True)
