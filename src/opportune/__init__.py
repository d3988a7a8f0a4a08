"""Assign arriving tasks to servers that are busy for a while.

An instance is priced, the prices become a plan, the plan is simulated and served::

    import opportune

    instance = opportune.load_instance("specialist-v1", load=0.7)
    result = opportune.compare(instance)
    result.row("lag").percent_of_bound

Names are looked up when first used (PEP 562), so ``import opportune`` loads nothing else.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opportune.client import AsyncClient, Client
    from opportune.errors import (
        InputError,
        MissingExtraError,
        OpportuneError,
        OverloadError,
        Problem,
        SolverError,
    )
    from opportune.experiments.comparison import compare
    from opportune.experiments.day import compare_day
    from opportune.experiments.queue import QueueSettings, compare_queue
    from opportune.experiments.settings import Settings
    from opportune.learning.fit.instance import fit_log
    from opportune.learning.fit.log import read_log
    from opportune.model.catalog import catalog
    from opportune.model.day import Day
    from opportune.model.duration import Deterministic, Empirical, Geometric
    from opportune.model.files import load_day, load_instance
    from opportune.model.loss import LossInstance, loss_instance
    from opportune.model.queue import QueueInstance
    from opportune.model.queue_catalog import QueueChoice
    from opportune.model.queue_files import load_queue
    from opportune.model.saving import save_day, save_instance
    from opportune.policies.base import Plan, check_policy
    from opportune.pricing.demand import Demand
    from opportune.pricing.gears import certified_prices
    from opportune.pricing.occupancy import price
    from opportune.pricing.relaxation import Relaxation
    from opportune.pricing.search import Stop
    from opportune.pricing.warm import replan
    from opportune.router import Router
    from opportune.simulate.loss import Run, simulate_plans

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "Client",
    "Day",
    "Demand",
    "Deterministic",
    "Empirical",
    "Geometric",
    "InputError",
    "LossInstance",
    "MissingExtraError",
    "OpportuneError",
    "OverloadError",
    "Plan",
    "Problem",
    "QueueChoice",
    "QueueInstance",
    "QueueSettings",
    "Relaxation",
    "Router",
    "Run",
    "Settings",
    "SolverError",
    "Stop",
    "__version__",
    "catalog",
    "certified_prices",
    "check_policy",
    "compare",
    "compare_day",
    "compare_queue",
    "fit_log",
    "load_day",
    "load_instance",
    "load_queue",
    "loss_instance",
    "price",
    "read_log",
    "replan",
    "save_day",
    "save_instance",
    "simulate_plans",
]

_MODULES = {
    "AsyncClient": "opportune.client",
    "Client": "opportune.client",
    "Day": "opportune.model.day",
    "Demand": "opportune.pricing.demand",
    "Deterministic": "opportune.model.duration",
    "Empirical": "opportune.model.duration",
    "Geometric": "opportune.model.duration",
    "InputError": "opportune.errors",
    "LossInstance": "opportune.model.loss",
    "MissingExtraError": "opportune.errors",
    "OpportuneError": "opportune.errors",
    "OverloadError": "opportune.errors",
    "Plan": "opportune.policies.base",
    "Problem": "opportune.errors",
    "QueueChoice": "opportune.model.queue_catalog",
    "QueueInstance": "opportune.model.queue",
    "QueueSettings": "opportune.experiments.queue",
    "Relaxation": "opportune.pricing.relaxation",
    "Router": "opportune.router",
    "Run": "opportune.simulate.loss",
    "Settings": "opportune.experiments.settings",
    "SolverError": "opportune.errors",
    "Stop": "opportune.pricing.search",
    "catalog": "opportune.model.catalog",
    "certified_prices": "opportune.pricing.gears",
    "check_policy": "opportune.policies.base",
    "compare": "opportune.experiments.comparison",
    "compare_day": "opportune.experiments.day",
    "compare_queue": "opportune.experiments.queue",
    "fit_log": "opportune.learning.fit.instance",
    "load_day": "opportune.model.files",
    "load_instance": "opportune.model.files",
    "load_queue": "opportune.model.queue_files",
    "loss_instance": "opportune.model.loss",
    "price": "opportune.pricing.occupancy",
    "read_log": "opportune.learning.fit.log",
    "replan": "opportune.pricing.warm",
    "save_day": "opportune.model.saving",
    "save_instance": "opportune.model.saving",
    "simulate_plans": "opportune.simulate.loss",
}
"""Where each public name lives: its module, and after a colon its name there if that differs.

No public name may be the name of a subpackage: importing ``opportune.simulate.loss`` sets
``opportune.simulate`` to the subpackage, whatever stood there.
"""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, own_name = _MODULES[name].partition(":")
    value = getattr(importlib.import_module(module), own_name or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
