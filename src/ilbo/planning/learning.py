"""Updates of the critic and of the policy from stored samples."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from ilbo.mdp.problem import Problem
from ilbo.nn.critic import CriticNetwork
from ilbo.nn.parameters import pack
from ilbo.planning.acting import watch
from ilbo.planning.ascent import climb, make_optimizer
from ilbo.planning.blend import blend, gather, weigh
from ilbo.planning.config import ILBO
from ilbo.planning.estimators.point import ActionGradient, Point, Sample
from ilbo.planning.networks import Networks
from ilbo.planning.preference import prefer, remember
from ilbo.planning.pull_back import only_finite, pull_back
from ilbo.planning.state import ILBOState
from ilbo.planning.store import Transition
from ilbo.planning.targets import Slow

ADAM_MEMORY = 0.97
"""Of the gradients' sizes: this earned more on reservoir-20 and hvac-6 than the usual 0.999."""


def optimizer(config: ILBO, rate: float | Float[Array, ""]) -> optax.GradientTransformation:
    """The optimiser of either network at this learning rate."""
    return make_optimizer(config.optimizer, rate, ADAM_MEMORY)


def update_critic(
    networks: Networks,
    state: ILBOState,
    slow: Slow,
    rows: Float[Array, " b"],
    decay: Float[Array, ""],
) -> tuple[ILBOState, Float[Array, ""], Float[Array, ""]]:
    """One step on the mean square of y − Q(s, a), y = r + γ Q'(s', μ'(s')).

    Returns the state, the loss and the length of its gradient.
    """
    config, numbers, store = networks.config, networks.numbers, state.store
    weights = jnp.ones(len(rows), jnp.float32)
    if config.prioritised:
        index, weights = store.wanted(rows)
    else:
        index = store.recent(rows)
    batch = networks.current(store.take(index), state.key, state.step)
    batch = networks.recharged(batch, jax.random.fold_in(state.key, state.step))
    if not networks.timed:  # one that sees the time is 0 where no step is left
        weights = jnp.where(batch.steps_left > 0, weights, 0.0)

    left = batch.steps_left - 1
    following = networks.act(slow.policy, batch.next_state, left)
    future = networks.value(slow.critic, batch.next_state, following, left)
    future = jnp.where(batch.ended, 0.0, numbers.discount * future)
    targets = batch.reward / state.reward_scale + future
    critic = networks.critic(state.critic)

    def loss(network: CriticNetwork) -> tuple[Array, Array]:
        seeing = eqx.tree_at(lambda c: c.network, critic, network)
        q = networks.value(seeing, batch.state, batch.action, batch.steps_left)
        errors = targets - q
        return jnp.mean(weights * errors**2), errors

    (value, errors), gradient = jax.value_and_grad(loss, has_aux=True)(critic.network)
    if config.prioritised:
        store = store.reprioritise(index, errors)
    state = watch(state, 3, jnp.isfinite(value))
    critic_parameters, optimizer_state, mean_norm, norm = climb(
        optimizer(config, -numbers.critic_rate * decay),
        state.critic,
        pack(gradient),
        state.critic_optimizer,
        state.critic_norm,
        numbers.clip,
        state.fault == 0,
    )
    state = eqx.tree_at(
        lambda s: (s.critic, s.critic_optimizer, s.critic_norm, s.store),
        state,
        (critic_parameters, optimizer_state, mean_norm, store),
    )
    return state, value, norm


def update_policy(
    networks: Networks,
    state: ILBOState,
    slow: Slow,
    draws: tuple[Array, Array, Array],
    decay: Float[Array, ""],
    place: Int[Array, ""],
) -> tuple[ILBOState, Float[Array, ""], Float[Array, ""]]:
    """One step up the bound's gradient; `place` is that of the step in its segment.

    Returns the state, the bound at the current policy and the length of its gradient.
    """
    config, numbers = networks.config, networks.numbers
    estimator = config.gradient
    rows, pick, window = draws
    sampled, weights = choose(config, state, rows, pick)
    sampled = networks.recharged(networks.current(sampled, state.key, -1 - state.step), None)
    fresh = estimator.next_states == "fresh"
    noise = window if fresh else state.store.noise(state.store.recent(window))
    samples = Sample(sampled.state, sampled.steps_left, noise, sampled.next_state)
    point = touching_point(networks, state, slow)
    estimate = only_finite(jax.vmap(lambda sample: estimator(point, sample))(samples))
    if config.blends:
        evidence = gather(state.evidence, place, point, samples, estimate, sampled.action)
        state = eqx.tree_at(lambda s: s.evidence, state, evidence)
        shown = weigh(evidence, numbers.critic_share, numbers.least_share)
        share = state.lead.share(shown, numbers.critic_share)
        estimate = blend(point, estimate, share)
    estimate = as_visited(networks.problem, estimate, getattr(estimator, "window", 1))
    policy = networks.policy(state.policy)
    times = networks.problem.horizon - estimate.steps_left if policy.timed else None
    estimate = estimate._replace(states=networks.sight(estimate.states))
    gradient, strength = pull_back(policy, estimate, weights, numbers.inward, times)
    theta, optimizer_state, mean_norm, norm = climb(
        optimizer(config, numbers.policy_rate * decay),
        state.policy,
        pack(gradient),
        state.policy_optimizer,
        state.policy_norm,
        numbers.clip,
        state.fault == 0,
    )
    state = watch(state, 4, jnp.isfinite(norm))
    strengths = remember(state.strength, sampled.steps_left, strength)
    state = eqx.tree_at(
        lambda s: (s.policy, s.policy_optimizer, s.policy_norm, s.strength),
        state,
        (theta, optimizer_state, mean_norm, strengths),
    )
    return state, jnp.mean(weights * estimate.value), norm


def choose(
    config: ILBO, state: ILBOState, rows: Float[Array, " candidates"], pick: Float[Array, ""]
) -> tuple[Transition, Float[Array, " b"]]:
    """Transitions for a policy update, and the weights that keep its gradient unbiased.

    Of several candidates for each place, those are preferred whose time left has seen strong
    gradients: on a problem where the first steps decide, most others have nothing to say.
    """
    found = state.store.take(state.store.recent(rows, config.policy_store))
    if config.candidates == 1:
        return found, jnp.ones(len(rows), jnp.float32)
    chosen, weights = prefer(state.strength[found.steps_left], pick, config.policy_batch)
    return jax.tree.map(lambda x: x[chosen], found), weights


def as_visited(problem: Problem, estimate: ActionGradient, window: int) -> ActionGradient:
    """Gradients weighted by what their states count in the objective: γ to the steps before.

    A state is in as many windows as begin at it or up to `window` − 1 steps before it, of which the
    first states of an episode have fewer: they count the more for it. Without a discount all
    gradients are left alone: the few first states of an episode are then a small part of it.
    """
    if isinstance(problem.discount, float) and problem.discount == 1:
        return estimate
    before = problem.horizon - estimate.steps_left
    counts = problem.discount**before * window / jnp.minimum(before + 1, window)
    return estimate._replace(gradients=counts[..., None] * estimate.gradients)


def touching_point(networks: Networks, state: ILBOState, slow: Slow) -> Point:
    """What is held constant at θ^m, in the reward's own units."""
    fixed = networks.policy(state.policy).fixed()

    def critic(s: Array, a: Array, left: Array) -> Array:
        return state.reward_scale * networks.value(slow.critic, s, a, left)

    def policy(s: Array, left: Array) -> Array:
        return networks.act(fixed, s, left)

    problem = networks.problem
    discount = networks.numbers.discount
    return Point(problem.model, critic, policy, discount, problem.horizon, networks.worth)
