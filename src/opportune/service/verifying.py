"""Does the journal give the same decisions again?"""

from __future__ import annotations

from msgspec import structs

from opportune.service.deciding import choose
from opportune.service.events import Event, Offered, TaskDropped
from opportune.service.state import State
from opportune.service.turn import Turn


def verify(state: State, event: Event) -> bool:
    """Whether the engine, in the state before an event, would decide what the event says.

    True for events that are no decision. ``state`` is not changed.
    """
    if not isinstance(event, (Offered, TaskDropped)) or state.settings is None:
        return True
    task = state.tasks[event.task]
    turn = Turn(state, state.settings, event.time, event.why.draws)
    if isinstance(event, TaskDropped):
        return not choose(turn, task, task.k).picks
    choice = choose(turn, task, len(event.picks))
    why = choice.why
    if event.why.shadow_gain is None:  # written before shadows were valued
        why = structs.replace(why, shadow_gain=None)
    return choice.picks == event.picks and why == event.why
