"""Structured logs: one JSON object a line on standard error."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import Literal

import structlog

Level = Literal["debug", "info", "warning", "error"]


def set_up_logs(level: Level = "info", json: bool = True) -> None:
    """Decide how logs look.

    Args:
        level: The least level that is printed.
        json: JSON lines; otherwise lines for a person.
    """
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer()
            if json
            else structlog.dev.ConsoleRenderer(colors=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=_StandardError,
        cache_logger_on_first_use=True,
    )


class _StandardError:
    """Writes a line to whatever standard error is now; one that is closed ends no service."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def msg(self, message: str) -> None:
        """A line."""
        with suppress(OSError, ValueError):
            sys.stderr.write(message + "\n")
            sys.stderr.flush()

    debug = info = warning = error = exception = critical = msg
