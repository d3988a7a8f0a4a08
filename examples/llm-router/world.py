"""The made-up world: prompts of three kinds, three models with some copies each.

What a gateway may know are the scores of a benchmark. The chance that an answer is good in truth is
known to the backends only. The numbers are ours.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

MEAN_SECONDS = {"chat": 1.0, "code": 2.0, "math": 3.0}
"""Mean seconds of an answer by kind, before the speed-up."""

SHARE = {"chat": 0.6, "code": 0.2, "math": 0.2}
"""Share of the prompts."""

PROMPTS = {
    "chat": "Say hello to a new colleague.",
    "code": "Write Python code that reverses a list.",
    "math": "Prove that there are infinitely many primes.",
}


@dataclass(frozen=True)
class Model:
    """A model.

    Attributes:
        copies: Prompts that it answers at once.
        benchmark: What everybody knows: the share of good answers by kind, on some benchmark.
        truth: The share of good answers that it really gives.
    """

    copies: int
    benchmark: dict[str, float]
    truth: dict[str, float]


MODELS = {
    "large": Model(
        4,
        {"chat": 0.95, "code": 0.90, "math": 0.90},
        {"chat": 0.94, "code": 0.92, "math": 0.88},
    ),
    "coder": Model(
        4,
        {"chat": 0.85, "code": 0.85, "math": 0.20},
        {"chat": 0.86, "code": 0.83, "math": 0.24},
    ),
    "small": Model(
        10,
        {"chat": 0.93, "code": 0.30, "math": 0.10},
        {"chat": 0.92, "code": 0.26, "math": 0.12},
    ),
}


def kind_of(prompt: str) -> str:
    """The kind of a prompt, by its words: what a small classifier does elsewhere."""
    words = prompt.lower()
    if "prove" in words or "integral" in words:
        return "math"
    return "code" if "code" in words or "python" in words else "chat"


def mean_seconds() -> float:
    """Mean seconds of an answer, before the speed-up."""
    return sum(SHARE[kind] * MEAN_SECONDS[kind] for kind in SHARE)


def rate(load: float) -> float:
    """Prompts per second, before the speed-up, at which the models have that load."""
    return load * sum(model.copies for model in MODELS.values()) / mean_seconds()


def answer_of(key: str, model: str, kind: str) -> tuple[float, bool]:
    """How long a model takes for a request, in seconds, and whether its answer is good.

    The same request is as long at every model, so routing changes who answers, not the luck.
    Lengths are exponential.
    """
    length = random.Random(f"{key} length").expovariate(1.0 / MEAN_SECONDS[kind])
    good = random.Random(f"{key} {model}").random() < MODELS[model].truth[kind]
    return length, good


def arrivals(seconds: float, load: float, seed: int) -> list[tuple[float, str]]:
    """Poisson arrivals: second and kind of each request, before the speed-up."""
    draw, kinds = random.Random(seed), list(SHARE)
    found, at = [], draw.expovariate(rate(load))
    while at < seconds:
        found.append((at, draw.choices(kinds, [SHARE[kind] for kind in kinds])[0]))
        at += draw.expovariate(rate(load))
    return found
