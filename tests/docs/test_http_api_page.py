"""The page of the HTTP API is complete: every path with its scope, every metric and problem."""

from __future__ import annotations

import re
from typing import Any

import pytest
from executed_pages import ROOT
from litestar.handlers import HTTPRouteHandler
from litestar.routes import HTTPRoute

from opportune.service.api.gate import VERB
from opportune.service.app import api_document, create_app
from opportune.service.keys import SCOPES
from opportune.service.node import Node
from opportune.service.problems import STATUS
from opportune.service.settings import ServiceSettings

PAGE = (ROOT / "docs" / "reference" / "http-api.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def gate() -> Any:
    """An application that is never started."""
    return create_app(Node(ServiceSettings()))


def test_every_path_is_on_the_page_with_its_scope(gate: Any) -> None:
    told = {
        (method, path): scope.strip()
        for method, path, scope in re.findall(r"^\| `([A-Z]+) (\S+)` \|.*\| (.*)\|$", PAGE, re.M)
    }
    served = {}
    for route in gate.app.routes:
        for handler in route.route_handlers if isinstance(route, HTTPRoute) else ():
            if isinstance(handler, HTTPRouteHandler) and handler.include_in_schema is not False:
                path = route.path_format.replace(f"/{VERB}", ":")
                for method in handler.http_methods:
                    served[method, path] = handler.opt.get("scope", "")
    assert told == served


def test_the_document_has_the_same_paths() -> None:
    documented = {
        (method.upper(), path)
        for path, operations in api_document()["paths"].items()
        for method in operations
    }
    assert documented == set(re.findall(r"^\| `([A-Z]+) (\S+)` \|", PAGE, re.M))


def test_every_metric_is_on_the_page() -> None:
    told = set(re.findall(r"^\| `(opportune_\w+)` \|", PAGE, re.M))
    text = Node(ServiceSettings()).metrics.text().decode()
    served = set(re.findall(r"^# TYPE (opportune_\w+) \w+$", text, re.M))
    assert {name for name in served if not name.endswith("_created")} == told


def test_scopes_and_statuses_are_on_the_page() -> None:
    assert all(f"`{scope}`" in PAGE for scope in SCOPES)
    assert all(str(status) in PAGE for status, _ in STATUS.values() if status != 500)
