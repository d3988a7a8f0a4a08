"""How a node of the service runs: where it listens, what it keeps, how much one may ask."""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass
from pathlib import Path

from opportune.errors import InputError, Problem


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
        grace: Seconds for open requests when the service is told to stop.

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
    grace: float = 10.0

    def __post_init__(self) -> None:
        problems = []
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
