"""Indexes beyond an array's end, which JAX takes for the last one without a word.

A model is traced, not run, and indexes are mostly constants: those can be followed through the
equations of the trace and compared with the sizes. What depends on the state is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.lax import GatherScatterMode

LARGEST = 100_000
"""Numbers of a constant that is looked into."""

_ARITHMETIC: dict[str, Callable[..., Any]] = {
    **{"add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative},
    **{"max": np.maximum, "min": np.minimum, "rem": np.fmod},
    **{"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal},
}


def beyond(function: Callable[..., Any], names: Sequence[str], inputs: Sequence[Any]) -> str | None:
    """The first index beyond an end, in words; None where there is none.

    Args:
        function: What is traced.
        names: What its arguments are called.
        inputs: Arrays, or shapes of arrays.
    """
    closed = jax.make_jaxpr(function)(*inputs)
    found = _walk(closed.jaxpr, closed.consts, [None] * len(names), list(names))
    return next(iter(found), None)


def _walk(
    jaxpr: Any, constants: Sequence[Any], values: Sequence[Any], names: Sequence[str | None]
) -> list[str]:
    """`values` are those of the arguments that are known, `names` of those that are arguments."""
    known = {variable: value for variable, value in zip(jaxpr.invars, values, strict=True)}
    known |= {
        variable: np.asarray(value) if np.size(value) <= LARGEST else None
        for variable, value in zip(jaxpr.constvars, constants, strict=True)
    }
    named = dict(zip(jaxpr.invars, names, strict=True))

    def value_of(atom: Any) -> Any:
        return np.asarray(atom.val) if hasattr(atom, "val") else known.get(atom)

    found: list[str] = []
    for equation in jaxpr.eqns:
        inputs = [value_of(atom) for atom in equation.invars]
        called = [None if hasattr(atom, "val") else named.get(atom) for atom in equation.invars]
        inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
        body = getattr(inner, "jaxpr", inner)
        if body is not None and len(body.invars) == len(inputs):
            found += _walk(body, getattr(inner, "consts", ()), inputs, called)
            if equation.primitive.name in ("jit", "pjit"):
                outputs = _values(body, getattr(inner, "consts", ()), inputs)
                known |= dict(zip(equation.outvars, outputs, strict=True))
            continue
        found += _judge(equation, inputs, called[0] if called else None)
        if len(equation.outvars) == 1:
            known[equation.outvars[0]] = _value(equation, inputs)
    return found


def _values(jaxpr: Any, constants: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """The results of a small inner function, as far as they are known."""
    known = dict(zip(jaxpr.invars, inputs, strict=True))
    known |= {v: np.asarray(c) for v, c in zip(jaxpr.constvars, constants, strict=True)}

    def value_of(atom: Any) -> Any:
        return np.asarray(atom.val) if hasattr(atom, "val") else known.get(atom)

    for equation in jaxpr.eqns:
        if len(equation.outvars) == 1:
            given = [value_of(atom) for atom in equation.invars]
            known[equation.outvars[0]] = _value(equation, given)
    return [value_of(atom) for atom in jaxpr.outvars]


def _value(equation: Any, inputs: Sequence[Any]) -> Any:
    """The result of an equation whose inputs are all known; None where it is not known."""
    name, shape = equation.primitive.name, equation.outvars[0].aval.shape
    small = all(isinstance(size, int) for size in shape) and np.prod(shape) <= LARGEST
    if not inputs or any(value is None for value in inputs) or not small:
        return None
    first = inputs[0]
    if name in _ARITHMETIC:
        return _ARITHMETIC[name](*inputs)
    if name == "select_n" and len(inputs) == 3:
        return np.where(first.astype(bool), inputs[2], inputs[1])
    if name == "convert_element_type":
        return first.astype(equation.params["new_dtype"])
    if name in ("squeeze", "reshape", "expand_dims"):
        return first.reshape(shape)
    if name == "broadcast_in_dim":
        places = equation.params["broadcast_dimensions"]
        own = iter(first.shape)
        return np.broadcast_to(
            first.reshape([next(own) if i in places else 1 for i in range(len(shape))]), shape
        )
    if name == "concatenate":
        return np.concatenate(inputs, axis=equation.params["dimension"])
    return None


def _judge(equation: Any, inputs: Sequence[Any], array: str | None) -> list[str]:
    """What is wrong with an equation that reads or writes at known places."""
    name, params = equation.primitive.name, equation.params
    shape = equation.invars[0].aval.shape if equation.invars else ()
    if name == "dynamic_slice":
        starts, sizes = inputs[1:], params["slice_sizes"]
        places = [(i, start, sizes[i]) for i, start in enumerate(starts) if start is not None]
        return _outside("reads", array, shape, places)
    if name == "gather" and inputs[1] is not None:
        how = params["dimension_numbers"].start_index_map
        if params["mode"] != GatherScatterMode.PROMISE_IN_BOUNDS:
            return []  # asked for by the user: to clip, or to fill
        sizes = params["slice_sizes"]
        places = [(int(d), inputs[1][..., c], int(sizes[d])) for c, d in enumerate(how)]
        return _outside("reads", array, shape, places)
    if name.startswith("scatter") and inputs[1] is not None:
        how = params["dimension_numbers"].scatter_dims_to_operand_dims
        if inputs[1].size != len(how):  # of many places, some may be there to be dropped
            return []
        inserted = params["dimension_numbers"].inserted_window_dims
        places = [(int(d), inputs[1][..., c], 1) for c, d in enumerate(how) if d in inserted]
        return _outside("writes", array, shape, places)
    return []


def _outside(
    verb: str, array: str | None, shape: Sequence[int], places: Sequence[tuple[int, Any, int]]
) -> list[str]:
    found = []
    for dimension, starts, length in places:
        size = shape[dimension]
        wrong = [int(i) for i in np.ravel(starts) if not 0 <= i <= size - length]
        if wrong:
            index = wrong[0] if wrong[0] >= 0 else wrong[0] - size
            what = f"{verb} {array}[{index}]" if array else f"{verb} index {index} of an array"
            found.append(f"{what}, but there are {size} entries, counted from 0")
    return found
