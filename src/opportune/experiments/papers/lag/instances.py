"""The six instances of the paper by short name, and how much of them a run looks at."""

from __future__ import annotations

from dataclasses import dataclass

from opportune.errors import InputError
from opportune.experiments.papers.lag import published
from opportune.model.catalog import parse_id
from opportune.model.files import load_instance

SUMMARY_LOAD = 0.7
"""Load of Table 2 and of the samples."""

SCALE_LOAD = 0.8
"""Load of Figure 6, of the blocking at n = 1 and of the fluid limit."""

POLICIES = ("lag", "lag-cheapest", "whittle", "alg-sc-lp", "alg-sc-lp-vertex", "greedy", "random")
"""The paper's five, and the two variants that explain differences."""


@dataclass(frozen=True)
class PaperInstance:
    """An instance of the paper.

    Attributes:
        name: Short name, as in the published tables.
        title: As the paper writes it.
        base: Id in the catalog, without the number of a sample.
        rebuilt: Whether its reward matrix is not the paper's own: no cell by cell comparison.
    """

    name: str
    title: str
    base: str
    rebuilt: bool = False

    @property
    def id(self) -> str:
        """Id of the instance that stands for it in the tables."""
        return f"{self.base}@0" if self.rebuilt else self.base

    def sample(self, number: int) -> str:
        """Id of one of its samples."""
        return f"{self.base}@{number}"


INSTANCES = (
    PaperInstance("tmlr", "TMLR", "tmlr-v1", rebuilt=True),
    PaperInstance("iclr", "ICLR", "iclr-v1", rebuilt=True),
    PaperInstance("specialist", "Specialist", "specialist-v1"),
    PaperInstance("priority", "Priority", "priority-v1"),
    PaperInstance("unfriendly", "Unfriendly", "unfriendly-v1"),
    PaperInstance("lowrank", "Low-rank", "lowrank-v1"),
)
"""In the order of the paper's tables."""

FIGURES = {3: ("iclr", "tmlr"), 4: ("specialist", "priority"), 5: ("unfriendly", "lowrank")}
"""The load sweeps: figure number to its two instances, left and right."""


@dataclass(frozen=True)
class Extent:
    """How much is run.

    Attributes:
        loads: Loads of the sweep; None for all of the paper's.
        steps: Counted steps of a replication of the sweep.
        replications: Replications of the sweep.
        samples: Samples of each rebuilt instance, at load 0.7.
        copies: The n of Figure 6.
        trials: Replications of each of its points; 3 in the paper.
        scale_steps: Counted steps of a point; None for max(100,000 / m, 1,000).
        starts: Random starts of the fluid map.
        fluid_steps: Steps from each of them.
    """

    loads: tuple[float, ...] | None
    steps: int
    replications: int
    samples: int
    copies: tuple[int, ...]
    trials: int
    scale_steps: int | None
    starts: int
    fluid_steps: int

    def loads_of(self, instance: PaperInstance) -> tuple[float, ...]:
        """The loads at which an instance is run."""
        all_loads = published.loads_of(instance.name)
        return tuple(load for load in all_loads if self.loads is None or load in self.loads)


FULL = Extent(
    loads=None,
    steps=1_000_000,
    replications=20,
    samples=10,
    copies=(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536),
    trials=20,
    scale_steps=None,
    starts=100,
    fluid_steps=20_000,
)
"""The whole paper."""

QUICK = Extent(
    loads=(0.2, 0.7, 0.8),
    steps=20_000,
    replications=3,
    samples=2,
    copies=(1, 16, 256),
    trials=3,
    scale_steps=5_000,
    starts=4,
    fluid_steps=500,
)
"""A look at everything in well under a minute; its numbers are rough."""


def available() -> tuple[tuple[PaperInstance, ...], dict[str, str]]:
    """The instances that can be run here, and why the others cannot, by short name."""
    found, missing = [], {}
    for instance in INSTANCES:
        try:
            load_instance(instance.id, SUMMARY_LOAD)
        except InputError as error:
            if not parse_id(instance.id)[0].needs_data:
                raise
            missing[instance.name] = str(error.problems[0])
        else:
            found.append(instance)
    return tuple(found), missing
