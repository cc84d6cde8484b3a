"""The hindsight limit: the return with perfect information, that is, with the noise known.

For each drawn sequence of noise, the best sequence of actions given that noise. Its mean bounds the
value of every policy from above, since a policy does not see future noise (an information
relaxation). The optimum is found by gradient ascent from several starts: where the ascent stops
short of it, the estimate is too low.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key

from ilbo.baselines.open_loop import evaluation_noise, follow, reference_policies
from ilbo.errors import UserError
from ilbo.mdp.bounds import within
from ilbo.mdp.model import Model
from ilbo.mdp.problem import Problem
from ilbo.mdp.shapes import Action, State
from ilbo.mdp.simulate import PolicyFunction, Trajectories, as_key, discounted_sum, roll

RANDOM_STARTS = 4
STEPS = 600
RATE = 0.05
"""Initial learning rate, as a share of the actions' range; it decays to 0."""


@dataclass(frozen=True)
class Limit:
    """Returns of the best actions in hindsight."""

    mean: float
    standard_error: float
    returns: Float[np.ndarray, " episodes"]
    """One for each noise sequence."""
    actions: Float[np.ndarray, "episodes horizon m"]
    """The actions that earn them."""


def hindsight(
    problem: Problem,
    key: Key[Array, ""] | int,
    episodes: int = 64,
    start: Any = None,
    steps: int = STEPS,
) -> Limit:
    """The hindsight limit of a problem.

    Args:
        problem: What to act in.
        key: A JAX key, or a seed; the noise is that of `evaluate` with the same key, so returns can
            be compared one by one.
        episodes: Noise sequences.
        start: A start state [n]; the problem's own if None.
        steps: Steps of gradient ascent from each of the starts: the middle of the action bounds,
            the hand-written controller where there is one, and random actions.
    """
    if steps < 1:
        raise UserError(f"The number of ascent steps must be at least 1, got {steps}.")
    state = problem.initial_state if start is None else problem.check_start(start)
    noise = evaluation_noise(problem, as_key(key), episodes)
    random_key = jax.random.fold_in(as_key(key), 1)
    shape = (RANDOM_STARTS, episodes, problem.horizon, problem.action_size)
    guesses = [*jax.random.uniform(random_key, shape)]
    guesses += [_along(problem, policy, noise, state) for policy in reference_policies(problem)]
    best, actions = _ascend(problem, jnp.stack(guesses), noise, state, steps)
    returns = np.asarray(best, np.float64)
    spread = returns.std(ddof=1) if episodes > 1 else np.nan
    return Limit(
        mean=float(returns.mean()),
        standard_error=float(spread / np.sqrt(episodes)),
        returns=returns,
        actions=np.asarray(actions),
    )


def fractions(
    action: Float[Array, "*b m"], low: Float[Array, "*b m"], high: Float[Array, "*b m"]
) -> Float[Array, "*b m"]:
    """The actions as fractions of the way between their bounds, 1/2 where these are equal.

    The inverse of `within`."""
    bottom, top = within(low, high, 0.0), within(low, high, 1.0)
    return jnp.where(
        top > bottom, (action - bottom) / jnp.where(top > bottom, top - bottom, 1), 0.5
    )


@eqx.filter_jit
def _along(
    problem: Problem, policy: PolicyFunction, noise: Float[Array, "e horizon k"], start: State
) -> Float[Array, "e horizon m"]:
    """The actions of a policy along the noise, as a plan."""
    starts = jnp.broadcast_to(start, (len(noise), problem.state_size))
    path = roll(problem.exact, policy, jnp.swapaxes(noise, 0, 1), jax.random.key(0), starts)
    low, high = jax.vmap(jax.vmap(problem.exact.bounds))(path.states[:, :-1])
    return fractions(path.actions, low, high)


@eqx.filter_jit
def _ascend(
    problem: Problem,
    guesses: Float[Array, "g e horizon m"],
    noise: Float[Array, "e horizon k"],
    start: State,
    steps: int,
) -> tuple[Float[Array, " e"], Float[Array, "e horizon m"]]:
    """Projected gradient ascent on plans, which are fractions of the way between the bounds.

    Returns the best returns on the exact model over all guesses and steps, and their actions.
    """
    optimizer = optax.adam(optax.cosine_decay_schedule(RATE, steps), eps=1e-12)
    low, high = problem.exact.bounds(start)
    least, most = (
        jnp.where(jnp.isfinite(low), 0.0, -jnp.inf),
        jnp.where(jnp.isfinite(high), 1, jnp.inf),
    )

    def act(fraction: Action, low: Action, high: Action) -> Action:
        return within(low, high, fraction)

    def every(model: Model, plans: Float[Array, "any e horizon m"]) -> Trajectories:
        def one(plan: Float[Array, "horizon m"], xi: Float[Array, "horizon k"]) -> Trajectories:
            return follow(model, act, plan, xi, start)

        return jax.vmap(jax.vmap(one), in_axes=(0, None))(plans, noise)

    def total(
        plans: Float[Array, "g e horizon m"],
    ) -> tuple[Float[Array, ""], Float[Array, "g e"]]:
        returns = discounted_sum(problem, every(problem.model, plans).rewards)
        return jnp.sum(returns), returns

    relaxed = problem.exact is not problem.model

    def step(carry: tuple[Array, optax.OptState, Array, Array], _: None) -> tuple[Any, None]:
        plans, state, best, best_plans = carry
        (_, returns), gradient = jax.value_and_grad(total, has_aux=True)(plans)
        if relaxed:
            returns = discounted_sum(problem, every(problem.exact, plans).rewards)
        better = returns > best
        best_plans = jnp.where(better[..., None, None], plans, best_plans)
        best = jnp.where(better, returns, best)
        usable = jnp.all(jnp.isfinite(gradient), axis=(-2, -1), keepdims=True)
        updates, state = optimizer.update(jnp.where(usable, -gradient, 0.0), state)
        return (jnp.clip(plans + updates, least, most), state, best, best_plans), None

    worst = jnp.full(guesses.shape[:2], -jnp.inf)
    carry = (guesses, optimizer.init(guesses), worst, guesses)
    (_, _, best, best_plans), _ = jax.lax.scan(step, carry, length=steps + 1)
    chosen = jnp.argmax(best, axis=0)
    plan = jnp.take_along_axis(best_plans, chosen[None, :, None, None], axis=0)[0]
    return jnp.max(best, axis=0), every(problem.exact, plan[None]).actions[0]
