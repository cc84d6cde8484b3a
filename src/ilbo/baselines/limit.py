"""The hindsight limit: the return with perfect information, that is, with the noise known.

For each drawn sequence of noise, the best sequence of actions given that noise. Its mean bounds the
value of every policy from above, since a policy does not see future noise (an information
relaxation). The optimum is found by gradient ascent from policies and random plans, then by rounds
of random search, which sees the steps of a reward that its gradient does not, and further ascent;
by ascent on what is added to the actions of the given policies while these react; and, where plans
are small, by BFGS from the best of all that, which gets on where rewards have kinks. Where all of
these stop short of the optimum, the limit is too low: `last_gain` says how much the end of the
search still found, and policies given as starts are never above it on their own noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key

from ilbo.baselines.open_loop import evaluation_noise, follow, reference_policies
from ilbo.baselines.polish import climb
from ilbo.errors import UserError
from ilbo.mdp.bounds import bounds_at, within
from ilbo.mdp.device import on_accelerator
from ilbo.mdp.model import Model
from ilbo.mdp.outside import NumpyPolicy, is_timed
from ilbo.mdp.problem import Problem
from ilbo.mdp.shapes import Action, State
from ilbo.mdp.simulate import PolicyFunction, Trajectories, as_key, discounted_sum, roll, step
from ilbo.mdp.uncertain import check_known

RANDOM_STARTS = 2
"""Random plans that each round ascends from, beside the best found so far."""
STEPS = 600
RATE = 0.05
"""Initial learning rate, as a share of the actions' range; it decays to 0."""
POLISH = 0.2
"""Share of that rate for the best plan found so far."""
ROUNDS = 20
"""Rounds of random search and ascent at most."""
PROPOSALS, AT_ONCE = 4000, 1000
"""Of the random search of one round: at most, and before it is asked whether they add anything."""
CONVERGED, PATIENCE = 1e-5, 2
"""The rounds end when this many in a row each add less than this share to the mean."""
MOST_NUMBERS = 160
"""Of a plan that is polished by BFGS, whose work grows with their cube; more where few of the noise
sequences differ."""
TWINS = 4
"""Of equal noise sequences, as all are where there is no noise, so many are polished."""
EVALUATIONS = 20
"""Of a pass of BFGS, for each of these numbers."""
WIDTHS = (0.03, 0.01, 0.03, 0.01)
"""How far beside the best plan each pass starts; they end as the rounds do."""
LEAST = -3e38
"""About the lowest float32: what is not finite counts as no more."""
BLOCK, WIDE_BLOCK = 256, 2048
"""Noise sequences that are solved side by side, on a processor and on an accelerator."""


@dataclass(frozen=True)
class Limit:
    """Returns of the best actions in hindsight."""

    mean: float
    standard_error: float
    returns: Float[np.ndarray, " episodes"]
    """One for each noise sequence."""
    actions: Float[np.ndarray, "episodes horizon m"]
    """The actions that earn them."""
    last_gain: float
    """What the last two rounds of the search, or passes of BFGS, added to the mean: near 0 where it
    has converged."""

    @property
    def lacking(self) -> float:
        """What the mean may lack, by an estimate: what the end of the search still added, and the
        share for which it would not have gone on, within which float32 adds up returns."""
        return self.last_gain + CONVERGED * float(np.abs(self.returns).mean())


def hindsight(
    problem: Problem,
    key: Key[Array, ""] | int,
    episodes: int = 64,
    start: Any = None,
    steps: int = STEPS,
    rounds: int = ROUNDS,
    policies: Sequence[PolicyFunction] = (),
) -> Limit:
    """The hindsight limit of a problem.

    Args:
        problem: What to act in.
        key: A JAX key, or a seed; the noise is that of `evaluate` with the same key and as many
            episodes, so returns can be compared one by one.
        episodes: Noise sequences.
        start: A start state [n]; the problem's own if None.
        steps: Steps of gradient ascent from each of the starts: the middle of the action bounds,
            the hand-written controller where there is one, the policies, and random actions.
        rounds: Rounds of random search and ascent from further random plans, at most; fewer where
            they add nothing.
        policies: Policies to start from. The limit is at least what they earn on its noise.
    """
    check_known(problem, "the hindsight limit")
    if steps < 1:
        raise UserError(f"The number of ascent steps must be at least 1, got {steps}.")
    if rounds < 0:
        raise UserError(f"The number of rounds must be at least 0, got {rounds}.")
    state = problem.initial_state if start is None else problem.check_start(start)
    noise = evaluation_noise(problem, as_key(key), episodes)
    alone = [p for p in policies if not getattr(p, "sees_return", False)]
    solve = partial(_solve, problem, reference_policies(problem), alone, state, steps, rounds)
    random_key = jax.random.fold_in(as_key(key), 1)
    size = WIDE_BLOCK if on_accelerator() else BLOCK
    blocks = [
        solve(noise[i : i + size], jax.random.fold_in(random_key, i))
        for i in range(0, episodes, size)
    ]
    returns = np.concatenate([block[0] for block in blocks])
    spread = returns.std(ddof=1) if episodes > 1 else np.nan
    return Limit(
        mean=float(returns.mean()),
        standard_error=float(spread / np.sqrt(episodes)),
        returns=returns,
        actions=np.concatenate([block[1] for block in blocks]),
        last_gain=float(sum(block[2] for block in blocks) / episodes),
    )


def _solve(
    problem: Problem,
    reference: Sequence[PolicyFunction],
    policies: Sequence[PolicyFunction],
    start: State,
    steps: int,
    rounds: int,
    noise: Float[Array, "e horizon k"],
    key: Key[Array, ""],
) -> tuple[Float[np.ndarray, " e"], Float[np.ndarray, "e horizon m"], float]:
    """Best returns, their actions, and the sum of what the last rounds gained."""
    shape = (RANDOM_STARTS, len(noise), problem.horizon, problem.action_size)
    paths = [_along(problem, policy, noise, start) for policy in [*reference, *policies]]
    guesses = jnp.stack([plan for plan, _, _ in paths])
    guesses = jnp.concatenate([guesses, _random(key, shape)])
    # Plans do not look: rounding may cost them what a policy earns, and more near it.
    reacting = [(earned, taken) for _, earned, taken in paths]
    reacting += [_near(problem, p, noise, start, steps) for p in policies if _differentiable(p)]
    floor = jnp.max(jnp.stack([earned for earned, _ in reacting]), axis=0)
    best, plans = _ascend(problem, guesses, jnp.ones(len(guesses)), noise, start, steps)
    rates = jnp.full(1 + RANDOM_STARTS, 1.0).at[0].set(POLISH)
    gains: list[float] = []
    for number in range(rounds):
        before = jnp.maximum(best, floor)
        search_key, random_key = jax.random.split(jax.random.fold_in(key, number))
        for part in jax.random.split(search_key, PROPOSALS // AT_ONCE):
            searched = best
            best, plans = _search(problem, plans, best, noise, start, part)
            if float(jnp.sum(best - searched)) <= CONVERGED * float(jnp.sum(jnp.abs(best))):
                break
        # A search that found a way over a step leaves the rest of it to the gradient.
        guesses = jnp.concatenate([plans[None], _random(random_key, shape)])
        found, climbed = _ascend(problem, guesses, rates, noise, start, max(1, steps // 2))
        plans = jnp.where((found > best)[:, None, None], climbed, plans)
        best = jnp.maximum(found, best)
        gains.append(float(jnp.sum(jnp.maximum(best, floor) - before)))
        small = CONVERGED * float(jnp.sum(jnp.abs(best)))
        if len(gains) >= PATIENCE and max(gains[-PATIENCE:]) <= small:
            break
    twins = _twins(noise)
    few = np.concatenate([np.flatnonzero(twins == i)[:TWINS] for i in range(twins.max() + 1)])
    small_enough = len(few) * plans[0].size ** 3 <= len(noise) * MOST_NUMBERS**3
    for width in WIDTHS if rounds and small_enough else ():
        best, plans = _of_twins(twins, best, plans)
        before = jnp.maximum(best, floor)
        key, climb_key = jax.random.split(key)
        found, climbed = _polish(problem, plans[few], noise[few], start, climb_key, width)
        better = found > best[few]
        plans = plans.at[few].set(jnp.where(better[:, None, None], climbed, plans[few]))
        best = best.at[few].max(found)
        now, _ = _of_twins(twins, best, plans)
        gains.append(float(jnp.sum(jnp.maximum(now, floor) - before)))
        if max(gains[-PATIENCE:]) <= CONVERGED * float(jnp.sum(jnp.abs(now))):
            break
    _, plans = _of_twins(twins, best, plans)
    returns, actions = _play(problem, plans, noise, start)
    for earned, taken in reacting:
        actions = jnp.where((earned > returns)[:, None, None], taken, actions)
        returns = jnp.maximum(earned, returns)
    returns, actions = _of_twins(twins, returns, actions)
    return np.asarray(returns, np.float64), np.asarray(actions), sum(gains[-PATIENCE:])


def _twins(noise: Float[Array, "e horizon k"]) -> Int[np.ndarray, " e"]:
    """The same number for equal noise: where there is none, or it has few values."""
    rows = np.asarray(noise).reshape(len(noise), noise.shape[1] * noise.shape[2])
    if not rows.shape[1]:
        return np.zeros(len(noise), np.int64)
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)


def _of_twins(
    twins: Int[np.ndarray, " e"], returns: Float[Array, " e"], plans: Float[Array, "e horizon m"]
) -> tuple[Float[Array, " e"], Float[Array, "e horizon m"]]:
    """What is the best for one sequence is so for every one that is equal to it."""
    same, sound = twins[:, None] == twins, jnp.nan_to_num(returns, nan=-jnp.inf)
    chosen = jnp.argmax(jnp.where(same, jnp.maximum(sound, LEAST), -jnp.inf), axis=1)
    return returns[chosen], plans[chosen]


def _random(key: Key[Array, ""], shape: tuple[int, int, int, int]) -> Float[Array, "g e horizon m"]:
    """Random plans. In all but the first each action has its own level, all of them equally likely:
    what is full after a while of medium actions, and stays so, is left by low ones alone."""
    key, level_key = jax.random.split(key)
    plain = jax.random.uniform(key, shape)
    level = jax.random.uniform(level_key, (shape[0], shape[1], 1, shape[3]), maxval=0.98) + 0.01
    return jnp.where(jnp.arange(shape[0])[:, None, None, None] > 0, plain ** (1 / level - 1), plain)


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
) -> tuple[Float[Array, "e horizon m"], Float[Array, " e"], Float[Array, "e horizon m"]]:
    """The actions of a policy along the noise: as a plan, what they earn, as they are."""
    starts = jnp.broadcast_to(start, (len(noise), problem.state_size))
    path = roll(problem.exact, policy, jnp.swapaxes(noise, 0, 1), jax.random.key(0), starts)
    low, high = bounds_at(problem.exact, path.states[:, :-1], jnp.arange(problem.horizon))
    plan = fractions(path.actions, low, high)
    return plan, discounted_sum(problem, path.rewards), path.actions


def _differentiable(policy: PolicyFunction) -> bool:
    return not (getattr(policy, "stochastic", False) or isinstance(policy, NumpyPolicy))


@eqx.filter_jit
def _near(
    problem: Problem,
    policy: PolicyFunction,
    noise: Float[Array, "e horizon k"],
    start: State,
    steps: int,
) -> tuple[Float[Array, " e"], Float[Array, "e horizon m"]]:
    """Best returns near a policy, and their actions: ascent on what is added to its actions, as
    shares of their range, while it reacts. A system that leaves its course is kept on it so."""
    optimizer = optax.adam(optax.cosine_decay_schedule(POLISH * RATE, steps), eps=1e-12)

    def episode(
        model: Model, added: Float[Array, "horizon m"], xis: Float[Array, "horizon k"]
    ) -> tuple[Array, Array, Array]:
        def one(carry: tuple[Array, Array], inputs: tuple[Array, Array, Array]) -> Any:
            (state, alive), (more, xi, time) = carry, inputs
            now = model.at(time)
            low, high = now.bounds(state)
            own = policy(state, time) if is_timed(policy) else policy(state)
            own, size = jnp.clip(own, low, high), within(low, high, 1.0) - within(low, high, 0.0)
            action = jnp.clip(own + more * size, low, high)
            # What the bounds cut off is not added again.
            kept = jnp.where(size > 0, (action - own) / jnp.where(size > 0, size, 1.0), 0.0)
            moved, reward, still = step(now, state, action, xi, alive)
            return (moved, still), (reward, action, kept)

        carry = (start, ~model.terminal(start))
        return jax.lax.scan(one, carry, (added, xis, jnp.arange(len(added))))[1]

    def total(added: Float[Array, "e horizon m"]) -> tuple[Array, tuple[Array, Array]]:
        rewards, _, kept = jax.vmap(partial(episode, problem.model))(added, noise)
        returns = discounted_sum(problem, rewards)
        return jnp.sum(returns), (returns, kept)

    relaxed = problem.exact is not problem.model

    def climb(carry: tuple[Array, optax.OptState, Array, Array], _: None) -> tuple[Any, None]:
        added, state, best, best_added = carry
        (_, (returns, kept)), gradient = jax.value_and_grad(total, has_aux=True)(added)
        if relaxed:
            rewards = jax.vmap(partial(episode, problem.exact))(added, noise)[0]
            returns = discounted_sum(problem, rewards)
        better = returns > best
        best_added = jnp.where(better[:, None, None], added, best_added)
        best = jnp.where(better, returns, best)
        usable = jnp.all(jnp.isfinite(gradient), axis=(-2, -1), keepdims=True)
        updates, state = optimizer.update(jnp.where(usable, -gradient, 0.0), state)
        return (kept + updates, state, best, best_added), None

    nothing = jnp.zeros((*noise.shape[:2], problem.action_size))
    carry = (nothing, optimizer.init(nothing), jnp.full(len(noise), -jnp.inf), nothing)
    (_, _, _, best), _ = jax.lax.scan(climb, carry, length=steps + 1)
    rewards, actions, _ = jax.vmap(partial(episode, problem.exact))(best, noise)
    return discounted_sum(problem, rewards), actions


def _act(fraction: Action, low: Action, high: Action) -> Action:
    return within(low, high, fraction)


def _paths(
    model: Model,
    plans: Float[Array, "*any e horizon m"],
    noise: Float[Array, "e horizon k"],
    start: State,
) -> Trajectories:
    """Episodes along plans, which are fractions of the way between the bounds."""

    def one(plan: Float[Array, "horizon m"], xi: Float[Array, "horizon k"]) -> Trajectories:
        return follow(model, _act, plan, xi, start)

    side_by_side = jax.vmap(one)
    for _ in plans.shape[:-3]:
        side_by_side = jax.vmap(side_by_side, in_axes=(0, None))
    return side_by_side(plans, noise)


@eqx.filter_jit
def _play(
    problem: Problem,
    plans: Float[Array, "e horizon m"],
    noise: Float[Array, "e horizon k"],
    start: State,
) -> tuple[Float[Array, " e"], Float[Array, "e horizon m"]]:
    """What plans earn on the exact model, and their actions."""
    path = _paths(problem.exact, plans, noise, start)
    return discounted_sum(problem, path.rewards), path.actions


def _ends(problem: Problem, start: State) -> tuple[Action, Action]:
    """Lowest and highest fraction of each action: no end where there is no bound."""
    low, high = problem.exact.at(jnp.zeros((), jnp.int32)).bounds(start)
    return (
        jnp.where(jnp.isfinite(low), 0.0, -jnp.inf),
        jnp.where(jnp.isfinite(high), 1.0, jnp.inf),
    )


@eqx.filter_jit
def _ascend(
    problem: Problem,
    guesses: Float[Array, "g e horizon m"],
    rates: Float[Array, " g"],
    noise: Float[Array, "e horizon k"],
    start: State,
    steps: int,
) -> tuple[Float[Array, " e"], Float[Array, "e horizon m"]]:
    """Projected gradient ascent on plans, at shares of the learning rate.

    Returns the best returns on the exact model over all guesses and steps, and their plans.
    """
    optimizer = optax.adam(optax.cosine_decay_schedule(RATE, steps), eps=1e-12)
    least, most = _ends(problem, start)

    def total(
        plans: Float[Array, "g e horizon m"],
    ) -> tuple[Float[Array, ""], Float[Array, "g e"]]:
        rewards = _paths(problem.model, plans, noise, start).rewards
        returns = discounted_sum(problem, rewards)
        return jnp.sum(returns), returns

    relaxed = problem.exact is not problem.model

    def step(carry: tuple[Array, optax.OptState, Array, Array], _: None) -> tuple[Any, None]:
        plans, state, best, best_plans = carry
        (_, returns), gradient = jax.value_and_grad(total, has_aux=True)(plans)
        if relaxed:
            rewards = _paths(problem.exact, plans, noise, start).rewards
            returns = discounted_sum(problem, rewards)
        better = returns > best
        best_plans = jnp.where(better[..., None, None], plans, best_plans)
        best = jnp.where(better, returns, best)
        usable = jnp.all(jnp.isfinite(gradient), axis=(-2, -1), keepdims=True)
        updates, state = optimizer.update(jnp.where(usable, -gradient, 0.0), state)
        plans = jnp.clip(plans + rates[:, None, None, None] * updates, least, most)
        return (plans, state, best, best_plans), None

    worst = jnp.full(guesses.shape[:2], -jnp.inf)
    carry = (guesses, optimizer.init(guesses), worst, guesses)
    (_, _, best, best_plans), _ = jax.lax.scan(step, carry, length=steps + 1)
    chosen = jnp.argmax(best, axis=0)
    plan = jnp.take_along_axis(best_plans, chosen[None, :, None, None], axis=0)[0]
    return jnp.max(best, axis=0), plan


@eqx.filter_jit
def _polish(
    problem: Problem,
    plans: Float[Array, "e horizon m"],
    noise: Float[Array, "e horizon k"],
    start: State,
    key: Key[Array, ""],
    width: float,
) -> tuple[Float[Array, " e"], Float[Array, "e horizon m"]]:
    """BFGS from plans: what they then earn on the exact model, and the plans.

    Numbers beyond a bound are reflected, so that a best plan at a bound is one at a kink.
    """
    least, most = _ends(problem, start)

    def plan_of(x: Float[Array, "e n"]) -> Float[Array, "e horizon m"]:
        return _reflected(x.reshape(plans.shape), least, most)

    def total(x: Float[Array, "e n"]) -> tuple[Float[Array, ""], Float[Array, " e"]]:
        rewards = _paths(problem.model, plan_of(x), noise, start).rewards
        returns = discounted_sum(problem, rewards)
        return jnp.sum(returns), returns

    def values(x: Float[Array, "e n"]) -> tuple[Float[Array, " e"], Float[Array, "e n"]]:
        (_, returns), gradient = jax.value_and_grad(total, has_aux=True)(x)
        return returns, gradient

    flat = plans.reshape(len(plans), -1)
    found = plan_of(climb(values, flat, key, width, EVALUATIONS * flat.shape[1]))
    rewards = _paths(problem.exact, found, noise, start).rewards
    return discounted_sum(problem, rewards), found


def _reflected(x: Float[Array, "*b m"], least: Action, most: Action) -> Float[Array, "*b m"]:
    """Between the lowest and highest fractions, which are 0 and 1 or none."""
    has_least, has_most = jnp.isfinite(least), jnp.isfinite(most)
    inside = jnp.mod(x, 2.0)
    inside = jnp.where(inside < 1, inside, 2 - inside)
    above, below = jnp.where(x < 0, -x, x), jnp.where(x > 1, 2 - x, x)
    one = jnp.where(has_least, above, jnp.where(has_most, below, x))
    return jnp.where(has_least & has_most, inside, one)


@eqx.filter_jit
def _search(
    problem: Problem,
    plans: Float[Array, "e horizon m"],
    best: Float[Array, " e"],
    noise: Float[Array, "e horizon k"],
    start: State,
    key: Key[Array, ""],
) -> tuple[Float[Array, " e"], Float[Array, "e horizon m"]]:
    """Random changes of plans, kept where they earn more on the exact model.

    A change shifts a random share of a plan's numbers by a random width, both of all sizes.
    """
    least, most = _ends(problem, start)
    episodes, horizon, actions = plans.shape

    def step(
        carry: tuple[Float[Array, " e"], Float[Array, "e horizon m"]], key: Key[Array, ""]
    ) -> tuple[Any, None]:
        best, plans = carry
        share_key, width_key, which_key, shift_key = jax.random.split(key, 4)
        one_each = (episodes, 1, 1)
        smallest = jnp.log(1 / (horizon * actions))
        share = jnp.exp(jax.random.uniform(share_key, one_each, minval=smallest, maxval=0.0))
        width = jnp.exp(jax.random.uniform(width_key, one_each, minval=jnp.log(1e-3), maxval=0.0))
        which = jax.random.uniform(which_key, plans.shape) < share
        shift = jnp.where(which, width * jax.random.normal(shift_key, plans.shape), 0.0)
        proposed = jnp.clip(plans + shift, least, most)
        rewards = _paths(problem.exact, proposed, noise, start).rewards
        returns = discounted_sum(problem, rewards)
        better = returns > best
        plans = jnp.where(better[:, None, None], proposed, plans)
        return (jnp.where(better, returns, best), plans), None

    (best, plans), _ = jax.lax.scan(step, (best, plans), jax.random.split(key, AT_ONCE))
    return best, plans
