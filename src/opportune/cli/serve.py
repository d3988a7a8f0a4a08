"""``opportune serve``: the live service of one node."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from opportune.cli.extras import missing_package
from opportune.cli.options import INSTANCE_HELP, LOAD_HELP, Whole
from opportune.cli.output import print_note
from opportune.errors import InputError, Problem
from opportune.model.files import load_instance

try:
    from opportune.service.log import set_up_logs
    from opportune.service.seeding import pool_name
    from opportune.service.serving import Seed
    from opportune.service.serving import serve as run_service
    from opportune.service.settings import ServiceSettings
except ModuleNotFoundError as error:
    raise missing_package(error, "opportune serve") from error

DATABASE_HELP = "File of the journal; made if it is not there."
KEYS_HELP = "File of the API keys; by default beside the database."
STEP_HELP = "Seconds of a step of the instance."


@Parameter(name="*")
@dataclass(frozen=True)
class StoreOptions:
    """What is kept where."""

    database: Annotated[Path, Parameter(help=DATABASE_HELP)] = Path("opportune.db")
    keys: Annotated[Path | None, Parameter(help=KEYS_HELP)] = None
    memory: Annotated[
        bool, Parameter(help="Keep everything in memory: gone when it ends.", negative=())
    ] = False


@Parameter(name="*")
@dataclass(frozen=True)
class ListenOptions:
    """Where the service listens, and to whom."""

    host: Annotated[str, Parameter(help="Address to listen on.")] = "127.0.0.1"
    port: Annotated[Whole, Parameter(help="TCP port; 0 takes a free one.")] = 8080
    insecure: Annotated[
        bool, Parameter(help="Listen beyond this machine without API keys.", negative=())
    ] = False
    rate: Annotated[float | None, Parameter(help="Requests per second and API key, at most.")] = (
        None
    )
    grace: Annotated[float, Parameter(help="Seconds for open requests when told to stop.")] = 10.0
    log: Annotated[
        Literal["debug", "info", "warning", "error"],
        Parameter(help="Least level of the log on standard error."),
    ] = "info"


DEFAULT_STORE = StoreOptions()
DEFAULT_LISTEN = ListenOptions()


def serve(
    instance: Annotated[str | None, Parameter(help=INSTANCE_HELP)] = None,
    /,
    *,
    load: Annotated[float | None, Parameter(help=LOAD_HELP)] = None,
    pool: Annotated[str, Parameter(help="Pool made from the instance; default: its name.")] = "",
    step: Annotated[float, Parameter(help=STEP_HELP)] = 1.0,
    store: StoreOptions = DEFAULT_STORE,
    listen: ListenOptions = DEFAULT_LISTEN,
) -> int:
    """Serve decisions over HTTP; what was acknowledged survives. Ends with SIGTERM or Ctrl-C.

    With an instance, a pool is made from it unless there is one of that name: its servers, task
    types, scores and a first plan.
    """
    if not 0 < step < 1e9:
        raise InputError(Problem("--step", str(step), "seconds, above 0"))
    settings = ServiceSettings(
        database=None if store.memory else store.database,
        keys=store.keys,
        host=listen.host,
        port=listen.port,
        insecure=listen.insecure,
        rate=listen.rate,
        grace=listen.grace,
    )
    first = None
    if instance is not None:
        loss = load_instance(instance, load)
        first = Seed(pool or pool_name(loss.name), loss, step)
    set_up_logs(listen.log)
    where = "memory" if store.memory else str(store.database)

    def ready(address: str) -> None:
        print_note(f"serving {address} (journal: {where}); Ctrl-C ends it")
        if first is not None:
            print_note(f"pool: {address}/v1/pools/{first.pool}")

    return run_service(settings, ready, first)
