"""``opportune serve``: a node of the live service, the only one or one of several."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from opportune.cli.extras import missing_package
from opportune.cli.options import INSTANCE_HELP, LOAD_HELP, Filled, Number, Place, Whole
from opportune.cli.output import print_note
from opportune.errors import InputError, Problem
from opportune.model.files import load_instance

try:
    from opportune.service.log import set_up_logs
    from opportune.service.seeding import pool_name
    from opportune.service.serving import Seed
    from opportune.service.serving import serve as run_service
    from opportune.service.settings import (
        ClusterSettings,
        ServiceSettings,
        is_database_url,
        shown_place,
    )
except ModuleNotFoundError as error:
    raise missing_package(error, "opportune serve") from error

DATABASE_HELP = (
    "File of the journal, made if it is not there; or postgresql://..., for several nodes."
)
KEYS_HELP = "File of the API keys; by default beside the database, or in it."
ADVERTISE_HELP = "Where the other nodes reach this one, such as http://10.0.0.5:8080."
STEP_HELP = "Seconds of a step of the instance."


@Parameter(name="*")
@dataclass(frozen=True)
class NodeOptions:
    """One node among several: with --database postgresql://..."""

    node: Annotated[str, Parameter(help="Its name; by default the machine's.")] = ""
    advertise: Annotated[str, Parameter(help=ADVERTISE_HELP)] = ""
    lease: Annotated[
        Number, Parameter(help="Seconds after which the pools of a silent node are taken over.")
    ] = 2.0
    drain: Annotated[
        Number,
        Parameter(help="Seconds to send requests on, when told to stop and all handed over."),
    ] = 2.0


DEFAULT_NODE = NodeOptions()


@Parameter(name="*")
@dataclass(frozen=True)
class StoreOptions:
    """What is kept where."""

    database: Annotated[Filled, Parameter(help=DATABASE_HELP)] = "opportune.db"
    keys: Annotated[Place | None, Parameter(help=KEYS_HELP)] = None
    memory: Annotated[
        bool, Parameter(help="Keep everything in memory: gone when it ends.", negative=())
    ] = False
    node: NodeOptions = DEFAULT_NODE


@Parameter(name="*")
@dataclass(frozen=True)
class ListenOptions:
    """Where the service listens, and to whom."""

    host: Annotated[str, Parameter(help="Address to listen on.")] = "127.0.0.1"
    port: Annotated[Whole, Parameter(help="TCP port; 0 takes a free one.")] = 8080
    insecure: Annotated[
        bool, Parameter(help="Listen beyond this machine without API keys.", negative=())
    ] = False
    rate: Annotated[Number | None, Parameter(help="Requests per second and API key, at most.")] = (
        None
    )
    request_timeout: Annotated[
        Number, Parameter(help="Seconds for a request to come, and one more for every 4 KiB of it.")
    ] = 30.0
    grace: Annotated[Number, Parameter(help="Seconds for open requests when told to stop.")] = 10.0
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
    load: Annotated[Number | None, Parameter(help=LOAD_HELP)] = None,
    pool: Annotated[str, Parameter(help="Pool made from the instance; default: its name.")] = "",
    step: Annotated[Number, Parameter(help=STEP_HELP)] = 1.0,
    store: StoreOptions = DEFAULT_STORE,
    listen: ListenOptions = DEFAULT_LISTEN,
) -> int:
    """Serve decisions over HTTP; what was acknowledged survives. Ends with SIGTERM or Ctrl-C.

    With an instance, a pool is made from it unless there is one of that name: its servers, task
    types, scores and a first plan.
    """
    if not 0 < step < 1e9:
        raise InputError(Problem("--step", str(step), "seconds, above 0"))
    cluster = _cluster(store)
    settings = ServiceSettings(
        database=None if store.memory or cluster is not None else Path(store.database),
        keys=store.keys,
        host=listen.host,
        port=listen.port,
        insecure=listen.insecure,
        rate=listen.rate,
        request_timeout=listen.request_timeout,
        grace=listen.grace,
        cluster=cluster,
    )
    first = None
    if instance is not None:
        loss = load_instance(instance, load)
        first = Seed(pool or pool_name(loss.name), loss, step)
    set_up_logs(listen.log)
    where = "memory" if store.memory else shown_place(store.database)

    def ready(address: str) -> None:
        print_note(f"serving {address} (journal: {where}); Ctrl-C ends it")
        if first is not None:
            print_note(f"pool: {address}/v1/pools/{first.pool}")

    return run_service(settings, ready, first)


def _cluster(store: StoreOptions) -> ClusterSettings | None:
    """The settings of one node among several; None if the database is a file."""
    node = store.node
    if store.memory or not is_database_url(store.database):
        if node != DEFAULT_NODE:
            told = "--database postgresql://...: these options are of one node among several"
            raise InputError(Problem("--node, --advertise, --lease, --drain", "given", told))
        return None
    return ClusterSettings(
        store.database,
        name=node.node,
        advertise=node.advertise,
        lease=node.lease,
        drain=node.drain,
    )
