"""Bounds of single fluents, read out of the conjunctions that RDDL calls constraints.

    forall_{?r : reservoir} [0 <= outflow(?r) ^ outflow(?r) <= rlevel(?r)]

bounds each `outflow` from below by a constant and from above by the state. A constraint is split
into its conjuncts; one that can be solved for a single fluent becomes a `Limit`, all others are
kept as `Condition`s that can be checked but not enforced.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ilbo.rddl.compiling import Compiler
from ilbo.rddl.parsing import Expression, fluents, parts, text_of
from ilbo.rddl.terms import Scope, Values

Ends = tuple[Array | None, Array | None]
"""Lowest and highest value, None where there is none."""

Box = dict[str, tuple[Array | np.ndarray, Array | np.ndarray]]
"""Lowest and highest value [*shape] of each fluent, by its name."""

STRICT = 1e-6
"""Relative margin by which a strict inequality stays off its bound."""

_REVERSED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<", "==": "=="}
_NEGATED = {"<=": ">", "<": ">=", ">=": "<", ">": "<="}


@dataclass(frozen=True)
class Limit:
    """Lowest and highest value [*shape] of a fluent, as functions of the values of others."""

    fluent: str
    limits: Callable[[Values], Ends]
    constant: bool
    """Whether it depends on no fluent at all."""
    text: str


@dataclass(frozen=True)
class Condition:
    """A conjunct that bounds no single fluent; `holds` gives a boolean for each grounding."""

    holds: Callable[[Values], Array]
    text: str
    names: frozenset[str]
    """The variables in it."""


Guards = tuple[tuple[Expression, bool], ...]
"""Conditions, and whether each must hold or must not."""


@dataclass(frozen=True)
class _Leaf:
    """A conjunct, the conditions under which it applies, and whether it is negated."""

    expression: Expression
    scope: Scope
    """The parameters that it is quantified over."""
    guards: Guards = ()
    negated: bool = False


def split(
    compiler: Compiler, expressions: Iterable[Expression], targets: set[str]
) -> tuple[list[Limit], list[Condition]]:
    """The bounds that the constraints put on the target fluents, and what else they ask for."""
    bounds: list[Limit] = []
    conditions: list[Condition] = []
    for expression in expressions:
        for leaf in _conjuncts(compiler.rddl, expression, targets):
            bound = _as_bound(compiler, leaf, targets)
            if bound is None:
                conditions.append(_as_condition(compiler, leaf))
            else:
                bounds.append(bound)
    return bounds, conditions


def combine(bounds: Iterable[Limit], values: Values, base: Box) -> Box:
    """The tightest (low, high) [*shape] of each fluent of `base`, which gives the loosest."""
    box = dict(base)
    for bound in bounds:
        low, high = box[bound.fluent]
        lower, upper = bound.limits(values)
        box[bound.fluent] = (
            low if lower is None else jnp.maximum(low, lower),
            high if upper is None else jnp.minimum(high, upper),
        )
    return box


def _conjuncts(
    model: Any,
    expression: Expression,
    targets: set[str],
    scope: Scope = (),
    guards: Guards = (),
) -> Iterator[_Leaf]:
    kind, op = expression.etype
    free = [arg for arg in _arguments(expression) if not fluents(model, arg) & targets]
    bound = [arg for arg in _arguments(expression) if fluents(model, arg) & targets]
    if kind == "aggregation" and op == "forall":
        *typed, body = expression.args
        scope = (*scope, *(parameter for _, parameter in typed))
        yield from _conjuncts(model, body, targets, scope, guards)
    elif kind == "boolean" and op in "^&":
        for argument in expression.args:
            yield from _conjuncts(model, argument, targets, scope, guards)
    elif kind == "boolean" and op == "=>" and bound == [expression.args[1]]:
        guards = (*guards, (expression.args[0], True))
        yield from _conjuncts(model, bound[0], targets, scope, guards)
    elif kind == "boolean" and op == "|" and len(bound) == 1:
        guards = (*guards, *((condition, False) for condition in free))
        yield from _conjuncts(model, bound[0], targets, scope, guards)
    elif kind == "boolean" and op == "~" and len(expression.args) == 1 and bound:
        yield _Leaf(bound[0], scope, guards, negated=True)
    else:
        yield _Leaf(expression, scope, guards)


def _arguments(expression: Expression) -> list[Expression]:
    kind, _ = expression.etype
    return list(expression.args) if kind in ("boolean", "relational", "arithmetic") else []


def _as_condition(compiler: Compiler, leaf: _Leaf) -> Condition:
    holds = compiler.function(leaf.expression, leaf.scope)
    guards = _guards(compiler, leaf)
    names = fluents(compiler.rddl, leaf.expression).union(
        *(fluents(compiler.rddl, condition) for condition, _ in leaf.guards)
    )

    def check(values: Values) -> Array:
        satisfied = jnp.asarray(holds(values)) > 0.5
        satisfied = ~satisfied if leaf.negated else satisfied
        return satisfied | ~guards(values)

    return Condition(check, _text(leaf), frozenset(names))


def _as_bound(compiler: Compiler, leaf: _Leaf, targets: set[str]) -> Limit | None:
    model, (kind, op) = compiler.rddl, leaf.expression.etype
    if kind != "relational" or op not in _REVERSED or (leaf.negated and op not in _NEGATED):
        return None
    if leaf.negated:
        op = _NEGATED[op]
    occurrences = [
        part
        for part in parts(leaf.expression)
        if part.etype[0] == "pvar" and part.args[0] in targets
    ]
    if len(occurrences) != 1:
        return None
    left, right = leaf.expression.args
    if not fluents(model, left) & targets:
        left, right, op = right, left, _REVERSED[op]
    (target,) = occurrences
    lower, upper, strict = op in (">=", ">", "=="), op in ("<=", "<", "=="), op in ("<", ">")
    solve = _solve(compiler, left, target, leaf.scope, upper and not lower)
    placed = None if solve is None else place(compiler, leaf.scope, target)
    if solve is None or placed is None:
        return None
    others = [*leaf.expression.args, *(condition for condition, _ in leaf.guards)]
    names = set[str]().union(*(fluents(model, other) for other in others)) - {target.args[0]}
    limit, guards = compiler.function(right, leaf.scope), _guards(compiler, leaf)

    def limits(values: Values) -> Ends:
        value = jnp.asarray(limit(values), float)
        ends = (value if lower else None, value if upper else None)
        low, high = solve(values, ends)
        if strict:
            low, high = _inwards(low, 1), _inwards(high, -1)
        if leaf.guards:
            low = None if low is None else jnp.where(guards(values), low, -jnp.inf)
            high = None if high is None else jnp.where(guards(values), high, jnp.inf)
        return placed(low, high)

    constant = all(model.variable_types[name] == "non-fluent" for name in names)
    return Limit(target.args[0], limits, constant, _text(leaf))


def _solve(
    compiler: Compiler, side: Expression, target: Expression, scope: Scope, only_upper: bool
) -> Callable[[Values, Ends], Ends] | None:
    """The ends of the side ↦ those of the target in it; None if it is not built from the target by
    signs, sums, products, quotients and, where the only end is an upper one, absolute values."""
    if side is target:
        return lambda values, ends: ends
    kind, op = side.etype
    if kind not in ("arithmetic", "func") or (kind == "func" and not (op == "abs" and only_upper)):
        return None
    (inner,) = (arg for arg in side.args if any(part is target for part in parts(arg)))
    first = side.args[0] is inner
    if op == "/" and not first:
        return None
    after = _solve(compiler, inner, target, scope, only_upper and op == "+")
    if after is None:
        return None
    others = [compiler.function(arg, scope) for arg in side.args if arg is not inner]

    def before(values: Values, ends: Ends) -> Ends:
        low, high = ends
        given = [jnp.asarray(other(values), float) for other in others]
        if kind == "func":
            return _map(high, lambda x: -x), high
        if op == "+":
            return _map(low, lambda x: x - sum(given)), _map(high, lambda x: x - sum(given))
        if op == "-" and first and given:
            return _map(low, lambda x: x + given[0]), _map(high, lambda x: x + given[0])
        if op == "-":
            whole = sum(given)
            return _map(high, lambda x: whole - x), _map(low, lambda x: whole - x)
        return _divided(ends, given, inverse=op == "/")

    return lambda values, ends: after(values, before(values, ends))


def _divided(ends: Ends, factors: list[Array], inverse: bool) -> Ends:
    """The ends of x, given those of x times the factors, or of x by the one factor."""
    factor = math.prod(factors[1:], start=factors[0])
    some = factor != 0
    safe = jnp.where(some, factor, 1.0)
    scale = safe if inverse else 1 / safe
    low, high = (None if end is None else end * scale for end in ends)
    below, above = (-jnp.inf if low is None else low), (jnp.inf if high is None else high)
    beneath, over = (-jnp.inf if high is None else high), (jnp.inf if low is None else low)
    positive = scale > 0
    bottom, top = jnp.where(positive, below, beneath), jnp.where(positive, above, over)
    return jnp.where(some, bottom, -jnp.inf), jnp.where(some, top, jnp.inf)


def _map(end: Array | None, function: Callable[[Array], Array]) -> Array | None:
    return None if end is None else function(end)


def _inwards(end: Array | None, sign: int) -> Array | None:
    return _map(end, lambda x: x + sign * STRICT * (1 + jnp.abs(x)))


def place(
    compiler: Compiler, quantified: Scope, target: Expression
) -> Callable[[Array | None, Array | None], Ends] | None:
    """(low, high) over the objects in the leaf's scope ↦ over the objects of the target."""
    name, arguments = target.args
    arguments = arguments or []
    scope = [variable for variable, _ in quantified]
    free = [argument for argument in arguments if argument in scope]
    model = compiler.rddl
    if len(set(free)) != len(free) or any(not isinstance(a, str) for a in arguments):
        return None  # release(?t, ?t), or release(owner(?t))
    index = tuple(
        slice(None) if argument in scope else model.object_to_index[model.strip_literal(argument)]
        for argument in arguments
    )
    shape = compiler.walk.terms.shape([("", kind) for kind in model.variable_params[name]])
    gone = tuple(i for i, variable in enumerate(scope) if variable not in free)
    left = [variable for variable in scope if variable in free]
    order = [left.index(variable) for variable in free]
    whole = all(isinstance(i, slice) for i in index)

    def put(end: Array | None, tightest: Callable[..., Array], loosest: float) -> Array | None:
        if end is None:
            return None
        end = jnp.transpose(tightest(end, axis=gone), order)
        return end if whole else jnp.full(shape, loosest).at[index].set(end)

    return lambda low, high: (put(low, jnp.max, -jnp.inf), put(high, jnp.min, jnp.inf))


def _guards(compiler: Compiler, leaf: _Leaf) -> Callable[[Values], Array]:
    """Whether all guards hold, over the leaf's scope."""
    functions = [
        (compiler.function(condition, leaf.scope), wanted) for condition, wanted in leaf.guards
    ]

    def applies(values: Values) -> Array:
        result = jnp.array(True)
        for function, wanted in functions:
            result &= (function(values) > 0.5) == wanted
        return result

    return applies


def _text(leaf: _Leaf) -> str:
    text = text_of(leaf.expression)
    text = f"~({text})" if leaf.negated else text
    guards = [text_of(c) if wanted else f"~({text_of(c)})" for c, wanted in leaf.guards]
    return f"{' ^ '.join(guards)} => {text}" if guards else text
