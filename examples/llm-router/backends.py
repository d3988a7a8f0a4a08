"""Model backends that sleep instead of computing: ``POST /MODEL/chat/completions``.

    python examples/llm-router/backends.py --port 9100

A request says how long its place had been taken when it was sent (``waited``), and that much less
is slept: the time that programs need to talk is not multiplied by the speed.
"""

from __future__ import annotations

import asyncio
from typing import Any

import cyclopts
from litestar import Litestar, post
from litestar.exceptions import NotFoundException
from serving import Json, run
from world import MODELS, answer_of, kind_of


def application(speed: float) -> Litestar:
    """All models in one application."""

    @post("/{model:str}/chat/completions", status_code=200)
    async def complete(model: str, data: Json) -> dict[str, Any]:
        if model not in MODELS:
            raise NotFoundException(f"there is no model {model!r}")
        kind = kind_of(data["messages"][-1]["content"])
        length, good = answer_of(data["user"], model, kind)
        seconds = length / speed
        await asyncio.sleep(max(seconds - data.get("waited", 0.0), 0.0))
        text = f"{model} answers" if good else f"{model} does not know"
        return {
            "object": "chat.completion",
            "model": model,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": text},
                    "finish_reason": "stop",
                }
            ],
            "good": good,  # in place of a reader who likes the answer or not
            "seconds": seconds,  # what the answer takes, from when the place was taken
        }

    return Litestar([complete], openapi_config=None, logging_config=None)


def main(*, port: int = 9100, speed: float = 1.0) -> None:
    """Serve model backends.

    Args:
        port: Where they listen; 0 takes a free one.
        speed: How many times as fast as their models they answer.
    """
    run(application(speed), port)


if __name__ == "__main__":
    cyclopts.run(main)
