"""The pieces of work: a cell of the load sweep, a point of Figure 6, a fluid limit.

Each turns settings into a plain record, which decides every number that is told of it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache

import numpy as np

from opportune.experiments.comparison import compare
from opportune.experiments.fluid import fluid_attraction
from opportune.experiments.metrics import half_width
from opportune.experiments.records import comparison_record, finite
from opportune.experiments.resume import Record, Watch
from opportune.experiments.scale import ScaleRow, ScaleSettings, scale
from opportune.experiments.settings import Settings
from opportune.model.files import load_instance
from opportune.model.loss import LossInstance
from opportune.pricing.kiid import kiid_weights

TOLERANCE = 1e-6
"""Mean total variation distance below which a fluid path has arrived."""

PAPER_TRIALS = 3
"""Trials of a point of the paper's Figure 6."""

CURVE_POINTS = 60
"""Steps at which the distances of the fluid paths are kept, evenly spread in the logarithm."""


@dataclass(frozen=True)
class Cell:
    """One instance at one load under all policies: a row of Table 3.

    Attributes:
        instance: Catalog id.
        load: The load.
        policies: Policy ids.
        steps: Counted steps of a replication.
        replications: Independent runs, all policies on the same tasks.
        seed: Seed of the streams.
    """

    instance: str
    load: float
    policies: tuple[str, ...]
    steps: int
    replications: int
    seed: int

    @property
    def label(self) -> str:
        """Instance and load."""
        return f"{self.instance} load {self.load:g}"

    @property
    def cost(self) -> float:
        """In millions of steps of all policies and replications, at load 1."""
        return 1e-6 * self.steps * self.replications * len(self.policies) * self.load

    def settings(self) -> Record:
        """Its fields, and a hash of the instance at this load."""
        return {**asdict(self), "digest": _at_load(self.instance, self.load).digest}

    def run(self, watch: Watch) -> Record:
        """The record of the comparison, and KIID-LP beside the bound.

        Besides the fields of :func:`comparison_record`: ``kiid``, value of KIID-LP per step, and
        ``measured``: blocking of the first policy with its half width over replications.
        """
        instance = _at_load(self.instance, self.load)
        settings = Settings(self.policies, self.steps, self.replications, self.seed)
        result = compare(instance, settings, lambda share, text: watch())
        record = comparison_record(result)
        record["kiid"] = kiid_weights(instance, interior=False)[1]
        record["measured"] = {
            "value": result.policies[0].blocking,
            "half_width": finite(half_width(result.runs.blocking[:, 0])),
        }
        return record


@dataclass(frozen=True)
class Point:
    """LAG on one instance with n copies of each server: a point of Figure 6.

    Attributes:
        instance: Catalog id.
        load: The load.
        n: Copies of each server that a dispatcher sees; floor(sqrt n) dispatchers.
        trials: Independent runs.
        steps: Counted steps of a run; None for max(100,000 / m, 1,000).
        seed: Seed of the streams.
    """

    instance: str
    load: float
    n: int
    trials: int
    steps: int | None
    seed: int

    @property
    def label(self) -> str:
        """Instance, load and n."""
        return f"{self.instance} load {self.load:g} n {self.n}"

    @property
    def cost(self) -> float:
        """Beside a cell's: more server types and copies take longer, as measured."""
        return 0.3 * self.trials * (1.0 + self.n / 20_000)

    def settings(self) -> Record:
        """Its fields, and a hash of the instance at this load."""
        return {**asdict(self), "digest": _at_load(self.instance, self.load).digest}

    def run(self, watch: Watch) -> Record:
        """The fields of :class:`ScaleRow`, the number of trials, and the first three of them.

        ``first`` is what as many trials as the paper's give: ``trials``, ``percent_of_bound``
        and ``half_width``.
        """
        row = self._row(self.trials, watch)
        fewer = min(PAPER_TRIALS, self.trials)
        first = row if fewer == self.trials else self._row(fewer, watch)
        return {
            **asdict(row),
            "half_width": finite(row.half_width),
            "trials": self.trials,
            "first": {
                "trials": fewer,
                "percent_of_bound": first.percent_of_bound,
                "half_width": finite(first.half_width),
            },
        }

    def _row(self, trials: int, watch: Watch) -> ScaleRow:
        settings = ScaleSettings(n=(self.n,), steps=self.steps, replications=trials, seed=self.seed)
        instance = _at_load(self.instance, self.load)
        return scale(instance, settings, lambda share, text: watch()).rows[0]


@dataclass(frozen=True)
class Fluid:
    """The fluid map of LAG on one instance, iterated from random starts.

    Attributes:
        instance: Catalog id.
        load: The load.
        starts: Random starts.
        steps: Steps from each.
        seed: Seed of the starts.
    """

    instance: str
    load: float
    starts: int
    steps: int
    seed: int

    @property
    def label(self) -> str:
        """Instance and load."""
        return f"{self.instance} fluid limit at load {self.load:g}"

    @property
    def cost(self) -> float:
        """Beside a cell's: a step of the map is about as long as ten arrivals."""
        return 1e-5 * self.starts * self.steps

    def settings(self) -> Record:
        """Its fields, and a hash of the instance at this load."""
        return {**asdict(self), "digest": _at_load(self.instance, self.load).digest}

    def run(self, watch: Watch) -> Record:
        """Residual of x_hat, steps until each start has arrived, distances on the way.

        ``needed`` has -1 for a start that did not arrive; ``curve`` rows are step, least, median
        and largest distance over the starts.
        """
        instance = _at_load(self.instance, self.load)
        options = (self.seed, TOLERANCE)
        found = fluid_attraction(
            instance, self.starts, self.steps, options, lambda share, text: watch()
        )
        spread = np.geomspace(1, self.steps, CURVE_POINTS)
        at = np.unique(np.concatenate([[0], np.round(spread).astype(np.int64)]))
        quantiles = found.quantiles([int(step) for step in at])
        return {
            "instance": self.instance,
            "load": self.load,
            "residual": found.residual,
            "tolerance": TOLERANCE,
            "needed": [int(steps) for steps in found.steps_needed],
            "curve": [
                [int(step), *(float(x) for x in three)]
                for step, three in zip(at, quantiles, strict=True)
            ],
        }


@cache
def _at_load(instance: str, load: float) -> LossInstance:
    return load_instance(instance, load)
