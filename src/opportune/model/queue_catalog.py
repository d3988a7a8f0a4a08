"""Queue instances by id: a changed number is a new version, so an id always means the same.

``hard-v1`` depends on the horizon; ``cqb-joint-v1`` and ``cqb-disjoint-v1`` are laws, from which
every replication draws an instance; the others read the data folder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from opportune.errors import InputError, Problem
from opportune.model.catalog import QUEUE_IDS, CatalogEntry, data_folder
from opportune.model.queue import QueueInstance
from opportune.model.queue_description import read_queue
from opportune.model.queue_generator import QueueGenerator, QueueWorld, hard_instance
from opportune.model.spelling import did_you_mean

ROUTER_FEATURES = "llm_scores/dcrouter_text16.npz"
ROUTER_SCORES = "llm_scores/dcrouter_scores.csv"
ROUTER_MODELS = (
    "llama3-chatqa-1.5-8b",
    "qwen2.5-7b-instruct",
    "llama3-chatqa-1.5-70b",
    "llama-3.1-nemotron-51b-instruct",
    "mistral-7b-instruct-v0.3",
    "gemma-2-9b-it",
    "llama-3.1-8b-instruct",
    "codegemma-7b",
    "llama-3.3-nemotron-super-49b-v1",
)
ROUTER_LOAD = 0.85
"""Usual load of the router instances: share of what the oracle serves."""

ROUTER_CURVATURE = 20.0
"""kappa told to the algorithms that ask for it on the router instances."""


@dataclass(frozen=True)
class QueueChoice:
    """What may be chosen of a queue instance; None leaves what the id or the file says.

    Attributes:
        horizon: Steps of a run, T.
        dimension: Entries of a feature vector.
        servers: Number of servers.
        arrival_rate: Probability that a task arrives in a step.
        load: Share of what the oracle can serve, in place of an arrival rate; data only.
        slack: What algorithms are told.
    """

    horizon: int | None = None
    dimension: int | None = None
    servers: int | None = None
    arrival_rate: float | None = None
    load: float | None = None
    slack: float | None = None

    def refuse(self, names: tuple[str, ...], instance_id: str) -> None:
        """Refuse options that do not apply.

        Raises:
            InputError: For the first of ``names`` that is given.
        """
        for name in names:
            if getattr(self, name) is not None:
                told = f"{getattr(self, name)} given"
                expected = f"nothing: {instance_id} has its own"
                raise InputError(Problem(name, told, expected, "leave it out"))


def queue_catalog() -> tuple[CatalogEntry, ...]:
    """All entries, those without data first."""
    return tuple(entry for entry, _ in _ENTRIES.values())


def catalog_queue(instance_id: str, choice: QueueChoice) -> QueueWorld:
    """The queue instance of an id.

    Raises:
        InputError: If there is no such id, an option does not apply, or data are missing.
    """
    if instance_id not in _ENTRIES:
        known = ", ".join(_ENTRIES)
        expected = f"an id of a queue instance ({known}) or a path ending in .toml"
        remedy = did_you_mean(instance_id, _ENTRIES)
        raise InputError(Problem("instance", repr(instance_id), expected, remedy))
    return _ENTRIES[instance_id][1](instance_id, choice)


def _hard(instance_id: str, choice: QueueChoice) -> QueueWorld:
    choice.refuse(("load",), instance_id)
    given = {
        "dimension": choice.dimension,
        "n_servers": choice.servers,
        "arrival_rate": choice.arrival_rate,
    }
    options: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    horizon = 2000 if choice.horizon is None else choice.horizon
    instance = hard_instance(horizon, negative=instance_id.endswith("@1"), **options)
    return instance if choice.slack is None else replace(instance, slack=choice.slack)


def _joint(instance_id: str, choice: QueueChoice) -> QueueWorld:
    return _drawn(instance_id, choice, QueueGenerator(0.7, 5, 10, True, 0.1, 50.0, 2000))


def _disjoint(instance_id: str, choice: QueueChoice) -> QueueWorld:
    return _drawn(instance_id, choice, QueueGenerator(0.7, 5, 5, False, 0.1, 10.0, 5000))


def _drawn(instance_id: str, choice: QueueChoice, law: QueueGenerator) -> QueueGenerator:
    choice.refuse(("load",), instance_id)
    given = {
        "horizon": choice.horizon,
        "entries": choice.dimension,
        "n_servers": choice.servers,
        "arrival_rate": choice.arrival_rate,
        "slack": choice.slack,
    }
    changed: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    return replace(law, name=instance_id, **changed)


def _router(instance_id: str, choice: QueueChoice) -> QueueInstance:
    choice.refuse(("dimension", "servers"), instance_id)
    folder = data_folder(instance_id, (ROUTER_FEATURES, ROUTER_SCORES))
    description: dict[str, Any] = {
        "contexts": {"file": ROUTER_FEATURES, "array": "features"},
        "outcomes": {"file": ROUTER_SCORES, "columns": list(ROUTER_MODELS)},
        "threshold": 1.0,
        "feedback": "recorded" if instance_id == "dcreplay-v1" else "fitted",
        "curvature": ROUTER_CURVATURE,
    }
    if choice.arrival_rate is None and choice.load is None:
        description["load"] = ROUTER_LOAD
    return read_queue(description, folder, instance_id, choice_keys(choice))


def choice_keys(choice: QueueChoice) -> dict[str, Any]:
    """The choices that a description of data may hold, by its keys."""
    given = {
        "horizon": choice.horizon,
        "arrival_rate": choice.arrival_rate,
        "load": choice.load,
        "slack": choice.slack,
    }
    return {key: value for key, value in given.items() if value is not None}


_CQB, _CQB_A = "CQB (arXiv 2606.09668), reconstructed", "CQB-eps (arXiv 2601.19300), reconstructed"
_ROUTER = "9 models on 6,108 prompts (LLMRouter's dcrouter), 16 text features"
_Builder = Callable[[str, QueueChoice], QueueWorld]
_ENTRIES: dict[str, tuple[CatalogEntry, _Builder]] = {
    entry.id: (entry, build)
    for entry, build in (
        (CatalogEntry("hard-v1", "queue: gap of order 1/sqrt(T), best +", _CQB, False), _hard),
        (CatalogEntry("hard-v1@1", "queue: the same, best servers -", _CQB, False), _hard),
        (CatalogEntry("cqb-joint-v1", "queue: d=10, K=5, one weight", _CQB, False), _joint),
        (
            CatalogEntry("cqb-disjoint-v1", "queue: d=5, K=5, a weight each", _CQB_A, False),
            _disjoint,
        ),
        (
            CatalogEntry("dcreplay-v1", "queue: prompts, recorded answers replayed", _ROUTER, True),
            _router,
        ),
        (
            CatalogEntry("dcfit-v1", "queue: prompts, answers drawn from a fit", _ROUTER, True),
            _router,
        ),
    )
}
if tuple(_ENTRIES) != QUEUE_IDS:
    raise ImportError("QUEUE_IDS of the catalog is out of date")
