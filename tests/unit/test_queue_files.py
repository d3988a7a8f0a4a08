"""Queue instances from files and by id: data as users have them, and what is said when wrong."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.model.catalog import QUEUE_IDS
from opportune.model.contexts import ContextPool
from opportune.model.files import load_instance
from opportune.model.queue import QueueInstance, pool_rates
from opportune.model.queue_capacity import queue_capacity
from opportune.model.queue_catalog import QueueChoice, queue_catalog
from opportune.model.queue_files import load_queue
from opportune.model.queue_generator import QueueGenerator
from opportune.model.queue_pool import PoolOptions, fit_weights, queue_from_data

CSV = """length,code,small,large
10,0,1,1
200,1,0,1
30,0,1,0
250,1,0,1
20,0,0,0
180,0,0,1
"""
GOOD = """
contexts = {file = "log.csv", columns = ["length", "code"]}
outcomes = {file = "log.csv", columns = ["small", "large"]}
load = 0.8
"""


@pytest.fixture
def write(tmp_path: Path):
    def one(text: str = GOOD, csv: str = CSV) -> Path:
        (tmp_path / "log.csv").write_text(csv, encoding="utf-8")
        path = tmp_path / "prompts.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return one


def as_pool(world: object) -> tuple[QueueInstance, ContextPool]:
    assert isinstance(world, QueueInstance)
    assert isinstance(world.contexts, ContextPool)
    return world, world.contexts


def test_a_log_becomes_a_queue(write) -> None:
    instance, law = as_pool(load_queue(write()))
    assert instance.name == "prompts"
    assert instance.servers == ("small", "large")
    assert instance.replays
    assert law.outcome is not None
    assert law.outcome.tolist() == [
        [True, True],
        [False, True],
        [True, False],
        [False, True],
        [False, True],
    ]
    assert instance.notes == ("1 context of 6 left out: no server has success with them",)
    assert instance.true_weight.shape == (2, 3)  # two columns and the intercept, last
    assert np.linalg.norm(law.features, axis=2).max() <= 1
    ones = law.features[:, 0, 2]
    assert np.ptp(ones) == 0
    capacity = queue_capacity(instance).tasks_per_step
    assert instance.arrival_rate == pytest.approx(0.8 * capacity)
    assert instance.slack == pytest.approx(0.2 * capacity)


def test_what_is_chosen_replaces_what_the_file_says(write) -> None:
    choice = QueueChoice(horizon=77, arrival_rate=0.25, slack=0.03)
    instance, _ = as_pool(load_queue(write(), choice))
    assert (instance.horizon, instance.arrival_rate, instance.slack) == (77, 0.25, 0.03)
    text = GOOD.replace("load = 0.8", "arrival_rate = 0.1")
    loaded, _ = as_pool(load_queue(write(text), QueueChoice(load=0.5)))
    assert loaded.arrival_rate == pytest.approx(0.5 * queue_capacity(loaded).tasks_per_step)


def test_outcomes_drawn_from_the_fit_keep_all_contexts(write) -> None:
    instance, law = as_pool(load_queue(write(GOOD + 'feedback = "fitted"\n')))
    assert not instance.replays
    assert law.outcome is None
    assert len(law.features) == 6
    assert instance.notes == ()


def test_known_weights_need_no_outcomes(write) -> None:
    text = """
contexts = [[0.0, 2.0], [1.0, 0.0]]
weight = [[1.0, 0.5, -1.0], [0.0, 1.0, 0.0]]
standardize = false
arrival_rate = 0.2
servers = ["a", "b"]
curvature = 12
"""
    instance, law = as_pool(load_queue(write(text)))
    scale = math.sqrt(5)  # norm of (0, 2, 1)
    assert law.features[:, 0] == pytest.approx(np.array([[0, 2, 1], [1, 0, 1]]) / scale)
    z = np.array([[0.0, 2.0], [0.0, 0.0]])
    assert pool_rates(instance) == pytest.approx(1 / (1 + np.exp(-z)))
    assert (instance.servers, instance.curvature) == (("a", "b"), 12)


@pytest.mark.parametrize(
    ("text", "csv", "words"),
    [
        (GOOD.replace("load = 0.8", ""), CSV, "arrival_rate: neither given"),
        (GOOD + "arrival_rate = 0.5\n", CSV, "arrival_rate: given beside load"),
        (GOOD, CSV.replace("10,0,1,1", "10,0,0.7,1"), "0.7 in row 0, column 0 (1 such in all)"),
        (GOOD, CSV.replace("10,0,1,1", "10,0,0.7,1"), "say threshold = 0.5"),
        (GOOD, CSV.replace("10,0,1,1", "10,0,-1,1"), "-1 in row 0"),
        (GOOD, CSV.replace("10,0,1,1", "10,0,,1"), "nan in row 0"),
        (GOOD + "threshold = 0.5\n", CSV.replace("10,0,1,1", "10,0,,1"), "missing in row 0"),
        (GOOD, CSV.replace("10,0,1,1", ",0,1,1"), "nan in row 0, column 0"),
        (GOOD.replace("outcomes", "outcome"), CSV, "Did you mean 'outcomes'?"),
        (GOOD.replace("contexts", "context"), CSV, "Did you mean 'contexts'?"),
        (GOOD.replace('"small"', '"smal"'), CSV, "Did you mean 'small'?"),
        (GOOD.replace("log.csv", "logs.csv"), CSV, "Did you mean 'log.csv'?"),
        (GOOD + 'feedback = "replay"\n', CSV, "recorded or fitted"),
        (GOOD + "epsilon = 0.1\n", CSV, "Did you mean 'slack'?"),
        (GOOD + 'servers = ["one"]\n', CSV, "servers: 1 names"),
        (GOOD + "weight = [[1, 2, 3], [1, 2, 3]]\n", CSV, "both given"),
        ("contexts = [[1, 2]]\nload = 0.5\n", CSV, "outcomes: neither given"),
        ("contexts = [[1, 2]]\nweight = [[1, 2]]\nload = 0.5\n", CSV, "weight: shape (1, 2)"),
        (GOOD.replace("load = 0.8", "load = -1"), CSV, "load: -1"),
        (GOOD.replace("load = 0.8", "load = nan"), CSV, "load: nan"),
        (GOOD + 'intercept = "yes"\n', CSV, "true or false"),
        (GOOD, "length,code,small,large\n1,2,0,0\n", "no context has a server with success"),
    ],
)
def test_what_is_wrong_is_named(write, text: str, csv: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        load_queue(write(text, csv))
    assert words in str(caught.value)


def test_scores_become_outcomes_only_on_purpose(write) -> None:
    csv = CSV.replace("10,0,1,1", "10,0,0.7,0.2")
    _, law = as_pool(load_queue(write(GOOD + "threshold = 0.5\n", csv)))
    assert law.outcome is not None
    assert law.outcome[0].tolist() == [True, False]
    _, strict = as_pool(load_queue(write(GOOD + "threshold = 0\n", csv)))  # 0 is a threshold
    assert strict.outcome is not None
    assert strict.outcome.all()


def test_separable_outcomes_have_a_finite_fit() -> None:
    x = np.array([-1.0, 1.0] * 250)[:, None]
    weight = fit_weights(x, (x > 0).astype(float), 1e-3)
    assert np.isfinite(weight).all()
    rate = 1 / (1 + np.exp(-x @ weight.T))
    assert 0 < rate.min() < 0.01
    assert 0.99 < rate.max() < 1
    gradient = x.T @ (rate - (x > 0)) + 1e-3 * weight.T
    assert np.abs(gradient).max() < 1e-6


def test_copied_and_constant_columns_change_nothing() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 3))
    y = (rng.random((300, 2)) < 1 / (1 + np.exp(-x[:, :2]))).astype(float)
    y[~y.any(axis=1), 0] = 1.0
    plain = queue_from_data(x, y, options=PoolOptions(load=0.5))
    twice = queue_from_data(
        np.hstack([x, x[:, :1], np.full((300, 1), 7.0)]), y, options=PoolOptions(load=0.5)
    )
    assert pool_rates(twice) == pytest.approx(pool_rates(plain), abs=2e-3)


def test_every_id_is_listed_and_loads_or_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPPORTUNE_DATA", raising=False)
    assert tuple(entry.id for entry in queue_catalog()) == QUEUE_IDS
    for entry in queue_catalog():
        if entry.needs_data:
            with pytest.raises(InputError, match="OPPORTUNE_DATA: not set"):
                load_queue(entry.id)
        else:
            assert load_queue(entry.id).n_servers >= 2


def test_the_generators_are_those_of_the_papers() -> None:
    assert load_queue("cqb-joint-v1") == QueueGenerator(
        0.7, 5, 10, True, 0.1, 50.0, 2000, "cqb-joint-v1"
    )
    assert load_queue("cqb-disjoint-v1") == QueueGenerator(
        0.7, 5, 5, False, 0.1, 10.0, 5000, "cqb-disjoint-v1"
    )
    changed = load_queue(
        "cqb-joint-v1", QueueChoice(horizon=9, dimension=3, servers=10, slack=0.15)
    )
    assert changed == QueueGenerator(0.7, 10, 3, True, 0.15, 50.0, 9, "cqb-joint-v1")


def test_the_hard_instance_follows_the_horizon() -> None:
    short, long = (load_queue("hard-v1", QueueChoice(horizon=t)) for t in (100, 10_000))
    assert isinstance(short, QueueInstance)
    assert isinstance(long, QueueInstance)
    assert short.true_weight[0, 0] == pytest.approx(10 * long.true_weight[0, 0], rel=1e-3)
    sized = load_queue("hard-v1", QueueChoice(dimension=3, servers=5, arrival_rate=0.2))
    assert isinstance(sized, QueueInstance)
    assert sized.true_weight.shape == (1, 3)
    assert (sized.n_servers, sized.arrival_rate) == (5, 0.2)


@pytest.mark.parametrize(
    ("source", "choice", "words"),
    [
        ("hard-v2", QueueChoice(), "Did you mean 'hard-v1'?"),
        ("hard-v1", QueueChoice(load=0.5), "load: 0.5 given"),
        ("hard-v1", QueueChoice(arrival_rate=0.6), "below 1/2"),
        ("cqb-joint-v1", QueueChoice(arrival_rate=0.95), "a positive slack"),
        ("prompts.toml", QueueChoice(), "a file in this folder"),
    ],
)
def test_choices_that_do_not_apply_are_refused(
    source: str, choice: QueueChoice, words: str
) -> None:
    with pytest.raises(InputError) as caught:
        load_queue(source, choice)
    assert words in str(caught.value)


def test_a_queue_is_no_loss_instance() -> None:
    with pytest.raises(InputError, match="Run: opportune queue hard-v1"):
        load_instance("hard-v1", 0.5)


def test_the_router_instances_match_their_measured_rates(data: Path) -> None:
    """Arrival rates at 85 % of capacity: .575 replayed, .491 fitted (learned.md section 3)."""
    assert data.is_dir()
    replay, law = as_pool(load_queue("dcreplay-v1"))
    assert law.features.shape == (4705, 1, 17)
    assert replay.arrival_rate == pytest.approx(0.575, abs=5e-4)
    fitted, law = as_pool(load_queue("dcfit-v1"))
    assert law.features.shape == (6108, 1, 17)
    assert fitted.arrival_rate == pytest.approx(0.491, abs=5e-4)


def test_fractional_scores_of_real_data_are_refused(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "router.toml"
    scores = data / "llm_scores" / "dcrouter_scores.csv"
    path.write_text(
        f'contexts = {{file = "{scores}", columns = ["q_chars", "q_digits"]}}\n'
        f'outcomes = {{file = "{scores}", columns = ["gemma-2-9b-it", "codegemma-7b"]}}\n'
        "load = 0.5\n",
        encoding="utf-8",
    )
    with pytest.raises(InputError, match=r"0 or 1 \(failure or success\)"):
        load_queue(path)
    path.write_text(path.read_text(encoding="utf-8") + "threshold = 1\n", encoding="utf-8")
    assert load_queue(path).n_servers == 2
