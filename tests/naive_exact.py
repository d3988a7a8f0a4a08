"""Slow twin of the exact optimum: every set of running tasks, every subset of them ending.

Written from the model (LAG section 1): a state is what runs, a task is its type and its servers.
Servers and types are never merged, nothing is factored.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from opportune.model.loss import LossInstance

Task = tuple[int, tuple[int, ...]]
State = tuple[Task, ...]
Choice = Callable[[int, State, list[tuple[int, ...]]], tuple[int, ...]]


def all_states(instance: LossInstance) -> list[State]:
    """All sets of running tasks that fit the servers; the empty one first."""
    found: dict[State, None] = {(): None}
    todo: list[State] = [()]
    while todo:
        state = todo.pop()
        for v in range(instance.n_types):
            for team in teams(instance, v, state):
                grown = tuple(sorted((*state, (v, team))))
                if grown not in found:
                    found[grown] = None
                    todo.append(grown)
    return list(found)


def teams(instance: LossInstance, v: int, state: State) -> list[tuple[int, ...]]:
    """Every choice of k free permitted servers."""
    busy = {r for _, team in state for r in team}
    free = [r for r in range(instance.n_servers) if r not in busy and instance.allowed[v, r]]
    return list(itertools.combinations(free, int(instance.servers_per_task[v])))


def endings(instance: LossInstance, state: State) -> dict[State, float]:
    """Law of the tasks that are left after one step."""
    law: dict[State, float] = {(): 1.0}
    for task in state:
        end = 1.0 / instance.duration[task[0]].mean
        grown: dict[State, float] = {}
        for left, chance in law.items():
            grown[left] = grown.get(left, 0.0) + chance * end
            grown[(*left, task)] = grown.get((*left, task), 0.0) + chance * (1.0 - end)
        law = grown
    return law


def chain(
    instance: LossInstance, states: list[State], choice: Choice
) -> tuple[np.ndarray, np.ndarray]:
    """Transition matrix and reward per step of a policy; it must serve whenever it can."""
    number = {state: i for i, state in enumerate(states)}
    move = np.zeros((len(states), len(states)))
    reward = np.zeros(len(states))
    for i, state in enumerate(states):
        left = endings(instance, state)
        idle = 1.0 - instance.arrival_rate.sum()
        for v, rate in enumerate(instance.arrival_rate):
            options = teams(instance, v, state)
            if not options:
                idle += rate
                continue
            team = choice(v, state, options)
            reward[i] += rate * instance.match_reward[v, list(team)].sum()
            for after, chance in left.items():
                move[i, number[tuple(sorted((*after, (v, team))))]] += rate * chance
        for after, chance in left.items():
            move[i, number[after]] += idle * chance
    return move, reward


def average(move: np.ndarray, reward: np.ndarray) -> tuple[float, np.ndarray]:
    """Reward per step and bias of a chain, 0 in the first state."""
    n = len(reward)
    system = np.eye(n) - move
    system[:, 0] = 1.0
    solved = np.linalg.solve(system, reward)
    gain = float(solved[0])
    solved[0] = 0.0
    return gain, solved


def policy_value(instance: LossInstance, choice: Choice) -> float:
    """Reward per step of a policy."""
    return average(*chain(instance, all_states(instance), choice))[0]


def best_value(instance: LossInstance) -> float:
    """Largest reward per step over all policies, by policy iteration."""
    states = all_states(instance)
    number = {state: i for i, state in enumerate(states)}
    picks: dict[tuple[int, State], tuple[int, ...]] = {}

    def choice(v: int, state: State, options: list[tuple[int, ...]]) -> tuple[int, ...]:
        return picks.get((v, state), options[0])

    for _ in range(100):
        gain, bias = average(*chain(instance, states, choice))
        changed = False
        for state in states:
            left = endings(instance, state)
            for v in range(instance.n_types):
                options = teams(instance, v, state)
                if not options:
                    continue
                worth = [
                    instance.match_reward[v, list(team)].sum()
                    + sum(
                        chance * bias[number[tuple(sorted((*after, (v, team))))]]
                        for after, chance in left.items()
                    )
                    for team in options
                ]
                before = options.index(choice(v, state, options))
                if max(worth) > worth[before] + 1e-10:
                    picks[v, state] = options[int(np.argmax(worth))]
                    changed = True
        if not changed:
            return gain
    raise AssertionError("policy iteration did not end")
