"""``opportune.Router``: decisions in your own process, and its ledger."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
import numpy as np
import pytest

import opportune
from opportune.errors import InputError
from opportune.model.duration import Deterministic, Geometric
from opportune.model.loss import loss_instance
from opportune.policies.base import loss_policy
from opportune.pricing.demand import AT_MOST
from opportune.pricing.occupancy import price
from opportune.router import DRAWN_AT_ONCE, Router, RouterState

SCORES = [[0.9, 0.2, 0.1], [0.8, 0.7, 0.1]]


def test_five_lines_from_a_score_matrix_to_a_decision() -> None:
    router = opportune.Router([[0.9, 0.2, 0.1], [0.8, 0.7, 0.1]])
    decision = router.decide(0)
    assert decision.servers == ("server-1",)
    assert router.complete(decision.id)
    assert router.free == ("server-1", "server-2", "server-3")


def test_a_decision_says_what_it_was_worth() -> None:
    router = Router(SCORES, arrival_rate=[0.3, 0.1], duration=Geometric(5), servers_per_task=2)
    prices = price(router.instance, AT_MOST)
    decision = router.decide("type-2")
    servers = [router.instance.servers.index(name) for name in decision.servers]
    assert decision.plan == "lag"
    assert decision.scores == tuple(SCORES[1][r] for r in servers)
    assert decision.opportunity_cost == pytest.approx(prices.opportunity_cost[1, servers])
    assert decision.propensity == (1.0, 1.0)
    assert decision.reason == ""
    assert router.running == {1: decision.servers}


def test_a_drop_says_why_and_holds_nothing() -> None:
    router = Router(SCORES, servers_per_task=2, allowed=[[True, True, False], [True, True, True]])
    router.decide(1)
    dropped = router.decide(0)
    assert dropped.servers == ()
    assert dropped.reason == "0 of 2 permitted servers are free, 2 are needed"
    assert len(router.running) == 1
    assert not router.complete(dropped.id)


def test_the_second_completion_is_marked_and_an_unknown_one_refused() -> None:
    router = Router(SCORES)
    with pytest.raises(InputError, match="the id of a decision"):
        router.complete(1)
    decision = router.decide(0)
    assert router.complete(decision.id) is True
    assert router.complete(decision.id) is False
    for wrong in (0, -1, 2, 1.0, "1", True, None):
        with pytest.raises(InputError):
            router.complete(wrong)  # type: ignore[arg-type]
    assert len(router.free) == 3


@pytest.mark.parametrize("wrong", [-1, 2, "type-3", 0.0, None, True])
def test_an_unknown_type_is_refused(wrong: Any) -> None:
    router = Router(SCORES)
    with pytest.raises(InputError, match="task_type"):
        router.decide(wrong)
    assert router.decide("type-1").id == 1


def test_slots_are_as_many_as_the_capacity() -> None:
    router = Router([[2.0, 1.0]], capacity=[2, 1])
    chosen = [router.decide(0) for _ in range(4)]
    assert [decision.servers for decision in chosen] == [
        ("server-1",),
        ("server-1",),
        ("server-2",),
        (),
    ]
    router.complete(1)
    assert router.free == ("server-1",)
    pair = Router([[2.0, 1.0]], capacity=3, servers_per_task=2)
    assert [len(set(pair.decide(0).servers)) for _ in range(4)] == [2, 2, 2, 0]


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "2", [1], [1, 2, 0], True, None])
def test_capacities_that_are_none_are_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="capacity"):
        Router(SCORES, capacity=wrong)


@pytest.mark.parametrize(
    "options",
    [
        {"arrival_rate": [0.1, 0.1]},
        {"duration": Deterministic(2)},
        {"nonsense": 1},
        {"servers_per_task": 5},
        {"policy": "nonsense"},
    ],
)
def test_options_that_make_no_sense_are_refused(options: Any) -> None:
    with pytest.raises(InputError):
        Router(SCORES, **options)
    if "nonsense" in options:
        with pytest.raises(InputError, match="none beside an instance"):
            Router(loss_instance(SCORES, [0.1, 0.1], Deterministic(2)), **options)


def test_threads_share_one_ledger() -> None:
    """BerriAI/litellm#871: each thread had its own idea of who is busy."""
    router = Router([[1.0] * 5])
    held: set[str] = set()
    lock = threading.Lock()
    failures: list[str] = []
    done = [0] * 8

    def work(i: int) -> None:
        for _ in range(500):
            decision = router.decide(0)
            if not decision.servers:
                continue
            (server,) = decision.servers
            with lock:
                if server in held:
                    failures.append(server)
                held.add(server)
            with lock:
                held.discard(server)
            done[i] += router.complete(decision.id)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert router.running == {}
    assert len(router.free) == 5
    assert router.state().last == 4_000
    assert sum(done) > 0


def test_the_same_seed_decides_the_same_and_another_does_not() -> None:
    def picks(seed: int) -> list[tuple[str, ...]]:
        router = Router([[1.0] * 9], seed=seed, servers_per_task=3)
        chosen = []
        for _ in range(DRAWN_AT_ONCE // 3 + 50):  # beyond the words that are drawn at once
            decision = router.decide(0)
            router.complete(decision.id)
            chosen.append(decision.servers)
        return chosen

    assert picks(0) == picks(0)
    assert picks(0) != picks(1)
    counts = dict.fromkeys(Router([[1.0] * 9]).instance.servers, 0)
    for chosen in picks(3):
        for name in chosen:
            counts[name] += 1
    expected = sum(counts.values()) / 9
    assert sum((n - expected) ** 2 / expected for n in counts.values()) < 26  # chi-square, 8 df


def test_a_router_goes_on_where_another_stopped() -> None:
    """gensyn-ai/rl-swarm#461: after a restart every lookup missed."""
    names = ("1", "Zoë", "(1, 2)", "a b")
    world = loss_instance([[1.0] * 4], [0.1], Geometric(3), 2, servers=names)
    first = Router(world, policy="random", seed=5)
    running = [first.decide(0), first.decide(0)]
    assert not first.decide(0).servers
    stored = msgspec.json.encode(first.state())
    second = Router(world, policy="random", seed=5)
    second.restore(msgspec.json.decode(stored, type=RouterState))
    assert second.running == first.running
    assert second.free == first.free == ()
    for router in (first, second):
        assert all(router.complete(decision.id) for decision in running)
    for _ in range(1_000):
        decision = first.decide(0)
        assert decision == second.decide(0)
        if decision.servers:
            assert first.complete(decision.id) == second.complete(decision.id)
    other = Router([[1.0] * 4])
    with pytest.raises(InputError, match="state"):
        other.restore(first.state())


def test_names_that_are_no_text_are_refused() -> None:
    with pytest.raises(InputError, match="servers"):
        Router([[1.0, 1.0]], servers=(1, "1"))


def test_another_plan_is_used_from_now_on() -> None:
    router = Router([[2.0, 1.0]], arrival_rate=[0.1], duration=Geometric(3))
    held = router.decide(0)
    greedy = loss_policy("greedy").plan(router.instance)
    router.use(greedy)
    assert router.decide(0).plan == "greedy"
    assert router.complete(held.id)
    with pytest.raises(InputError):
        router.use(loss_policy("greedy").plan(loss_instance([[1.0]], [0.1], Geometric(3))))
    wrong = price(loss_instance([[1.0]], [0.1], Geometric(3)), AT_MOST)
    with pytest.raises(InputError, match="prices"):
        router.use(greedy, wrong)
    assert router.plan is greedy


def test_every_server_is_used_once_at_a_time() -> None:
    rng = np.random.default_rng(2)
    router = Router(rng.random((5, 40)), servers_per_task=[1, 2, 3, 4, 5])
    running: dict[int, tuple[str, ...]] = {}
    for _ in range(3_000):
        if running and rng.random() < 0.5:
            number = list(running)[int(rng.integers(len(running)))]
            assert router.complete(number)
            del running[number]
        v = int(rng.integers(5))
        decision = router.decide(v)
        busy = {name for servers in running.values() for name in servers}
        assert not busy & set(decision.servers)
        assert len(set(decision.servers)) in (0, v + 1)
        if decision.servers:
            running[decision.id] = decision.servers
        else:
            assert 40 - len(busy) < v + 1
        assert set(router.free) | busy | set(decision.servers) == set(router.instance.servers)
    assert router.running == running
