"""Training beyond the mean: the wider problem, what is planned for in it, and what is handed out.

A problem with uncertain parameters, or with another objective than the mean return, is trained in a
wider state (`ilbo.mdp.widened`). An objective is max_η E u(R; η): the policy climbs the bound of
E u at fixed η, and after each segment η follows what is best for the newest policy along replayed
noise. For the worst case over parameters, η are the logarithms of the shares in which training
draws them: those under which the policy earns little are drawn more often.

Limits on costs are kept by what `ilbo.planning.limited` says.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ilbo.errors import UserError
from ilbo.mdp import sampling
from ilbo.mdp.limits import Tally
from ilbo.mdp.objective import Mean, Objective, objective_of
from ilbo.mdp.problem import Problem
from ilbo.mdp.simulate import Trajectories, Trial, discounted_sum, draw_noise, is_sound, roll
from ilbo.mdp.widened import Widened, sighted, valued, wide_model, widened
from ilbo.nn.parameters import Parameters
from ilbo.planning import limited
from ilbo.planning.config import ILBO
from ilbo.planning.units import InUnits

if TYPE_CHECKING:
    from ilbo.nn.policy import Policy
    from ilbo.planning.state import ILBOState

FIRST = 256
"""Episodes of the untrained policy that η begins with."""
PACE = 0.5
"""Share of the way to its new value that η goes after each segment."""
TURN = (0.3, 0.6)
"""Shares of training between which the mean gives way to the objective: late, since while little is
earned, whatever has no spread looks good."""
Span = Float[Array | np.ndarray, "2"]
TEST_DRAWS = 0xD2A
FORGET, HARSH = 0.9, 0.5
"""How fast shares of the parameters forget, and how far they move against the policy."""


class Aim(eqx.Module):
    """What moves along with the policy between segments."""

    numbers: Float[Array, " e"]
    """η."""
    span: Span
    """The range of the return so far, for the scale of the networks' inputs."""
    share: Float[Array, ""]
    """Of the utility in what is climbed; the rest is the mean, with which training begins: bad
    episodes alone teach little of a problem."""
    rest: Float[Array, "2 times"]
    """Mean and standard deviation of what is still earned after each number of steps."""
    usual: Float[Array, "2 times"]
    """Those of the return so far."""
    prices: limited.Prices | None = None
    """What costs are charged at, where they are limited."""


class Held(NamedTuple):
    """What is handed out: the policy's parameters, and the scale that they were learnt in."""

    theta: Parameters
    span: Span
    kept: limited.Kept | None = None
    """How the limits are kept, where there are any."""


class Beyond(eqx.Module):
    """A problem whose state is widened, and its objective."""

    problem: Problem
    objective: Objective = eqx.field(static=True)

    @classmethod
    def of(cls, problem: Problem, config: ILBO) -> Beyond | None:
        """None where the mean of a known model is planned for, without limits."""
        objective = objective_of(config.objective)
        if problem.uncertain is None and isinstance(objective, Mean) and not problem.limits:
            return None
        return cls(problem, objective)

    @property
    def earned(self) -> bool:
        """Whether the return so far is part of the state."""
        return self.objective.of_returns

    def wide(self, span: Span | None = None) -> Problem:
        """The problem in all of its state, with the rewards of the problem."""
        limits = self.problem.limits
        return widened(self.problem, self.problem.uncertain, self.earned, span, limits)

    def seen(self, span: Span | None = None) -> Problem:
        """The problem in the state that the policy sees."""
        found = self.problem.uncertain
        shown = found if found is not None and found.seen else None
        return widened(self.problem, shown, self.objective.sees_return and self.earned, span)

    def trained(self, aim: Aim, unit: float) -> Problem:
        """The problem that training sees: its rewards add up to what is planned for."""
        wide = self.wide(aim.span)
        charges = None if aim.prices is None else aim.prices.charges
        model = dataclasses.replace(wide_model(wide), numbers=aim.numbers, charges=charges)
        wide = eqx.tree_at(lambda p: p.model, wide, model)
        wide = (
            valued(wide, self.objective, aim.numbers, aim.rest, aim.usual, aim.share)
            if self.earned
            else wide
        )
        if unit == 1:
            return wide
        return eqx.tree_at(lambda p: p.model, wide, InUnits(wide.model, unit))

    @property
    def tilts(self) -> bool:
        return self.objective.over_parameters

    def nodes(self) -> Float[Array, "nodes j"]:
        assert self.problem.uncertain is not None
        return self.problem.uncertain.nodes

    # Episodes of the wider problem.

    def units(self, key: Key[Array, ""], shape: tuple[int, ...]) -> Float[Array, "*shape units"]:
        """What `begin` makes starts of: numbers in [0, 1], and drawn parameters in their places."""
        wide = self.wide()
        uniform = sampling.uniform(key, (*shape, 1 + wide.state_size))
        found = self.problem.uncertain
        if found is None or self.tilts:
            return uniform
        place = wide_model(wide).places[1]
        drawn = found.sample(jax.random.fold_in(key, 1), shape)
        return uniform.at[..., 1 + place.start : 1 + place.stop].set(drawn)

    def episodes_at(
        self, starts: Float[Array, "b n"], key: Key[Array, ""]
    ) -> Float[Array, "b width"]:
        """Starts of test episodes, with parameters by their law, or each node in turn."""
        found = self.problem.uncertain
        drawn = jnp.zeros((len(starts), 0))
        if found is not None:
            each = jnp.arange(len(starts)) % len(found.nodes)
            drawn = found.nodes[each] if self.tilts else found.sample(key, (len(starts),))
        return wide_model(self.wide()).begin(starts, drawn)

    def value(self, earned: Float[Array, " b"]) -> Float[Array, ""]:
        """The objective of the returns of episodes such as `episodes_at` gives."""
        sound = jnp.all(jnp.isfinite(earned))
        safe = jnp.where(jnp.isfinite(earned), earned, 0.0)
        found = jnp.min(self.by_node(safe)) if self.tilts else self.objective.value(safe)
        return jnp.where(sound, found, -jnp.inf)

    def share_after(self, done: Float[Array, ""]) -> Float[Array, ""]:
        """Of the objective in what is climbed, after this share of training."""
        first, last = TURN
        turned = jnp.clip((done - first) / (last - first), 0.0, 1.0)
        return (self.objective.share_trained * turned).astype(jnp.float32)

    def by_node(self, earned: Float[Array, " b"]) -> Float[Array, " nodes"]:
        """Mean return under each node, where episodes take them in turn."""
        count = len(self.nodes())
        each = jnp.arange(len(earned)) % count
        sums = jnp.zeros(count).at[each].add(earned)
        return sums / jnp.maximum(jnp.zeros(count).at[each].add(1.0), 1.0)

    def follow(self, aim: Aim, totals: Float[Array, "b times"], done: Float[Array, ""]) -> Aim:
        """What moves along, after a segment in which the newest policy earned so much by then."""
        sound = jnp.all(jnp.isfinite(totals))
        totals = jnp.where(sound, totals, 0.0)
        earned = totals[:, -1]
        if self.tilts:
            means = self.by_node(earned)
            spread = jnp.maximum(jnp.max(means) - jnp.min(means), 1e-30)
            push = HARSH * (jnp.max(means) - means) / spread
            numbers = FORGET * aim.numbers + push
        else:
            wanted = self.objective.numbers(earned)
            numbers = aim.numbers + PACE * (wanted - aim.numbers)
        rest = aim.rest + PACE * (moments(totals[:, -1:] - totals) - aim.rest)
        usual = aim.usual + PACE * (moments(totals) - aim.usual)
        # The scale settles, so that the policy can.
        wanted_span = span_of(earned)
        span = aim.span + PACE * (1 - done) ** 2 * (wanted_span - aim.span)
        return Aim(
            jnp.where(sound, numbers, aim.numbers).astype(jnp.float32),
            jnp.where(sound, span, aim.span).astype(jnp.float32),
            self.share_after(done),
            jnp.where(sound, rest, aim.rest).astype(jnp.float32),
            jnp.where(sound, usual, aim.usual).astype(jnp.float32),
        )


def moments(totals: Float[Array, "b times"]) -> Float[Array, "2 times"]:
    """Mean and standard deviation at each time."""
    return jnp.stack([jnp.mean(totals, axis=0), jnp.std(totals, axis=0)]).astype(jnp.float32)


def span_of(earned: Float[Array, " b"]) -> Float[Array, "2"]:
    """The range that returns so far have, given returns at the end."""
    low, high = jnp.minimum(jnp.min(earned), 0.0), jnp.maximum(jnp.max(earned), 0.0)
    return jnp.stack([low, jnp.maximum(high, low + 1e-6)]).astype(jnp.float32)


def begin(problem: Problem, state: Array, units: Array) -> Array:
    """Starts of training episodes of a problem that may be widened; `units` are those of their
    region, where drawn parameters stand in their places."""
    model = problem.model.model if isinstance(problem.model, InUnits) else problem.model
    if not isinstance(model, Widened):
        return state
    own, place, _ = model.places
    drawn = units[:, place]
    if model.uncertain is not None and model.tilted and model.numbers is not None:
        shares = jnp.cumsum(jax.nn.softmax(model.numbers))
        which = jnp.searchsorted(shares, drawn[:, 0] * shares[-1], side="right")
        drawn = model.uncertain.nodes[jnp.minimum(which, len(shares) - 1)]
    return model.begin(state[:, own], drawn)


@runtime_checkable
class Training(Protocol):
    """What is asked of the trainer."""

    @property
    def problem(self) -> Problem: ...
    @property
    def config(self) -> ILBO: ...
    @property
    def total_steps(self) -> Float[Array, ""]: ...
    @property
    def beyond(self) -> Beyond | None: ...
    def policy(self, parameters: Any) -> Policy: ...


def first_aim(trainer: Training, theta: Parameters, key: Key[Array, ""], size: Array) -> Aim:
    """η for the untrained policy; `size` is that of rewards."""
    beyond = trainer.beyond
    assert beyond is not None
    problem, none = trainer.problem, jnp.zeros((), jnp.float32)
    ends = size * problem.horizon * jnp.array([-1.0, 1.0])
    rest = jnp.zeros((2, problem.horizon + 1), jnp.float32)
    if not beyond.earned and not problem.limits:
        nodes = len(beyond.nodes()) if beyond.tilts else 0
        return Aim(jnp.zeros(nodes, jnp.float32), jnp.zeros(2, jnp.float32), none, rest, rest)
    noise = draw_noise(problem.exact, key, (problem.horizon, FIRST))
    own = jnp.broadcast_to(problem.initial_state, (FIRST, problem.state_size))
    trial = Trial(noise, beyond.episodes_at(own, jax.random.fold_in(key, 1)))
    if problem.limits:
        path = run(trainer, Held(theta, ends), trial)
        costs = limited.measured(wide_model(beyond.wide()), problem.limits, path)
        prices = limited.Prices.first(problem.limits, problem.horizon, costs)
        nothing = jnp.zeros(0, jnp.float32), jnp.zeros(2, jnp.float32)
        return Aim(*nothing, none, rest, rest, prices)
    totals = earn(trainer, Held(theta, ends), trial)
    totals = jnp.where(jnp.isfinite(totals), totals, 0.0)
    earned = totals[:, -1]
    numbers = beyond.objective.numbers(earned).astype(jnp.float32)
    rest = moments(totals[:, -1:] - totals)
    return Aim(numbers, span_of(earned), none, rest, moments(totals))


def run(trainer: Training, held: Held, trial: Trial) -> Trajectories:
    """Episodes of a policy along a trial of the wider problem."""
    assert trainer.beyond is not None
    exact = trainer.beyond.wide().exact
    assert isinstance(exact, Widened)
    policy = sighted(trainer.policy(held).fixed(), exact)
    return roll(exact, policy, trial.noise, jax.random.key(0), trial.starts)


def earn(trainer: Training, held: Held, trial: Trial) -> Float[Array, "b times"]:
    """Returns so far of a policy along a trial of the wider problem, [b, horizon + 1]; −inf in all
    of an episode that is not sound."""
    assert trainer.beyond is not None
    wide, path = trainer.beyond.wide(), run(trainer, held, trial)
    rewards = path.rewards
    if not (isinstance(wide.discount, float) and wide.discount == 1):
        rewards = rewards * wide.discount ** jnp.arange(wide.horizon)
    totals = jnp.pad(jnp.cumsum(rewards, axis=1), ((0, 0), (1, 0)))
    return jnp.where(is_sound(path)[:, None], totals, -jnp.inf)


def select(
    trainer: Training, state: ILBOState, held: Held, test: Trial
) -> tuple[ILBOState, Held, Float[Array, ""]]:
    """`ILBOTrainer.select` by the objective instead of the mean; moves η as well."""
    beyond = trainer.beyond
    assert beyond is not None
    assert state.aim is not None
    if trainer.problem.limits:
        return select_kept(trainer, state, held, test)
    episodes = max(trainer.config.guard, 1) * beyond.objective.effort
    key, place_key, drawn_key = jax.random.split(state.key, 3)
    places = sampling.uniform(place_key, (trainer.problem.horizon, episodes))
    replayed = state.store.noise(state.store.recent(places))
    trial = before_test(trainer, replayed, drawn_key, test)
    newest = Held(state.slow_policy, state.aim.span)
    both = jax.tree.map(lambda *x: jnp.stack(x), held, newest)
    earned = jax.lax.map(lambda one: earn(trainer, one, trial), both)
    values = jax.vmap(beyond.value)(earned[:, :episodes, -1])
    better = (values[1] > values[0]).astype(int)
    if trainer.config.guard == 0:
        better = jnp.where(jnp.isfinite(values[1]), 1, 0)
    held = jax.tree.map(lambda x: x[better], both)
    done = jnp.clip(state.step / trainer.total_steps, 0.0, 1.0)
    aim = beyond.follow(state.aim, earned[1, :episodes], done)
    state = eqx.tree_at(lambda s: (s.key, s.aim), state, (key, aim))
    return state, held, beyond.value(earned[better, episodes:, -1])


def select_kept(
    trainer: Training, state: ILBOState, held: Held, test: Trial
) -> tuple[ILBOState, Held, Float[Array, ""]]:
    """`select` where there are limits: the policy that keeps them, with a margin, and earns most.
    What costs are charged at moves as well."""
    beyond, aim, limits = trainer.beyond, state.aim, trainer.problem.limits
    assert beyond is not None
    assert aim is not None
    assert aim.prices is not None
    assert held.kept is not None
    episodes = limited.episodes_of(trainer.problem, trainer.config.guard)
    key, noise_key, drawn_key = jax.random.split(state.key, 3)
    # Fresh: the policy was fitted to the store, whose tails are too few to tell small chances.
    noise = draw_noise(trainer.problem.exact, noise_key, (trainer.problem.horizon, episodes))
    trial = before_test(trainer, noise, drawn_key, test)
    newest = Held(state.slow_policy, aim.span, held.kept)
    both = jax.tree.map(lambda *x: jnp.stack(x), held, newest)
    wide = wide_model(beyond.wide())

    def one(candidate: Held) -> tuple[Array, list[Any], list[Tally]]:
        path = run(trainer, candidate, trial)
        costs = limited.measured(wide, limits, path)
        earned = jnp.where(is_sound(path), discounted_sum(trainer.problem, path.rewards), -jnp.inf)
        judged = [(cost[:episodes], alive[:episodes]) for cost, alive in costs]
        samples = [limit.samples(*x) for limit, x in zip(limits, judged, strict=True)]
        tallies = [Tally.of(sample) for sample in samples]
        return earned, judged, jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), tallies)

    earned, costs, tallies = jax.lax.map(one, both)
    means = jnp.mean(earned[:, :episodes], axis=1)
    old, new = (jax.tree.map(lambda x, i=i: x[i], tallies) for i in (0, 1))
    judged = held.kept.adding(limits, old), limited.Kept.of(limits, new)
    better = limited.is_better(judged[1], means[1], judged[0], means[0])
    better = (better & jnp.isfinite(means[1])).astype(int)
    kept = jax.tree.map(lambda *x: jnp.stack(x)[better], *judged)
    held = jax.tree.map(lambda x: x[better], both)._replace(kept=kept)
    done = jnp.clip(state.step / trainer.total_steps, 0.0, 1.0)
    latest = jax.tree.map(lambda x: x[1], (costs, earned[:, :episodes]))
    prices = aim.prices.seeing(limits, latest[0], limited.PACE)
    prices = prices.moved(limits, new, latest[1], done)
    aim = dataclasses.replace(aim, prices=prices)
    state = eqx.tree_at(lambda s: (s.key, s.aim), state, (key, aim))
    return state, held, jnp.mean(earned[better, episodes:])


def before_test(
    trainer: Training, noise: Float[Array, "horizon b k"], key: Key[Array, ""], test: Trial
) -> Trial:
    """Episodes along the noise, then those of the test; all from the problem's own start, whose
    returns alone the objective and the limits are of."""
    problem, beyond, episodes = trainer.problem, trainer.beyond, noise.shape[1]
    assert beyond is not None
    own = jnp.broadcast_to(problem.initial_state, (episodes, problem.state_size))
    judged = Trial(noise, beyond.episodes_at(own, key))
    tested = Trial(test.noise, beyond.episodes_at(test.starts, jax.random.key(TEST_DRAWS)))
    return Trial(*(jnp.concatenate(x, axis=-2) for x in zip(judged, tested, strict=True)))


def check(problem: Problem, config: ILBO) -> None:
    """Raises where the objective or the limits cannot be planned for with these settings."""
    objective = objective_of(config.objective)
    if config.shares and Beyond.of(problem, config) is not None:
        raise UserError(
            "A policy that is shared between components is trained for the mean of a known model, "
            "without limits: use the setting policy=state."
        )
    if problem.limits and not isinstance(objective, Mean):
        raise UserError(
            f"Limits are kept while the mean return is planned for, not {objective}: leave out the "
            "limits, or use the setting objective=mean."
        )
    for name, wanted in (("critic", "time-left"), ("estimator", "pathwise")):
        if problem.limits and getattr(config, name) != wanted:
            raise UserError(
                f"Limits are about whole episodes and need the setting {name}={wanted}."
            )
    if objective.over_parameters and problem.uncertain is None:
        raise UserError(
            f"The objective {objective} is about uncertain parameters, and {problem.name} has "
            "none: give the problem some, Problem(uncertain=...), or choose another objective."
        )
    if not objective.of_returns:
        return
    if config.critic != "time-left":
        raise UserError(
            f"The objective {objective} is about whole episodes, so the critic must see the time: "
            "use the setting critic=time-left."
        )
    if config.gradient.name != "pathwise":
        raise UserError(
            f"The objective {objective} needs the model's derivatives: use the setting "
            "estimator=pathwise."
        )
