"""The API's OpenAPI document.

Paths, parameters and answers come from the framework; bodies from msgspec, which knows every limit
of a field because it is what decodes them.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from typing import Any

import msgspec
from litestar import Litestar
from litestar.handlers import HTTPRouteHandler
from litestar.routes import HTTPRoute

from opportune.service.api.gate import VERB

REFERENCE = "#/components/schemas/{name}"

KEY_PARAMETER = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same request with the same key is carried out once.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}
"""What every POST takes."""

NOT_KEYED = ("/livez", "/readyz")
"""Paths that need no API key."""


def document(app: Litestar) -> dict[str, Any]:
    """The document of an application."""
    schema: dict[str, Any] = app.openapi_schema.to_schema()
    bodies = dict(_bodies(app))
    kinds = [_kind(one)[0] for one in bodies.values()]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
    shown = dict(zip(bodies, schemas, strict=True))
    for name, component in components.items():
        _untag(name, component)
    schema.setdefault("components", {}).setdefault("schemas", {}).update(components)
    paths = {}
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            if (path, method) in bodies:
                content: dict[str, Any] = {"application/json": {"schema": shown[path, method]}}
                if path.endswith("/scores"):
                    content["text/csv"] = {"schema": {"type": "string"}}
                required = _kind(bodies[path, method])[1]
                operation["requestBody"] = {"required": required, "content": content}
            if method == "post":
                operation.setdefault("parameters", []).append(KEY_PARAMETER)
            operation["responses"].get("204", {}).pop("content", None)
            if path in NOT_KEYED:
                operation["security"] = []
        paths[path.replace(f"/{VERB}", ":")] = operations
    found: dict[str, Any] = _portable({**schema, "paths": paths})
    return found


def _bodies(app: Litestar) -> Iterator[tuple[tuple[str, str], Any]]:
    """(path, method) and the type of the body that is read there."""
    for route in app.routes:
        if not isinstance(route, HTTPRoute):
            continue
        for handler in route.route_handlers:
            if isinstance(handler, HTTPRouteHandler) and "body" in handler.opt:
                for method in handler.http_methods:
                    yield (route.path_format, method.lower()), handler.opt["body"]


def _kind(body: Any) -> tuple[Any, bool]:
    """The type of a body without None, and whether there must be one."""
    if isinstance(body, types.UnionType):
        (kind,) = (one for one in typing.get_args(body) if one is not type(None))
        return kind, False
    return body, True


def _untag(name: str, component: dict[str, Any]) -> None:
    """Leave out the tag of a command: it is in the path."""
    tag = component.get("properties", {}).get("command", {})
    if tag.get("enum") == [name]:
        del component["properties"]["command"]
        component["required"] = [one for one in component.get("required", []) if one != "command"]


def _portable(value: Any) -> Any:
    """Regular expressions as JavaScript writes them."""
    if isinstance(value, dict):
        found = {key: _portable(one) for key, one in value.items()}
        if isinstance(found.get("pattern"), str):
            found["pattern"] = found["pattern"].replace("\\Z", "$")
        return found
    if isinstance(value, list):
        return [_portable(one) for one in value]
    return value
