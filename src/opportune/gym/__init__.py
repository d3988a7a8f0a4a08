"""Environments for agents: the loss system and the queue, as Gymnasium takes them.

Importing this module registers ``opportune/Loss-v0`` and ``opportune/Queue-v0``::

    import gymnasium
    import opportune.gym

    env = gymnasium.make("opportune/Loss-v0", instance="priority-v1", load=0.7)
    envs = gymnasium.make_vec("opportune/Loss-v0", num_envs=64, instance="priority-v1", load=0.7)

Needs the extra ``gym``. ``loss`` and ``queue`` say what is observed, done and earned.
"""

from __future__ import annotations

from opportune.errors import MissingExtraError

try:
    from gymnasium.envs.registration import register, registry
except ModuleNotFoundError as error:
    raise MissingExtraError("gymnasium", "gym", "opportune.gym") from error

from opportune.gym.loss import LossEnv, LossVectorEnv
from opportune.gym.queue import QueueEnv, QueueVectorEnv

__all__ = ["LossEnv", "LossVectorEnv", "QueueEnv", "QueueVectorEnv"]

for _name in ("Loss", "Queue"):
    if f"opportune/{_name}-v0" not in registry:
        _module = f"opportune.gym.{_name.lower()}"
        register(
            f"opportune/{_name}-v0",
            entry_point=f"{_module}:{_name}Env",
            vector_entry_point=f"{_module}:{_name}VectorEnv",
        )
