"""The operators of RDDL, exact: one table, to be read beside the definition of the language.

Each is a function of a namespace and arrays, `(xp, x, y)`: NumPy folds what is constant when a
problem is compiled, jax.numpy computes the rest at run time. `expressions` has turned truth values
into 0 and 1 before an operator takes numbers, and numbers into truth values (above ½) before one
takes those. Aggregations reduce the last axes, matrix functions take the last two.

In JAX, derivatives are 0, not infinite or undefined, where a root or a quotient has none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array

Operator = Callable[..., Any]
"""(xp, *arrays) ↦ array."""

MOST_EXPANDED = 8
"""Powers up to this are products."""


def safe_sqrt(x: Array) -> Array:
    """√x whose derivative at 0 is 0, not infinite."""
    positive = x > 0
    root = jnp.sqrt(jnp.where(positive, x, 1.0))
    return jnp.where(positive, root, jax.lax.stop_gradient(jnp.sqrt(x * 1.0)))


def _sqrt(xp: Any, x: Any) -> Any:
    return np.sqrt(x) if xp is np else safe_sqrt(x)


def _hypot(xp: Any, x: Any, y: Any) -> Any:
    return np.hypot(x, y) if xp is np else safe_sqrt(x**2 + y**2)


def _divide(xp: Any, x: Any, y: Any) -> Any:
    """x / y whose derivatives at y = 0 are 0, so that a branch not taken cannot spoil them."""
    if isinstance(y, np.ndarray):  # a constant
        return xp.divide(x, y)
    zero = y == 0
    quotient = x / jnp.where(zero, 1, y)
    return jnp.where(zero, jax.lax.stop_gradient(x / y), quotient)


def _power(xp: Any, x: Any, y: Any) -> Any:
    if xp is np:
        return np.power(x, y)
    if isinstance(y, np.ndarray) and y.size == 1:
        power = float(y.item())
        if power == int(power) and 0 <= power <= MOST_EXPANDED:
            return jax.lax.integer_pow(jnp.asarray(x), int(power))
    return jnp.power(x, y)


def _special(name: str) -> Operator:
    in_numpy, in_jax = getattr(scipy.special, name), getattr(jax.scipy.special, name)
    return lambda xp, x: (in_numpy if xp is np else in_jax)(x * 1.0)


def _any_number(operator: Operator) -> Operator:
    """Of two arguments or more, from left to right; of one, itself."""
    return lambda xp, *xs: functools.reduce(lambda x, y: operator(xp, x, y), xs)


ARITHMETIC: dict[str, Operator] = {
    "+": _any_number(lambda xp, x, y: x + y),
    "-": lambda xp, x, *y: x - y[0] if y else -x,
    "*": _any_number(lambda xp, x, y: x * y),
    "/": _divide,
}
"""On numbers."""

RELATIONAL: dict[str, Operator] = {
    ">=": lambda xp, x, y: x >= y,
    ">": lambda xp, x, y: x > y,
    "<=": lambda xp, x, y: x <= y,
    "<": lambda xp, x, y: x < y,
    "==": lambda xp, x, y: x == y,
    "~=": lambda xp, x, y: x != y,
}
"""On numbers, and the last two on objects, which are the numbers of their places."""

LOGICAL: dict[str, Operator] = {
    "^": _any_number(lambda xp, x, y: x & y),
    "&": _any_number(lambda xp, x, y: x & y),
    "|": _any_number(lambda xp, x, y: x | y),
    "~": lambda xp, x, *y: x ^ y[0] if y else ~x,
    "=>": lambda xp, x, y: ~x | y,
    "<=>": lambda xp, x, y: x == y,
}
"""On truth values."""

FUNCTIONS: dict[str, Operator] = {
    "abs": lambda xp, x: xp.abs(x),
    "sgn": lambda xp, x: xp.sign(x),
    "round": lambda xp, x: xp.round(x),
    "floor": lambda xp, x: xp.floor(x),
    "ceil": lambda xp, x: xp.ceil(x),
    "cos": lambda xp, x: xp.cos(x),
    "sin": lambda xp, x: xp.sin(x),
    "tan": lambda xp, x: xp.tan(x),
    "acos": lambda xp, x: xp.arccos(x),
    "asin": lambda xp, x: xp.arcsin(x),
    "atan": lambda xp, x: xp.arctan(x),
    "cosh": lambda xp, x: xp.cosh(x),
    "sinh": lambda xp, x: xp.sinh(x),
    "tanh": lambda xp, x: xp.tanh(x),
    "exp": lambda xp, x: xp.exp(x),
    "ln": lambda xp, x: xp.log(x),
    "sqrt": _sqrt,
    "lngamma": _special("gammaln"),
    "gamma": _special("gamma"),
    "div": lambda xp, x, y: xp.floor_divide(x, y),
    "mod": lambda xp, x, y: xp.mod(x, y),
    "fmod": lambda xp, x, y: xp.mod(x, y),
    "min": lambda xp, x, y: xp.minimum(x, y),
    "max": lambda xp, x, y: xp.maximum(x, y),
    "pow": _power,
    "log": lambda xp, x, y: xp.log(x) / xp.log(y),
    "hypot": _hypot,
}
"""On numbers."""

TWO_ARGUMENTS = {"div", "mod", "fmod", "min", "max", "pow", "log", "hypot"}
"""The functions of two arguments; all others have one."""

AGGREGATIONS: dict[str, Operator] = {
    "sum": lambda xp, x, axes: xp.sum(x, axis=axes),
    "avg": lambda xp, x, axes: xp.mean(x, axis=axes),
    "prod": lambda xp, x, axes: xp.prod(x, axis=axes),
    "minimum": lambda xp, x, axes: xp.min(x, axis=axes),
    "maximum": lambda xp, x, axes: xp.max(x, axis=axes),
    "argmin": lambda xp, x, axes: xp.argmin(x, axis=axes[0]),
    "argmax": lambda xp, x, axes: xp.argmax(x, axis=axes[0]),
    "forall": lambda xp, x, axes: xp.all(x, axis=axes),
    "exists": lambda xp, x, axes: xp.any(x, axis=axes),
}
"""On numbers, the last two on truth values; argmin and argmax give the first best object."""

OF_TRUTHS = {"forall", "exists"}
"""The aggregations that take truth values."""

MATRIX: dict[str, Operator] = {
    "det": lambda xp, x: xp.linalg.det(x),
    "inverse": lambda xp, x: xp.linalg.inv(x),
    "pinverse": lambda xp, x: xp.linalg.pinv(x),
    "cholesky": lambda xp, x: xp.linalg.cholesky(x),
}


def number(xp: Any, x: Any) -> Any:
    """A truth value as 0 or 1; a number as it is."""
    return x.astype(int if xp is np else jnp.int32) if x.dtype == bool else x


def truth(xp: Any, x: Any) -> Any:
    """Whether a number exceeds ½; a truth value as it is."""
    return x if x.dtype == bool else x > 0.5


def choose(xp: Any, condition: Any, yes: Any, no: Any) -> Any:
    """if (condition) then yes else no."""
    return xp.where(truth(xp, condition), yes, no)


def switch(xp: Any, which: Any, *cases: Any) -> Any:
    """The case whose place is given; the last one where none is."""
    chosen = cases[-1]
    for i in reversed(range(len(cases) - 1)):
        chosen = xp.where(which == i, cases[i], chosen)
    return chosen
