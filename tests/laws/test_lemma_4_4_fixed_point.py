"""LAG Lemma 4.4: the optimum of OCC-LP(0) has waterfill structure, and x_hat is fixed under G."""

from __future__ import annotations

import numpy as np
import pytest

from opportune.model.catalog import catalog_instance
from opportune.model.loss import LossInstance
from opportune.policies.waterfill import lag_tables
from opportune.pricing.fluid import fixed_point, fluid_map
from opportune.pricing.occupancy import price
from tests import naive
from tests.instances import Shape, random_instance

SPECIFIED = ("specialist-v1", "priority-v1", "unfriendly-v1", "lowrank-v1")
FROM_DATA = ("iclr-v1@0", "iclr-v1@7", "tmlr-v1@0", "tmlr-v1@7")


def assert_fixed(instance: LossInstance, residual: float = 1e-9) -> None:
    """(a) u = lambda waterfill(k, phi); (b) u(x_hat) = u, G(x_hat) = x_hat, reward = OPT."""
    prices = price(instance)
    fluid, x = fluid_map(prices.instance, lag_tables(prices)), fixed_point(prices)
    u = prices.assignment_rate
    for v in range(instance.n_types):
        amounts = naive.waterfill(
            float(instance.servers_per_task[v]),
            prices.free_fraction.tolist(),
            prices.index[v].tolist(),
            prices.tie_weight[v].tolist(),
            list(range(instance.n_servers)),
        )
        want = prices.instance.arrival_rate[v] * np.array(amounts)
        assert u[v] == pytest.approx(want, abs=residual)
    assert x.sum(axis=1) == pytest.approx(np.ones(instance.n_servers), abs=residual)
    assert fluid.rates(x) == pytest.approx(u, abs=residual)
    assert fluid.residual(x) <= residual
    earned = fluid.path(x, 1)[1][0]
    assert earned == pytest.approx(prices.dual_value, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("load", [0.1, 0.3, 0.5, 0.7, 0.8])
@pytest.mark.parametrize("name", SPECIFIED)
def test_x_hat_is_fixed_on_the_specified_instances(name: str, load: float) -> None:
    assert_fixed(catalog_instance(name, load))


@pytest.mark.parametrize("load", [0.4, 0.8])
@pytest.mark.parametrize("name", FROM_DATA)
@pytest.mark.usefixtures("data")
def test_x_hat_is_fixed_on_the_instances_from_data(name: str, load: float) -> None:
    assert_fixed(catalog_instance(name, load))


@pytest.mark.parametrize("scores", ["smooth", "levels"])
@pytest.mark.parametrize("kind", ["one law", "per type"])
def test_x_hat_is_fixed_on_random_instances(scores: str, kind: str) -> None:
    """60 each: many ties or none, k and durations equal or per type, loads up to the limit."""
    rng = np.random.default_rng([scores == "levels", kind == "per type"])
    shape = Shape(scores=scores, per_type=kind == "per type", duration="mixed")
    for _ in range(60):
        assert_fixed(random_instance(rng, shape, load=0.05 + 0.94 * float(rng.random())))


def test_rates_that_are_not_optimal_are_not_fixed() -> None:
    """The test above can fail: with other free shares, LAG does not give back the rates."""
    prices = price(catalog_instance("specialist-v1", 0.8))
    fluid, x = fluid_map(prices.instance, lag_tables(prices)), fixed_point(prices)
    uniform = np.full_like(x, (1 - prices.instance.load) / 1)
    uniform[:, 1:] = x[:, 1:].sum(axis=0) / prices.instance.n_servers
    assert uniform.sum(axis=1) == pytest.approx(np.ones(7), abs=1e-9)
    assert fluid.residual(uniform) > 1e-3
