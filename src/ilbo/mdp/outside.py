"""Policies that JAX cannot trace: NumPy controllers, models of other libraries, solvers."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from ilbo.errors import UserError, suggest
from ilbo.mdp.model import Model
from ilbo.mdp.simple import POLICIES


class NumpyPolicy:
    """A controller that is called with NumPy arrays, outside of compiled programs.

    `ilbo.simulate`, `evaluate` and `compare` take such controllers as they are. To wrap one by hand
    serves to say that it takes all states at once (`batch`), or that it is not to be traced though
    it could be, such as a controller that remembers something from call to call.

    Args:
        controller: state [n] → action [m].
        batch: Whether it maps states [episodes, n] to actions [episodes, m] instead.
    """

    def __init__(self, controller: Callable[..., Any], *, batch: bool = False):
        if not callable(controller):
            raise UserError(f"A policy is a function of the state; {controller!r} is none.")
        self.controller, self.batch = controller, batch
        self.timed = is_timed(controller)
        self.stochastic = bool(getattr(controller, "stochastic", False))
        self.sees_return = getattr(controller, "sees_return", False)
        self.sees_drawn = getattr(controller, "sees_drawn", False)
        self.sees: int | None = None

    def __call__(self, state: Any, *rest: Any) -> np.ndarray:
        """The action [m] at a state [n]."""
        if self.batch:
            return self.actions(np.array(state)[None], *(np.array(x)[None] for x in rest))[0]
        return np.asarray(self.controller(np.array(state), *rest))

    def seeing(self, components: int | None) -> NumpyPolicy:
        """The same for longer states, of which it sees the first components."""
        other = copy.copy(self)
        other.sees = components
        return other

    def actions(self, states: Float[np.ndarray, "b n"], *rest: Any) -> np.ndarray:
        """The actions [b, m]; `rest` are further arguments of the controller, [b] each."""
        states = states[:, : self.sees]
        if self.batch:
            found = self.controller(states, *rest)
        else:
            found = [self.controller(*one) for one in zip(states, *rest, strict=True)]
        try:
            return np.asarray(found, np.float32)
        except (TypeError, ValueError):
            raise UserError(
                "The policy returns something else than an action, a list of numbers of one size: "
                f"{found[0] if isinstance(found, list) else found!r}."
            ) from None


def is_timed(policy: Any) -> bool:
    """Whether a policy is called with the time as well: it says so, or declares `time`."""
    told = getattr(policy, "timed", None)
    if told is not None:
        return bool(told)
    try:
        return "time" in inspect.signature(policy).parameters
    except (TypeError, ValueError):
        return False


def as_policy(model: Model, policy: Any) -> Any:
    """What a user gave as a policy, as something that can be called with a state.

    A name stands for a simple policy; an object with `predict`, such as a model of
    Stable-Baselines3, is asked for its predictions.
    """
    if isinstance(policy, str):
        if policy not in POLICIES:
            hint = suggest(policy, POLICIES, f"there are: {', '.join(POLICIES)}.")
            raise UserError(f"There is no policy of the name {policy!r}; {hint}")
        return POLICIES[policy](model)
    if callable(policy):
        return policy
    if callable(getattr(policy, "predict", None)):
        predict = _prediction(policy.predict)
        return NumpyPolicy(_with_time(predict) if model.sees_time else predict, batch=True)
    raise UserError(
        f"A policy is a function of the state, or one of {', '.join(POLICIES)}; {policy!r} is none."
    )


def _with_time(predict: Callable[..., Any]) -> Callable[..., Any]:
    """For what observes [state, time], as `ilbo.adapters.gym` shows models that see the time."""

    def actions(states: np.ndarray, time: np.ndarray) -> np.ndarray:
        return predict(np.column_stack([states, time]).astype(np.float32))

    return actions


def _prediction(predict: Callable[..., Any]) -> Callable[..., Any]:
    """states [b, n] → actions [b, m]."""
    try:
        has_mode = "deterministic" in inspect.signature(predict).parameters
    except (TypeError, ValueError):
        has_mode = False
    mode = {"deterministic": True} if has_mode else {}

    def actions(states: np.ndarray) -> np.ndarray:
        found = predict(states, **mode)
        found = np.asarray(found[0] if isinstance(found, tuple) else found)
        return found[:, None] if found.ndim == 1 else found

    return actions
