"""Problems whose state holds more of the episode: drawn parameters, and the return so far.

What is beyond the mean of a known model becomes a problem of the usual kind in a wider state
x = (s, θ, R, B): θ, drawn at the start, stays as it is, and R collects the rewards. Where the
objective is the expectation of a utility u(R), it is a function of that state at the end. B tells
of each limit on a chance how far it has been broken already.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from ilbo.mdp.laws.law import Law
from ilbo.mdp.limits import Charges, Limit, broken_after, chances
from ilbo.mdp.model import Model
from ilbo.mdp.objective import Objective
from ilbo.mdp.outside import NumpyPolicy, is_timed
from ilbo.mdp.problem import Origin, Problem
from ilbo.mdp.shapes import Action, Noise, Number, State
from ilbo.mdp.uncertain import Uncertain

Inputs = Float[Array | np.ndarray, " sees"]
RETURN = "return so far"
MOST_BROKEN = 0.5
"""Of a limit, in states that a policy is trained at: broken, nothing more can be learnt of it."""
WIDER = 1.2
"""Spread of the returns so far that are trained on, in units of what is usual."""
NODES = 9
"""Of the quadrature over what is still earned."""


class Widened(Model):
    """A model in the wider state. What the policy may see comes first, so that it is a prefix."""

    model: Model
    uncertain: Uncertain | None
    size: int = eqx.field(static=True)
    """Components n of the model's own state."""
    earned: bool = eqx.field(static=True)
    """Whether the return so far is a component."""
    discount: Number = 1.0
    objective: Objective | None = eqx.field(static=True, default=None)
    """What u is; None where the mean is planned for."""
    numbers: Float[Array, " e"] | None = None
    """η of the objective; of the worst case, logarithms of the shares of the parameters' nodes."""
    rest: Float[Array, "2 times"] | None = None
    """Mean and standard deviation of what is still earned after each number of steps."""
    usual: Float[Array, "2 times"] | None = None
    """Those of the return so far."""
    share: Number = 1.0
    """Of the utility in the reward; the rest is the return itself."""
    limits: tuple[Limit, ...] = ()
    """On its costs."""
    charges: Charges | None = None
    """What the costs are charged at against the reward; None where that is the problem's own."""
    horizon: int = eqx.field(static=True, default=1)
    time: Any = None

    @classmethod
    def around(
        cls,
        model: Model,
        problem: Problem,
        uncertain: Uncertain | None,
        earned: bool,
        limits: tuple[Limit, ...] = (),
    ) -> Widened:
        """Around a model of the problem."""
        return cls(
            model,
            uncertain,
            problem.state_size,
            earned,
            discount=problem.discount if earned or limits else 1.0,
            limits=limits,
            horizon=problem.horizon,
        )

    @property
    def law(self) -> Law:
        return self.model.law

    @property
    def sees_time(self) -> bool:
        by_step = any(limit.of_steps for limit in self.limits)
        return self.model.sees_time or by_step or not self._undiscounted

    @property
    def _undiscounted(self) -> bool:
        return isinstance(self.discount, float) and self.discount == 1

    def at(self, time: Any) -> Model:
        return dataclasses.replace(self, time=time) if self.sees_time else self

    def noise(self, key: Key[Array, ""]) -> Noise:
        return self.model.noise(key)

    @property
    def tilted(self) -> bool:
        """Whether training draws the parameters by other shares than their law."""
        return self.numbers is not None and len(self.numbers) > 0 and not self.earned

    @property
    def places(self) -> tuple[slice, slice, slice]:
        """Where s, θ and R are."""
        n, j = self.size, 0 if self.uncertain is None else self.uncertain.size
        e = int(self.earned)
        if self.uncertain is not None and self.uncertain.seen:
            return slice(0, n), slice(n, n + j), slice(n + j, n + j + e)
        return slice(0, n), slice(n + e, n + e + j), slice(n, n + e)

    @property
    def width(self) -> int:
        return self._before_broken + chances(self.limits)

    @property
    def _before_broken(self) -> int:
        return self.size + (self.uncertain.size if self.uncertain else 0) + self.earned

    def join(self, state: Any, drawn: Any, earned: Any, broken: Any = None) -> Array:
        """(s, θ, R, B) as one vector, with leading axes; nothing is broken unless said."""
        if broken is None:
            broken = jnp.zeros((*state.shape[:-1], chances(self.limits)))
        own = [state, earned, drawn] if not self._drawn_first else [state, drawn, earned]
        parts = [jnp.asarray(part, state.dtype) for part in (*own, broken)]
        return jnp.concatenate(parts if parts[-1].shape[-1] else parts[:-1], axis=-1)

    @property
    def _drawn_first(self) -> bool:
        return self.uncertain is not None and self.uncertain.seen

    def begin(self, state: Float[Array, "*b n"], drawn: Float[Array, "*b j"]) -> Array:
        """The starts of episodes, [*b, width]."""
        earned = jnp.zeros((*state.shape[:-1], int(self.earned)))
        return self.join(state, drawn, earned)

    def _here(self, x: State) -> Model:
        """The model at what was drawn."""
        if self.uncertain is None:
            return self.model.at(self.time)
        return self.uncertain.put_into(self.model, x[self.places[1]]).at(self.time)

    def _possible(self, here: Model, state: State, action: Action) -> Action:
        """A policy that does not see the parameters may ask for more than they allow."""
        if self.uncertain is None:
            return action
        low, high = here.bounds(state)
        return jnp.where(action < low, low, jnp.where(action > high, high, action))

    def transition(self, state: State, action: Action, noise: Noise) -> State:
        here, (own, drawn, total) = self._here(state), self.places
        action = self._possible(here, state[own], action)
        moved = here.transition(state[own], action, noise).astype(state.dtype)
        after = state[total]
        if self.earned:
            reward = here.reward(state[own], action, moved)
            known = self._undiscounted
            after = after + (reward if known else self.discount**self.time * reward)
        broken = state[self._before_broken :]
        if self.charges is not None:
            costs = here.costs(state[own], action, moved)
            broken = broken_after(self.limits, self.charges.widths, broken, costs)
        return self.join(moved, state[drawn], after, broken)

    def reward(self, state: State, action: Action, next_state: State) -> Float[Array, ""]:
        here, own = self._here(state), self.places[0]
        action = self._possible(here, state[own], action)
        reward = here.reward(state[own], action, next_state[own])
        if self.charges is None:
            return reward
        costs, broken = (
            here.costs(state[own], action, next_state[own]),
            state[self._before_broken :],
        )
        broke = broken_after(self.limits, self.charges.widths, broken, costs) - broken
        charged = self.charges.charged(self.limits, costs, broke, self.time, self.horizon)
        # Costs are summed as they are, whatever the discount.
        return reward - (charged if self._undiscounted else charged / self.discount**self.time)

    def rejoined(self, state: State, action: Action, moved: State) -> State:
        """A next state that was stored, with what it leaves broken as the edges are now."""
        assert self.charges is not None
        broken = state[self._before_broken :]
        costs = self.costs(state, action, moved)
        after = broken_after(self.limits, self.charges.widths, broken, costs)
        return moved.at[self._before_broken :].set(after.astype(moved.dtype))

    def rebroken(
        self,
        states: Float[Array, "b n"],
        time: Int[Array, " b"],
        key: Key[Array, ""] | None,
    ) -> Float[Array, "b n"]:
        """The same states with as much broken as is usual now; anything between nothing and all
        where a key is given, for the critic to know it all."""
        count = chances(self.limits)
        if self.charges is None or not count:
            return states
        if key is None:
            each = np.array([limit.of_chance for limit in self.limits])
            broken = jnp.minimum(self.charges.usual[each][:, time].T, MOST_BROKEN)
        else:
            broken = jax.random.uniform(key, (len(states), count))
        return states.at[:, self._before_broken :].set(broken.astype(states.dtype))

    def relabelled(
        self,
        states: Float[Array, "b n"],
        following: Float[Array, "b n"],
        time: Int[Array, " b"],
        key: Key[Array, ""],
    ) -> tuple[Float[Array, "b n"], Float[Array, "b n"]]:
        """The same transitions with returns so far as they are usual now.

        What is earned does not depend on what was earned before, so a stored transition is as true
        after any return so far. Those that were stored come from poorer policies, that explored
        more: to them, all seems lost.
        """
        if self.usual is None or not self.earned:
            return states, following
        mean, spread = self.usual[:, time]
        drawn = mean + WIDER * spread * jax.random.normal(key, time.shape)
        place = self.places[2].start
        shift = jnp.zeros_like(states).at[:, place].set(drawn - states[:, place])
        return states + shift, following + shift

    def worth(
        self,
        state: State,
        gained: Float[Array, ""],
        time: Int[Array, ""],
        later: Int[Array, ""],
        unit: float = 1.0,
    ) -> Float[Array, ""]:
        """What an episode is worth that is in this state, and will have gained so much more.

        E u(R + G + X): `gained`, G, is what the steps from `time` to `later` earn and what a critic
        expects of the others; X is normal, with the spread that is usual for these: 0 at the end.
        A part of the mean stays in it (`share`). In the value of now, as a discount has it, and in
        units.
        """
        assert self.objective is not None
        assert self.rest is not None
        now = unit if self._undiscounted else unit * self.discount**time
        total = state[self.places[2]][0] + now * gained
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        totals = total + self.rest[1, later] * nodes.astype(np.float32)
        utility = self.objective.utility
        utilities = jax.vmap(lambda total: utility(total, self.numbers))(totals)
        expected = jnp.sum(utilities * (weights / weights.sum()).astype(np.float32))
        return (self.share * expected + (1 - self.share) * total) / now

    def bounds(self, state: State) -> tuple[Action, Action]:
        return self._here(state).bounds(state[self.places[0]])

    def log_density(self, state: State, action: Action, next_state: State) -> Float[Array, ""]:
        own = self.places[0]
        return self._here(state).log_density(state[own], action, next_state[own])

    def terminal(self, state: State) -> Bool[Array, ""]:
        return self._here(state).terminal(state[self.places[0]])

    def violations(self, state: State, action: Action) -> Int[Array, ""]:
        return self._here(state).violations(state[self.places[0]], action)

    def costs(self, state: State, action: Action, next_state: State) -> dict[str, Float[Array, ""]]:
        here, own = self._here(state), self.places[0]
        action = self._possible(here, state[own], action)
        return here.costs(state[own], action, next_state[own])


def widened(
    problem: Problem,
    uncertain: Uncertain | None,
    earned: bool = False,
    span: Float[Array | np.ndarray, "2"] | None = None,
    limits: tuple[Limit, ...] = (),
) -> Problem:
    """The problem in the wider state; itself where there is nothing to add.

    Args:
        problem: In its own state.
        uncertain: The parameters to have in the state.
        earned: Whether to have the return so far in it.
        span: Lowest and highest of that, for the scale of the networks' inputs.
        limits: Those to have in it how far they are broken.
    """
    if uncertain is None and not earned and not limits:
        return problem
    model, exact = (
        Widened.around(each, problem, uncertain, earned, limits)
        for each in (problem.model, problem.exact)
    )
    ends = jnp.array([-1.0, 1.0]) if span is None else span
    nothing = jnp.zeros(0, jnp.float32)
    nominal = nothing if uncertain is None else uncertain.nominal(problem.model)
    low, high = (nothing, nothing) if uncertain is None else (uncertain.low, uncertain.high)
    some, whole = jnp.zeros(int(earned)), jnp.ones(chances(limits))
    wide = copy.copy(problem)
    inf = jnp.full(nominal.shape, jnp.inf)
    for name, value in (
        ("model", model),
        ("exact", exact),
        ("initial_state", model.join(problem.initial_state, nominal, some)),
        (
            "region",
            (
                model.join(problem.region[0], low, ends[:1] if earned else some),
                model.join(problem.region[1], high, ends[1:] if earned else some, whole),
            ),
        ),
        (
            "domain",
            (
                model.join(problem.domain[0], -inf, some - jnp.inf),
                model.join(problem.domain[1], inf, some + jnp.inf, whole),
            ),
        ),
        ("state_names", _labelled(model, problem.state_names)),
        ("state_units", _labelled(model, problem.state_units, blank=True)),
        ("uncertain", None),
        ("origin", Origin(problem.origin.kind)),
    ):
        object.__setattr__(wide, name, value)
    return wide


def wide_model(problem: Problem) -> Widened:
    """The model of a problem that is known to be widened."""
    assert isinstance(problem.model, Widened)
    return problem.model


def _labelled(model: Widened, own: tuple[str, ...], blank: bool = False) -> tuple[str, ...]:
    drawn = model.uncertain.labels if model.uncertain else ()
    total = (RETURN,) if model.earned else ()
    rest = (*drawn, *total) if model._drawn_first else (*total, *drawn)
    rest += tuple(f"broken: {limit.cost}" for limit in model.limits if limit.of_chance)
    return (*own, *("" if blank else name for name in rest))


def valued(
    problem: Problem,
    objective: Objective,
    numbers: Float[Array, " e"],
    rest: Float[Array, "2 times"],
    usual: Float[Array, "2 times"] | None = None,
    share: Number = 1.0,
) -> Problem:
    """A widened problem that knows what its episodes are worth."""
    model = dataclasses.replace(
        wide_model(problem),
        objective=objective,
        numbers=numbers,
        rest=rest,
        usual=usual,
        share=share,
    )
    wide = copy.copy(problem)
    object.__setattr__(wide, "model", model)
    return wide


class Sight(NamedTuple):
    """What a policy sees beside the state."""

    earned: bool
    """The return so far."""
    drawn: bool
    """The parameters that were drawn."""

    @classmethod
    def of(cls, policy: Any) -> Sight:
        return cls(
            *(getattr(policy, name, False) is True for name in ("sees_return", "sees_drawn"))
        )


def as_seen(problem: Problem, sight: Sight, center: Inputs, half: Inputs) -> Problem:
    """The problem in the state that a policy of this scale of inputs sees."""
    span = jnp.stack([(center - half)[-1], (center + half)[-1]])
    return widened(problem, problem.uncertain if sight.drawn else None, sight.earned, span)


class Sighted(eqx.Module):
    """A policy that is shown the wider state, of which it sees the first components."""

    policy: Any
    sees: int = eqx.field(static=True)
    timed: bool = eqx.field(static=True)
    stochastic: bool = eqx.field(static=True)

    def __call__(self, state: State, *rest: Any) -> Action:
        return self.policy(state[..., : self.sees], *rest)


def sighted(policy: Any, model: Widened) -> Any:
    """The policy as one of the wider state."""
    sight = Sight.of(policy)
    drawn = model.uncertain.size if model.uncertain and sight.drawn else 0
    sees = model.size + drawn + int(model.earned and sight.earned)
    if sees == model.width:
        return policy
    if isinstance(policy, NumpyPolicy):
        return policy.seeing(sees)
    stochastic = bool(getattr(policy, "stochastic", False))
    return Sighted(policy, sees, is_timed(policy), stochastic)
