"""Bounds of actions, read out of the clipping in the equations.

    released(?r) = max[0, min[rlevel(?r), release(?r)]];

Where an action enters the equations through such a clipping alone, all that it can do it does
between the clipping's ends; beyond them it has no effect and no derivative. So the ends are taken
as the action's bounds: a policy never acts in the dead zone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from ilbo.rddl.compiling import Compiler
from ilbo.rddl.constraints import Box, Ends, Limit, place
from ilbo.rddl.parsing import Expression, fluents, parts, text_of
from ilbo.rddl.terms import Values

_CLIPS = ("min", "max")


@dataclass(frozen=True)
class _Clip:
    """An action within one or two clipping functions, innermost first: (min or max, other end)."""

    action: Expression
    ends: tuple[tuple[str, Expression], ...]
    outermost: Expression


def find(compiler: Compiler) -> list[Limit]:
    """The bounds that the equations put on actions, as functions of the state."""
    model = compiler.rddl
    roots = [*(expression for _, expression in model.cpfs.values()), model.reward]
    found: dict[str, list[_Clip | None]] = {name: [] for name in model.action_fluents}
    for root in roots:
        for name, clip in _occurrences(model, root, ()):
            found[name].append(clip)
    limits = []
    for name, clips in found.items():
        texts = {None if clip is None else text_of(clip.outermost) for clip in clips}
        if model.action_ranges[name] == "real" and len(texts) == 1 and clips[0] is not None:
            limits.append(_limit(compiler, clips[0]))
    return [limit for limit in limits if limit is not None]


def narrow(clips: Iterable[Limit], values: Values, box: Box) -> Box:
    """The bounds `box` of preconditions, narrowed to where actions have an effect; preconditions
    hold where both cannot."""
    box = dict(box)
    for clip in clips:
        low, high = box[clip.fluent]
        lower, upper = clip.limits(values)
        box[clip.fluent] = (
            low if lower is None else jnp.clip(lower, low, high),
            high if upper is None else jnp.clip(upper, low, high),
        )
    return box


def _occurrences(
    model: Any, expression: Any, above: tuple[Expression, ...]
) -> Iterator[tuple[str, _Clip | None]]:
    """Each place where an action stands, with its clipping if it has one; `above`: what encloses
    the expression, innermost first."""
    if isinstance(expression, tuple | list):
        for item in expression:
            yield from _occurrences(model, item, above)
    elif hasattr(expression, "etype"):
        kind, _ = expression.etype
        if kind == "pvar" and expression.args[0] in model.action_fluents:
            yield expression.args[0], _clip(model, expression, above)
        if kind != "constant":
            yield from _occurrences(model, expression.args, (expression, *above))


def _clip(model: Any, action: Expression, above: tuple[Expression, ...]) -> _Clip | None:
    ends: list[tuple[str, Expression]] = []
    inner = action
    for outer in above[:2]:
        kind, name = outer.etype
        if kind != "func" or name not in _CLIPS or name in (known for known, _ in ends):
            break
        (end,) = (argument for argument in outer.args if argument is not inner)
        if not _is_known(model, end, action):
            break
        ends.append((name, end))
        inner = outer
    return _Clip(action, tuple(ends), inner) if ends else None


def _is_known(model: Any, end: Expression, action: Expression) -> bool:
    """Whether the end depends on the state alone, so that it is known before the action is chosen,
    and on no objects but the action's own."""
    kinds = {model.variable_types[name] for name in fluents(model, end)}
    drawn = any(part.etype[0] in ("randomvar", "randomvector") for part in parts(end))
    objects = {
        name
        for part in parts(end)
        if part.etype[0] == "pvar"
        for name in part.args[1] or ()
        if isinstance(name, str) and name.startswith("?")
    }
    own = set(action.args[1] or ())
    return kinds <= {"state-fluent", "non-fluent"} and not drawn and objects <= own


def _limit(compiler: Compiler, clip: _Clip) -> Limit | None:
    model = compiler.rddl
    name, objects = clip.action.args
    kinds = zip(objects or (), model.variable_params[name], strict=True)
    scope = tuple((one, kind) for one, kind in kinds if str(one).startswith("?"))
    placed = place(compiler, scope, clip.action)
    if placed is None:
        return None
    ends = [(way, compiler.function(end, scope)) for way, end in clip.ends]

    def limits(values: Values) -> Ends:
        low: Array | None = None
        high: Array | None = None
        for way, function in ends:  # where the ends cross, the outer one holds
            value = function(values).astype(float)
            if way == "min":
                high, low = value, None if low is None else jnp.minimum(low, value)
            else:
                low, high = value, None if high is None else jnp.maximum(high, value)
        return placed(low, high)

    names = set[str]().union(*(fluents(model, end) for _, end in clip.ends))
    constant = all(model.variable_types[name] == "non-fluent" for name in names)
    return Limit(name, limits, constant, text_of(clip.outermost))
