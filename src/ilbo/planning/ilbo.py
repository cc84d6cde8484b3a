"""ILBO training: act, step, store, critic update, gradient of the bound, targets; one program."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from ilbo.errors import UserError
from ilbo.forks import check_not_forked
from ilbo.mdp import density_check, sampling
from ilbo.mdp.changeable import changeable
from ilbo.mdp.model import timed_methods
from ilbo.mdp.objective import objective_of
from ilbo.mdp.problem import Problem
from ilbo.mdp.simulate import Trial, draw_noise, returns
from ilbo.nn.components import Components
from ilbo.nn.parameters import Parameters, pack
from ilbo.nn.policy import Policy
from ilbo.planning import aim, limited
from ilbo.planning.acting import explore, replay, reset, reward_scale
from ilbo.planning.aim import Aim, Beyond, Held, first_aim
from ilbo.planning.blend import EVERY, TRIED
from ilbo.planning.config import ENDLESS, ILBO
from ilbo.planning.lead import Lead
from ilbo.planning.learning import optimizer, update_critic, update_policy
from ilbo.planning.networks import Networks
from ilbo.planning.numbers import Numbers
from ilbo.planning.records import Samples, segments
from ilbo.planning.sharing import settle
from ilbo.planning.state import FAULTS, Draws, ILBOState
from ilbo.planning.store import Store
from ilbo.planning.targets import Slow, follow
from ilbo.planning.trainer import Metrics, Trainer
from ilbo.planning.units import PROBES, in_units, unit_of

SMALLEST_STORE = 1 << 17


class ILBOTrainer(Trainer):
    """Iterative lower bound optimisation on one problem."""

    problem: Problem
    config: ILBO = eqx.field(static=True)
    total_steps: Float[Array, ""]
    """Steps of the whole run, which learning rates and exploration decay over."""
    capacity: int = eqx.field(static=True)
    """Transitions that the store holds."""
    every: int = eqx.field(static=True)
    unit: float = eqx.field(static=True)
    """What rewards are divided by in training: 1 unless they are of an unusual size."""
    numbers: Numbers
    """The settings that are inputs of the programs."""
    components: Components | None = None
    """Of the problem, where the policy shares what it knows between them."""

    @classmethod
    def of(cls, problem: Problem, config: ILBO, episodes: int) -> ILBOTrainer:
        """For runs of so many episodes."""
        check_not_forked()
        for size, what in ((problem.state_size, "state"), (problem.action_size, "action")):
            if size == 0:
                raise UserError(
                    f"The {what} of {problem.name} has no component: there is nothing to plan with."
                )
        config, components = settle(problem, config)
        check_sees_time(problem, config)
        aim.check(problem, config)
        if config.gradient.needs_density:
            density_check.check(problem)
        if episodes >= ENDLESS:  # its length is told as it goes: `lasting`
            episodes = max(1, SMALLEST_STORE // problem.horizon)
        steps = steps_of(episodes, problem.horizon, config)
        # A few sizes of store serve all lengths of run, so that few programs are compiled.
        enough = max(SMALLEST_STORE, 1 << (steps * config.parallel - 1).bit_length())
        capacity = min(config.critic_store, enough)
        capacity += -capacity % config.parallel
        return cls(
            problem=problem,
            config=config,
            total_steps=jnp.array(steps, jnp.float32),
            capacity=capacity,
            every=config.evaluate_every,
            unit=unit_of(problem),
            numbers=Numbers.of(problem, config),
            components=components,
        )

    def lasting(self, episodes: float) -> ILBOTrainer:
        steps = jnp.array(steps_of(episodes, self.problem.horizon, self.config), jnp.float32)
        return eqx.tree_at(lambda trainer: trainer.total_steps, self, steps)

    def as_program(self) -> ILBOTrainer:
        return replace(self, problem=changeable(self.problem), config=self.config.form)

    @property
    def beyond(self) -> Beyond | None:
        """What is planned for beyond the mean of a known model; None where that is all."""
        return Beyond.of(self.problem, self.config)

    @property
    def networks(self) -> Networks:
        """Those of a plain problem, or beyond the mean of the problem before training."""
        return self.networks_at(None)

    def networks_at(self, aim: Aim | None) -> Networks:
        """The networks, with the problem as training sees it now."""
        beyond = self.beyond
        if beyond is None:
            plain = in_units(self.problem, self.unit)
            return Networks(plain, self.config, self.numbers, self.components)
        span = None if aim is None else aim.span
        trained = beyond.wide(span) if aim is None else beyond.trained(aim, self.unit)
        return Networks(trained, self.config, self.numbers, seen=beyond.seen(span))

    def init(self, key: Key[Array, ""]) -> tuple[ILBOState, Any]:
        keys = jax.random.split(key, 5)
        config, problem, first = self.config, self.problem, None
        policy, critic = self.networks.init(keys[0], keys[1])
        held: Any = policy
        scale = reward_scale(problem, self.unit, keys[3])
        if self.beyond is not None:
            first = first_aim(self, policy, jax.random.fold_in(key, 1), scale * self.unit)
            held = Held(policy, first.span)
            if problem.limits:  # the untrained policy keeps none, as far as anybody knows
                unknown = limited.Kept.unknown(problem.limits, problem.horizon)
                held = held._replace(kept=unknown)
            problem = self.networks_at(first).problem
        units = self._units(keys[2], (config.parallel,))
        sizes = (problem.state_size, problem.action_size, problem.model.law.size)
        state = ILBOState(
            policy=policy,
            critic=critic,
            slow_policy=policy,
            slow_critic=critic,
            policy_optimizer=optimizer(config, 1.0).init(policy),
            critic_optimizer=optimizer(config, 1.0).init(critic),
            policy_norm=jnp.zeros((), jnp.float32),
            critic_norm=jnp.zeros((), jnp.float32),
            strength=jnp.zeros(problem.horizon + 1, jnp.float32),
            evidence=jnp.zeros(3, jnp.float32),
            lead=Lead.begin(),
            store=Store.init(sizes, self.capacity, config.parallel, config.prioritised),
            episodes=reset(problem, self.numbers, units),
            step=jnp.array(0, jnp.int32),
            trouble=jnp.zeros(4, jnp.float32),
            fault=jnp.array(0, jnp.int32),
            fault_step=jnp.array(0, jnp.int32),
            reward_scale=scale,
            key=keys[4],
            aim=first,
        )
        return state, held

    def _units(self, key: Key[Array, ""], shape: tuple[int, ...]) -> Float[Array, "*shape units"]:
        """The random numbers that `reset` makes start states of."""
        if self.beyond is not None:
            return self.beyond.units(key, shape)
        return sampling.uniform(key, (*shape, 1 + self.problem.state_size))

    def segment(
        self, state: ILBOState, most: int, episodes: Int[Array, ""]
    ) -> tuple[ILBOState, Metrics]:
        horizon, config = self.problem.horizon, self.config
        key, draw_key = jax.random.split(state.key)
        state = eqx.tree_at(lambda s: s.key, state, key)
        draws = self.draw(draw_key, steps_of(most, horizon, config))
        state, metrics = self.train(state, draws, steps_of(episodes, horizon, config))
        return state, metrics.in_reward_units(self.unit)

    def draw(self, key: Key[Array, ""], steps: int) -> Draws:
        """The random numbers of so many steps."""
        config, problem, estimator = self.config, self.problem, self.config.gradient
        keys = jax.random.split(key, 5)
        episodes = (steps, config.parallel)
        updates = (steps, config.updates)
        window = (config.policy_batch, estimator.draws, estimator.steps)
        candidates = config.policy_batch * config.candidates
        fresh = estimator.next_states == "fresh"
        # Uniform numbers of all kinds in one call: each call is a program to compile.
        sizes = (config.critic_batch, candidates, 1, 0 if fresh else math.prod(window))
        uniforms = sampling.uniform(keys[0], (*updates, sum(sizes)))
        critic_rows, policy_rows, pick, places = jnp.split(uniforms, np.cumsum(sizes)[:-1], axis=-1)
        return Draws(
            noise=draw_noise(problem.model, keys[2], episodes),
            explore=sampling.normal(keys[3], (*episodes, problem.action_size)),
            starts=self._units(keys[1], episodes),
            critic_rows=critic_rows,
            policy_rows=policy_rows,
            pick=pick[..., 0],
            window=draw_noise(problem.model, keys[4], (*updates, *window))
            if fresh
            else places.reshape(*updates, *window),
        )

    def train(
        self, state: ILBOState, draws: Draws, steps: int | Int[Array, ""]
    ) -> tuple[ILBOState, Metrics]:
        """A step for each of the first so many draws; every few steps the slow copies follow."""
        every = self.config.target_every

        def turn(i: Array, carry: tuple[ILBOState, Metrics]) -> tuple[ILBOState, Metrics]:
            networks = self.networks_at(carry[0].aim)
            slow = Slow.of(networks, carry[0])
            first = i * every
            last = jnp.minimum(first + every, steps)

            def one(i: Array, carry: tuple[ILBOState, Metrics]) -> tuple[ILBOState, Metrics]:
                state, sums = carry
                state, metrics = self.step(state, slow, jax.tree.map(lambda x: x[i], draws), i)
                return state, jax.tree.map(jnp.add, sums, metrics)

            state, sums = jax.lax.fori_loop(first, last, one, carry)
            return follow(networks, state, last - first), sums

        carry = state, Metrics.zeros()
        state, sums = jax.lax.fori_loop(0, -(-steps // every), turn, carry)
        return state, jax.tree.map(lambda total: total / steps, sums)

    def step(
        self, state: ILBOState, slow: Slow, draws: Draws, place: Int[Array, ""]
    ) -> tuple[ILBOState, Metrics]:
        """One step of the episodes side by side, and the updates after it.

        `place` is the step's in its segment, the same for all seeds of a vectorised program: what
        is done at every few steps is then left out at the others, not done and thrown away.
        """
        share_done = jnp.clip(state.step / self.total_steps, 0.0, 1.0)
        decay = 1 - self.numbers.rate_drop * share_done
        networks = self.networks_at(state.aim)
        state = explore(networks, state, draws, share_done)

        def update(state: ILBOState, draws: Any) -> tuple[ILBOState, Metrics]:
            rows, *policy_draws = draws
            state, loss, critic_norm = update_critic(networks, state, slow, rows, decay)
            state, value, policy_norm = update_policy(
                networks, state, slow, tuple(policy_draws), decay, place
            )
            return state, Metrics(loss, value.astype(jnp.float32), policy_norm, critic_norm)

        inputs = (draws.critic_rows, *draws.for_policy)
        if self.config.updates == 1:
            state, metrics = update(state, jax.tree.map(lambda x: x[0], inputs))
        else:
            state, metrics = jax.lax.scan(update, state, inputs)
            metrics = jax.tree.map(jnp.mean, metrics)
        return eqx.tree_at(lambda s: s.step, state, state.step + 1), metrics

    def select(
        self, state: ILBOState, held: Any, test: Trial
    ) -> tuple[ILBOState, Any, Float[Array, ""]]:
        """The newest policy replaces the one held if it earns more, both along the same noise,
        replayed from the store, from starts as in training. One that is not finite never does."""
        if self.beyond is not None:
            return aim.select(self, state, held, test)
        newest, guard = state.slow_policy, self.config.guard
        if guard == 0:
            finite = jnp.all(jnp.array([jnp.all(jnp.isfinite(part)) for part in newest]))
            held = jax.tree.map(lambda new, old: jnp.where(finite, new, old), newest, held)
            return state, held, jnp.mean(returns(self.problem, self.policy(held), test))
        key, replay_key = jax.random.split(state.key)
        replayed = replay(self.problem, self.numbers, state.store, replay_key, guard)
        # One trial of both policies serves for the test as well, so that one program does both.
        trial = Trial(*(jnp.concatenate(x, axis=-2) for x in zip(replayed, test, strict=True)))
        both = jax.tree.map(lambda *x: jnp.stack(x), held, newest)

        def earn(theta: Parameters) -> Float[Array, " episodes"]:
            return returns(self.problem, self.policy(theta).fixed(), trial)

        earned = jax.lax.map(earn, both)
        means = jnp.mean(earned[:, :guard], axis=1)
        better = (means[1] > means[0]).astype(int)
        held = jax.tree.map(lambda x: x[better], both)
        state = eqx.tree_at(lambda s: s.key, state, key)
        if self.config.leads:
            state = self._led(state, held, earned[:, :guard])
        return state, held, jnp.mean(earned[better, guard:])

    def _led(
        self, state: ILBOState, held: Parameters, earned: Float[Array, "2 episodes"]
    ) -> ILBOState:
        """With who leads judged by these returns; where that changes, from the policy held on."""
        lead, turns = state.lead.judged(earned)
        policies = state.policy, state.slow_policy
        back = jax.tree.map(lambda old, new: jnp.where(turns, old, new), (held, held), policies)
        return eqx.tree_at(lambda s: (s.lead, s.policy, s.slow_policy), state, (lead, *back))

    def is_better(self, held: Any, earned: Array, best: Any, most: Array) -> Array:
        if not self.problem.limits:
            return super().is_better(held, earned, best, most)
        return limited.is_better(held.kept, earned, best.kept, most)

    def unkept(self, held: Any) -> str | None:
        if not self.problem.limits:
            return None
        return limited.remark(self.problem, held.kept)

    @property
    def can_follow_plans(self) -> bool:
        return self.config.sees_time and self.beyond is None

    def from_plan(self, plan: Float[Array, "horizon m"]) -> Parameters:
        network = Policy.blank(self.problem, self.networks.maker).network
        return pack(eqx.tree_at(lambda module: module.plan, network, plan))

    def begin_at(self, state: ILBOState, action: Float[Array, " m"]) -> ILBOState:
        network = self.policy(state.policy).network
        plan = jnp.broadcast_to(action, network.plan.shape)
        theta = pack(eqx.tree_at(lambda module: module.plan, network, plan))
        both = theta, jax.tree.map(jnp.copy, theta)  # a segment uses its inputs up
        return eqx.tree_at(lambda s: (s.policy, s.slow_policy), state, both)

    def policy(self, parameters: Any) -> Policy:
        if self.beyond is None:
            return Networks(self.problem, self.config, self.numbers, self.components).policy(
                parameters
            )
        seen = self.beyond.seen(parameters.span)
        return Networks(seen, self.config, self.numbers).policy(parameters.theta)

    def fault(self, state: ILBOState) -> str | None:
        code = int(state.fault)
        if code == 0:
            return None
        return (
            f"The {FAULTS[code]} is not finite at training step {int(state.fault_step)} of "
            f"{self.problem.name}: training stopped and the last good policy is kept."
        )

    def samples(self, episodes: int) -> Samples:
        effort = limited.episodes_of(self.problem, 1) if self.problem.limits else 0
        return count_samples(self.config, self.problem.horizon, episodes, effort)


def check_sees_time(problem: Problem, config: ILBO) -> None:
    """Raises where a model sees the time and what is trained on it does not but must."""
    if not problem.sees_time:
        return
    if config.critic != "time-left":
        raise UserError(
            f"The model of {problem.name} sees the time, so its critic must see it too: use the "
            "setting critic=time-left."
        )
    if "bounds" in timed_methods(type(problem.model)) and not config.sees_time:
        raise UserError(
            f"The action bounds of {problem.name} depend on the time, so its policy must see it "
            "too: use the setting policy=time-left."
        )


def steps_of(episodes: Any, horizon: int, config: ILBO) -> Any:
    """Steps of the program for so many episodes, a number or an array."""
    return -(-episodes * horizon // config.parallel)


def count_samples(config: ILBO, horizon: int, episodes: int, limits: int = 0) -> Samples:
    """What one seed has consumed after so many episodes; `limits`, how many times as many episodes
    as a mean's it takes to tell whether they are kept, 0 without any."""
    parts = segments(episodes, config.evaluate_every)
    steps = sum(steps_of(part, horizon, config) for part in parts)
    updates, estimator = steps * config.updates, config.gradient
    states = updates * config.policy_batch
    fresh = states * estimator.draws * estimator.steps if estimator.next_states == "fresh" else 0
    tries = 2 * min(TRIED, config.policy_batch) * estimator.steps if config.blends else 0
    turns = sum(-(-steps_of(part, horizon, config) // EVERY) for part in parts)
    tried = turns * config.updates * tries
    objective = objective_of(config.objective)
    judging = len(parts) * max(config.guard, 1) * limits * horizon
    first = aim.FIRST * horizon if objective.of_returns or limits else 0
    selecting = len(parts) * 2 * config.guard * (limits or objective.effort) * horizon + first
    return Samples(
        episodes=episodes,
        transitions=steps * config.parallel,
        model_evaluations=estimator.model_evaluations(states) + tried + selecting + PROBES,
        random_draws=steps * config.parallel + PROBES + fresh + judging,
        gradient_steps=2 * updates,
        test_transitions=len(parts) * config.test_episodes * horizon,
    )
