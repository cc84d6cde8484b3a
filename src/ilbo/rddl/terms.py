"""Arrays with named axes: what expressions of RDDL become.

An expression under quantifiers and parameters ?x, ?y, .. is a function of the objects that these
stand for: a `Term`, an array with one axis for each parameter that it depends on, and no other.
Operators line up the axes of their arguments by name and leave the rest to broadcasting; all that
there is to scopes and axes is in `Terms.spread` and `Terms.apply`.

A term that depends on constants alone is folded in NumPy at once. The same operator of the same
terms is one term, computed once at a `Point`, however often the text writes it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ilbo.mdp.shapes import Noise
from ilbo.rddl import operators, relaxing

Parameter = tuple[str, str]
"""A variable for objects and its type: ("?x", "tank")."""

Scope = tuple[Parameter, ...]

Values = dict[str, Any]
"""The tensor of each fluent, by its name."""

LARGEST_INT = 2**31 - 1


@dataclass(frozen=True)
class Point:
    """Where terms are evaluated: values of fluents, noise ξ of the draws, and the temperature."""

    values: Values
    noise: Noise | None = None
    temperature: Float[Array, ""] | None = None
    known: dict[int, Array] = field(default_factory=dict)
    """The terms that were computed here."""


NOWHERE = Point({})
"""Where constants are evaluated."""


@dataclass(frozen=True, eq=False)
class Term:
    """An expression as an array [*axes] at each point."""

    axes: Scope
    compute: Callable[[Point], Array]
    constant: np.ndarray | None = None
    """Its value, if that is the same everywhere."""

    def __call__(self, at: Point) -> Any:
        if self.constant is not None:
            return self.constant
        if id(self) not in at.known:
            at.known[id(self)] = self.compute(at)
        return at.known[id(self)]


Spread = Callable[[Point], Any]
"""A term's value over given axes."""


class Terms:
    """Makes terms, each once.

    Args:
        objects: The objects of each type.
        relaxation: How operators are relaxed, one of `relaxing.WAYS`.
    """

    def __init__(self, objects: Mapping[str, Sequence[str]], relaxation: str = "exact"):
        self.objects = objects
        self.relaxation = relaxation
        self._made: dict[Hashable, Term] = {}

    def shape(self, axes: Sequence[Parameter]) -> tuple[int, ...]:
        return tuple(len(self.objects[kind]) for _, kind in axes)

    def spread(self, term: Term, axes: Scope, last: int | None = None) -> Spread:
        """The term over the given axes, in their order.

        One that the term lacks has its full size if it is among the `last` (None: all), else 1.
        """
        order = sorted(range(len(term.axes)), key=lambda i: axes.index(term.axes[i]))
        in_order = order == list(range(len(order)))
        full = self.shape(axes)
        lined_up = tuple(
            size if axis in term.axes else 1 for axis, size in zip(axes, full, strict=True)
        )
        split = 0 if last is None else len(axes) - last
        shape = lined_up[:split] + full[split:]

        def value(at: Point) -> Any:
            found = term(at)
            found = found if in_order else found.transpose(order)
            found = found if found.shape == lined_up else found.reshape(lined_up)
            if lined_up == shape:
                return found
            return (np if isinstance(found, np.ndarray) else jnp).broadcast_to(found, shape)

        return value

    def apply(
        self,
        name: str,
        exact: operators.Operator,
        terms: Sequence[Term],
        last: Scope = (),
        keep: bool = False,
    ) -> Term:
        """An operator of terms, over all axes that one of them has.

        Args:
            name: What it is called; with the terms, it tells one term from another.
            last: Axes that come last for the operator; it reduces them, unless `keep`.
        """
        key = (name, last, *map(id, terms))
        if key in self._made:
            return self._made[key]
        union = dict.fromkeys(axis for term in terms for axis in term.axes)
        outer = tuple(axis for axis in union if axis not in last)
        axes = outer + last if keep else outer
        inputs = [self.spread(term, outer + last, len(last)) for term in terms]
        soft = relaxing.relaxed(self.relaxation, name, functools.partial(exact, jnp), len(last))

        def compute(at: Point) -> Array:
            values = [value(at) for value in inputs]
            if soft is None:
                return exact(jnp, *values)
            return soft(at.temperature, *(jnp.asarray(value, float) for value in values))

        folded = None
        if all(term.constant is not None for term in terms):
            folded = _folded(exact, [value(NOWHERE) for value in inputs])
        return self.made(key, axes, compute, folded)

    def constant(self, value: Any, axes: Scope = ()) -> Term:
        value = np.asarray(value)
        if value.dtype.kind in "iu" and np.any(np.abs(value) > LARGEST_INT):
            value = value.astype(float)  # JAX's integers do not hold it
        key = ("constant", value.dtype.str, value.shape, value.tobytes(), axes)
        if key not in self._made:
            self._made[key] = Term(axes, lambda at: jnp.asarray(value), value)
        return self._made[key]

    def made(
        self,
        key: Hashable,
        axes: Scope,
        compute: Callable[[Point], Array],
        folded: np.ndarray | None = None,
    ) -> Term:
        """The term of the key: that which was made before, or a new one, a constant if folded."""
        if key not in self._made:
            new = Term(axes, compute) if folded is None else self.constant(folded, axes)
            self._made[key] = new
        return self._made[key]


def _folded(exact: operators.Operator, values: list[np.ndarray]) -> np.ndarray | None:
    """The operator's value; None where NumPy cannot tell it, as of a singular matrix."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(exact(np, *values))
    except (ArithmeticError, ValueError, np.linalg.LinAlgError):
        return None
