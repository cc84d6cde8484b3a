"""Short-horizon actor-critic (SHAC): back-propagation through short windows, a critic behind them.

Episodes run side by side. Each update goes on with them for h steps, and the policy climbs the
gradient of what they earn on the way and of V(s) where they then are,

    J = mean_i [ Σ_{t < h} γ^t r_t + γ^h V'(s_h) ],

through every transition and reward of the window. An episode that ends within it begins anew, and
counts without V'. V is then fitted to the TD(λ) returns of the window, and V' follows it slowly.
Networks, input scaling and test trajectories are those of ILBO. The policy acts with Gaussian noise
of a learnt size, before the curve into the bounds; what is tested and returned acts without.

After Xu et al., Accelerated Policy Learning with Parallel Differentiable Simulation, ICLR 2022.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key

from ilbo.baselines.config import SHAC
from ilbo.baselines.steps import not_finite, repeat
from ilbo.mdp import sampling
from ilbo.mdp.bounds import into_bounds
from ilbo.mdp.problem import Problem
from ilbo.mdp.shapes import Whole
from ilbo.mdp.simulate import Trial, draw_noise, returns
from ilbo.nn.mlp import MLP
from ilbo.nn.policy import Maker, Policy, Scaling, plain_maker
from ilbo.planning.acting import reward_scale
from ilbo.planning.ascent import climb
from ilbo.planning.loop import Tell, successive, train
from ilbo.planning.planner import Planner
from ilbo.planning.records import Plan, Progress, Samples, segments
from ilbo.planning.state import Episodes
from ilbo.planning.trainer import Metrics, Trainer
from ilbo.planning.units import PROBES, in_units, unit_of

FIRST_SPREAD = 0.5
"""Standard deviation of the exploration at first, before the curve into the bounds."""


class Actor(eqx.Module):
    """What the policy learns: its network, and the logarithm of its exploration."""

    network: Any
    log_spread: Float[Array, " m"]


class Learning(NamedTuple):
    """A network that learns, and its optimiser's state."""

    network: Any
    optimizer: Any
    norm: Float[Array, ""]
    """Running mean length of its gradients."""


class SHACState(eqx.Module):
    """All that training carries along."""

    actor: Learning
    critic: Learning
    slow_critic: MLP
    """V'."""
    episodes: Episodes
    update: Int[Array, ""]
    fault: Int[Array, ""]
    """1 once the objective or its gradient was not finite."""
    fault_update: Int[Array, ""]
    reward_scale: Float[Array, ""]
    """What rewards are divided by for the critic."""
    key: Key[Array, ""]


class Window(NamedTuple):
    """What the episodes did; leading axes [window, parallel]."""

    state: Float[Array, "h p n"]
    steps_left: Int[Array, "h p"]
    reward: Float[Array, "h p"]
    next_state: Float[Array, "h p n"]
    over: Bool[Array, "h p"]
    """Whether the step was the last of its episode."""


class SHACTrainer(Trainer):
    """Short-horizon actor-critic on one problem."""

    problem: Problem
    config: SHAC = eqx.field(static=True)
    total_updates: Float[Array, ""]
    """Updates of the whole run, which the learning rates decay over."""
    every: int = eqx.field(static=True)
    unit: float = eqx.field(static=True)
    """What rewards are divided by in training: 1 unless they are of an unusual size."""

    @classmethod
    def of(cls, problem: Problem, config: SHAC) -> SHACTrainer:
        trainer = cls(
            problem=problem,
            config=config,
            total_updates=jnp.zeros(()),
            every=config.evaluate_every,
            unit=unit_of(problem),
        )
        return trainer.lasting(config.episodes)

    def lasting(self, episodes: float) -> SHACTrainer:
        updates = jnp.array(self.updates(episodes), jnp.float32)
        return eqx.tree_at(lambda trainer: trainer.total_updates, self, updates)

    def updates(self, episodes: Any) -> Any:
        """Windows for so many episodes, a number or an array."""
        steps = self.config.parallel * self.config.window
        return -(-episodes * self.problem.horizon // steps)

    @property
    def maker(self) -> Maker:
        return plain_maker(self.config.layers, self.problem)

    def optimizer(self, rate: float | Float[Array, ""]) -> optax.GradientTransformation:
        return optax.adam(rate, b1=0.7, b2=0.95, eps=1e-15)

    def init(self, key: Key[Array, ""]) -> tuple[SHACState, Any]:
        policy_key, critic_key, scale_key, key = jax.random.split(key, 4)
        problem, config = self.problem, self.config
        network = Policy.init(policy_key, problem, self.maker).network
        spread = jnp.full(problem.action_size, jnp.log(FIRST_SPREAD), jnp.float32)
        critic = MLP.init(critic_key, problem.state_size + 1, config.layers, 1, gain=0.1)
        zero = jnp.array(0)

        def learning(network: Any) -> Learning:
            return Learning(network, self.optimizer(1.0).init(network), jnp.zeros(()))

        starts = jnp.broadcast_to(problem.initial_state, (config.parallel, problem.state_size))
        state = SHACState(
            actor=learning(Actor(network, spread)),
            critic=learning(critic),
            slow_critic=jax.tree.map(jnp.copy, critic),
            episodes=Episodes(starts, jnp.full(config.parallel, problem.horizon, jnp.int32)),
            update=zero,
            fault=zero,
            fault_update=zero,
            reward_scale=reward_scale(problem, self.unit, scale_key),
            key=key,
        )
        return state, network

    def value(
        self, critic: MLP, state: Float[Array, "*b n"], steps_left: Int[Array, "*b"]
    ) -> Float[Array, "*b"]:
        """V(s) with so many steps left, in units of the reward scale; 0 where none is left."""
        left = 2 * (steps_left / self.problem.horizon) - 1
        seen = jnp.concatenate([Scaling.of(self.problem)(state), left[..., None]], axis=-1)
        return jnp.where(steps_left > 0, critic(seen.astype(jnp.float32))[..., 0], 0.0)

    def act(
        self, actor: Actor, state: Float[Array, "p n"], time: Int[Array, " p"], normal: Array
    ) -> Float[Array, "p m"]:
        """Actions with exploration."""
        policy = self.policy(actor.network)
        x = policy.network(policy.inputs(state, time)) + jnp.exp(actor.log_spread) * normal
        return into_bounds(x, *policy.bounds(state, time))

    def roll(
        self, actor: Actor, episodes: Episodes, noise: Array, normal: Array
    ) -> tuple[Episodes, Window]:
        """Goes on with the episodes along noise [h, p, k] and exploration [h, p, m]."""
        problem = in_units(self.problem, self.unit)
        start, horizon = problem.initial_state, problem.horizon

        @jax.checkpoint
        def one(episodes: Episodes, inputs: tuple[Array, Array]) -> tuple[Episodes, Window]:
            (xi, normal), state, left = inputs, episodes.state, episodes.steps_left
            actions = self.act(actor, state, horizon - left, normal)

            def step(s: Array, a: Array, xi: Array, left: Array) -> tuple[Array, Array, Array]:
                now = problem.model.at(horizon - left)
                moved = now.transition(s, a, xi).astype(s.dtype)
                return moved, now.reward(s, a, moved), now.terminal(moved)

            moved, reward, ended = jax.vmap(step)(state, actions, xi, left)
            over = ended | (left <= 1)
            following = Episodes(
                jnp.where(over[:, None], start, moved), jnp.where(over, horizon, left - 1)
            )
            return following, Window(state, left, reward, moved, over)

        return jax.lax.scan(one, episodes, (noise, normal))

    def objective(
        self, actor: Actor, state: SHACState, noise: Array, normal: Array
    ) -> tuple[Float[Array, ""], tuple[Episodes, Window]]:
        """J of a window, each reward weighted by γ to the steps of its episode before it."""
        following, window = self.roll(actor, state.episodes, noise, normal)
        discount, horizon = self.problem.discount, self.problem.horizon
        earned = jnp.sum(discount ** (horizon - window.steps_left) * window.reward, axis=0)
        left = window.steps_left[-1] - 1
        value = state.reward_scale * self.value(state.slow_critic, window.next_state[-1], left)
        ahead = jnp.where(window.over[-1], 0.0, discount ** (horizon - left) * value)
        return jnp.mean(earned + ahead), (following, window)

    def targets(self, state: SHACState, window: Window) -> Float[Array, "h p"]:
        """TD(λ) returns in units of the reward scale: G_t = r_t + γ ((1 − λ) V'_{t+1} + λ G_{t+1}),
        with V' in the place of G behind the window, and r_t alone where the episode is over."""
        discount, share = self.problem.discount, self.config.td_lambda
        values = self.value(state.slow_critic, window.next_state, window.steps_left - 1)

        def back(following: Array, step: tuple[Array, Array, Array]) -> tuple[Array, Array]:
            reward, value, over = step
            ahead = discount * ((1 - share) * value + share * following)
            found = reward + jnp.where(over, 0.0, ahead)
            return found, found

        steps = window.reward / state.reward_scale, values, window.over
        return jax.lax.scan(back, values[-1], steps, reverse=True)[1]

    def fit(
        self, state: SHACState, window: Window, rate: Array, allowed: Array, key: Key[Array, ""]
    ) -> tuple[Learning, Array, Array]:
        """The critic after several passes over the window; its mean loss and gradient length."""
        config, targets = self.config, self.targets(state, window)
        rows = [x.reshape(-1, *x.shape[2:]) for x in (window.state, window.steps_left, targets)]
        count = len(rows[0])
        size = count // config.critic_batches

        def order(key: Key[Array, ""]) -> Int[Array, "batches size"]:
            return jax.random.permutation(key, count)[: config.critic_batches * size].reshape(
                -1, size
            )

        batches = jax.vmap(order)(jax.random.split(key, config.critic_passes)).reshape(-1, size)

        def step(critic: Learning, index: Array) -> tuple[Learning, tuple[Array, Array]]:
            states, left, wanted = (x[index] for x in rows)

            def loss(network: MLP) -> Array:
                return jnp.mean((self.value(network, states, left) - wanted) ** 2)

            value, gradient = jax.value_and_grad(loss)(critic.network)
            network, optimizer, mean, norm = climb(
                self.optimizer(-rate), critic.network, gradient, critic.optimizer, critic.norm,
                config.clip, allowed,
            )  # fmt: skip
            return Learning(network, optimizer, mean), (value, norm)

        critic, (losses, norms) = jax.lax.scan(step, state.critic, batches)
        return critic, jnp.mean(losses), jnp.mean(norms)

    def update(self, state: SHACState) -> tuple[SHACState, Metrics]:
        """One window: the policy's step, the critic's, and the slow critic's."""
        config, problem = self.config, self.problem
        key, noise_key, normal_key, order_key = jax.random.split(state.key, 4)
        shape = config.window, config.parallel
        noise = draw_noise(problem.model, noise_key, shape)
        normal = sampling.normal(normal_key, (*shape, problem.action_size))
        objective = jax.value_and_grad(self.objective, has_aux=True)
        (value, (episodes, window)), gradient = objective(state.actor.network, state, noise, normal)
        allowed = (state.fault == 0) & jnp.isfinite(value)
        gone = jnp.clip(state.update / self.total_updates, 0.0, 1.0)
        decay = 1 - (1 - config.final_rate) * gone
        network, optimizer, mean_norm, norm = climb(
            self.optimizer(config.policy_rate * decay), state.actor.network, gradient,
            state.actor.optimizer, state.actor.norm, config.clip, allowed,
        )  # fmt: skip
        good = allowed & jnp.isfinite(norm)
        critic, loss, critic_norm = self.fit(
            state, window, config.critic_rate * decay, good, order_key
        )

        def closer(slow: Array, fast: Array) -> Array:
            return slow + config.target_rate * (fast - slow)

        first = (state.fault == 0) & ~good
        return SHACState(
            actor=Learning(network, optimizer, mean_norm),
            critic=critic,
            slow_critic=jax.tree.map(closer, state.slow_critic, critic.network),
            episodes=jax.tree.map(lambda a, b: jnp.where(good, a, b), episodes, state.episodes),
            update=state.update + 1,
            fault=jnp.where(good, 0, 1),
            fault_update=jnp.where(first, state.update, state.fault_update),
            reward_scale=state.reward_scale,
            key=key,
        ), Metrics(loss, value, norm, critic_norm)

    def segment(
        self, state: SHACState, most: int, episodes: Int[Array, ""]
    ) -> tuple[SHACState, Metrics]:
        return repeat(self.update, state, self.updates(episodes), self.unit)

    def select(
        self, state: SHACState, held: Any, test: Trial
    ) -> tuple[SHACState, Any, Float[Array, ""]]:
        """The newest policy is selected; after a fault that is the last good one."""
        network = state.actor.network.network
        return state, network, jnp.mean(returns(self.problem, self.policy(network), test))

    def policy(self, parameters: Any) -> Policy:
        return Policy.with_network(jax.tree.map(jnp.asarray, parameters), self.problem, self.maker)

    def fault(self, state: SHACState) -> str | None:
        return not_finite(self.problem, state.fault, "window", state.fault_update)

    def samples(self, episodes: int) -> Samples:
        config, parts = self.config, segments(episodes, self.every)
        updates = sum(self.updates(part) for part in parts)
        transitions = updates * config.parallel * config.window
        return Samples(
            episodes=episodes,
            transitions=transitions,
            model_evaluations=PROBES,
            random_draws=transitions + PROBES,
            gradient_steps=updates * (1 + config.critic_passes * config.critic_batches),
            test_transitions=len(parts) * config.test_episodes * self.problem.horizon,
        )


def plan_shac(
    problem: Problem,
    config: SHAC | None = None,
    *,
    seed: Whole = 0,
    seeds: Whole | Sequence[Whole] | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Trains a deep reactive policy by short-horizon actor-critic.

    The arguments are those of `plan_through_time`. In the records, `bound` is the mean of what the
    windows earn and of the critic behind them.
    """
    config = config or SHAC()
    planner = Planner(SHACTrainer.of(problem, config), successive(seed, seeds), config.episodes)
    return train(planner, [Tell(progress)] if progress else [])
