"""Planning by back-propagation through whole trajectories: the method of tf-mdp.

The policy climbs the gradient of the mean total reward of a batch of episodes from the problem's
own start, through every transition and reward of the horizon. Networks, input scaling, test
trajectories and sample counts are those of ILBO, so the two differ in nothing but how they learn.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key

from ilbo.baselines.config import ThroughTime
from ilbo.errors import UserError
from ilbo.model import Model, Problem
from ilbo.networks import Policy, Scaling
from ilbo.planner import (
    Plan,
    Progress,
    Record,
    Samples,
    compile_time,
    make_plan,
    mean_test_return,
)
from ilbo.rollout import draw_noise


class State(eqx.Module):
    """All that training carries along."""

    policy: Any
    """θ, the network of the policy."""
    optimizer: Any
    epoch: Int[Array, ""]
    fault: Int[Array, ""]
    """1 once the loss or its gradient was not finite."""
    fault_epoch: Int[Array, ""]
    key: Key[Array, ""]


class Run(eqx.Module):
    """One training run between two segments."""

    state: State
    best_policy: Any
    """Network of the best tested policy so far."""
    best: Float[Array, ""]
    """Its mean return on the test trajectories."""


class Metrics(NamedTuple):
    """Means over a segment of training."""

    batch_return: Array
    """Mean return of the training batches."""
    gradient: Array
    """Length of its gradient in θ."""


def total_rewards(
    model: Model, policy: Policy, noise: Float[Array, "horizon b k"], start: Float[Array, " n"]
) -> Float[Array, " b"]:
    """Undiscounted returns along the noise; their gradient recomputes each step's network."""

    @jax.checkpoint
    def step(carry, xi):
        states, alive = carry
        actions = policy(states)
        moved = jax.vmap(model.transition)(states, actions, xi)
        rewards = jnp.where(alive, jax.vmap(model.reward)(states, actions, moved), 0.0)
        moved = jnp.where(alive[:, None], moved, states)
        return (moved, alive & ~jax.vmap(model.terminal)(moved)), rewards

    starts = jnp.broadcast_to(start, (noise.shape[1], *start.shape))
    _, rewards = jax.lax.scan(step, (starts, ~jax.vmap(model.terminal)(starts)), noise)
    return jnp.sum(rewards, axis=0)


class Trainer(eqx.Module):
    """Through-time training on one problem: `init` makes a state, `segment` trains it."""

    problem: Problem
    config: ThroughTime = eqx.field(static=True)
    total_epochs: Float[Array, ""]
    """Epochs of the whole run, which the learning rate decays over."""

    def init(self, key: Key[Array, ""]) -> State:
        key_policy, key = jax.random.split(key)
        policy = Policy.init(key_policy, self.problem, self.config.layers).network
        zero = jnp.array(0)
        return State(policy, self.optimizer(1.0).init(policy), zero, zero, zero, key)

    def optimizer(self, rate) -> optax.GradientTransformation:
        # Gradients come in the reward's units, so epsilon must not set a scale of its own.
        if self.config.optimizer == "adam":
            return optax.adam(rate, eps=1e-15)
        return optax.rmsprop(rate, decay=0.9, eps=1e-15)

    def loss(self, network, noise: Float[Array, "horizon batch k"]):
        """The loss of a batch and its mean total reward."""
        problem = self.problem
        totals = total_rewards(problem.model, self.policy(network), noise, problem.initial_state)
        mean = jnp.mean(totals)
        return (-mean if self.config.loss == "linear" else jnp.mean(totals**2)), mean

    def epoch(self, state: State) -> tuple[State, Metrics]:
        config, problem = self.config, self.problem
        key, noise_key = jax.random.split(state.key)
        noise = draw_noise(problem.model, noise_key, (problem.horizon, config.batch))
        (_, mean), gradient = jax.value_and_grad(self.loss, has_aux=True)(state.policy, noise)
        norm = jnp.sqrt(sum(jnp.sum(part**2) for part in jax.tree.leaves(gradient)))
        good = (state.fault == 0) & jnp.isfinite(mean) & jnp.isfinite(norm)
        decay = 1 - (1 - config.final_rate) * jnp.clip(state.epoch / self.total_epochs, 0.0, 1.0)
        updates, optimizer = self.optimizer(config.rate * decay).update(gradient, state.optimizer)

        def keep(new, old):
            return jax.tree.map(lambda a, b: jnp.where(good, a, b), new, old)

        first = (state.fault == 0) & ~good
        return State(
            policy=keep(optax.apply_updates(state.policy, updates), state.policy),
            optimizer=keep(optimizer, state.optimizer),
            epoch=state.epoch + 1,
            fault=jnp.where(good, 0, 1),
            fault_epoch=jnp.where(first, state.epoch, state.fault_epoch),
            key=key,
        ), Metrics(mean, norm)

    def segment(self, state: State, epochs: int) -> tuple[State, Metrics]:
        """Trains for a number of epochs."""
        state, metrics = jax.lax.scan(lambda s, _: self.epoch(s), state, length=epochs)
        return state, jax.tree.map(jnp.mean, metrics)

    def policy(self, network) -> Policy:
        return Policy(network, Scaling.of(self.problem), self.problem.model)


@eqx.filter_jit
def _start(trainer: Trainer, seed: Array) -> Run:
    state = trainer.init(jax.random.key(seed))
    worst = jnp.full((), -jnp.inf, jnp.float32)
    return Run(state, jax.tree.map(jnp.copy, state.policy), worst)


def _advance(trainer: Trainer, run: Run, epochs: int) -> tuple[Run, Metrics, Array]:
    """Trains for a segment, tests the policy and keeps the better of it and the best."""
    state, metrics = trainer.segment(run.state, epochs)
    policy = trainer.policy(state.policy)
    current = mean_test_return(trainer.problem, policy, trainer.config.test_episodes)
    better = current > run.best
    best_policy = jax.tree.map(
        lambda old, new: jnp.where(better, new, old), run.best_policy, state.policy
    )
    return Run(state, best_policy, jnp.maximum(run.best, current)), metrics, current


_advance_one = eqx.filter_jit(donate="all-except-first")(_advance)


@eqx.filter_jit(donate="all-except-first")
def _advance_many(trainer: Trainer, runs: Run, epochs: int):
    return eqx.filter_vmap(_advance, in_axes=(None, eqx.if_array(0), None))(trainer, runs, epochs)


class ThroughTimePlanner:
    """Steps training on, segment by segment, with the interface of `ilbo.Planner`.

    On a CPU each seed is its own call of one program; on accelerators all seeds run in one
    vectorised program.
    """

    def __init__(
        self,
        problem: Problem,
        config: ThroughTime,
        seeds: Sequence[int],
        vectorise: bool | None = None,
    ):
        self.problem, self.config, self.seeds = problem, config, tuple(seeds)
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise UserError(f"Seeds must be different whole numbers, got {list(self.seeds)}.")
        self.episodes = config.episodes
        self.trainer = Trainer(problem, config, jnp.array(float(config.epochs)))
        self.vectorise = jax.default_backend() != "cpu" if vectorise is None else vectorise

    @property
    def segments(self) -> list[int]:
        """Episodes of each segment between two tests."""
        full, rest = divmod(self.config.epochs, self.config.evaluate_every)
        epochs = [self.config.evaluate_every] * full + [rest] * bool(rest)
        return [count * self.config.batch for count in epochs]

    def start(self) -> list[Run] | Run:
        """The runs before training: a list, or one stacked run where vectorised."""
        seeds = jnp.array(self.seeds, jnp.uint32)
        if self.vectorise:
            return eqx.filter_vmap(_start, in_axes=(None, 0))(self.trainer, seeds)
        return [_start(self.trainer, seed) for seed in seeds]

    def advance(self, runs: list[Run] | Run, episodes: int):
        """Trains all runs for a segment; returns them and metrics, current, best as [seeds]."""
        epochs = episodes // self.config.batch
        if isinstance(runs, Run):
            stacked, metrics, current = _advance_many(self.trainer, runs, epochs)
            return stacked, metrics, current, stacked.best
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(lambda run: _advance_one(self.trainer, run, epochs), runs))
        advanced, metrics, current = map(list, zip(*results, strict=True))
        metrics = jax.tree.map(lambda *x: np.stack(x), *metrics)
        return advanced, metrics, np.stack(current), np.stack([run.best for run in advanced])

    def split(self, runs: list[Run] | Run) -> Iterator[Run]:
        """One run after another."""
        if isinstance(runs, Run):
            for i in range(len(self.seeds)):
                yield jax.tree.map(lambda x, i=i: x[i], runs)
        else:
            yield from runs

    def final(self, run: Run):
        """Network of the policy that a run would hand out now."""
        return run.state.policy

    def policy(self, network) -> Policy:
        return self.trainer.policy(network)

    def fault(self, run: Run) -> str | None:
        if int(run.state.fault) == 0:
            return None
        return (
            f"The return or its gradient is not finite at epoch {int(run.state.fault_epoch)} of "
            f"{self.problem.name}: training stopped and the last good policy is kept."
        )

    def samples(self, episodes: int) -> Samples:
        """What each run has consumed after this many episodes."""
        horizon, epochs = self.problem.horizon, episodes // self.config.batch
        tests = -(-epochs // self.config.evaluate_every)
        return Samples(
            episodes=episodes,
            transitions=episodes * horizon,
            model_evaluations=0,
            random_draws=episodes * horizon,
            gradient_steps=epochs,
            test_transitions=tests * self.config.test_episodes * horizon,
        )


def plan_through_time(
    problem: Problem,
    config: ThroughTime | None = None,
    *,
    seed: int = 0,
    seeds: int | Sequence[int] | None = None,
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
    seeds = range(seed, seed + (seeds or 1)) if seeds is None or isinstance(seeds, int) else seeds
    planner = ThroughTimePlanner(problem, config or ThroughTime(), tuple(seeds))
    began = time.perf_counter()
    runs = planner.start()
    history: list[list[Record]] = [[] for _ in planner.seeds]
    done, times = 0, []
    for segment in planner.segments:
        before = time.perf_counter()
        runs, metrics, current, best = planner.advance(runs, segment)
        done += segment
        seconds = time.perf_counter() - began
        times.append((segment, time.perf_counter() - before))
        for i, past in enumerate(history):
            record = Record(
                seed=planner.seeds[i],
                episode=done,
                current=float(current[i]),
                best=float(best[i]),
                critic_loss=math.nan,
                bound=float(metrics.batch_return[i]),
                policy_gradient=float(metrics.gradient[i]),
                critic_gradient=math.nan,
                seconds=seconds,
            )
            past.append(record)
            if progress:
                progress(record)
        if any(planner.fault(run) for run in planner.split(runs)):
            break
    return make_plan(planner, runs, history, done, time.perf_counter() - began, compile_time(times))
