"""A policy as an agent of pyRDDLGym, and the environment of a problem that came from RDDL.

problem = ilbo.make("domain.rddl", "instance.rddl")
agent = PolicyAgent(problem, policy)
agent.evaluate(environment(problem), episodes=100, seed=0)
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from ilbo.errors import UserError
from ilbo.mdp.problem import Problem
from ilbo.mdp.shapes import Action, State
from ilbo.mdp.simulate import PolicyFunction
from ilbo.rddl.model import RDDLModel
from ilbo.rddl.parsing import parse, quiet
from ilbo.rddl.source import missing_extra

try:
    with quiet():
        from pyRDDLGym.core.env import RDDLEnv
        from pyRDDLGym.core.policy import BaseAgent
except ImportError as error:
    raise missing_extra(error.name or "pyRDDLGym") from error


def environment(problem: Problem, **options: Any) -> RDDLEnv:
    """pyRDDLGym's environment of the problem; the options are those of its constructor."""
    dynamics = _model(problem).dynamics
    if functions := dict(dynamics.compiler.functions):
        options = {"backend_kwargs": {"python_functions": functions}, **options}
    with quiet():
        return RDDLEnv(parse(dynamics.source), None, **options)


class PolicyAgent(BaseAgent):
    """A policy of ours, acting in an environment of pyRDDLGym.

    Args:
        problem: The problem that the policy is for, read from the same RDDL.
        policy: state [n] → action [m]; called with the number of steps since `reset` as well where
            it has a true `timed`, and with a key where it has a true `stochastic`.
        seed: Seed of the policy's own randomness.
        vectorized: Whether the environment was made with `vectorized=True`.
    """

    def __init__(
        self, problem: Problem, policy: PolicyFunction, seed: int = 0, vectorized: bool = False
    ):
        dynamics = _model(problem).dynamics
        self.states, self.actions = dynamics.state, dynamics.action
        self.objects = dynamics.compiler.rddl.object_to_index
        self.use_tensor_obs = vectorized
        self.key = jax.random.key(seed)
        self.time = 0
        extras = [getattr(policy, name, False) for name in ("timed", "stochastic")]

        @jax.jit
        def act(state: State, time: Int[Array, ""], key: Key[Array, ""]) -> Action:
            given = [x for x, wanted in zip((time, key), extras, strict=True) if wanted]
            action = policy(state, *given)
            return jnp.clip(action, *problem.exact.bounds(state))

        self._act = act

    def reset(self) -> None:
        """Begins an episode anew: what a policy that sees the time must be told."""
        self.time = 0

    def sample_action(self, state: dict[str, Any]) -> dict[str, Any]:
        """The action for a state as pyRDDLGym gives it."""
        self.key, key = jax.random.split(self.key)
        action = np.asarray(self._act(self._vector(state), jnp.array(self.time), key))
        self.time += 1
        if not self.use_tensor_obs:
            return self.actions.grounded(action)
        tensors = self.actions.unpack(jnp.asarray(action))
        return {name: np.asarray(tensor) for name, tensor in tensors.items()}

    def _vector(self, state: dict[str, Any]) -> Float[np.ndarray, " n"]:
        parts = []
        for fluent in self.states.fluents:
            if self.use_tensor_obs:
                values = np.ravel(state.get(fluent.name, 0.0)).tolist()
            else:  # components without a fluent are hidden; policies do not depend on them
                values = [state.get(name, 0.0) for name in fluent.groundings]
            parts += [self.objects.get(v, v) if isinstance(v, str) else v for v in values]
        return np.asarray(parts, np.float32)


def _model(problem: Problem) -> RDDLModel:
    if not isinstance(problem.exact, RDDLModel):
        raise UserError(f"{problem.name} was not read from RDDL: pyRDDLGym cannot simulate it.")
    return problem.exact
