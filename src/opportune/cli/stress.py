"""``opportune stress``: how many durable assignments a second, and how fast is one?"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from cyclopts import Parameter

from opportune.cli.extras import missing_package
from opportune.cli.options import FORMAT_HELP, Format, Number, Whole
from opportune.cli.output import print_csv, print_json, print_note, print_table
from opportune.errors import InputError, Problem

try:
    import uvloop

    from opportune.service.stress import Load, StressSettings, declare, quantile, run_load
    from opportune.service.stress_target import Target
    from opportune.service.wire import Address
except ModuleNotFoundError as error:
    raise missing_package(error, "opportune stress") from error

URL_HELP = "A running service, or several of its nodes: --url A --url B; without it one is started."
COLUMNS = (
    "load",
    "per_second",
    "p50_ms",
    "p99_ms",
    "completion_p50_ms",
    "completion_p99_ms",
    "dropped",
    "failed",
    "capacity_mismatch",
)


@Parameter(name="*")
@dataclass(frozen=True)
class LoadOptions:
    """The load."""

    servers: Annotated[Whole, Parameter(help="Servers of the pool.")] = 1000
    types: Annotated[Whole, Parameter(help="Task types of the pool.")] = 50
    connections: Annotated[Whole, Parameter(help="Kept-alive connections.")] = 64
    seconds: Annotated[Number, Parameter(help="Seconds of each part, after one to warm up.")] = 5.0
    rate: Annotated[Number, Parameter(help="Assignments per second of the part at a rate.")] = 500.0
    pool: Annotated[str, Parameter(help="Pool to use; made if it is not there.")] = "stress"
    pools: Annotated[Whole, Parameter(help="Pools that share servers and load: POOL-1, ...")] = 1
    direct: Annotated[
        bool,
        Parameter(help="Ask the node that owns the pool, not any node.", negative=()),
    ] = False
    learning: Annotated[
        Literal["off", "shadow", "on"],
        Parameter(help="Whether a pool that is made learns from the outcomes."),
    ] = "off"


DEFAULT_LOAD = LoadOptions()


def stress(
    *,
    url: Annotated[list[str] | None, Parameter(help=URL_HELP, negative=())] = None,
    key: Annotated[str, Parameter(help="API key with scope admin.")] = "",
    options: LoadOptions = DEFAULT_LOAD,
    format: Annotated[Format, Parameter(help=FORMAT_HELP)] = "table",
) -> int:
    """Put a bounded load on a service: as much as goes, then at a rate, then rankings.

    Completions come at the rate of assignments. Everything that is acknowledged is on disk.
    """
    load = StressSettings(
        pool=options.pool,
        servers=options.servers,
        types=options.types,
        connections=options.connections,
        seconds=options.seconds,
        learning=options.learning,
        pools=options.pools,
        direct=options.direct,
    )
    memory: int | None = None
    if url:
        found = _run(_parts([_address(one, key) for one in url], load, options.rate))
    else:
        with Target() as target:
            print_note(f"service: {target.address}, journal in {target.folder}")
            found = _run(_parts([_address(target.address, key)], load, options.rate))
        memory = target.memory
    rows = [_row(name, one) for name, one in found]
    if format == "json":
        loads = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
        print_json({"loads": loads, "service_memory_bytes": memory})
    elif format == "csv":
        print_csv(COLUMNS, rows)
    else:
        print_table(
            f"{load.servers} servers, {load.types} types, {load.connections} connections",
            COLUMNS,
            [tuple("-" if cell is None else str(cell) for cell in row) for row in rows],
        )
        if memory is not None:
            print(f"memory of the service: {memory / 2**20:.0f} MiB at most")
    return 1 if any(one.failed or one.mismatch for _, one in found) else 0


def _run(work: Coroutine[Any, Any, list[tuple[str, Load]]]) -> list[tuple[str, Load]]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


async def _parts(
    nodes: Sequence[Address], load: StressSettings, rate: float
) -> list[tuple[str, Load]]:
    """The three parts, one after another."""
    first, *others = nodes
    for i, part in enumerate(load.parts):
        await declare(nodes[i % len(nodes)], part)
    loads = {
        "as many as go": load,
        f"at {rate:g}/s": replace(load, rate=rate),
        "rankings, one by one": replace(load, rank=True, connections=1),
    }
    return [(name, await run_load(first, one, others=others)) for name, one in loads.items()]


def _row(name: str, found: Load) -> tuple[Any, ...]:
    main = found.decided or found.ranked
    return (
        name,
        round(found.per_second, 1),
        round(quantile(main, 0.5), 2),
        round(quantile(main, 0.99), 2),
        round(quantile(found.completed, 0.5), 2) if found.completed else None,
        round(quantile(found.completed, 0.99), 2) if found.completed else None,
        found.dropped,
        sum(found.failed.values()),
        found.mismatch,
    )


def _address(url: str, key: str) -> Address:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 80
    except ValueError:
        host, port, parts = "", 0, urlsplit("")
    if parts.scheme != "http" or not host:
        raise InputError(Problem("--url", url, "such as http://127.0.0.1:8080"))
    return Address(host, port, key)
