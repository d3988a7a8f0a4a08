"""The learner beside requests: what it keeps, in which pieces it works, what it prepares."""

from __future__ import annotations

import gc
import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from opportune.service import events
from opportune.service.commands import Complete, PutLearned, PutPlan, PutServer
from opportune.service.journal import Append
from opportune.service.learner import PIECE, PoolLearner, due, pause
from opportune.service.learner_counts import PACKED_AT_ONCE, Counts, Seen, pack, unpack
from opportune.service.learner_pairs import Pair, Pairs
from opportune.service.memory import MemoryJournal
from opportune.service.ordering import keep_learned, routing_of, shadow_of
from opportune.service.plan_runs import declared
from opportune.service.planning import plan_pool
from opportune.service.resources import FeatureRange, ServerSettings
from tests.service.pools import Pool, pool_of
from tests.service.test_learner import learned_from
from tests.service.test_learner_estimates import worked

steps = st.lists(
    st.tuples(
        st.integers(0, 3), st.integers(0, 3), st.sampled_from([-1, 0, 1]), st.integers(0, 2**32)
    ),
    max_size=40,
)


@settings(deadline=None)
@given(steps)
def test_pairs_are_counted_as_in_a_dictionary(told: list[tuple[int, int, int, int]]) -> None:
    """Rows of one array beside four counts in a dictionary."""
    pairs, plain = Pairs(), dict[tuple[int, int], list[int]]()
    for v, r, sign, grains in told:
        own = plain.setdefault((v, r), [0, 0, 0, 0])
        if sign == 0:
            pairs.serve(v, r, labeled=bool(grains % 2))
            own[2] += 1
            own[3] += grains % 2
        else:
            pairs.label(v, r, (sign, sign * grains), sign)
            for column, more in ((0, sign), (1, sign * grains), (3, sign)):
                own[column] += more
    assert pairs.table()[:, 0].tolist() == [(v << 32) + r for v, r in plain]
    assert all(list(pairs.pair(*pair)) == own for pair, own in plain.items())
    assert pairs.pair(9, 9) == Pair()
    assert pairs.table()[:, 1:].tolist() == list(plain.values())
    sums = [sum(own[column] for own in plain.values()) for column in (0, 2, 3)]
    assert pairs.totals() == Pair(sums[0], 0, sums[1], sums[2])
    again = Pairs(pairs.dump())
    assert again == pairs
    assert len(again) == len(plain)
    pairs.serve(0, 0, labeled=False)
    assert again != pairs


def busy_pool(n_tasks: int, **options: object) -> Pool:
    """A plan is active; tasks were completed with an outcome."""
    types = {"a": {"rate": 0.1, "mean_duration": 1.0}, "b": {"rate": 0.1, "mean_duration": 1.0}}
    pool = pool_of({"a": [0.9, 0.5, 0.4], "b": [0.3, 0.6, 0.2]}, types, learning="on", **options)
    pool.ok(PutPlan(plan=plan_pool(pool.state, "first", source="plan"), activate=True))
    draw = random.Random(4)
    for i in range(n_tasks):
        worked(pool, [float(draw.random() < 0.5)], "ab"[i % 2])
    return pool


def test_a_checkpoint_in_pieces_is_the_whole() -> None:
    log = busy_pool(PACKED_AT_ONCE + 60).log
    counts, rests = learned_from(log), []
    data = pack(counts, lambda: rests.append(len(counts.tasks)))
    assert len(rests) == 3  # two pieces of tasks, and all else
    assert data == pack(counts)
    again = unpack(data)
    assert again == counts
    assert list(again.tasks) == list(counts.tasks)


def test_reading_rests_between_pieces() -> None:
    pool, journal, rests = busy_pool(40), MemoryJournal(), []
    records = [events.encode(event) for event in pool.log]
    journal.append(Append("p", journal.acquire("p"), 1, records)).result()
    learner = PoolLearner("p", journal, rest=lambda: rests.append(learner.counts.basis))
    assert learner.read() == len(records)
    assert rests == list(range(PIECE, len(records) + 1, PIECE))
    assert learner.counts == learned_from(pool.log)


def test_a_search_for_garbage_passes_tasks_by() -> None:
    counts = learned_from(busy_pool(30, context=["x"]).log)
    gc.collect()
    gc.collect()  # a tuple of tuples is known to be harmless once the inner ones are
    for seen in counts.tasks.values():
        assert seen.labels
        assert seen.services
        parts = (seen, *seen.services, *seen.told.values(), seen.labels, seen.services, seen.told)
        assert not any(gc.is_tracked(part) for part in parts)


def test_a_publication_comes_with_the_routings_that_it_asks_for() -> None:
    pool = busy_pool(20)
    learner = PoolLearner("p", MemoryJournal())
    learner.counts = learned_from(pool.log)
    before = routing_of(pool.state)
    found = due(learner, declared(pool.state), looks_at_changes=False)
    assert found is not None
    pool.state.kept_routings = found.kept
    pool.ok(found.command)
    routing = routing_of(pool.state)
    assert routing is found.kept[-1].routing
    assert not np.array_equal(routing.score, before.score)
    pool.state.routing, pool.state.kept_routings = None, []
    anew = routing_of(pool.state)
    for name in ("score", "index", "cost", "allowed"):
        assert np.array_equal(getattr(anew, name), getattr(routing, name), equal_nan=True)
    assert np.array_equal(anew.tables.order, routing.tables.order)
    learner.counts.published_at = learner.counts.reports
    assert due(learner, declared(pool.state), looks_at_changes=True) is None


def test_routings_of_a_pool_that_has_changed_since_are_not_taken() -> None:
    pool = busy_pool(20)
    learner = PoolLearner("p", MemoryJournal())
    learner.counts = learned_from(pool.log)
    found = due(learner, declared(pool.state), looks_at_changes=False)
    assert found is not None
    pool.ok(PutServer(settings=ServerSettings(id="new")))
    pool.state.kept_routings = found.kept
    pool.ok(found.command)
    assert routing_of(pool.state).score.shape == (2, 4)
    body = pool.task()
    pool.ok(Complete(assignment=body.assignment_id))


def test_the_routing_of_a_shadow_is_kept_as_well() -> None:
    pool = busy_pool(20)
    other = plan_pool(pool.state, "second", "greedy", "plan")
    pool.ok(PutPlan(plan=other, shadow=True))
    learner = PoolLearner("p", MemoryJournal())
    learner.counts = learned_from(pool.log)
    command = learner.publication(pool.state)
    assert isinstance(command, PutLearned)
    pool.state.kept_routings = keep_learned(declared(pool.state), command.learned)
    pool.ok(command)
    kept = [one.routing for one in pool.state.kept_routings]
    assert shadow_of(pool.state) is kept[0]
    assert routing_of(pool.state) is kept[1]


def test_large_pools_publish_seldom_and_more_so_by_contexts() -> None:
    state = busy_pool(0).state
    assert pause(Counts(), state) < 0.001
    counts = Counts(tasks=dict.fromkeys(range(10_000), Seen(0, 1)))
    assert pause(counts, state) == pause(Counts(), state)
    counts.features = (FeatureRange("x", 0.0, 1.0),)
    assert 0.01 < pause(counts, state) < 0.1
