"""The streams have the laws they are drawn from.

Every statistical test is a chi-square test at error probability ``LEVEL`` each: of all 40 or so
together one would fail by chance once in 20,000 choices of the seed. The seeds are fixed.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from opportune.errors import InputError
from opportune.kernels.streams import LossStreams
from opportune.model.duration import Deterministic, Duration, Empirical, Geometric
from opportune.model.loss import loss_instance
from opportune.model.streams import BLOCK, alias_table, draw_block, loss_law, stream_key
from opportune.simulate.loss import Run

LEVEL = 1e-6
SEEDS = (1, 2**40 + 3)

INSTANCE = loss_instance(
    np.ones((6, 4)),
    [0.02, 0.05, 0.0, 0.1, 0.1, 0.03],
    [
        Geometric(6.0),
        Empirical([1, 2, 5, 40], [0.1, 0.6, 0.25, 0.05]),
        Geometric(3.0),
        Deterministic(17),
        Geometric(1.0),
        Empirical([3, 4, 9], [0.7, 0.2, 0.1]),
    ],
    3,
)


def chi_square(observed: NDArray[np.int64], share: NDArray[np.float64]) -> None:
    """Fail if counts (n,) do not fit shares that sum to 1; cells below 10 expected are joined."""
    total = observed.sum()
    expected = share * total
    assert expected.sum() == pytest.approx(total, rel=1e-9)
    assert not np.any(observed[share == 0])
    rare = expected < 10
    counts = np.append(observed[~rare], observed[rare].sum())
    wanted = np.append(expected[~rare], expected[rare].sum())
    keep = wanted > 0
    statistic = float(np.sum((counts[keep] - wanted[keep]) ** 2 / wanted[keep]))
    degrees = max(int(keep.sum()) - 1, 1)
    assert statistic < chi2.isf(LEVEL, degrees), (statistic, degrees)


def independent(first: NDArray[np.int64], second: NDArray[np.int64]) -> None:
    """Fail if two columns of small whole numbers depend on each other."""
    table = np.zeros((first.max() + 1, second.max() + 1))
    np.add.at(table, (first, second), 1)
    share = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum() ** 2
    keep = share > 0
    statistic = float(
        np.sum((table - share * table.sum())[keep] ** 2 / (share * table.sum())[keep])
    )
    rows, columns = np.count_nonzero(table.sum(axis=1)), np.count_nonzero(table.sum(axis=0))
    assert statistic < chi2.isf(LEVEL, (rows - 1) * (columns - 1))


@pytest.fixture(scope="module", params=SEEDS)
def stream(request: pytest.FixtureRequest) -> LossStreams:
    """Twelve blocks of arrivals, joined."""
    law, key = loss_law(INSTANCE), stream_key(request.param, 3)
    blocks = [draw_block(key, block, law, 3) for block in range(12)]
    return LossStreams(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))


def geometric_share(mean: float, most: int) -> NDArray[np.float64]:
    """P(D = 1), ..., P(D = most - 1), P(D >= most)."""
    stay = 1.0 - 1.0 / mean
    mass = stay ** np.arange(most) / mean
    mass[-1] = stay ** (most - 1)
    return mass


def test_gaps_are_geometric(stream: LossStreams) -> None:
    most = 60
    counts = np.bincount(np.minimum(stream.gap, most), minlength=most + 1)[1:]
    chi_square(counts, geometric_share(1.0 / INSTANCE.arrival_rate.sum(), most))


def test_types_come_by_their_rates(stream: LossStreams) -> None:
    counts = np.bincount(stream.task_type, minlength=6)
    chi_square(counts, INSTANCE.arrival_rate / INSTANCE.arrival_rate.sum())


def test_durations_have_the_law_of_their_type(stream: LossStreams) -> None:
    of_type = [stream.duration[stream.task_type == v] for v in range(6)]
    most = 40
    counts = np.bincount(np.minimum(of_type[0], most), minlength=most + 1)[1:]
    chi_square(counts, geometric_share(6.0, most))
    values, counts = np.unique(of_type[1], return_counts=True)
    assert values.tolist() == [1, 2, 5, 40]
    chi_square(counts, np.array([0.1, 0.6, 0.25, 0.05]))
    values, counts = np.unique(of_type[5], return_counts=True)
    assert values.tolist() == [3, 4, 9]
    chi_square(counts, np.array([0.7, 0.2, 0.1]))
    assert len(of_type[2]) == 0
    assert set(of_type[3].tolist()) == {17}
    assert set(of_type[4].tolist()) == {1}


def test_choices_are_uniform_in_high_and_low_bits(stream: LossStreams) -> None:
    flat = stream.choice.ravel().astype(np.int64)
    share = np.full(256, 1 / 256)
    chi_square(np.bincount(flat >> 24, minlength=256), share)
    chi_square(np.bincount(flat & 255, minlength=256), share)


def test_what_is_drawn_for_one_arrival_is_independent(stream: LossStreams) -> None:
    gap = np.minimum(stream.gap, 12)
    only_geometric = stream.task_type == 0
    duration = np.minimum(stream.duration[only_geometric], 12)
    choice = (stream.choice >> np.uint32(29)).astype(np.int64)
    v = stream.task_type.astype(np.int64)
    independent(gap, v)
    independent(gap[only_geometric], duration)
    independent(choice[:, 0], choice[:, 1])
    independent(choice[:, 1], choice[:, 2])
    independent(choice[:, 0], v)
    independent(gap, choice[:, 2])


def test_arrivals_one_after_another_are_independent(stream: LossStreams) -> None:
    gap = np.minimum(stream.gap, 12)
    v = stream.task_type.astype(np.int64)
    choice = (stream.choice >> np.uint32(29)).astype(np.int64)
    independent(gap[:-1], gap[1:])
    independent(v[:-1], v[1:])
    independent(choice[:-1, 2], choice[1:, 0])
    independent(v[:-BLOCK], v[BLOCK:])


def test_replications_are_independent() -> None:
    law = loss_law(INSTANCE)
    blocks = [draw_block(stream_key(1, n), 0, law, 3) for n in (0, 1)]
    gap = [np.minimum(block.gap, 12) for block in blocks]
    v = [block.task_type.astype(np.int64) for block in blocks]
    independent(gap[0], gap[1])
    independent(v[0], v[1])


def test_an_alias_table_has_exactly_its_law() -> None:
    rng = np.random.default_rng(2)
    laws = [rng.random(n) ** 6 for n in rng.integers(1, 40, 300)]
    laws += [np.array([0.0, 1.0, 0.0]), np.array([1.0]), np.full(7, 1 / 7), np.array([1e-12, 1.0])]
    laws += [np.where(rng.random(9) < 0.5, 0.0, rng.random(9)) + np.eye(9)[0] for _ in range(50)]
    for weight in laws:
        share = weight / weight.sum()
        threshold, alias = alias_table(share)
        assert np.all((threshold >= 0) & (threshold <= 1))
        drawn = threshold / len(share)
        np.add.at(drawn, alias, (1.0 - threshold) / len(share))
        assert drawn == pytest.approx(share, abs=1e-15)
        assert np.all(drawn[share == 0] == 0)


@pytest.mark.parametrize(
    ("duration", "steps"), [(Deterministic(3), 3), (Empirical([8], [1.0]), 8), (Geometric(1), 1)]
)
def test_a_certain_duration_is_certain(duration: Duration, steps: int) -> None:
    law = loss_law(loss_instance([[1.0]], [0.5], duration))
    assert set(draw_block(stream_key(3, 0), 0, law, 1, 512).duration.tolist()) == {steps}


def test_nothing_arrives_where_all_rates_are_zero() -> None:
    law = loss_law(loss_instance(np.ones((2, 2)), [0.0, 0.0], Geometric(2)))
    assert law.arrival == 0.0


def test_rates_in_single_precision_give_an_arrival_at_every_step() -> None:
    rate = np.full(3, 1 / 3, dtype=np.float32)
    assert float(rate.astype(np.float64).sum()) > 1.0
    assert loss_law(loss_instance(np.ones((3, 2)), rate, Geometric(2))).arrival == 1.0


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, "1", True, None])
def test_a_seed_is_a_whole_number_of_64_bits(seed: object) -> None:
    with pytest.raises(InputError, match=r"seed: .*from 0 to 2\*\*64 - 1"):
        stream_key(seed, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("replication", [-1, 2**32])
def test_a_replication_has_32_bits(replication: int) -> None:
    with pytest.raises(InputError, match="replication"):
        stream_key(1, replication)


def test_seed_zero_is_a_seed() -> None:
    assert stream_key(0, 0) == (np.uint64(0), np.uint64(0))
    assert Run(10, 0, seed=0).seed == 0
