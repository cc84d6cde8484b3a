"""Training episodes: where they start, how they explore, and how stored noise is replayed."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from ilbo.mdp import sampling
from ilbo.mdp.bounds import bounds_are_fixed, within
from ilbo.mdp.problem import Problem
from ilbo.mdp.shapes import State
from ilbo.mdp.simulate import Trial
from ilbo.planning.aim import begin
from ilbo.planning.networks import Networks
from ilbo.planning.numbers import Numbers, is_off
from ilbo.planning.state import Draws, Episodes, ILBOState
from ilbo.planning.store import Store, Transition
from ilbo.planning.units import probe_rewards

REMEMBERED = 0.98
"""Memory, from step to step, of numbers that were not finite."""
REWARD_UNIT = 50.0
"""Root mean square of the rewards that the critic sees at the start."""


def reset(problem: Problem, numbers: Numbers, units: Float[Array, "p units"]) -> Episodes:
    """New episodes, each from the own start or from the region, as uniforms [p, 1 + n] decide.

    With `extremes` e, the places in the region are u^q with one q of each episode, log-uniform in
    [e⁻ᵉ, eᵉ]: some starts lie low and some lie high in all components at once.
    """
    own = units[:, 0] < numbers.own_start
    places = units[:, 1:]
    if not is_off(numbers.extremes):
        # Where it does not decide for the own start, the first number is uniform over the rest.
        even = jnp.clip((units[:, :1] - numbers.own_start) / (1 - numbers.own_start), 0.0, 1.0)
        places = places ** jnp.exp(numbers.extremes * (2 * even - 1))
    region = problem.in_region(places)
    state = begin(problem, jnp.where(own[:, None], problem.initial_state, region), units[:, 1:])
    return Episodes(state, jnp.full(len(own), problem.horizon, jnp.int32))


def explore(
    networks: Networks, state: ILBOState, draws: Draws, share_done: Float[Array, ""]
) -> ILBOState:
    """Acts with exploration noise, steps the episodes and stores what happened."""
    problem, numbers = networks.problem, networks.numbers
    model, episodes = problem.model, state.episodes
    first, decay = numbers.exploration, numbers.exploration_left**share_done
    fixed = bounds_are_fixed(problem)
    policy = networks.policy(state.policy).fixed()

    def one(s: Array, xi: Array, normal: Array, left: Array) -> Transition:
        now = model.at(networks.time(left))
        low, high = now.bounds(s)
        spread = within(low, high, 1.0) - within(low, high, 0.0)
        # The range comes first where it is a constant: the order decides how products are rounded.
        size = first * spread * decay if fixed else first * decay * spread
        action = jnp.clip(networks.act(policy, s, left) + size * normal, low, high)
        moved = now.transition(s, action, xi).astype(s.dtype)
        reward = now.reward(s, action, moved)
        return Transition(s, action, xi, moved, reward, left, model.terminal(moved))

    batch = jax.vmap(one)(episodes.state, draws.noise, draws.explore, episodes.steps_left)
    moves, pays = jnp.all(jnp.isfinite(batch.next_state), axis=1), jnp.isfinite(batch.reward)
    good = moves & pays
    over = batch.ended | (batch.steps_left <= 1) | ~good
    fresh = reset(problem, numbers, draws.starts)
    following = Episodes(
        jnp.where(over[:, None], fresh.state, batch.next_state),
        jnp.where(over, fresh.steps_left, batch.steps_left - 1),
    )
    state = watch(state, 1, jnp.any(moves))
    state = watch(state, 2, jnp.any(pays) | ~jnp.any(moves))
    store = state.store.add(_void_unless(good, batch, problem.initial_state))
    return eqx.tree_at(lambda s: (s.store, s.episodes), state, (store, following))


def _void_unless(good: Bool[Array, " p"], batch: Transition, state: State) -> Transition:
    """Transitions with a number that is not finite leave no trace: with no step left, neither the
    critic nor the policy learns from a row. Its noise is as good as any."""
    each = good[:, None]
    return Transition(
        state=jnp.where(each, batch.state, state),
        action=jnp.where(each | jnp.isfinite(batch.action), batch.action, 0.0),
        noise=batch.noise,
        next_state=jnp.where(each, batch.next_state, state),
        reward=jnp.where(good, batch.reward, 0.0),
        steps_left=jnp.where(good, batch.steps_left, 0),
        ended=batch.ended | ~good,
    )


def watch(state: ILBOState, fault: int, finite: Bool[Array, ""]) -> ILBOState:
    """Notes a quantity that was not finite in most of the last steps, and when."""
    kept = state.trouble[fault - 1] * REMEMBERED
    sum_of_weights = (1 - REMEMBERED ** (state.step + 1)) / (1 - REMEMBERED)
    trouble = kept + jnp.where(finite, 0.0, 1.0)
    first = (state.fault == 0) & (trouble > 0.5 * sum_of_weights)
    return eqx.tree_at(
        lambda s: (s.trouble, s.fault, s.fault_step),
        state,
        (
            state.trouble.at[fault - 1].set(trouble),
            jnp.where(first, fault, state.fault),
            jnp.where(first, state.step, state.fault_step),
        ),
    )


def replay(
    problem: Problem, numbers: Numbers, store: Store, key: Key[Array, ""], episodes: int
) -> Trial:
    """Episodes along noise of the store, from starts as in training."""
    horizon = problem.horizon
    units = sampling.uniform(key, (episodes, horizon + 1 + problem.state_size))
    noise = store.noise(store.recent(units[:, :horizon].T))
    return Trial(noise, reset(problem, numbers, units[:, horizon:]).state)


def reward_scale(problem: Problem, unit: float, key: Key[Array, ""]) -> Float[Array, ""]:
    """What rewards, in units, are divided by for the critic, from random steps in the region."""
    rewards = probe_rewards(problem, key)
    rewards = rewards if unit == 1 else rewards / unit
    size = jnp.sqrt(jnp.mean(rewards**2))
    return jnp.where(jnp.isfinite(size) & (size > 0), size, 1.0).astype(jnp.float32) / REWARD_UNIT
