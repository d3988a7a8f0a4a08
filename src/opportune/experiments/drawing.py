"""Turn panels into files: PNG with the colors of the light page, SVG that follows the page.

Needs the extra ``report``.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from functools import cache
from importlib.resources import files
from typing import Any

import vl_convert

from opportune.experiments.chart_style import CONFIG, Spec
from opportune.experiments.page import Html
from opportune.experiments.pictures import Panel, Picture

SCALE = 1.5
"""Pixels of a PNG for each of a panel's."""

MARGIN = {"left": 12, "top": 5, "right": 5, "bottom": 5}
"""Around a panel of the page, whose letters may be wider than those it was measured with."""

SIGNATURE = b"\x89PNG\r\n\x1a\n"
VARIABLE = re.compile(r"var\(--([\w-]+)\)")
COLOR = re.compile(r"--([\w-]+):\s*(#[0-9a-f]{3,8})")


def png(picture: Picture) -> bytes:
    """All panels of a picture beside and below each other, on white."""
    titled = []
    data: dict[str, Any] = {}
    for one in picture.panels:
        own = {**one.spec, "title": {"text": one.title, "anchor": "start"}}
        data |= own.pop("datasets", {})  # they are found at the top only
        titled.append(own)
    spec = {
        "concat": titled,
        "datasets": data,
        "columns": picture.columns,
        "title": {"text": picture.title, "anchor": "start", "fontSize": 17, "offset": 14},
        "resolve": {"legend": {"color": "shared", "shape": "shared"}},
        "background": "white",
        "padding": 16,
    }
    text = json.dumps(_whole(spec), allow_nan=False)
    plain = VARIABLE.sub(lambda found: light_colors()[found[1]], text)
    return _packed(bytes(vl_convert.vegalite_to_png(plain, scale=SCALE)))


def _packed(content: bytes) -> bytes:
    """The same PNG in about half the bytes: its pixels packed once more, as tightly as can be."""
    kept, pixels, at = [], b"", len(SIGNATURE)
    while at < len(content):
        (size,) = struct.unpack_from(">I", content, at)
        kind, body = content[at + 4 : at + 8], content[at + 8 : at + 8 + size]
        if kind == b"IDAT":
            pixels += body
        else:
            kept.append((kind, body))
        at += size + 12
    kept.insert(-1, (b"IDAT", zlib.compress(zlib.decompress(pixels), 9)))
    return SIGNATURE + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in kept
    )


def svg(panel: Panel, name: str) -> Html:
    """A panel as markup whose colors are the page's variables; ids begin with ``name``."""
    text = str(
        vl_convert.vegalite_to_svg(
            json.dumps(_whole({**panel.spec, "padding": MARGIN}), allow_nan=False)
        )
    )
    text = re.sub(r'\bid="', f'id="{name}-', text)
    return Html(re.sub(r"url\(#", f"url(#{name}-", text))


@cache
def light_colors() -> dict[str, str]:
    """The variables of the page's style in its light scheme, by name."""
    style = files("opportune.experiments").joinpath("report.css").read_text(encoding="utf-8")
    return dict(COLOR.findall(style[: style.index("}")]))


def _whole(spec: Spec) -> Spec:
    config: dict[str, Any] = {**CONFIG, "title": {"color": "var(--ink)", "fontSize": 13}}
    if "background" in spec:
        config = {key: value for key, value in config.items() if key != "background"}
    return {**spec, "config": config}
