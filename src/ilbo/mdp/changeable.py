"""Problems as inputs of compiled programs: what may change without compiling anew.

A Python float in a field of a model is a part of the programs that are compiled with it. Here such
floats become arrays, as the discount does, so that one program serves all their values. A model
that asks for them as numbers, to choose by or to compute with outside of JAX, keeps them.
"""

from __future__ import annotations

import copy
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ilbo.mdp import limits
from ilbo.mdp.laws.law import Law
from ilbo.mdp.model import Model
from ilbo.mdp.problem import Origin, Problem

_known: dict[Any, bool] = {}
"""By the form of a model: whether its floats can be arrays."""
MOST = 256


def changeable(problem: Problem) -> Problem:
    """The problem as compiled programs take it: floats of its models as arrays where that can be
    done, and nothing of where it comes from."""
    changed = copy.copy(problem)
    size = problem.state_size, problem.action_size
    model = with_arrays(problem.model, *size)
    exact = model if problem.exact is problem.model else with_arrays(problem.exact, *size)
    discount = problem.discount if problem.discount == 1 else jnp.asarray(problem.discount)
    origin = Origin(problem.origin.kind)
    for name, value in (
        *(("model", model), ("exact", exact)),
        *(("discount", discount), ("origin", origin)),
        ("limits", limits.with_arrays(problem.limits)),
    ):
        object.__setattr__(changed, name, value)
    return changed


def with_arrays(model: Model, states: int, actions: int) -> Model:
    """The model with its floats as arrays; itself where it has none or needs them as they are."""
    if type(model).__module__.partition(".")[0] == __name__.partition(".")[0]:
        return model  # ours have arrays for what may change
    floats, rest = eqx.partition(model, _is_float, is_leaf=_is_law)
    if not jax.tree.leaves(floats):
        return model
    arrays = jax.tree.map(jnp.asarray, floats)
    return eqx.combine(arrays, rest, is_leaf=_is_law) if _bears(model, states, actions) else model


def loosened(policy: Any, states: int, actions: int) -> Any:
    """A policy with the models that it holds changed likewise."""
    if not isinstance(policy, eqx.Module):
        return policy

    def one(part: Any) -> Any:
        return with_arrays(part, states, actions) if isinstance(part, Model) else part

    return jax.tree.map(one, policy, is_leaf=lambda part: isinstance(part, Model))


def _is_float(x: Any) -> bool:
    return isinstance(x, float)


def _is_law(x: Any) -> bool:
    return isinstance(x, Law)


def _bears(model: Model, states: int, actions: int) -> bool:
    """Whether the model can be traced with its floats as arrays."""
    leaves, structure = jax.tree.flatten(model)
    static = tuple(type(x) if isinstance(x, float) or eqx.is_array(x) else x for x in leaves)
    key = structure, static, states, actions
    try:
        if key in _known:
            return _known[key]
    except TypeError:  # something in it has no hash
        return False
    if len(_known) >= MOST:
        _known.clear()
    _known[key] = _traces(model, states, actions)
    return _known[key]


def _traces(model: Model, states: int, actions: int) -> bool:
    floats, rest = eqx.partition(model, _is_float, is_leaf=_is_law)
    sizes = (states, actions, model.law.size)

    def all_of_it(floats: Any, state: Any, action: Any, noise: Any) -> Any:
        whole = eqx.combine(floats, rest, is_leaf=_is_law).at(jnp.zeros((), jnp.int32))
        moved = whole.transition(state, action, noise)
        found = [moved, whole.reward(state, action, moved), *whole.bounds(state)]
        found += [whole.terminal(state), whole.violations(state, action)]
        found += whole.costs(state, action, moved).values()
        if type(model).heuristic is not Model.heuristic:
            found.append(whole.heuristic(state))
        if type(model).log_density is not Model.log_density:
            found.append(whole.log_density(state, action, moved))
        return [jnp.asarray(x) for x in found]

    vectors = [jax.ShapeDtypeStruct((size,), jnp.float32) for size in sizes]
    try:
        jax.eval_shape(all_of_it, floats, *vectors)
    except Exception:  # what a model makes of an array in the place of a number may be anything
        return False
    return True
