"""Parameters of a model that are not known exactly: drawn by a law, once an episode."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ilbo.errors import UserError, suggest
from ilbo.mdp.laws.empirical import Discrete
from ilbo.mdp.laws.law import Law
from ilbo.mdp.laws.located import Uniform
from ilbo.mdp.laws.product import Product
from ilbo.mdp.model import Model

DRAWN = 4096
"""Draws that tell the range of a law which does not say it."""
POINTS = 9
"""Values between the ends of a single parameter among which the worst is looked for."""
MOST_CORNERS = 5
"""Parameters whose ends are combined in every way; of more, draws are taken."""


class Uncertain(eqx.Module):
    """Laws of some parameters [j], independent of each other and of the noise of the steps."""

    names: tuple[str, ...] = eqx.field(static=True)
    """As the model calls them; a parameter of several numbers has all of them under one name."""
    laws: tuple[Law, ...]
    seen: bool = eqx.field(static=True)
    """Whether the policy sees what was drawn."""
    low: Float[Array, " j"]
    """The range of what is drawn: of a law without ends, of nearly all that it draws."""
    high: Float[Array, " j"]
    nodes: Float[Array, "nodes j"]
    """Values among which the worst is looked for."""

    @classmethod
    def of(cls, model: Model, laws: Any, seen: bool, problem: str) -> Uncertain:
        """As a user gives them."""
        known = model.parameters()
        where = f"Problem {problem!r}: "
        if not isinstance(laws, Mapping) or not laws:
            raise UserError(
                f"{where}uncertain is a dict from the names of parameters to their laws, such as "
                f'{{"efficiency": ilbo.Uniform(0.85, 0.95)}}, not {laws!r}.'
            )
        for name, law in laws.items():
            check_parameter(known, name, f"{where}the model")
            if not isinstance(law, Law):
                raise UserError(
                    f"{where}the uncertain {name!r} needs a law, such as "
                    f"ilbo.Uniform(0.85, 0.95), not {law!r}."
                )
            size = int(np.size(known[name]))
            if law.size != size:
                raise UserError(
                    f"{where}the uncertain {name!r} has {size} numbers, and its law draws "
                    f"{law.size}."
                )
        ends = [_ends(law) for law in laws.values()]
        low, high = (np.concatenate(end) for end in zip(*ends, strict=True))
        found = tuple(laws), tuple(laws.values())
        nodes = _nodes(found[1], low, high)
        return cls(*found, bool(seen), *(jnp.asarray(x, jnp.float32) for x in (low, high, nodes)))

    @property
    def size(self) -> int:
        return self.low.shape[0]

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each number."""
        return tuple(
            name if law.size == 1 else f"{name} {i + 1}"
            for name, law in zip(self.names, self.laws, strict=True)
            for i in range(law.size)
        )

    def sample(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "*shape j"]:
        keys = jax.random.split(key, len(self.laws))
        drawn = [law.sample(k, shape) for law, k in zip(self.laws, keys, strict=True)]
        return jnp.concatenate(drawn, axis=-1)

    def put_into(self, model: Model, values: Float[Array, " j"]) -> Model:
        """The model with these values."""
        ends = np.cumsum([law.size for law in self.laws])[:-1]
        parts = jnp.split(values, ends)
        known = model.parameters()
        shaped = {
            name: part.reshape(np.shape(known[name]))
            for name, part in zip(self.names, parts, strict=True)
        }
        return model.with_parameters(shaped)

    def nominal(self, model: Model) -> Float[Array, " j"]:
        """The values that the model itself has."""
        known = model.parameters()
        flat = [jnp.ravel(jnp.asarray(known[name], jnp.float32)) for name in self.names]
        return jnp.concatenate(flat)

    def fixed_at(self, values: Mapping[str, Any]) -> Uncertain:
        """The same with some of the parameters sure to be these."""
        laws, nodes, start = [], self.nodes, 0
        for name, law in zip(self.names, self.laws, strict=True):
            place = slice(start, start + law.size)
            start += law.size
            if name in values:
                sure = np.ravel(np.asarray(values[name], np.float32))
                law = Product([Discrete([x], [1.0]) for x in sure.tolist()])
                nodes = nodes.at[:, place].set(sure)
            laws.append(law)
        return dataclasses.replace(self, laws=tuple(laws), nodes=nodes)

    def check(self, models: Sequence[Model], state: Float[Array, " n"], problem: str) -> None:
        """Traces the models with the parameters as arrays, and says what they cannot bear."""

        def step(model: Model, values: Array) -> list[Array]:
            now = self.put_into(model, values).at(jnp.zeros((), jnp.int32))
            low, high = now.bounds(state)
            moved = now.transition(state, low, jnp.zeros(now.law.size))
            return [jnp.asarray(x) for x in (moved, now.reward(state, low, moved), high)]

        for model in models:
            for name in self.names:
                check_parameter(model.parameters(), name, f"Problem {problem!r}: the exact model")
            try:
                eqx.filter_eval_shape(step, model, self.low)
            except UserError:
                raise
            except Exception as error:  # what a model makes of an array may be anything
                reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
                raise UserError(
                    f"Problem {problem!r}: the model cannot be told {_list(self.names)} as it "
                    f"runs, since it takes it as a number that is known beforehand: {reason}"
                ) from error


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


def check_parameter(known: Mapping[str, Any], name: str, whose: str) -> None:
    """Raises where there is no parameter of the name."""
    if name not in known:
        among = f"it has: {', '.join(known)}." if known else "it has none that are numbers."
        raise UserError(f"{whose} has no parameter {name!r}; {suggest(str(name), known, among)}")


def check_known(problem: Any, what: str) -> None:
    """Raises where a problem has parameters that are not sure."""
    found = problem.uncertain
    if found is not None and bool(jnp.any(found.nodes[0] != found.nodes)):
        name = found.names[0]
        raise UserError(
            f"There is no way yet to find {what} where {_list(found.names)} is uncertain: set it, "
            f"with --set {name}=VALUE or problem.with_parameters."
        )


def _ends(law: Law) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(law, Uniform):
        low = np.asarray(law.loc, float)
        return low, low + np.asarray(law.scale, float)
    drawn = np.asarray(law.sample(jax.random.key(0), (DRAWN,)), float)
    if law.discrete.all():
        return drawn.min(axis=0), drawn.max(axis=0)
    low, high = np.quantile(drawn, [0.005, 0.995], axis=0)
    return low, high


def _nodes(laws: tuple[Law, ...], low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Values among which the worst is looked for [nodes, j]."""
    if len(laws) == 1 and laws[0].discrete.all():
        return np.unique(np.asarray(laws[0].sample(jax.random.key(0), (DRAWN,))), axis=0)
    if len(low) == 1:
        return np.linspace(low, high, POINTS)
    if len(low) <= MOST_CORNERS:
        corners = np.array(list(itertools.product(*zip(low, high, strict=True))))
        return np.concatenate([corners, [(low + high) / 2]])
    drawn = [law.sample(jax.random.key(i), (30,)) for i, law in enumerate(laws)]
    return np.concatenate([np.concatenate(drawn, axis=1), [low, high]])
