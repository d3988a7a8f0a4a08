"""A service to talk to in a test: the whole application on a journal, without a socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from litestar.testing import TestClient

from opportune.service.app import create_app
from opportune.service.node import Node
from opportune.service.settings import ServiceSettings

HERE = "http://127.0.0.1"
"""Where a client on this machine believes to be."""

Found = TypeVar("Found")


class Client:
    """A client of a service, and the node behind it.

    Attributes:
        node: The node.
        http: The client.
    """

    def __init__(self, node: Node, http: TestClient[Any]) -> None:
        self.node = node
        self.http = http

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """A request; headers with ``_`` for ``-``. The response."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, bytes):
            named.setdefault("content-type", "application/json")
            return self.http.request(method, path, content=body, headers=named)
        return self.http.request(method, path, json=body, headers=named)

    def good(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """A request that must go well; the body of the response."""
        response = self(method, path, body, **headers)
        assert response.status_code < 300, f"{method} {path}: {response.text}"
        return response.json()

    def bad(self, status: int, code: str, method: str, path: str, body: Any = None) -> Any:
        """A request that must be refused with a problem; the problem."""
        response = self(method, path, body)
        assert response.status_code == status, response.text
        return problem_of(response, code)

    def between(self, look: Callable[[], Found]) -> Found:
        """What is seen by the loop's own thread, when nothing is in the middle of a change."""
        return self.http.blocking_portal.call(look)

    def pool(self, pool: str = "p") -> Any:
        """A pool at a glance; its ledger must agree with its tasks."""
        found = self.good("GET", f"/v1/pools/{pool}")
        assert found["capacity_mismatch"] == 0
        return found

    def free(self, pool: str = "p") -> set[str]:
        """The servers that are free."""
        servers = self.good("GET", f"/v1/pools/{pool}/servers")
        return {one["settings"]["id"] for one in servers if one["state"] == "free"}

    def assign(self, task_type: str = "t", **more: Any) -> Any:
        """A task that must be assigned; the assignment."""
        return self.good("POST", "/v1/pools/p/assignments", {"task_type": task_type, **more})

    def complete(self, assignment: Any, **more: Any) -> Any:
        """An assignment is completed; the response."""
        name = assignment if isinstance(assignment, str) else assignment["assignment_id"]
        return self("POST", f"/v1/assignments/{name}:complete", more or None)


def problem_of(response: Any, code: str) -> Any:
    """The problem in a response: well-formed, and of a kind."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    problem = response.json()
    assert problem["code"] == code, problem
    assert problem["type"] == f"urn:opportune:problem:{code}"
    assert problem["status"] == response.status_code
    assert problem["title"]
    return problem


@contextmanager
def service(
    database: Path | None = None, shortcut: bool = True, **settings: Any
) -> Iterator[Client]:
    """A running service; leaving the block ends it well."""
    node = Node(ServiceSettings(database=database, **settings))
    with TestClient(create_app(node, shortcut), base_url=HERE) as http:
        yield Client(node, http)


def declare(
    client: Client,
    servers: int = 3,
    scores: dict[str, list[float | None]] | None = None,
    **pool: Any,
) -> None:
    """A pool ``p`` with servers ``s0``, ``s1``, ... and task types with scores; None forbids."""
    client.good("PUT", "/v1/pools/p", pool)
    names = [f"s{r}" for r in range(servers)]
    client.good("PUT", "/v1/pools/p/servers", [{"id": name} for name in names])
    scores = {"t": [1.0 / (r + 1) for r in range(servers)]} if scores is None else scores
    types = [{"id": name, "rate": 0.1, "mean_duration": 5.0} for name in scores]
    client.good("PUT", "/v1/pools/p/task-types", types)
    rows = [
        [task_type, names[r], score]
        for task_type, row in scores.items()
        for r, score in enumerate(row)
        if score is not None
    ]
    client.good("PUT", "/v1/pools/p/scores", {"rows": rows, "replace": True})


def servers_of(assignment: Any) -> list[str]:
    """The servers of an assignment, in its order."""
    return [server["id"] for server in assignment["servers"]]
