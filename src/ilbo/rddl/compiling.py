"""A parsed problem, compiled: pure functions of the values of fluents and of explicit noise.

pyRDDLGym reads and checks the text; `expressions` compiles it. Each draw has its slice of the noise
vector ξ, in the order in which the file writes the draws.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from ilbo.mdp.laws.law import Law
from ilbo.rddl import draws, ranges
from ilbo.rddl.expressions import Walk
from ilbo.rddl.functions import Functions
from ilbo.rddl.operators import truth
from ilbo.rddl.parsing import Expression, Unsupported, is_random, parse, parts, reading, text_of
from ilbo.rddl.slots import Slot
from ilbo.rddl.source import Source
from ilbo.rddl.terms import Point, Scope, Spread, Values


class Compiler:
    """The functions of a problem.

    Args:
        source: The texts.
        relaxation: How what is discrete is relaxed, one of `relaxing.WAYS`.
        functions: The Python functions that the text calls.
        parsed: A compiler of the same texts, whose parsed model serves again.
        free: Non-fluents that are given as it runs, as fluents are.
    """

    rddl: Any
    """pyRDDLGym's lifted model."""
    init_values: Values
    """The tensor of each variable at the start."""
    cpfs: dict[str, Spread]
    """The tensor of each fluent that is computed, in an order in which they can be."""
    reward: Spread
    slots: dict[int, Slot]
    """The draws, by the number of their expression, in the order of their noise."""
    law: Law
    """The law of the noise of a step."""

    def __init__(
        self,
        source: Source,
        relaxation: str = "exact",
        functions: Functions | None = None,
        parsed: Compiler | None = None,
        free: Collection[str] = (),
    ):
        self.relaxation, self.free = relaxation, frozenset(free)
        self.functions = functions or {}
        if parsed is None:
            self.rddl = parse(source)
            with reading(source):
                self.init_values, self.order = _checked(self.rddl)
        else:
            self.rddl, self.init_values, self.order = parsed.rddl, parsed.init_values, parsed.order
        with reading(source):
            self._compile()

    def _compile(self) -> None:
        model = self.rddl
        constants = {
            name: self.init_values[name] for name in model.non_fluents if name not in self.free
        }
        self.walk = walk = Walk(model, constants, self.relaxation, self.functions)
        self.cpfs = {}
        for name in self.order:
            parameters, expression = model.cpfs[name]
            walk.where, scope = name, tuple(parameters)
            value = walk.terms.spread(walk.term(expression, scope), scope)
            self.cpfs[name] = self._typed(value, model.variable_ranges[name])
        walk.where = "reward"
        self.reward = walk.terms.spread(walk.term(model.reward), ())
        self._allocate()
        walk.where = "constraint"
        self.terminations = [self.function(root) for root in model.terminations]
        self.invariants = [self.function(root) for root in model.invariants]

    def function(self, expression: Expression, scope: Scope = ()) -> Callable[[Values], Array]:
        """An expression without draws as a function of the values of fluents, over the scope."""
        if any(map(is_random, parts(expression))):
            raise Unsupported(f"the constraint {text_of(expression)!r} is random")
        value = self.walk.terms.spread(self.walk.term(expression, scope), scope)
        return lambda values: jnp.asarray(value(Point(values)))

    def sound(self, at: Point) -> Array | None:
        """Whether the watched draws of a step have parameters in range; None if there are none."""
        checks = [
            ranges.sound(slot.distribution, [jnp.asarray(value(at)) for value in slot.arguments])
            for slot in self.slots.values()
            if slot.watched
        ]
        return functools.reduce(jnp.logical_and, checks) if checks else None

    def _allocate(self) -> None:
        """Gives each draw its slice, in the order in which the file writes them."""
        roots = [expression for _, expression in self.rddl.cpfs.values()]
        drawn = [part.id for root in (*roots, self.rddl.reward) for part in parts(root)]
        self.slots, start = {}, 0
        for identifier in drawn:
            slot = self.walk.slots.get(identifier)
            if slot is not None:
                slot.start, self.slots[identifier] = start, slot
                start += slot.draw.law.size
        self.law = draws.joined([slot.draw.law for slot in self.slots.values()])

    def _typed(self, value: Spread, kind: str) -> Spread:
        """The value in the type of its fluent; where all is relaxed, as real numbers."""

        def typed(at: Point) -> Array:
            found = jnp.asarray(value(at))
            if kind == "real" or self.relaxation != "exact":
                return found.astype(float)
            return truth(jnp, found) if kind == "bool" else found.astype(jnp.int32)

        return typed


def _checked(model: Any) -> tuple[Values, list[str]]:
    """Initial values, and the fluents that are computed, in an order in which they can be.

    pyRDDLGym checks names, types, arguments and cycles on the way, and numbers all expressions.
    """
    from pyRDDLGym.core.compiler.initializer import RDDLValueInitializer
    from pyRDDLGym.core.compiler.levels import RDDLLevelAnalysis
    from pyRDDLGym.core.compiler.tracer import RDDLObjectsTracer

    values = RDDLValueInitializer(model).initialize()
    levels = RDDLLevelAnalysis(model).compute_levels()
    RDDLObjectsTracer(model, cpf_levels=levels).trace()
    return values, [name for level in sorted(levels) for name in levels[level]]
