"""The generator: known answers, the plain twin, and draws as a function of their position."""

from __future__ import annotations

import numpy as np
import pytest

from opportune.kernels import streams
from opportune.kernels.streams import CHOICE, DURATION, GAP, NEVER, TYPE, draw_arrivals, geometric
from opportune.model.duration import Deterministic, Empirical, Geometric
from opportune.model.loss import loss_instance
from opportune.model.streams import alias_table, draw_block, empty_block, loss_law, stream_key
from tests import naive

ONES = 2**32 - 1

KNOWN = [
    ([0] * 4, [0] * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ([ONES] * 4, [ONES] * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]
"""Random123 (D. E. Shaw Research), kat_vectors, philox4x32 with 10 rounds: counter, key, words."""

INSTANCE = loss_instance(
    np.ones((5, 5)),
    [0.05, 0.1, 0.0, 0.2, 0.15],
    [
        Geometric(7.5),
        Deterministic(9),
        Geometric(1),
        Empirical([2, 3, 11], [0.5, 0.2, 0.3]),
        Empirical([1, 4, 5, 6], [0.1, 0.3, 0.2, 0.4]),
    ],
    [3, 1, 2, 3, 1],
)


@pytest.mark.parametrize(("counter", "key", "known"), KNOWN)
def test_known_answers(counter: list[int], key: list[int], known: str) -> None:
    want = tuple(int(word, 16) for word in known.split())
    assert naive.philox(counter, key) == want
    got = streams.philox(*(np.uint64(x) for x in (*counter, *key)))
    assert tuple(int(word) for word in got) == want


def test_the_compiled_generator_is_its_twin() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        seed, position = (int(x) for x in rng.integers(0, 2**64, 2, dtype=np.uint64))
        replication, purpose = int(rng.integers(2**32)), int(rng.integers(1, 100))
        key = (np.uint64(seed), np.uint64(replication))
        got = streams.words(key, purpose, np.uint64(position))
        assert tuple(map(int, got)) == naive.words(seed, replication, purpose, position)


@pytest.mark.parametrize(("seed", "replication"), [(0, 0), (1, 0), (2**64 - 1, 2**32 - 1)])
def test_every_number_of_a_block_is_where_the_twin_finds_it(seed: int, replication: int) -> None:
    law = loss_law(INSTANCE)
    first, size, k = 2**34 + 8, 41, 3
    block = empty_block(k, size)
    draw_arrivals(stream_key(seed, replication), first, law, block)
    mean_gap = 1.0 / 0.5
    for i in range(size):
        at = first + i
        gap = naive.geometric(naive.unit(seed, replication, GAP, at), mean_gap)
        assert block.gap[i] == gap
        u = naive.unit(seed, replication, TYPE, at) * 5
        column, rest = int(u), u - int(u)
        v = column if rest < law.type_threshold[column] else law.type_alias[column]
        assert block.task_type[i] == v
        u = naive.unit(seed, replication, DURATION, at)
        assert block.duration[i] == _duration(int(v), u)
        words = [naive.choice(seed, replication, CHOICE, at * k + j) for j in range(k)]
        assert block.choice[i].tolist() == words


def _duration(v: int, u: float) -> int:
    """The duration of type v of ``INSTANCE`` at u."""
    duration = INSTANCE.duration[v]
    if isinstance(duration, Deterministic):
        return duration.steps
    if isinstance(duration, Geometric):
        return naive.geometric(u, duration.mean)
    threshold, alias = alias_table(duration.weight)
    scaled = u * len(threshold)
    column = int(scaled)
    kept = scaled - column < threshold[column]
    return int(duration.steps[column if kept else alias[column]])


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_a_block_needs_no_block_before_it(k: int) -> None:
    law, key = loss_law(INSTANCE), stream_key(5, 2)
    whole = draw_block(key, 0, law, k, size=64)
    for size in (4, 16, 32):
        for block in range(64 // size):
            part = draw_block(key, block, law, k, size)
            for name in whole._fields:
                want = getattr(whole, name)[block * size : (block + 1) * size]
                assert np.array_equal(getattr(part, name), want), (name, size, block)


def test_seeds_replications_and_purposes_have_their_own_streams() -> None:
    law = loss_law(INSTANCE)
    keys = [(s, n) for s in (0, 1, 2**32, 2**63) for n in (0, 1, 7)]
    blocks = {key: draw_block(stream_key(*key), 0, law, 3, 64) for key in keys}
    for name in ("gap", "task_type", "duration", "choice"):
        assert len({getattr(block, name).tobytes() for block in blocks.values()}) == len(keys)
    first = {streams.words((np.uint64(1), np.uint64(0)), p, np.uint64(0)) for p in range(1, 5)}
    assert len(first) == 4


def test_unit_is_below_one_and_has_53_bits() -> None:
    ones, zero = np.uint64(ONES), np.uint64(0)
    assert streams.unit(ones, ones) == 1.0 - 2.0**-53
    assert streams.unit(zero, np.uint64(2**11 - 1)) == 0.0
    assert streams.unit(zero, np.uint64(2**11)) == 2.0**-53
    assert streams.unit(np.uint64(2**31), zero) == 0.5


def test_geometric_is_the_inverse_of_its_law() -> None:
    stay = 0.75
    for n in range(1, 60):
        edge = 1.0 - stay**n  # P(D <= n)
        assert geometric(edge - 1e-9, np.log(stay)) == n
        assert geometric(edge + 1e-9, np.log(stay)) == n + 1
    assert geometric(0.0, np.log(stay)) == 1
    assert geometric(0.999, -np.inf) == 1
    assert geometric(0.5, -1e-300) == NEVER
    assert geometric(1.0 - 2.0**-53, np.log1p(-1e-12)) < 4e13


def test_a_rate_of_almost_nothing_gives_gaps_longer_than_any_run() -> None:
    law = loss_law(loss_instance([[1.0]], [1e-300], Geometric(2)))
    block = draw_block(stream_key(1, 0), 0, law, 1, 8)
    assert np.all(block.gap == NEVER)


def test_a_task_at_every_step() -> None:
    law = loss_law(loss_instance([[1.0]], [1.0], Deterministic(2)))
    assert np.all(draw_block(stream_key(1, 0), 0, law, 1, 64).gap == 1)
