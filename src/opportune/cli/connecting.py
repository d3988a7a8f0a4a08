"""Options of commands that talk to a running service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from opportune.cli.extras import missing_package

try:
    from opportune.client.blocking import Client
except ModuleNotFoundError as error:
    raise missing_package(error, "a command that talks to a service") from error

HERE = "http://127.0.0.1:8080"
"""Where a service on this machine listens by default."""

KEY_HELP = "API key, if the service wants one; better in the environment than on the command line."


@Parameter(name="*")
@dataclass(frozen=True)
class Service:
    """Which service, and who asks."""

    url: Annotated[str, Parameter(help="Where it is.", env_var="OPPORTUNE_URL")] = HERE
    key: Annotated[str | None, Parameter(help=KEY_HELP, env_var="OPPORTUNE_API_KEY")] = None

    def client(self) -> Client:
        """A client of it.

        Raises:
            InputError: If the address or the key cannot be one.
        """
        return Client(self.url, self.key)


THIS_MACHINE = Service()
