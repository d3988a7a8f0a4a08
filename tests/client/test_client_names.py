"""What the client offers: both faces alike, every operation there, nothing heavy to install."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

import pytest

import opportune.client
from opportune.client import AsyncClient, Client
from opportune.errors import OpportuneError
from opportune.service.app import api_document

NOT_OURS = {"create_task", "livez", "readyz", "metrics"}
"""Operations without a method: the same as another one, ``is_ready``, or not for programs."""


def methods(client: type) -> dict[str, object]:
    return {name: one for name, one in inspect.getmembers(client) if not name.startswith("_")}


def test_both_clients_have_the_same_methods() -> None:
    one, other = methods(Client), methods(AsyncClient)
    assert set(one) == set(other)
    for name in set(one) - {"follow_events"}:
        assert inspect.signature(one[name]) == inspect.signature(other[name]), name  # type: ignore
        assert inspect.getdoc(one[name]) == inspect.getdoc(other[name])
        assert inspect.iscoroutinefunction(other[name])
        assert not inspect.iscoroutinefunction(one[name])


def test_every_operation_of_the_api_has_a_method() -> None:
    served = {
        operation["operationId"].lower()
        for operations in api_document()["paths"].values()
        for operation in operations.values()
    }
    ours = {name.replace("_", "") for name in {*methods(Client), *NOT_OURS}}
    missing = {name for name in served if not any(name.endswith(one) for one in ours)}
    assert missing == set()


@pytest.mark.parametrize("name", opportune.client.__all__)
def test_every_name_leads_where_the_table_says(name: str) -> None:
    module = importlib.import_module(opportune.client._MODULES[name])
    assert getattr(opportune.client, name) is getattr(module, name)


def test_table_and_all_agree() -> None:
    assert sorted(opportune.client._MODULES) == opportune.client.__all__
    with pytest.raises(AttributeError, match="nonsense"):
        _ = opportune.client.nonsense


def test_problems_are_all_opportune_errors() -> None:
    for name in opportune.client.__all__:
        if name.endswith("Error"):
            assert issubclass(getattr(opportune.client, name), OpportuneError)


def _python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_client_loads_nothing_of_the_server() -> None:
    loaded = _python(
        "import sys; from opportune.client import AsyncClient, Client, CreateTask\n"
        "print(*{name.split('.')[0] for name in sys.modules})"
    ).split()
    assert "httpx" in loaded
    assert {"apsw", "litestar", "numba", "structlog", "uvicorn"} & set(loaded) == set()


def test_without_its_extra_the_message_says_what_to_install() -> None:
    told = _python(
        "import sys; sys.modules['httpx'] = None\n"
        "import opportune\n"
        "try: opportune.Client\n"
        "except opportune.MissingExtraError as error: print(error)"
    )
    assert "pip install 'opportune[client]'" in told
