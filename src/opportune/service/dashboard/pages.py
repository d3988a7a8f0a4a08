"""The shell of the page and its files. Everything comes from this node: the page works offline."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from functools import cache
from importlib.resources import files
from string import Template
from typing import NamedTuple

from opportune import __version__
from opportune.errors import OpportuneError, Problem
from opportune.service.dashboard.charts import CONFIG, charts

BUNDLE = "vega.js"
"""Name of the chart library: Vega, Vega-Lite and Vega-Embed."""

SNIPPET = "window.vegaEmbed = vegaEmbed;"
"""What the library leaves to the page's own script."""

SECURITY = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
}
"""Headers of everything: only the node's own files run, and nothing else is asked for anything."""

_KINDS = {
    "dashboard.css": "text/css",
    "icon.svg": "image/svg+xml",
    "dashboard.js": "text/javascript",
    "asking.js": "text/javascript",
    "drawing.js": "text/javascript",
    "tips.js": "text/javascript",
}


class Page(NamedTuple):
    """Something to send: what, as which type, with which headers."""

    content: bytes
    media_type: str
    headers: dict[str, str]


@cache
def shell() -> Page:
    """The page without a pool in it."""
    text = Template(_read("dashboard.html").decode()).substitute(version=__version__)
    return _page(text.encode(), "text/html")


@cache
def file(name: str) -> Page | None:
    """A file of the page, None if there is none of the name."""
    if name == "charts.json":
        specs = json.dumps({"config": CONFIG, "charts": charts()}, allow_nan=False)
        return _page(specs.encode(), "application/json")
    kind = _KINDS.get(name)
    return None if kind is None else _page(_read(name), kind)


@cache
def bundle() -> Page:
    """The chart library out of ``vl-convert-python``; takes a second, once.

    In a process of its own: it runs a JavaScript engine, whose memory the node would keep.

    Raises:
        OpportuneError: If it cannot be made.
    """
    command = "import sys, vl_convert; print(vl_convert.javascript_bundle(sys.argv[1]))"
    try:
        made = subprocess.run(
            [sys.executable, "-c", command, SNIPPET], capture_output=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as error:
        told = Problem(
            "vl_convert", str(error), "the chart library", "pip install opportune[service]"
        )
        raise OpportuneError(told) from error
    return _page(made.stdout, "text/javascript")


def _page(content: bytes, media_type: str) -> Page:
    digest = hashlib.sha256(content).hexdigest()[:16]
    return Page(content, media_type, {**SECURITY, "etag": f'"{digest}"'})


def _read(name: str) -> bytes:
    return files("opportune.service.dashboard").joinpath(name).read_bytes()
