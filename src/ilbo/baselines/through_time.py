"""Planning by back-propagation through whole trajectories: the method of tf-mdp.

The policy climbs the gradient of the mean total reward of a batch of episodes from the problem's
own start, through every transition and reward of the horizon. Networks, input scaling, test
trajectories and sample counts are those of ILBO, so the two differ in nothing but how they learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key

from ilbo.baselines.config import ThroughTime
from ilbo.baselines.steps import not_finite, repeat
from ilbo.mdp.problem import Problem
from ilbo.mdp.shapes import Whole
from ilbo.mdp.simulate import Trial, discounted_sum, draw_noise, returns, step
from ilbo.nn.policy import Maker, Policy, plain_maker
from ilbo.planning.ascent import make_optimizer
from ilbo.planning.loop import Tell, successive, train
from ilbo.planning.planner import Planner
from ilbo.planning.records import Plan, Progress, Samples, segments
from ilbo.planning.trainer import Metrics, Trainer
from ilbo.planning.units import in_units, unit_of

Carry = tuple[Float[Array, "b n"], Bool[Array, " b"]]
"""States of a batch of episodes, and which of them go on."""


class ThroughTimeState(eqx.Module):
    """All that training carries along."""

    policy: Any
    """θ, the network of the policy."""
    optimizer: Any
    epoch: Int[Array, ""]
    fault: Int[Array, ""]
    """1 once the loss or its gradient was not finite."""
    fault_epoch: Int[Array, ""]
    key: Key[Array, ""]


def total_rewards(
    problem: Problem, policy: Policy, noise: Float[Array, "horizon b k"]
) -> Float[Array, " b"]:
    """Returns along the noise from the problem's own start, discounted as the problem says; their
    gradient recomputes each step's network."""
    model, start = problem.model, problem.initial_state

    @jax.checkpoint
    def one(
        carry: Carry, inputs: tuple[Float[Array, "b k"], Int[Array, ""]]
    ) -> tuple[Carry, Float[Array, " b"]]:
        (states, alive), (xi, time) = carry, inputs
        actions = policy(states, jnp.broadcast_to(time, alive.shape) if policy.timed else None)
        now = partial(step, model.at(time))
        moved, rewards, still = jax.vmap(now)(states, actions, xi, alive)
        return (moved, still), rewards

    starts = jnp.broadcast_to(start, (noise.shape[1], *start.shape))
    inputs = noise, jnp.arange(len(noise))
    _, rewards = jax.lax.scan(one, (starts, ~jax.vmap(model.terminal)(starts)), inputs)
    return discounted_sum(problem, rewards.T)


class ThroughTimeTrainer(Trainer):
    """Back-propagation through whole trajectories on one problem."""

    problem: Problem
    config: ThroughTime = eqx.field(static=True)
    total_epochs: Float[Array, ""]
    """Epochs of the whole run, which the learning rate decays over."""
    every: int = eqx.field(static=True)
    unit: float = eqx.field(static=True)
    """What rewards are divided by in training: 1 unless they are of an unusual size."""

    @classmethod
    def of(cls, problem: Problem, config: ThroughTime) -> ThroughTimeTrainer:
        return cls(
            problem=problem,
            config=config,
            total_epochs=jnp.array(float(config.epochs)),
            every=config.evaluate_every * config.batch,
            unit=unit_of(problem),
        )

    def lasting(self, episodes: float) -> ThroughTimeTrainer:
        epochs = jnp.array(episodes / self.config.batch, jnp.float32)
        return eqx.tree_at(lambda trainer: trainer.total_epochs, self, epochs)

    def init(self, key: Key[Array, ""]) -> tuple[ThroughTimeState, Any]:
        key_policy, key = jax.random.split(key)
        policy = Policy.init(key_policy, self.problem, self.maker).network
        zero = jnp.array(0)
        optimizer = self.optimizer(1.0).init(policy)
        return ThroughTimeState(policy, optimizer, zero, zero, zero, key), policy

    @property
    def maker(self) -> Maker:
        return plain_maker(self.config.layers, self.problem)

    def optimizer(self, rate: float | Float[Array, ""]) -> optax.GradientTransformation:
        return make_optimizer(self.config.optimizer, rate)

    def loss(
        self, network: Any, noise: Float[Array, "horizon batch k"]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The loss of a batch and its mean total reward."""
        problem = in_units(self.problem, self.unit)
        totals = total_rewards(problem, self.policy(network), noise)
        mean = jnp.mean(totals)
        return (-mean if self.config.loss == "linear" else jnp.mean(totals**2)), mean

    def epoch(self, state: ThroughTimeState) -> tuple[ThroughTimeState, Metrics]:
        config, problem = self.config, self.problem
        key, noise_key = jax.random.split(state.key)
        noise = draw_noise(problem.model, noise_key, (problem.horizon, config.batch))
        (_, mean), gradient = jax.value_and_grad(self.loss, has_aux=True)(state.policy, noise)
        norm = jnp.sqrt(sum(jnp.sum(part**2) for part in jax.tree.leaves(gradient)))
        good = (state.fault == 0) & jnp.isfinite(mean) & jnp.isfinite(norm)
        decay = 1 - (1 - config.final_rate) * jnp.clip(state.epoch / self.total_epochs, 0.0, 1.0)
        updates, optimizer = self.optimizer(config.rate * decay).update(gradient, state.optimizer)

        def keep(new: Any, old: Any) -> Any:
            return jax.tree.map(lambda a, b: jnp.where(good, a, b), new, old)

        first = (state.fault == 0) & ~good
        return ThroughTimeState(
            policy=keep(optax.apply_updates(state.policy, updates), state.policy),
            optimizer=keep(optimizer, state.optimizer),
            epoch=state.epoch + 1,
            fault=jnp.where(good, 0, 1),
            fault_epoch=jnp.where(first, state.epoch, state.fault_epoch),
            key=key,
        ), Metrics(jnp.array(jnp.nan), mean, norm, jnp.array(jnp.nan))

    def segment(
        self, state: ThroughTimeState, most: int, episodes: Int[Array, ""]
    ) -> tuple[ThroughTimeState, Metrics]:
        return repeat(self.epoch, state, episodes // self.config.batch, self.unit)

    def select(
        self, state: ThroughTimeState, held: Any, test: Trial
    ) -> tuple[ThroughTimeState, Any, Float[Array, ""]]:
        """The newest policy is selected; after a fault that is the last good one."""
        policy = state.policy
        return state, policy, jnp.mean(returns(self.problem, self.policy(policy), test))

    def policy(self, parameters: Any) -> Policy:
        network = jax.tree.map(jnp.asarray, parameters)
        return Policy.with_network(network, self.problem, self.maker)

    def fault(self, state: ThroughTimeState) -> str | None:
        return not_finite(self.problem, state.fault, "epoch", state.fault_epoch)

    def samples(self, episodes: int) -> Samples:
        horizon, config = self.problem.horizon, self.config
        tests = len(segments(episodes, self.every))
        return Samples(
            episodes=episodes,
            transitions=episodes * horizon,
            model_evaluations=0,
            random_draws=episodes * horizon,
            gradient_steps=episodes // config.batch,
            test_transitions=tests * config.test_episodes * horizon,
        )


def plan_through_time(
    problem: Problem,
    config: ThroughTime | None = None,
    *,
    seed: Whole = 0,
    seeds: Whole | Sequence[Whole] | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Trains a deep reactive policy by back-propagation through whole trajectories.

    Args:
        problem: What to plan for.
        config: Settings; the defaults, tf-mdp's own, if None.
        seed: Seed of the run, or of the first of several.
        seeds: How many runs, with seeds `seed`, `seed` + 1, ...; or their seeds.
        progress: Called with each test's `Record` as training goes on.

    In the records, `bound` is the mean return of the training batches; there is no critic.
    """
    config = config or ThroughTime()
    trainer = ThroughTimeTrainer.of(problem, config)
    planner = Planner(trainer, successive(seed, seeds), config.episodes)
    return train(planner, [Tell(progress)] if progress else [])
