"""The policy and the critic of a problem, from their parameters."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from ilbo.mdp.problem import Problem
from ilbo.mdp.widened import Widened
from ilbo.nn.components import Components
from ilbo.nn.critic import Critic, SharedCriticNetwork
from ilbo.nn.parameters import Parameters, pack
from ilbo.nn.policy import Layers, Maker, Policy
from ilbo.nn.shared import SharedLayers
from ilbo.nn.timed import TimedLayers
from ilbo.planning.config import ILBO
from ilbo.planning.numbers import Numbers
from ilbo.planning.sharing import settle
from ilbo.planning.store import Transition
from ilbo.planning.units import InUnits

LINEAR = 500.0
"""Size up to which a value is nearly the critic's output, in units of the reward scale."""


def reaching(z: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """c sinh(z / c) of a critic's output z.

    Weights move by a learning rate a step at the most, so that z stays within some thousand in a
    usual run, while values that differ by orders of magnitude, such as those of −1 / s, go beyond.
    """
    return LINEAR * jnp.sinh(z / LINEAR)


def policy_maker(problem: Problem, config: ILBO) -> Maker:
    """What makes the policy's network."""
    if callable(config.policy):
        return config.policy
    if config.shares:
        whole = None if config.policy == "shared" else config.layers
        return SharedLayers(config.shared_layers, whole)
    if config.sees_time:
        return TimedLayers(config.layers, problem.horizon)
    return Layers(config.layers)


def blank_policy(problem: Problem, config: ILBO) -> Policy:
    """A policy of zeros as the settings want it."""
    config, components = settle(problem, config)
    return Policy.blank(problem, policy_maker(problem, config), components)


class Networks(eqx.Module):
    """Both networks as the settings want them."""

    problem: Problem
    config: ILBO = eqx.field(static=True)
    numbers: Numbers
    components: Components | None = None
    seen: Problem | None = None
    """The problem in the state that the policy sees, where that is a part of the state only."""

    def init(
        self, policy_key: Key[Array, ""], critic_key: Key[Array, ""]
    ) -> tuple[Parameters, Parameters]:
        """Fresh parameters θ and ψ."""
        policy = Policy.init(policy_key, self.of_policy, self.maker, self.components)
        critic = Critic.init(critic_key, self.problem, *self._for_critic)
        return pack(policy.network), pack(critic.network)

    def policy(self, theta: Parameters) -> Policy:
        return Policy.of(theta, self.of_policy, self.maker, self.components)

    @property
    def of_policy(self) -> Problem:
        """The problem as the policy sees it."""
        return self.problem if self.seen is None else self.seen

    def sight(self, state: Float[Array, "*b n"]) -> Float[Array, "*b sees"]:
        """What the policy sees of a state."""
        return state if self.seen is None else state[..., : self.seen.state_size]

    def act(
        self, policy: Policy, state: Float[Array, "*b n"], steps_left: Int[Array, "*b"]
    ) -> Float[Array, "*b m"]:
        """The policy's action with so many steps left."""
        time = self.problem.horizon - steps_left if policy.timed else None
        return policy(self.sight(state), time)

    def time(self, steps_left: Int[Array, "*b"]) -> Int[Array, "*b"]:
        """Steps taken so far, with so many left; the last one's where none is left."""
        return jnp.minimum(self.problem.horizon - steps_left, self.problem.horizon - 1)

    @property
    def maker(self) -> Maker:
        return policy_maker(self.problem, self.config)

    def current(self, batch: Transition, key: Key[Array, ""], count: Int[Array, ""]) -> Transition:
        """Stored transitions as they would be stored now (`Widened.relabelled`)."""
        wide = self.wide
        if wide is None:
            return batch
        time = self.problem.horizon - batch.steps_left
        key = jax.random.fold_in(key, count)
        states, following = wide.relabelled(batch.state, batch.next_state, time, key)
        return eqx.tree_at(lambda b: (b.state, b.next_state), batch, (states, following))

    def recharged(self, batch: Transition, key: Key[Array, ""] | None) -> Transition:
        """Stored transitions at what costs are charged now, with as much broken as is usual, or
        where a key is given with anything broken."""
        wide, model = self.wide, self.problem.model
        if wide is None or wide.charges is None:
            return batch
        time = self.time(batch.steps_left)
        states = wide.rebroken(batch.state, time, key)

        def again(s: Array, a: Array, moved: Array, time: Array) -> tuple[Array, Array]:
            now = wide.at(time)
            assert isinstance(now, Widened)
            return now.rejoined(s, a, moved), model.at(time).reward(s, a, moved)

        following, rewards = jax.vmap(again)(states, batch.action, batch.next_state, time)
        rewards = jnp.where(batch.steps_left > 0, rewards, batch.reward)
        return eqx.tree_at(
            lambda b: (b.state, b.next_state, b.reward), batch, (states, following, rewards)
        )

    @property
    def wide(self) -> Widened | None:
        """The wider model beyond the mean; None where that is all."""
        model = self.problem.model
        model = model.model if isinstance(model, InUnits) else model
        return model if isinstance(model, Widened) else None

    @property
    def worth(self) -> Callable[..., Array] | None:
        """What an episode is worth, for `Point`; None where it is what it earns."""
        wide, model = self.wide, self.problem.model
        if wide is None or wide.objective is None:
            return None
        unit = model.unit if isinstance(model, InUnits) else 1.0
        horizon = self.problem.horizon

        def worth(state: Array, gained: Array, left: Array, later: Array) -> Array:
            return wide.worth(state, gained, horizon - left, horizon - later, unit)

        return worth

    def critic(self, psi: Parameters) -> Critic:
        return Critic.of(psi, self.problem, *self._for_critic)

    @property
    def _for_critic(self) -> tuple[tuple[int, ...], Components | None]:
        """The hidden layers of the critic, and the components that it shares them between."""
        if self.config.shared_critic and self.components is not None:
            return self.config.shared_layers, self.components
        return self.config.layers, None

    @property
    def timed(self) -> bool:
        """Whether the critic sees the time left."""
        return self.config.critic == "time-left"

    def value(
        self,
        critic: Critic,
        state: Float[Array, "*b n"],
        action: Float[Array, "*b m"],
        steps_left: Int[Array, "*b"],
    ) -> Float[Array, "*b"]:
        """Q_ψ(s, a) in units of the reward scale, 0 where no step is left; a stationary critic, the
        paper's, is linear in its last weights."""
        if not self.timed:
            return critic(state, action, jnp.zeros(jnp.shape(steps_left)))
        z = critic(state, action, steps_left / self.problem.horizon, self.time(steps_left))
        q = z if isinstance(critic.network, SharedCriticNetwork) else reaching(z)
        return jnp.where(steps_left > 0, q, 0.0)
