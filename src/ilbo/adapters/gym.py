"""Any problem as an environment of Gymnasium, alone or many at once.

env = Environment(ilbo.make("navigation-3"))
envs = VectorEnvironment(ilbo.make("reservoir-20"), num_envs=64)

Observations are the state; the number of steps taken comes last where the model sees the time.
Actions lie in [−1, 1] and are stretched onto the action bounds at the state, which may differ from
state to state; a component without bounds is taken as it is. `scaled=False` takes all actions as
they are and clips them into the bounds. Episodes are cut (`truncated`) at the problem's horizon.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from ilbo.errors import UserError
from ilbo.mdp.bounds import within
from ilbo.mdp.model import Model
from ilbo.mdp.problem import Problem
from ilbo.mdp.shapes import Action, Noise, State
from ilbo.mdp.simulate import draw_noise

try:
    import gymnasium
    from gymnasium import spaces
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise UserError(
        f"ilbo.adapters.gym needs {error.name or 'gymnasium'}, which is not installed: "
        "pip install 'ilbo[gym]'."
    ) from error


Observation = Float[np.ndarray, " n"]
Observations = Float[np.ndarray, "envs n"]


class Environment(gymnasium.Env):
    """One episode at a time.

    Args:
        problem: What to act in; rewards and moves are those of its exact model.
        scaled: Whether actions are in [−1, 1] rather than in the problem's units.
        region_starts: Whether episodes start anywhere in the problem's region rather than at its
            own start. `reset(options={"start": state})` sets the start of one episode.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(self, problem: Problem, scaled: bool = True, region_starts: bool = False):
        self.problem, self.region_starts = problem, region_starts
        self.observation_space, self.action_space = _spaces(problem, scaled)
        self._scaled = _scaled_components(problem, scaled)
        self._steps_done = problem.horizon

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        noise_key, start_key = jax.random.split(_key(self.np_random))
        self._noise = np.asarray(draw_noise(self.problem.exact, noise_key, (self.problem.horizon,)))
        start = (options or {}).get("start")
        if start is not None:
            state = self.problem.check_start(start)
        elif self.region_starts:
            state = self.problem.starts(start_key)
        else:
            state = self.problem.initial_state
        self._state, self._steps_done = np.array(state, np.float32), 0
        return self._observed(), {}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        if self._steps_done >= self.problem.horizon:
            raise UserError("The episode is over: call `reset` before the next `step`.")
        noise = self._noise[self._steps_done]
        model = self.problem.exact.at(jnp.asarray(self._steps_done, jnp.int32))
        moved, reward, ended, broken = _step(
            model, self._scaled, self._state, np.asarray(action, np.float32), noise
        )
        self._state = np.array(moved)
        self._steps_done += 1
        truncated = self._steps_done == self.problem.horizon
        observed = self._observed()
        if bool(ended):
            self._steps_done = self.problem.horizon
        info = {"violations": int(broken)}
        return observed, float(reward), bool(ended), truncated, info

    def _observed(self) -> Observation:
        return observation(self.problem, self._state.copy(), self._steps_done)


class VectorEnvironment(VectorEnv):
    """Many episodes at once in one compiled step; each begins anew in the step after its end.

    Args:
        problem, scaled, region_starts: As for `Environment`.
        num_envs: How many episodes run side by side.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012
        "render_modes": [],
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self, problem: Problem, num_envs: int, scaled: bool = True, region_starts: bool = False
    ):
        if num_envs < 1:
            raise UserError(f"num_envs must be at least 1, got {num_envs}.")
        self.problem, self.num_envs, self.region_starts = problem, num_envs, region_starts
        self.single_observation_space, self.single_action_space = _spaces(problem, scaled)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._scaled = _scaled_components(problem, scaled)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        super().reset(seed=seed)
        self._key = _key(self.np_random)
        self._key, key = jax.random.split(self._key)
        start = (options or {}).get("start")
        if start is None:
            self._states = _starts(self.problem, key, self.num_envs, self.region_starts)
        else:
            state = self.problem.check_start(start)
            self._states = jnp.broadcast_to(state, (self.num_envs, self.problem.state_size))
        self._steps_done = np.zeros(self.num_envs, int)
        self._over = np.zeros(self.num_envs, bool)
        return observation(self.problem, np.array(self._states), self._steps_done), {}

    def step(
        self, actions: Any
    ) -> tuple[
        Observations,
        Float[np.ndarray, " envs"],
        Bool[np.ndarray, " envs"],
        Bool[np.ndarray, " envs"],
        dict[str, Any],
    ]:
        self._key, noise_key, start_key = jax.random.split(self._key, 3)
        again = self._over
        states, rewards, ended, broken = _step_all(
            self.problem, self._scaled, self._states, np.asarray(actions, np.float32), again,
            noise_key, start_key, self.region_starts, jnp.asarray(self._steps_done, jnp.int32),
        )  # fmt: skip
        self._states = states
        self._steps_done = np.where(again, 0, self._steps_done + 1)
        terminated = np.array(ended)
        truncated = self._steps_done == self.problem.horizon
        self._over = terminated | truncated
        info = {"violations": np.array(broken), "_violations": ~again}
        observed = observation(self.problem, np.array(states), self._steps_done)
        return observed, np.array(rewards, np.float64), terminated, truncated, info


def observation(
    problem: Problem, states: Float[np.ndarray, "*envs n"], steps: Any
) -> Float[np.ndarray, "*envs n_or_more"]:
    """What the agent sees: the states, and the steps taken where the model sees the time."""
    if not problem.sees_time:
        return states
    time = np.broadcast_to(np.asarray(steps, np.float32), states.shape[:-1])
    return np.concatenate([states, time[..., None]], axis=-1)


def _spaces(problem: Problem, scaled: bool) -> tuple[spaces.Box, spaces.Box]:
    bounded = _scaled_components(problem, scaled)
    high = np.where(bounded, 1.0, np.inf).astype(np.float32)
    size = problem.state_size + problem.sees_time
    observed = spaces.Box(-np.inf, np.inf, (size,), np.float32)
    return observed, spaces.Box(-high, high, dtype=np.float32)


def _scaled_components(problem: Problem, scaled: bool) -> Bool[np.ndarray, " m"]:
    """Which components of the action are given in [−1, 1]: those bounded at the own start."""
    low, high = problem.exact.at(np.int32(0)).bounds(problem.initial_state)
    return np.asarray(jnp.isfinite(low) & jnp.isfinite(high)) & scaled


def _key(random: np.random.Generator) -> Key[Array, ""]:
    return jax.random.key(int(random.integers(2**32)))


def _move(
    model: Model, scaled: Bool[Array, " m"], state: State, action: Action, noise: Noise
) -> tuple[State, Float[Array, ""], Bool[Array, ""], Int[Array, ""]]:
    """The next state, the reward, whether the episode ends and the number of broken constraints."""
    low, high = model.bounds(state)
    stretched = jnp.where(scaled, within(low, high, (action + 1) / 2), action)
    action = jnp.clip(stretched, low, high)
    moved = model.transition(state, action, noise)
    reward = model.reward(state, action, moved)
    return moved, reward, model.terminal(moved), model.violations(state, action)


# Compiled, they take NumPy's arrays as well.
_step: Callable[..., tuple[Array, Array, Array, Array]] = eqx.filter_jit(_move)


@eqx.filter_jit
def _starts(
    problem: Problem, key: Key[Array, ""], count: int, region: bool
) -> Float[Array, "envs n"]:
    if region:
        return problem.starts(key, (count,))
    return jnp.broadcast_to(problem.initial_state, (count, problem.state_size))


def _move_all(
    problem: Problem,
    scaled: Bool[Array, " m"],
    states: Float[Array, "envs n"],
    actions: Float[Array, "envs m"],
    again: Bool[Array, " envs"],
    noise_key: Key[Array, ""],
    start_key: Key[Array, ""],
    region: bool,
    times: Int[Array, " envs"],
) -> tuple[
    Float[Array, "envs n"], Float[Array, " envs"], Bool[Array, " envs"], Int[Array, " envs"]
]:
    """Moves all episodes on by a step; those that were over begin anew and earn nothing."""
    noise = draw_noise(problem.exact, noise_key, (len(states),))

    def move(time: Array, *rest: Array) -> tuple[Array, ...]:
        return _move(problem.exact.at(time), scaled, *rest)

    outcome = jax.vmap(move)(times, states, actions, noise)
    starts = _starts(problem, start_key, len(states), region)
    nothing = (starts, jnp.zeros(len(states)), jnp.zeros(len(states), bool), jnp.array(0))

    def choose(new: Array, old: Array) -> Array:
        return jnp.where(again.reshape(-1, *[1] * (old.ndim - 1)), new, old)

    return jax.tree.map(choose, nothing, outcome)


_step_all: Callable[..., tuple[Array, Array, Array, Array]] = eqx.filter_jit(_move_all)
