"""A typed client of the live service.

::

    from opportune.client import Client, CreateTask, NoCapacityError

    with Client("http://127.0.0.1:8080") as client:
        try:
            made = client.create_assignment("desk", CreateTask(task_type="leaflet"))
        except NoCapacityError as error:
            print(f"try again in {error.retry_after} s")

``AsyncClient`` has the same methods for ``async`` programs. Needs the extra ``client``. Names are
looked up when first used; bodies are the service's own types.
"""

import importlib
from typing import TYPE_CHECKING, Any

from opportune.errors import MissingExtraError

if TYPE_CHECKING:
    from opportune.client.asynchronous import AsyncClient
    from opportune.client.blocking import Client
    from opportune.client.problems import (
        AlreadyEndedError,
        ConflictError,
        InvalidRequestError,
        NoCapacityError,
        NotAllowedError,
        NotFoundError,
        ServiceError,
        StaleLeaseError,
        UnavailableError,
    )
    from opportune.client.retrying import Retries
    from opportune.service.answers import AssignmentBody, TaskBody
    from opportune.service.api.bodies import NewPlan
    from opportune.service.commands import CreateTask, RankRequest, ReportOutcome
    from opportune.service.resources import PoolSettings, ServerSettings, TaskTypeSettings

__all__ = [
    "AlreadyEndedError",
    "AssignmentBody",
    "AsyncClient",
    "Client",
    "ConflictError",
    "CreateTask",
    "InvalidRequestError",
    "NewPlan",
    "NoCapacityError",
    "NotAllowedError",
    "NotFoundError",
    "PoolSettings",
    "RankRequest",
    "ReportOutcome",
    "Retries",
    "ServerSettings",
    "ServiceError",
    "StaleLeaseError",
    "TaskBody",
    "TaskTypeSettings",
    "UnavailableError",
]

_MODULES = {
    "AlreadyEndedError": "opportune.client.problems",
    "AssignmentBody": "opportune.service.answers",
    "AsyncClient": "opportune.client.asynchronous",
    "Client": "opportune.client.blocking",
    "ConflictError": "opportune.client.problems",
    "CreateTask": "opportune.service.commands",
    "InvalidRequestError": "opportune.client.problems",
    "NewPlan": "opportune.service.api.bodies",
    "NoCapacityError": "opportune.client.problems",
    "NotAllowedError": "opportune.client.problems",
    "NotFoundError": "opportune.client.problems",
    "PoolSettings": "opportune.service.resources",
    "RankRequest": "opportune.service.commands",
    "ReportOutcome": "opportune.service.commands",
    "Retries": "opportune.client.retrying",
    "ServerSettings": "opportune.service.resources",
    "ServiceError": "opportune.client.problems",
    "StaleLeaseError": "opportune.client.problems",
    "TaskBody": "opportune.service.answers",
    "TaskTypeSettings": "opportune.service.resources",
    "UnavailableError": "opportune.client.problems",
}
"""Where each name lives."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(_MODULES[name])
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        raise MissingExtraError("httpx", "client", "the client of the live service") from error
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
