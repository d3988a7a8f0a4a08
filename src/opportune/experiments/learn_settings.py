"""What a comparison of learners is: data."""

from __future__ import annotations

from dataclasses import dataclass

from opportune.errors import InputError, whole_problems
from opportune.experiments.backends import MAX_WORKERS, backend_problems
from opportune.experiments.settings import MAX_REPLICATIONS, repeated_problems
from opportune.model.hidden import MOST_TASKS
from opportune.policies.beliefs import learned_policies_by_id, learned_policy, trait
from opportune.simulate.learned import Forced, LearnedRun

CEILING = "lag-known"
"""The policy that percentages refer to; it is always run."""

USUAL_RUN, NOTHING_FORCED = LearnedRun(), Forced()


@dataclass(frozen=True)
class LearnSettings:
    """How learners are compared.

    Attributes:
        policies: Policy ids, in the order of the table; empty for the usual ones.
        tasks: Tasks per replication; 0 for all on record, or 30,000 if tasks are drawn.
        replications: Independent runs.
        seed: Seed of all streams.
        workers: Replications run at the same time.
        backend: One of ``backends.BACKENDS``; threads share one interpreter, which solving many
            small programs keeps busy, so ``loky`` is faster here.
        run: Mode and schedule of the runs.
        forced: A share of tasks forced onto servers at random: one more row for each learner.
    """

    policies: tuple[str, ...] = ()
    tasks: int = 0
    replications: int = 5
    seed: int = 1
    workers: int = 1
    backend: str = "threads"
    run: LearnedRun = USUAL_RUN
    forced: Forced = NOTHING_FORCED

    def __post_init__(self) -> None:
        problems = whole_problems(
            (
                ("tasks", self.tasks, 0, MOST_TASKS),
                ("replications", self.replications, 1, MAX_REPLICATIONS),
                ("seed", self.seed, 0, 2**64 - 1),
                ("workers", self.workers, 1, MAX_WORKERS),
            )
        )
        problems += backend_problems(self.backend)
        problems += repeated_problems(self.policies)
        if problems:
            raise InputError(problems)
        for one in self.policies:
            learned_policy(one)

    def policy_ids(self, with_features: bool) -> tuple[str, ...]:
        """The policies to run, the ceiling first: those named, or all that apply."""
        known = learned_policies_by_id()
        named = self.policies or tuple(
            one
            for one, policy in known.items()
            if trait(policy, "usual", True)
            and (with_features or not trait(policy, "reads_features"))
        )
        return (CEILING, *(one for one in named if one != CEILING))
