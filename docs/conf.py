"""How Sphinx builds the site: ``make docs`` writes it into ``out/docs``, without a network."""

from __future__ import annotations

import re
from dataclasses import is_dataclass
from typing import Any, get_type_hints

from pygments.lexers.special import TextLexer
from sphinx.util.inspect import TypeAliasForwardRef

import opportune
from opportune.model.axes import quantities

project = "Opportune"
author = "The Opportune contributors"
release = version = opportune.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 3

html_theme = "furo"
html_title = "Opportune"
html_copy_source = False
html_show_copyright = False
pygments_style = "friendly"
pygments_dark_style = "monokai"

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_class_signature = "mixed"
autodoc_type_aliases = {
    "ArrayLike": "ArrayLike",
    "Bool": "ndarray",
    "Float": "ndarray",
    "Int": "ndarray",
}
napoleon_use_ivar = True


HIDDEN_COLON = "\ue000"
"""Stands for a colon while napoleon, which would end a type there, reads a docstring."""


def as_meant(*arguments: Any) -> None:
    """Make of our docstrings what reStructuredText and napoleon read as it is meant.

    A bar is a bar, as in ``|L|``; an indented line of a module's docstring is a formula; a colon
    in the first line of a property does not end a type.
    """
    what, lines = arguments[1], arguments[-1]
    lines[:] = [line if "``" in line else re.sub(r"(?<!\\)\|", r"\\|", line) for line in lines]
    if what == "module":
        lines[:] = _with_formulas(lines)
    elif what in ("property", "attribute", "data") and lines:
        lines[0] = lines[0].replace(":", HIDDEN_COLON)


def _with_formulas(lines: list[str]) -> list[str]:
    """Runs of indented lines as literal blocks, with the empty lines that those need."""
    told: list[str] = []
    for before, line in zip(["", *lines], lines, strict=False):
        begins = line.startswith(" ") and not before.startswith(" ") and before.strip()
        ends = before.startswith(" ") and line.strip() and not line.startswith(" ")
        if begins:
            told += ["", "::", ""]
        elif ends:
            told += [""]
        told.append(line)
    return told


def with_quantities(*arguments: Any) -> None:
    """Describe the fields of a dataclass from their metadata, as the glossary does.

    It runs behind napoleon, and so also brings the colons back.
    """
    what, kind, lines = arguments[1], arguments[3], arguments[-1]
    lines[:] = [line.replace(HIDDEN_COLON, ":") for line in lines]
    if what != "class" or not is_dataclass(kind):
        return
    lines[:] = [line for line in lines if not (":vartype" in line and "Annotated" in line)]
    described = " ".join(line for line in lines if line.startswith((":param", ":ivar")))
    hints = get_type_hints(kind)
    lines.append("")
    for field, one in quantities(kind).items():
        plain = getattr(hints[field], "__name__", str(hints[field]))
        if f" {field}:" in described:
            lines.append(f":type {field}: {plain}")
        else:
            axes = f" ({one.axes})" if one.axes else ""
            lines.append(f":ivar {field}: ``{one.symbol}``{axes}, {one.unit}: {one.meaning}")


def setup(app: Any) -> None:
    """Tell Sphinx of the above; CSV is shown as plain text, an alias of a type by its name."""
    TypeAliasForwardRef.__repr__ = lambda alias: alias.name  # type: ignore[method-assign]
    app.add_lexer("csv", TextLexer)
    app.connect("autodoc-process-docstring", as_meant, priority=400)
    app.connect("autodoc-process-docstring", with_quantities, priority=600)
