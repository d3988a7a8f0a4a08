"""The engine: a command, a time and draws in; events and an answer out. Pure.

``decide`` knows no clock, file or generator of random numbers: the same state, command, time and
draws give the same events. It applies each event as it emits it, so the state it was given is the
state after; what must be on stable storage before the answer goes out is ``answer.events``. If it
raises, that is a fault of the program, and the state must be read from the journal again.

Time: a command is handled at ``max(now, clock)``, the clock being the time of the latest event, so
a clock that is set back never makes a negative duration. Timers that are due fire first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from opportune.service import (
    commands,
    dealing_commands,
    handling_learned,
    handling_plans,
    handling_pool,
    handling_tasks,
    handling_transitions,
)
from opportune.service.answers import Answer, Complaint
from opportune.service.filling import fill
from opportune.service.ranking import rank
from opportune.service.refusing import Refused, Reply, nothing, with_value
from opportune.service.state import State
from opportune.service.timing import fire_due, next_deadline
from opportune.service.turn import Turn, Words
from opportune.service.verifying import verify
from opportune.service.warming import warm_up

__all__ = ["decide", "next_deadline", "rank", "verify", "warm_up"]


def decide(state: State, command: commands.Command, now: float, draws: Words) -> Answer:
    """Handle a command.

    Args:
        state: The pool; changed in place.
        command: What is wanted.
        now: Seconds of the caller's clock.
        draws: 32-bit fractions for ties and samples: as many as servers are picked; where more
            are needed, they follow from these.

    Returns:
        What happened, and the body or the problem. A refused command may have events: a recorded
        drop, and timers that were due.
    """
    if not math.isfinite(now):
        told = Complaint(code="invalid", field="now", detail=f"{now} is not a time in seconds")
        return Answer(events=[], problem=told)
    settings = state.settings
    if settings is None:
        if not isinstance(command, commands.PutPool):
            told = Complaint(
                code="not-found",
                field="pool",
                detail=f"there is no pool {state.pool!r}",
                remedy="create it",
            )
            return Answer(events=[], problem=told)
        settings = command.settings
    turn = Turn(state, settings, float(now), draws)
    fire_due(turn)
    dealing_commands.leave(turn)
    try:
        reply = _HANDLERS[type(command)](turn, command)
    except Refused as refused:
        return Answer(events=turn.events, problem=with_value(refused.complaint, command))
    fill(turn)
    dealing_commands.leave(turn)
    return Answer(
        events=turn.events,
        body=reply.body(),
        problem=None if reply.problem is None else with_value(reply.problem, command),
        created=reply.created,
        waiting=reply.waiting,
        repeated=reply.repeated,
    )


def _tick(turn: Turn, command: commands.Tick) -> Reply:
    return Reply(body=nothing)


_HANDLERS: dict[type[commands.Command], Callable[[Turn, Any], Reply]] = {
    commands.PutPool: handling_pool.put_pool,
    commands.PutTaskType: handling_pool.put_task_type,
    commands.PutServer: handling_pool.put_server,
    commands.RemoveServer: handling_pool.remove_server,
    commands.ServerHeartbeat: handling_pool.server_heartbeat,
    commands.ClearQuarantine: handling_pool.clear_quarantine,
    commands.PutScores: handling_pool.put_scores,
    commands.RequestPlan: handling_plans.request_plan,
    commands.StartPlan: handling_plans.start_plan,
    commands.EndPlan: handling_plans.end_plan,
    commands.PutPlan: handling_plans.put_plan,
    commands.ActivatePlan: handling_plans.activate_plan,
    commands.RollbackPlan: handling_plans.rollback_plan,
    commands.ShadowPlan: handling_plans.shadow_plan,
    commands.CreateTask: handling_tasks.create_task,
    commands.CancelTask: handling_tasks.cancel_task,
    commands.PutLearned: handling_learned.put_learned,
    commands.Accept: handling_transitions.accept,
    commands.Decline: handling_transitions.decline,
    commands.Complete: handling_transitions.complete,
    commands.Fail: handling_transitions.fail,
    commands.Release: handling_transitions.release,
    commands.Heartbeat: handling_transitions.heartbeat,
    commands.ReportOutcome: handling_transitions.report_outcome,
    commands.Follow: dealing_commands.follow,
    commands.DealServers: dealing_commands.deal_servers,
    commands.TakeIn: dealing_commands.take_in,
    commands.Tick: _tick,
}
