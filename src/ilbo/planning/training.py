"""ILBO training: act, step, store, critic update, gradient of the bound, targets; one program."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key

from ilbo.mdp import sampling
from ilbo.mdp.bounds import within
from ilbo.mdp.problem import Problem
from ilbo.mdp.simulate import Trial, draw_noise, returns
from ilbo.nn.critic import Critic
from ilbo.nn.frozen import frozen_critic, frozen_policy
from ilbo.nn.layers import Packed, pack
from ilbo.nn.policy import Policy
from ilbo.planning import bound
from ilbo.planning.ascent import climb, make_optimizer
from ilbo.planning.config import ILBO
from ilbo.planning.preference import prefer, remember
from ilbo.planning.state import Draws, Episodes, Metrics, Slow, State
from ilbo.planning.store import Store, Transition

SCALE_PROBES = 256
"""Transitions at the start that set the reward's scale."""
REWARD_UNIT = 50.0
"""Root mean square of the rewards that the critic sees at the start."""
SMALLEST_STORE = 1 << 17
ADAM_MEMORY = 0.97
"""Of the gradients' sizes: this earned more on reservoir-20 and hvac-6 than the usual 0.999."""


class Trainer(eqx.Module):
    """ILBO on one problem: `init` makes a state, `segment` trains it for a number of steps."""

    problem: Problem
    config: ILBO = eqx.field(static=True)
    total_steps: Float[Array, ""]
    """Steps of the whole run, which learning rates and exploration decay over."""
    capacity: int = eqx.field(static=True)
    """Transitions that the store holds."""

    @classmethod
    def of(cls, problem: Problem, config: ILBO, episodes: int) -> Trainer:
        steps = -(-episodes * problem.horizon // config.parallel)
        # A few sizes of store serve all lengths of run, so that few programs are compiled.
        enough = max(SMALLEST_STORE, 1 << (steps * config.parallel - 1).bit_length())
        capacity = min(config.critic_store, enough)
        capacity += -capacity % config.parallel
        return cls(problem, config, jnp.array(float(steps)), capacity)

    def init(self, key: Key[Array, ""]) -> State:
        keys = jax.random.split(key, 5)
        config, problem = self.config, self.problem
        policy = pack(Policy.init(keys[0], problem, config.layers).network)
        critic = pack(Critic.init(keys[1], problem, config.layers).network)
        episodes = self.reset(sampling.uniform(keys[2], (config.parallel, 1 + problem.state_size)))
        sizes = (problem.state_size, problem.action_size, problem.model.law.size)
        optimizer = self.optimizer(1.0)
        return State(
            policy=policy,
            critic=critic,
            slow_policy=policy,
            slow_critic=critic,
            found=policy,
            policy_optimizer=optimizer.init(policy),
            critic_optimizer=optimizer.init(critic),
            policy_norm=jnp.zeros(()),
            critic_norm=jnp.zeros(()),
            strength=jnp.zeros(problem.horizon + 1),
            store=Store.init(sizes, self.capacity, config.prioritised),
            episodes=episodes,
            step=jnp.array(0),
            fault=jnp.array(0),
            fault_step=jnp.array(0),
            reward_scale=self.scale(keys[3]),
            key=keys[4],
        )

    def scale(self, key: Key[Array, ""]) -> Float[Array, ""]:
        """Root mean square reward of random steps in the region."""
        key_state, key_action, key_noise = jax.random.split(key, 3)
        model, problem = self.problem.model, self.problem
        states = problem.starts(key_state, (SCALE_PROBES,))
        units = sampling.uniform(key_action, (SCALE_PROBES, problem.action_size))
        actions = jax.vmap(lambda s, u: within(*model.bounds(s), u))(states, units)
        moved = jax.vmap(model.transition)(
            states, actions, draw_noise(model, key_noise, (SCALE_PROBES,))
        )
        rewards = jax.vmap(model.reward)(states, actions, moved)
        size = jnp.sqrt(jnp.mean(rewards**2))
        return jnp.where(jnp.isfinite(size) & (size > 0), size, 1.0) / REWARD_UNIT

    def optimizer(self, rate) -> optax.GradientTransformation:
        return make_optimizer(self.config.optimizer, rate, ADAM_MEMORY)

    def reset(self, units: Float[Array, "p 1+n"]) -> Episodes:
        """New episodes, each from the own start or from the region, as uniform numbers decide."""
        own = units[:, 0] < self.config.own_start
        region = self.problem.in_region(units[:, 1:])
        state = jnp.where(own[:, None], self.problem.initial_state, region)
        return Episodes(state, jnp.full(len(own), self.problem.horizon))

    def found(self, state: State) -> Packed:
        """Parameters of the policy that is tested and handed out."""
        return state.found

    def settle(self, state: State, test: Trial) -> tuple[State, Float[Array, ""]]:
        """Settles which policy is handed out, and gives its mean return on the test.

        The newest takes the place of the one so far if it earns more, both along the same noise,
        replayed from the store, from starts as in training. The test has no say in it.
        """
        newest, guard = state.slow_policy, self.config.guard
        if guard == 0:
            state = eqx.tree_at(lambda s: s.found, state, newest)
            return state, jnp.mean(returns(self.problem, self.policy(newest), test))
        key, replay_key = jax.random.split(state.key)
        replay = self.replay(state.store, replay_key, guard)
        # One trial of both policies serves for the test as well: the less to compile.
        trial = Trial(*(jnp.concatenate(x, axis=-2) for x in zip(replay, test, strict=True)))
        both = jax.tree.map(lambda *x: jnp.stack(x), state.found, newest)

        def earn(theta):
            return returns(self.problem, frozen_policy(self.policy(theta)), trial)

        earned = jax.lax.map(earn, both)
        replayed = jnp.mean(earned[:, :guard], axis=1)
        better = (replayed[1] > replayed[0]).astype(int)
        found = jax.tree.map(lambda x: x[better], both)
        state = eqx.tree_at(lambda s: (s.found, s.key), state, (found, key))
        return state, jnp.mean(earned[better, guard:])

    def replay(self, store: Store, key: Key[Array, ""], episodes: int) -> Trial:
        """Episodes along noise of the store, from starts as in training."""
        horizon = self.problem.horizon
        units = sampling.uniform(key, (episodes, horizon + 1 + self.problem.state_size))
        noise = store.noise(store.recent(units[:, :horizon].T))
        return Trial(noise, self.reset(units[:, horizon:]).state)

    def policy(self, theta: Packed) -> Policy:
        return Policy.of(theta, self.problem, self.config.layers)

    def critic(self, psi: Packed) -> Critic:
        return Critic.of(psi, self.problem, self.config.layers)

    def value(self, critic: Critic, state: Array, action: Array, steps_left: Array) -> Array:
        """Q_ψ(s, a) [*b] in units of the reward scale, 0 where no step is left."""
        if not self.timed:
            return critic(state, action, jnp.zeros(jnp.shape(steps_left)))
        q = critic(state, action, steps_left / self.problem.horizon)
        return jnp.where(steps_left > 0, q, 0.0)

    @property
    def rolled(self) -> int:
        """Steps of the model in one window of a policy update."""
        return self.config.depth + (
            self.config.window - 1 if self.config.estimator == "pathwise" else 0
        )

    @property
    def timed(self) -> bool:
        return self.config.critic == "time-left"

    @property
    def discount(self) -> float:
        return 1.0 if self.timed else self.config.discount

    def draw(self, key: Key[Array, ""], steps: int) -> Draws:
        config, problem = self.config, self.problem
        keys = jax.random.split(key, 5)
        episodes = (steps, config.parallel)
        updates = (steps, config.updates)
        window = (config.policy_batch, config.draws, self.rolled)
        candidates = config.policy_batch * config.candidates
        fresh = config.next_states == "fresh"
        # Uniform numbers of one kind and another in one go: each go is a program to compile.
        sizes = (config.critic_batch, candidates, 1, 0 if fresh else math.prod(window))
        uniforms = sampling.uniform(keys[0], (*updates, sum(sizes)))
        critic_rows, policy_rows, pick, places = jnp.split(uniforms, np.cumsum(sizes)[:-1], axis=-1)
        return Draws(
            noise=draw_noise(problem.model, keys[2], episodes),
            explore=sampling.normal(keys[3], (*episodes, problem.action_size)),
            starts=sampling.uniform(keys[1], (*episodes, 1 + problem.state_size)),
            critic_rows=critic_rows,
            policy_rows=policy_rows,
            pick=pick[..., 0],
            window=draw_noise(problem.model, keys[4], (*updates, *window))
            if fresh
            else places.reshape(*updates, *window),
        )

    def segment(
        self, state: State, most: int, steps: Int[Array, ""] | None = None
    ) -> tuple[State, Metrics]:
        """Trains for a number of steps, up to the most that the program is made for, or that."""
        key, draw_key = jax.random.split(state.key)
        state = eqx.tree_at(lambda s: s.key, state, key)
        return self.train(state, self.draw(draw_key, most), steps)

    def train(
        self, state: State, draws: Draws, steps: Int[Array, ""] | None = None
    ) -> tuple[State, Metrics]:
        """A step for each of so many draws, or of all; every few steps the slow copies follow."""
        every = self.config.target_every
        count = len(draws.pick) if steps is None else steps

        def turn(i, carry):
            slow = self.slow(carry[0])
            first = i * every
            last = jnp.minimum(first + every, count)

            def one(i, carry):
                state, sums = carry
                state, metrics = self.step(state, slow, jax.tree.map(lambda x: x[i], draws))
                return state, jax.tree.map(jnp.add, sums, metrics)

            state, sums = jax.lax.fori_loop(first, last, one, carry)
            return self.update_targets(state, last - first), sums

        carry = state, Metrics.zeros()
        state, sums = jax.lax.fori_loop(0, -(-count // every), turn, carry)
        return state, jax.tree.map(lambda total: total / count, sums)

    def slow(self, state: State) -> Slow:
        """The slow copies, ready for use over several steps."""
        return Slow(
            frozen_policy(self.policy(state.slow_policy)),
            frozen_critic(self.critic(state.slow_critic)),
        )

    def step(self, state: State, slow: Slow, draws: Draws) -> tuple[State, Metrics]:
        state = self.explore(state, draws)

        def update(state, draws):
            rows, *policy_draws = draws
            state, loss, critic_norm = self.update_critic(state, slow, rows)
            state, value, policy_norm = self.update_policy(state, slow, *policy_draws)
            return state, Metrics(loss, value, policy_norm, critic_norm)

        inputs = (draws.critic_rows, *draws.for_policy)
        if self.config.updates == 1:
            state, metrics = update(state, jax.tree.map(lambda x: x[0], inputs))
        else:
            state, metrics = jax.lax.scan(update, state, inputs)
            metrics = jax.tree.map(jnp.mean, metrics)
        return eqx.tree_at(lambda s: s.step, state, state.step + 1), metrics

    def progress(self, state: State) -> Array:
        return jnp.clip(state.step / self.total_steps, 0.0, 1.0)

    def explore(self, state: State, draws: Draws) -> State:
        """Acts with exploration noise, steps the episodes and stores what happened."""
        config, model, episodes = self.config, self.problem.model, state.episodes
        sizes = config.exploration, max(config.final_exploration, 1e-9)
        size = sizes[0] * (sizes[1] / max(sizes[0], 1e-9)) ** self.progress(state)

        policy = frozen_policy(self.policy(state.policy))

        def one(s, xi, normal, left):
            low, high = model.bounds(s)
            spread = within(low, high, 1.0) - within(low, high, 0.0)
            action = jnp.clip(policy(s) + size * spread * normal, low, high)
            moved = model.transition(s, action, xi)
            reward = model.reward(s, action, moved)
            return Transition(s, action, xi, moved, reward, left, model.terminal(moved))

        batch = jax.vmap(one)(episodes.state, draws.noise, draws.explore, episodes.steps_left)
        over = batch.ended | (batch.steps_left <= 1)
        fresh = self.reset(draws.starts)
        following = Episodes(
            jnp.where(over[:, None], fresh.state, batch.next_state),
            jnp.where(over, fresh.steps_left, batch.steps_left - 1),
        )
        state = self.watch(state, 1, jnp.all(jnp.isfinite(batch.next_state)))
        state = self.watch(state, 2, jnp.all(jnp.isfinite(batch.reward)))
        return eqx.tree_at(
            lambda s: (s.store, s.episodes), state, (state.store.add(batch), following)
        )

    def watch(self, state: State, fault: int, finite: Array) -> State:
        """Notes the first quantity that is not finite, and when."""
        first = (state.fault == 0) & ~finite
        return eqx.tree_at(
            lambda s: (s.fault, s.fault_step),
            state,
            (jnp.where(first, fault, state.fault), jnp.where(first, state.step, state.fault_step)),
        )

    def update_critic(self, state: State, slow: Slow, rows: Array):
        """One step on the mean square of y − Q(s, a), y = r + γ Q'(s', μ'(s'))."""
        store = state.store
        weights = jnp.ones(len(rows))
        if self.config.prioritised:
            index, weights = store.wanted(rows)
        else:
            index = store.recent(rows)
        batch = store.take(index)

        following = slow.policy(batch.next_state)
        future = self.value(slow.critic, batch.next_state, following, batch.steps_left - 1)
        future = jnp.where(batch.ended, 0.0, future)
        targets = batch.reward / state.reward_scale + self.discount * future
        critic = self.critic(state.critic)

        def loss(network):
            seeing = Critic(network, critic.scaling, critic.model)
            q = self.value(seeing, batch.state, batch.action, batch.steps_left)
            errors = targets - q
            return jnp.mean(weights * errors**2), errors

        (value, errors), gradient = jax.value_and_grad(loss, has_aux=True)(critic.network)
        if self.config.prioritised:
            store = store.reprioritise(index, errors)
        state = self.watch(state, 3, jnp.isfinite(value))
        critic, optimizer, mean_norm, norm = self.ascend(
            state, state.critic, pack(gradient), state.critic_optimizer, state.critic_norm,
            -self.config.critic_rate,
        )  # fmt: skip
        state = eqx.tree_at(
            lambda s: (s.critic, s.critic_optimizer, s.critic_norm, s.store),
            state,
            (critic, optimizer, mean_norm, store),
        )
        return state, value, norm

    def update_policy(self, state: State, slow: Slow, rows: Array, pick: Array, window: Array):
        """One step up the bound's gradient."""
        config = self.config
        sampled, weights = self.choose(state, rows, pick)
        if config.next_states == "fresh":
            noise = window
        else:
            noise = state.store.noise(state.store.recent(window))
        samples = bound.Sample(sampled.state, sampled.steps_left, noise, sampled.next_state)
        estimator = self.estimator(state, slow)
        found = jax.vmap(lambda sample: estimator(sample))(samples)
        gradient, strength = bound.pull_back(
            self.policy(state.policy), found, weights, config.inward
        )
        policy, optimizer, mean_norm, norm = self.ascend(
            state, state.policy, pack(gradient), state.policy_optimizer, state.policy_norm,
            config.policy_rate,
        )  # fmt: skip
        state = self.watch(state, 4, jnp.isfinite(norm))
        strengths = remember(state.strength, sampled.steps_left, strength)
        state = eqx.tree_at(
            lambda s: (s.policy, s.policy_optimizer, s.policy_norm, s.strength),
            state,
            (policy, optimizer, mean_norm, strengths),
        )
        return state, jnp.mean(weights * found.value), norm

    def choose(self, state: State, rows: Array, pick: Array) -> tuple[Transition, Array]:
        """Transitions for a policy update, and the weights that keep its gradient unbiased.

        Of several candidates for each place, those are preferred whose time left has seen strong
        gradients: on a problem where the first steps decide, most others have nothing to say.
        """
        found = state.store.take(state.store.recent(rows, self.config.policy_store))
        if self.config.candidates == 1:
            return found, jnp.ones(len(rows))
        chosen, weights = prefer(state.strength[found.steps_left], pick, self.config.policy_batch)
        return jax.tree.map(lambda x: x[chosen], found), weights

    def estimator(self, state: State, slow: Slow) -> bound.Estimator:
        """The configured estimator at θ^m, in the reward's own units."""

        policy = frozen_policy(self.policy(state.policy))

        def critic(s, a, left):
            return state.reward_scale * self.value(slow.critic, s, a, left)

        shared = (self.problem.model, critic, policy, self.discount)
        if self.config.estimator == "pathwise":
            return bound.Pathwise(*shared, self.config.window)
        if self.config.estimator == "score":
            stored = self.config.next_states == "stored"
            return bound.Score(*shared, self.config.baseline, stored)
        return bound.CriticOnly(*shared)

    def ascend(self, state: State, parameters, gradient, optimizer, mean_norm, rate: float):
        """One optimiser step along the gradient; nothing moves after a fault."""
        decay = 1 - (1 - self.config.final_rate) * self.progress(state)
        return climb(
            self.optimizer(rate * decay), parameters, gradient, optimizer, mean_norm,
            self.config.clip, state.fault == 0,
        )  # fmt: skip

    def update_targets(self, state: State, steps: Array) -> State:
        """θ' ← τ θ + (1 − τ) θ', and ψ' likewise, as often as there were updates in these steps."""
        # After a fault nothing moves on. That the rate depends on it also lets XLA know that all
        # use of the old averages is over, so that it writes the new ones in place.
        share = 1 - (1 - self.config.target_rate) ** (steps * self.config.updates)
        rate = jnp.where(state.fault == 0, share, 0.0)

        def follow(slow, fast):
            return jax.tree.map(lambda slow, fast: slow + rate * (fast - slow), slow, fast)

        return eqx.tree_at(
            lambda s: (s.slow_policy, s.slow_critic),
            state,
            (follow(state.slow_policy, state.policy), follow(state.slow_critic, state.critic)),
        )
