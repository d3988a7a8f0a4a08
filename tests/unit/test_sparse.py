"""Instances as lists of pairs: the same prices, rates, certificate and order as with matrices."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from opportune.cli import run
from opportune.errors import InputError, OverloadError, SolverError
from opportune.model import sparse as sparse_module
from opportune.model.duration import Geometric
from opportune.model.files import load_instance, load_sparse
from opportune.model.sparse import SparseInstance
from opportune.policies.loss.lag import Lag
from opportune.pricing.demand import AT_MOST, FULL, Demand
from opportune.pricing.occupancy import price
from opportune.pricing.search import Stop
from opportune.pricing.sparse import capacity_prices, price_sparse
from tests.conftest import WriteInstance


def sparse(
    seed: int, shape: tuple[int, int], share: float, k: int = 1, load: float = 0.5
) -> SparseInstance:
    """A share of the pairs permitted; types with too few servers do not arrive."""
    rng = np.random.default_rng(seed)
    n_types, n_servers = shape
    allowed = rng.random((n_servers, n_types)) < share
    allowed[: k + 1] = True
    server, task_type = np.nonzero(allowed)
    rate = rng.random(n_types) + 0.5
    rate[-1] = 0.0
    return SparseInstance(
        arrival_rate=rate / rate.sum() * 1e-3,
        duration=(Geometric(20.0 * n_servers),) * n_types,
        servers_per_task=np.full(n_types, k),
        start=np.searchsorted(server, np.arange(n_servers + 1)),
        task_type=task_type,
        match_reward=rng.random(len(server)),
        task_types=tuple(f"t{v}" for v in range(n_types)),
        servers=tuple(f"s{r}" for r in range(n_servers)),
    ).with_load(load)


@pytest.mark.parametrize(("shape", "share", "k"), [((8, 20), 0.4, 1), ((40, 90), 0.3, 2)])
def test_everything_is_as_with_matrices(shape: tuple[int, int], share: float, k: int) -> None:
    pairs = sparse(1, shape, share, k)
    dense = pairs.dense()
    assert dense.load == pytest.approx(pairs.load)
    used = pairs.arrival_rate > 0
    at = (pairs.task_type, pairs.server)
    for demand in (FULL, AT_MOST, Demand(0.1)):
        ours, theirs = price_sparse(pairs, demand), price(dense, demand)
        assert ours.value == pytest.approx(theirs.value, rel=1e-9)
        assert ours.gap <= 1e-9
        assert ours.worst_residual <= 1e-9
        assert ours.demand_price[used] == pytest.approx(theirs.demand_price[used], abs=1e-8)
        assert ours.capacity_price == pytest.approx(theirs.capacity_price, abs=1e-9)
        assert ours.assignment_rate == pytest.approx(theirs.assignment_rate[at], abs=1e-10)
        assert ours.free_fraction == pytest.approx(theirs.free_fraction, abs=1e-8)
        shown = used[pairs.task_type]
        assert ours.index[shown] == pytest.approx(theirs.index[at][shown], abs=1e-8)
        begin, order = ours.order()
        tables = Lag().plan(dense, theirs).tables
        for v in np.flatnonzero(used):
            expected = tables.order[v, 0, : tables.n_allowed[v]]
            assert order[begin[v] : begin[v + 1]].tolist() == expected.tolist()


def test_capacity_prices_are_the_best_sets() -> None:
    pairs = sparse(2, (5, 9), 0.5)
    prices = np.random.default_rng(3).random(5)
    found = capacity_prices(pairs, prices)
    for r in range(9):
        own = pairs.task_type[pairs.start[r] : pairs.start[r + 1]]
        reward = pairs.match_reward[pairs.start[r] : pairs.start[r + 1]]
        best = 0.0
        for chosen in range(2 ** len(own)):
            inside = [i for i in range(len(own)) if chosen >> i & 1]
            rate = pairs.arrival_rate[own[inside]]
            earned = float(rate @ (reward[inside] - prices[own[inside]]))
            best = max(best, earned / (1.0 + float(rate @ pairs.mean_duration[own[inside]])))
        assert found[r] == pytest.approx(best, abs=1e-12)


def test_overload_names_the_types() -> None:
    with pytest.raises(OverloadError, match=r"type t\d+ needs .* beside the others"):
        price_sparse(sparse(4, (30, 60), 0.1, 2, load=0.99))


def test_a_gap_will_do_and_no_time_gives_none() -> None:
    pairs = sparse(5, (40, 90), 0.3)
    rough, best = price_sparse(pairs, stop=Stop(gap=1e-2)), price_sparse(pairs)
    assert best.gap <= 1e-9
    assert rough.gap <= 1e-2
    assert rough.value <= best.value * (1 + 1e-12)
    assert rough.dual_value >= best.value * (1 - 1e-12)
    with pytest.raises(SolverError, match="no feasible rates yet"):
        price_sparse(pairs, stop=Stop(seconds=0.0))


TOML = """
match_reward = {file = "pairs.csv", missing = "forbid"}
type_share = [1, 2, 3]
task_types = ["a", "b", "c"]
duration = {kind = "geometric", mean = 4}
"""
PAIRS = "task,server,score\nb,y,0.5\na,x,1\na,y,0.25\nc,x,0.75\nb,x,0.125\n"


def test_a_long_file_becomes_lists(
    write_instance: WriteInstance,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write_instance(TOML, pairs_csv=PAIRS)
    assert load_sparse(path, 0.3) is None  # small: as matrices
    monkeypatch.setattr(sparse_module, "LEAST_CELLS", 0)
    monkeypatch.setattr(sparse_module, "SPARSE", 1.0)
    found = load_sparse(path, 0.3)
    assert found is not None
    assert found.n_pairs == 5
    dense = load_instance(path, 0.3)
    assert found.servers == dense.servers
    assert found.dense() == dense
    with pytest.raises(InputError, match="--load"):
        load_sparse(path)
    grouped = write_instance(TOML + 'servers = [{name = "x", count = 2}, "y"]\n', pairs_csv=PAIRS)
    both = load_sparse(grouped, 0.3)
    assert both is not None
    assert both.dense() == load_instance(grouped, 0.3)
    out = tmp_path / "plan.json"
    assert run(["plan", str(grouped), "--load", "0.3", "--out", str(out)]) == 0
    assert "permitted pairs" in capsys.readouterr().out
    with np.load(out.with_suffix(".npz")) as stored:
        assert len(stored["order"]) == both.n_pairs
    assert run(["plan", str(grouped), "--load", "0.3", "--format", "json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert len(record["pairs"]["index"]) == both.n_pairs
    assert run(["plan", str(grouped), "--load", "0.3", "--format", "csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == both.n_pairs + 1


@pytest.mark.parametrize(
    ("pairs", "text", "told"),
    [
        (PAIRS + "a,x,2\n", "", "several rows"),
        (PAIRS.replace("0.75", "-1"), "", "at least 0"),
        (PAIRS.replace("0.75", ""), "", "finite rewards"),
        (PAIRS.replace("c,x,0.75\n", ""), "", "nothing for task type 'c'"),
        (PAIRS, "servers_per_task = 2\n", "has 1 permitted servers"),
        (PAIRS, "servers_per_task = 3\n", "number of servers"),
        (PAIRS, 'servers = ["x", "z"]\n', "unknown server 'y'"),
        (PAIRS, "speed = 3\n", "unknown key"),
    ],
)
def test_slips_are_named(
    write_instance: WriteInstance,
    monkeypatch: pytest.MonkeyPatch,
    pairs: str,
    text: str,
    told: str,
) -> None:
    monkeypatch.setattr(sparse_module, "LEAST_CELLS", 0)
    monkeypatch.setattr(sparse_module, "SPARSE", 1.0)
    with pytest.raises(InputError, match=told):
        load_sparse(write_instance(TOML + text, pairs_csv=pairs), 0.3)


def test_other_keys_are_for_matrices(
    write_instance: WriteInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sparse_module, "LEAST_CELLS", 0)
    monkeypatch.setattr(sparse_module, "SPARSE", 1.0)
    path = write_instance(TOML + "availability = 0.9\n", pairs_csv=PAIRS)
    assert load_sparse(path, 0.3) is None
    assert load_sparse("priority-v1", 0.3) is None
