"""The busy requests, straight from ASGI to the pool's owner.

Creating tasks, transitions, outcomes and rankings make nearly all the traffic. They go the same way
as everything else (``calls.carry_out``), but are told from the path by one regular expression and
decoded by one call. The application has ordinary handlers for them too, which give the same
answers (``tests/service/test_api_hot.py``).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import msgspec

from opportune.service import commands
from opportune.service.api.bodies import DoneBody, LeaseBody, ReasonBody
from opportune.service.api.calls import Call, carry_out, decoded, named, pool_in
from opportune.service.dealing_orders import ORDERS
from opportune.service.dealing_pools import place_of, with_candidates
from opportune.service.engine import rank
from opportune.service.problems import Reply, refusal, reply_of

PATH = re.compile(
    rb"/v1/(?:pools/([^/:]+)(?:/(assignments|tasks)|:(rank))"
    rb"|assignments/([^/:]+):(accept|decline|complete|fail|release|heartbeat)|(outcomes))"
)

_TASK = msgspec.json.Decoder(commands.CreateTask)
_RANK = msgspec.json.Decoder(commands.RankRequest)
_OUTCOME = msgspec.json.Decoder(commands.ReportOutcome)
_DONE = msgspec.json.Decoder(DoneBody)
_REASON = msgspec.json.Decoder(ReasonBody)
_LEASE = msgspec.json.Decoder(LeaseBody)


def hot_handler(path: bytes) -> Callable[[Call, bytes], Awaitable[Reply]] | None:
    """What answers a POST to a path; None leaves it to the ordinary handlers."""
    found = PATH.fullmatch(path)
    if found is None:
        order = ORDERS.fullmatch(path)
        if order is None:
            return None
        place = named(order[1].decode())
        return lambda call, body: obey_order(call, place, body)
    pool, _, ranking, assignment, verb, _ = found.groups()
    if verb is not None:
        return lambda call, body: transition(call, named(assignment.decode()), verb.decode(), body)
    if ranking is not None:
        return lambda call, body: rank_candidates(call, named(pool.decode()), body)
    if pool is not None:
        return lambda call, body: create_task(call, named(pool.decode()), body)
    return report_outcome


async def obey_order(call: Call, pool: str, body: bytes) -> Reply:
    """What another node orders.

    Raises:
        RefusalError: If it is no other node, or the pool is not here.
    """
    if not call.forwarded:
        raise refusal("not-found", "there is no such path")
    return await call.node.orders.carry_out(pool, body)


async def create_task(call: Call, pool: str, body: bytes) -> Reply:
    """A task, decided on now.

    Raises:
        RefusalError: If the caller may not, or the body or the pool is wrong.
    """
    call.allow("decide")
    command = decoded(body, _TASK)
    place = place_of(call.node, pool, command.external_id, call.key)
    return await carry_out(call, place, command, body)


async def transition(call: Call, assignment: str, verb: str, body: bytes) -> Reply:
    """An assignment goes on.

    Raises:
        RefusalError: If the caller may not, or the body or the name is wrong.
    """
    call.allow("report")
    command: commands.Command
    if verb == "complete":
        done = decoded(body, _DONE) if body else DoneBody()
        command = commands.Complete(
            assignment=assignment, server=done.server, lease=done.lease, value=done.value
        )
    elif verb in _WITHOUT_REASON:
        lease = decoded(body, _LEASE) if body else LeaseBody()
        command = _WITHOUT_REASON[verb](
            assignment=assignment, server=lease.server, lease=lease.lease
        )
    else:
        said = decoded(body, _REASON) if body else ReasonBody()
        command = _WITH_REASON[verb](
            assignment=assignment, server=said.server, lease=said.lease, reason=said.reason
        )
    return await carry_out(call, pool_in(assignment), command, body)


async def report_outcome(call: Call, body: bytes) -> Reply:
    """What came of an assignment.

    Raises:
        RefusalError: If the caller may not, or the body or the name is wrong.
    """
    call.allow("report")
    command = decoded(body, _OUTCOME)
    return await carry_out(call, pool_in(command.subject), command, body)


async def rank_candidates(call: Call, pool: str, body: bytes) -> Reply:
    """A ranking of candidates; nothing is stored, so an idempotency key makes no difference.

    Raises:
        RefusalError: If the caller may not, or the body or the pool is wrong.
    """
    call.allow("decide")
    request = await with_candidates(call.node, pool, decoded(body, _RANK))
    owner = call.node.owner(pool)
    now = owner.now()
    return reply_of(rank(owner.state, request, now, owner.draws()), now)


_WITHOUT_REASON: dict[str, type[commands.Accept] | type[commands.Heartbeat]] = {
    "accept": commands.Accept,
    "heartbeat": commands.Heartbeat,
}
_WITH_REASON: dict[str, type[commands.Decline] | type[commands.Fail] | type[commands.Release]] = {
    "decline": commands.Decline,
    "fail": commands.Fail,
    "release": commands.Release,
}
