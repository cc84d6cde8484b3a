"""A compiled RDDL problem as a `Model`: pure functions of flat vectors and explicit noise."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ilbo.mdp.laws.law import Law
from ilbo.mdp.model import Model
from ilbo.mdp.shapes import Action, Noise, State
from ilbo.rddl import clipping, constraints
from ilbo.rddl.compiling import Compiler
from ilbo.rddl.layout import Fluent, Layout
from ilbo.rddl.parsing import fluents, is_random, parts, reading
from ilbo.rddl.relaxing import Temperature
from ilbo.rddl.source import Source
from ilbo.rddl.terms import Point, Values

REWARD = "last reward"
"""The hidden state component of `Dynamics`, where a problem needs it."""


class Dynamics:
    """Transition and reward of a compiled problem, exact or relaxed.

    A model's reward is a function of (s, a, s'). RDDL allows more: a reward that is random, or that
    depends on a random intermediate fluent. Such a reward is computed in the transition and carried
    by a hidden state component.
    """

    def __init__(self, source: Source, compiler: Compiler):
        rddl = compiler.rddl
        self.source = source
        self.compiler = compiler
        self.exact = compiler.relaxation == "exact"
        self.hidden = (REWARD,) if _random_reward(rddl) else ()
        carried = (Fluent(name, "real", (), (name,)) for name in self.hidden)
        self.state = Layout((*_layout(compiler, rddl.state_ranges), *carried))
        self.action = Layout(_layout(compiler, rddl.action_ranges))
        self.primed: dict[str, str] = dict(rddl.next_state)
        self._freed: dict[frozenset[str], Dynamics] = {}
        # Traced once for all the places that a planner calls them from.
        self.step = jax.jit(self._step, inline=True)
        self.reward = jax.jit(self._reward, inline=True)

    def freeing(self, names: frozenset[str]) -> Dynamics:
        """The same with these non-fluents given as it runs."""
        if names not in self._freed:
            compiler = self.compiler
            freed = Compiler(self.source, compiler.relaxation, compiler.functions, compiler, names)
            with reading(self.source):
                self._freed[names] = Dynamics(self.source, freed)
        return self._freed[names]

    def initial(self) -> Float[np.ndarray, " n"]:
        """The state that the instance sets."""
        return np.asarray(self.state.pack({**self.compiler.init_values, REWARD: 0.0}))

    def values(self, state: State, action: Action) -> Values:
        return {
            **self.state.unpack(state, self.exact),
            **self.action.unpack(action, self.exact),
        }

    def _step(
        self,
        state: State,
        action: Action,
        noise: Noise,
        temperature: Temperature | None,
        given: Values | None = None,
    ) -> State:
        values = {**self.values(state, action), **(given or {})}
        at = Point(values, noise, temperature)
        for name, cpf in self.compiler.cpfs.items():
            values[name] = cpf(at)
        sound = self.compiler.sound(at) if self.exact else None
        if REWARD in self.hidden:
            values[REWARD] = self.compiler.reward(at)
        following = self.state.pack(
            {**values, **{name: values[primed] for name, primed in self.primed.items()}}
        )
        return following if sound is None else jnp.where(sound, following, jnp.nan)

    def _reward(
        self,
        state: State,
        action: Action,
        next_state: State,
        temperature: Temperature | None,
        given: Values | None = None,
    ) -> Float[Array, ""]:
        following = self.state.unpack(next_state, self.exact)
        if REWARD in self.hidden:
            return following[REWARD]
        values = {**self.values(state, action), **(given or {})}
        values |= {primed: following[name] for name, primed in self.primed.items()}
        # What the reward needs of the other fluents is not random: any noise will do.
        at = Point(values, jnp.zeros(self.compiler.law.size), temperature)
        for name, cpf in self.compiler.cpfs.items():
            if name not in values:
                values[name] = cpf(at)
        return jnp.asarray(self.compiler.reward(at), float).reshape(())


class Rules:
    """Bounds, ends and constraints of a problem, always exact."""

    def __init__(self, dynamics: Dynamics):
        compiler = dynamics.compiler
        rddl = compiler.rddl
        self.dynamics = dynamics
        actions = dynamics.action
        self.found, self.conditions = constraints.split(
            compiler, rddl.preconditions, set(rddl.action_fluents)
        )
        self.ends = [
            *((function, True) for function in compiler.terminations),
            *((function, False) for function in compiler.invariants),
        ]
        self.clips = clipping.find(compiler)
        self.moving = [bound for bound in self.found if not bound.constant]
        objects = rddl.type_to_objects
        self.fixed = _fixed(self.found, actions, objects)
        invariants, _ = constraints.split(compiler, rddl.invariants, set(rddl.state_fluents))
        box = _fixed(invariants, dynamics.state, objects)
        low, high = _flat(box, dynamics.state)
        self.domain = np.asarray(low), np.asarray(high)
        self.defaults = np.asarray(actions.pack(compiler.init_values))
        self.most_changed: int = rddl.max_allowed_actions

    def bounds(self, state: State) -> tuple[Action, Action]:
        values = self.dynamics.state.unpack(state)
        box = constraints.combine(self.moving, values, self.fixed)
        box = clipping.narrow(self.clips, values, box)
        low, high = _flat(box, self.dynamics.action)
        return jnp.minimum(low, high), high

    def terminal(self, state: State) -> Bool[Array, ""]:
        """Whether a termination condition holds or a state invariant does not."""
        values = self.dynamics.state.unpack(state)
        ended = jnp.array(False)
        for function, ends_if in self.ends:
            ended |= (jnp.asarray(function(values)) > 0.5) == ends_if
        return ended

    def constraints(self) -> tuple[str, ...]:
        """What is counted where it is broken, as RDDL."""
        texts = [condition.text for condition in self.conditions]
        if self.most_changed < len(self.defaults):
            texts.append(f"max-nondef-actions = {self.most_changed}")
        return tuple(texts)

    def broken(self, state: State, action: Action) -> Int[Array, " constraints"]:
        values = self.dynamics.values(state, action)
        counts = [jnp.sum(~condition.holds(values)) for condition in self.conditions]
        if self.most_changed < len(self.defaults):
            counts.append(jnp.sum(action != self.defaults) > self.most_changed)
        return jnp.array(counts, int)


class RDDLModel(Model):
    """A problem written in RDDL."""

    law: Law
    dynamics: Dynamics = eqx.field(static=True)
    rules: Rules = eqx.field(static=True)
    temperature: Temperature | None = None
    """Of the relaxation; None where the dynamics are exact."""
    given: Values | None = None
    """Non-fluents that are set as it runs; None where all have the values of the file."""

    def transition(self, state: State, action: Action, noise: Noise) -> State:
        given = () if self.given is None else (self.given,)
        return self.dynamics.step(state, action, noise, self.temperature, *given)

    def reward(self, state: State, action: Action, next_state: State) -> Float[Array, ""]:
        given = () if self.given is None else (self.given,)
        return self.dynamics.reward(state, action, next_state, self.temperature, *given)

    def parameters(self) -> dict[str, Any]:
        """The non-fluents of real numbers, as the file or `with_parameters` sets them."""
        compiler = self.dynamics.compiler
        ranges = compiler.rddl.variable_ranges
        real = [name for name in compiler.rddl.non_fluents if ranges[name] == "real"]
        file = {name: np.asarray(compiler.init_values[name], np.float32) for name in real}
        return file | dict(self.given or {})

    def preparing(self, names: Sequence[str]) -> RDDLModel:
        """The same with these non-fluents not compiled in. Bounds, preconditions and ends keep the
        values of the file."""
        held = self.given or {}
        missing = [name for name in names if name not in held]
        if not missing:
            return self
        free = frozenset((*held, *names))
        known = self.parameters()
        given = {name: jnp.asarray(known[name]) for name in sorted(free)}
        dynamics = self.dynamics.freeing(free)
        return RDDLModel(dynamics.compiler.law, dynamics, self.rules, self.temperature, given)

    def with_parameters(self, values: Mapping[str, Any]) -> RDDLModel:
        ready = self.preparing(tuple(values))
        return dataclasses.replace(ready, given={**(ready.given or {}), **values})

    def relaxed(self, factor: Float[Array, ""]) -> RDDLModel:
        if self.temperature is None:
            return self
        return dataclasses.replace(self, temperature=self.temperature * factor)

    def bounds(self, state: State) -> tuple[Action, Action]:
        return self.rules.bounds(state)

    def terminal(self, state: State) -> Bool[Array, ""]:
        return self.rules.terminal(state)

    def violations(self, state: State, action: Action) -> Int[Array, ""]:
        return jnp.sum(self.rules.broken(state, action))

    def constraints(self) -> tuple[str, ...]:
        return self.rules.constraints()

    def broken(self, state: State, action: Action) -> Int[Array, " constraints"]:
        return self.rules.broken(state, action)


def _layout(compiler: Compiler, ranges: dict[str, str]) -> tuple[Fluent, ...]:
    rddl = compiler.rddl
    return tuple(
        Fluent(
            name,
            kind,
            compiler.walk.terms.shape([("", kind) for kind in rddl.variable_params[name]]),
            tuple(rddl.variable_groundings[name]),
        )
        for name, kind in ranges.items()
    )


def _random_reward(rddl: Any) -> bool:
    """Whether the reward is random though state, action and next state are given."""
    primed = set(rddl.next_state.values())
    seen: set[str] = set()
    pending = [rddl.reward]
    while pending:
        expression = pending.pop()
        if any(map(is_random, parts(expression))):
            return True
        for name in fluents(rddl, expression) - seen - primed:
            seen.add(name)
            if name in rddl.cpfs:
                pending.append(rddl.cpfs[name][1])
    return False


def _fixed(
    bounds: list[constraints.Limit], layout: Layout, objects: dict[str, list[str]]
) -> constraints.Box:
    """The bounds of each fluent that depend on nothing, and on the type of the fluent."""
    box: constraints.Box = {}
    for fluent in layout.fluents:
        low, high = -np.inf, np.inf
        if fluent.range == "bool" or fluent.range in objects:
            low, high = 0.0, float(len(objects.get(fluent.range, (False, True))) - 1)
        box[fluent.name] = np.full(fluent.shape, low), np.full(fluent.shape, high)
    box = constraints.combine([bound for bound in bounds if bound.constant], {}, box)
    return {name: (np.asarray(low), np.asarray(high)) for name, (low, high) in box.items()}


def _flat(box: constraints.Box, layout: Layout) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    low, high = ({name: ends[i] for name, ends in box.items()} for i in (0, 1))
    return layout.pack(low), layout.pack(high)
