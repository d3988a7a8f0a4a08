"""Whatever is sent to the API, it never fails: every operation of its document, fuzzed."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from opportune.service.app import api_document
from opportune.service.stress_target import Target

EXAMPLES = 8
"""Requests per operation."""

KNOWN = {
    "pool": "p",
    "server": "s0",
    "task_type": "t",
    "plan": "plan-1",
    "task": "p.t1",
    "assignment": "p.a1",
    "decision": "p.d1",
}
"""What is there when the fuzzing begins, by the name of the parameter."""

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]

schema = schemathesis.openapi.from_dict(api_document())


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A service with a pool in which something has happened."""
    with Target() as target:
        base = f"{target.address}/v1"
        for method, path, body in (
            ("PUT", "/pools/p", {"mode": "queue", "auto_accept": False}),
            ("PUT", "/pools/p/servers", [{"id": f"s{r}"} for r in range(3)]),
            ("PUT", "/pools/p/task-types", [{"id": "t", "rate": 0.1, "mean_duration": 5.0}]),
            ("POST", "/pools/p/plans", {}),
            ("POST", "/pools/p/assignments", {"task_type": "t"}),
        ):
            request = urllib.request.Request(
                base + path,
                json.dumps(body).encode(),
                {"content-type": "application/json"},
                method=method,
            )
            with urllib.request.urlopen(request) as response:
                assert response.status < 300
        yield target.address


@schema.hook
def map_path_parameters(context: Any, path_parameters: dict[str, Any]) -> dict[str, Any]:
    """Every other name is one that exists."""
    return {
        name: KNOWN.get(name, value) if len(str(value)) % 2 else value
        for name, value in (path_parameters or {}).items()
    }


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    deadline=None,
)
def test_the_api_never_fails(case: Any, address: str) -> None:
    case.call_and_validate(base_url=address, checks=CHECKS)
