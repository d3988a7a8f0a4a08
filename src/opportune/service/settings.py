"""How a node of the service runs: where it listens, what it keeps, how much one may ask."""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from opportune.errors import InputError, Problem

POSTGRES = ("postgresql://", "postgres://")
"""What the URL of a database begins with."""


def is_database_url(database: str) -> bool:
    """Whether it is the URL of a database, and no file."""
    return database.startswith(POSTGRES)


def shown_place(database: str) -> str:
    """A file, or a database's URL without user and password."""
    if not is_database_url(database):
        return database
    scheme, _, rest = database.partition("://")
    return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"


@dataclass(frozen=True)
class ClusterSettings:
    """One node among several on a PostgreSQL database.

    Attributes:
        url: ``postgresql://user:password@host:port/database``.
        schema: Of the tables; made if it is not there.
        name: Of the node, to be read by people; empty: the name of the machine.
        advertise: URL at which the other nodes reach it; empty: where it listens.
        lease: Seconds after which the pools of a node that is silent are taken over.
        hold: Seconds that a request waits for its pool to get an owner.
        drain: Seconds for which a node that was told to stop forwards, after its pools are handed
            over, so that load balancers and clients can turn away.

    Raises:
        InputError: Naming every setting that is wrong.
    """

    url: str
    schema: str = "opportune"
    name: str = ""
    advertise: str = ""
    lease: float = 2.0
    hold: float = 10.0
    drain: float = 2.0

    def __post_init__(self) -> None:
        problems = []
        for name, least in (("lease", 0.2), ("hold", 0.0), ("drain", 0.0)):
            value = getattr(self, name)
            if not least <= value <= 3600.0:
                problems.append(Problem(_option(name), str(value), f"{least:g} to 3600 seconds"))
        if not is_database_url(self.url):
            problems.append(Problem("--database", shown_place(self.url), "a URL: postgresql://..."))
        if not self.name.isprintable() or len(self.name) > 63:
            problems.append(Problem("--node", repr(self.name), "at most 63 printable characters"))
        if self.advertise and not is_plain_url(self.advertise):
            told = "such as http://10.0.0.5:8080, without a path"
            problems.append(Problem("--advertise", self.advertise, told))
        if problems:
            raise InputError(problems)


@dataclass(frozen=True)
class ServiceSettings:
    """The settings of one node.

    Attributes:
        database: The journal's file; None keeps everything in memory.
        keys: The file of API keys; None: ``keys.json`` beside the database.
        host: Address to listen on.
        port: TCP port; 0 takes a free one.
        insecure: Listen beyond this machine without API keys.
        body_limit: Most bytes of a request.
        bulk_limit: Most bytes of a request that carries scores or a plan.
        rate: Requests per second and caller; None: no limit.
        burst: Requests at once of a caller that was silent.
        snapshot_every: Records of a pool between two snapshots.
        idempotency_keys: Idempotency keys remembered per pool.
        idempotency_seconds: How long.
        request_timeout: Seconds for a request to come, beside one for every 4,096 bytes of it.
        grace: Seconds for open requests when the service is told to stop.
        cluster: The database of several nodes instead of a file; None: this is the only node.

    Raises:
        InputError: Naming every setting that is wrong.
    """

    database: Path | None = None
    keys: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8080
    insecure: bool = False
    body_limit: int = 1 << 20
    bulk_limit: int = 256 << 20
    rate: float | None = None
    burst: int = 1000
    snapshot_every: int = 50_000
    idempotency_keys: int = 100_000
    idempotency_seconds: float = 86_400.0
    request_timeout: float = 30.0
    grace: float = 10.0
    cluster: ClusterSettings | None = None

    def __post_init__(self) -> None:
        problems = []
        if self.cluster is not None and self.database is not None:
            told = "a file, or the database of several nodes"
            problems.append(Problem("--database", "both", told))
        if self.cluster is not None and not self.cluster.advertise and is_any(self.host):
            told = "an address that the other nodes reach, such as http://10.0.0.5:8080"
            problems.append(Problem("--advertise", f"missing, with --host {self.host}", told))
        if not 0 <= self.port <= 65_535:
            problems.append(Problem("--port", str(self.port), "0 to 65535"))
        for name, least in (
            ("body_limit", 1),
            ("bulk_limit", 1),
            ("burst", 1),
            ("snapshot_every", 1),
            ("idempotency_keys", 0),
        ):
            value = getattr(self, name)
            if not value >= least:
                problems.append(Problem(_option(name), str(value), f"at least {least}"))
        if self.rate is not None and not 0 < self.rate < math.inf:
            problems.append(Problem("--rate", str(self.rate), "a number above 0"))
        if not 1 <= self.request_timeout <= 3600:
            told = "1 to 3600 seconds"
            problems.append(Problem("--request-timeout", str(self.request_timeout), told))
        if not 0 <= self.grace < math.inf:
            problems.append(Problem("--grace", str(self.grace), "seconds, at least 0"))
        if problems:
            raise InputError(problems)

    @property
    def key_file(self) -> Path | None:
        """Where API keys are; None if there is neither a file of keys nor a database."""
        if self.keys is not None:
            return self.keys
        return None if self.database is None else key_file_beside(self.database)


def key_file_beside(database: Path) -> Path:
    """Where the keys of a database are, if nothing else is said."""
    return database.with_name(database.name + ".keys.json")


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return False


def is_any(host: str) -> bool:
    """Whether it means all addresses of the machine, so that it says nobody where to connect."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return host == ""


def is_plain_url(url: str) -> bool:
    """Whether a URL is ``http://HOST:PORT`` and nothing else."""
    try:
        parts = urlsplit(url)
        return bool(
            parts.scheme == "http"
            and parts.hostname
            and parts.port
            and url.rstrip("/") == f"http://{parts.netloc}"
            and "@" not in parts.netloc
        )
    except ValueError:
        return False


def check_exposure(host: str, n_keys: int, insecure: bool) -> None:
    """Refuse to be open to the network for everyone.

    Raises:
        InputError: If others can reach the address and nobody needs a key, unless that is wanted.
    """
    if is_loopback(host) or n_keys or insecure:
        return
    raise InputError(
        Problem(
            "--host",
            f"{host} can be reached from other machines, and there are no API keys",
            "a loopback address, or at least one key",
            "make one: opportune keys create --scope admin; or, if everyone may do everything, "
            "say --insecure",
        )
    )


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
