"""Options of commands that talk to a running service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from opportune.cli.extras import missing_package
from opportune.errors import OpportuneError, Problem

try:
    from opportune.client.blocking import Client
    from opportune.client.problems import NotAllowedError, UnavailableError
    from opportune.client.retrying import Retries
except ModuleNotFoundError as error:
    raise missing_package(error, "a command that talks to a service") from error

HERE = "http://127.0.0.1:8080"
"""Where a service on this machine listens by default."""

PATIENCE = 10.0
"""Seconds that a command gives a service to answer: somebody waits for it."""

KEY_HELP = "API key, if the service wants one; better in the environment than on the command line."


@Parameter(name="*")
@dataclass(frozen=True)
class Service:
    """Which service, and who asks."""

    url: Annotated[str, Parameter(help="Where it is.", env_var="OPPORTUNE_URL")] = HERE
    key: Annotated[str | None, Parameter(help=KEY_HELP, env_var="OPPORTUNE_API_KEY")] = None

    @contextmanager
    def client(self) -> Iterator[Client]:
        """A client of it, for a block.

        Raises:
            InputError: If the address or the key cannot be one.
            OpportuneError: If the service does not answer, or wants another key.
        """
        try:
            with Client(self.url, self.key, retries=Retries(seconds=PATIENCE)) as client:
                yield client
        except UnavailableError as error:
            if error.code != "unreachable":
                raise
            told = f"{self.url}: {error.body.detail}"
            remedy = "start one with `opportune serve`, or name another, also in OPPORTUNE_URL"
            expected = "a service that answers"
            raise OpportuneError(Problem("--url", told, expected, remedy)) from error
        except NotAllowedError as error:
            if error.code != "unauthenticated":
                raise
            told = "missing" if self.key is None else "not known to the service"
            remedy = "set OPPORTUNE_API_KEY, or give --key; `opportune keys create` makes one"
            raise OpportuneError(Problem("--key", told, "an API key", remedy)) from error


THIS_MACHINE = Service()
