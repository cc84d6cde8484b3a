"""Noise from data, and noise with finitely many values: laws without a density."""

from __future__ import annotations

from typing import Any, NoReturn

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ilbo.errors import DensityError, UserError
from ilbo.mdp import sampling
from ilbo.mdp.laws.law import Law, Rule


class Empirical(Law):
    """Rows of data, drawn whole, so that components that belong together stay together.

    Args:
        rows: [j, k], a row for each observation; a list of numbers is one component.
        weights: [j], how often each is drawn, relative to the others; equally often if None.
    """

    rows: Float[Array, "j k"]
    upto: Float[Array, " j"]
    """Cumulative probabilities."""

    def __init__(self, rows: Any, weights: Any = None):
        name = type(self).__name__
        what = "rows" if name == "Empirical" else "values"
        table = _numbers(f"The {what} of {name}", rows)
        if table.ndim == 1:
            table = table[:, None]
        if table.ndim != 2 or not table.size:
            raise UserError(
                f"The {what} of {name} must be a table of numbers, a row for each observation, got "
                f"shape {np.shape(rows)}."
            )
        self.rows = jnp.asarray(table, jnp.float32)
        self.upto = jnp.asarray(_cumulative(name, weights, len(table)), jnp.float32)

    @property
    def size(self) -> int:
        return self.rows.shape[1]

    @property
    def discrete(self) -> np.ndarray:
        return np.ones(self.size, bool)

    def sample(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "*shape k"]:
        place = jnp.searchsorted(self.upto, sampling.uniform(key, shape), side="right")
        return self.rows[jnp.minimum(place, len(self.rows) - 1)]

    def log_prob(self, noise: Float[Array, " k"]) -> NoReturn:
        raise DensityError(
            f"{self} has finitely many values, so it has no density; the pathwise estimator needs "
            "none."
        )

    def quadrature(self, points: int) -> Rule:
        """The law itself, whatever the number of points."""
        return np.asarray(self.rows, float), np.diff(np.asarray(self.upto, float), prepend=0.0)

    def __str__(self) -> str:
        return f"{type(self).__name__} of {len(self.rows)} rows × {self.size}"


class Discrete(Empirical):
    """One component with finitely many values.

    Args:
        values: [j].
        probabilities: [j], adding up to 1; equal if None.
    """

    def __init__(self, values: Any, probabilities: Any = None):
        numbers = _numbers("The values of Discrete", values)
        if numbers.ndim != 1 or not numbers.size:
            raise UserError(
                f"The values of Discrete must be a list of numbers, got shape {np.shape(values)}."
            )
        if probabilities is not None:
            total = _numbers("The probabilities of Discrete", probabilities).sum()
            if abs(total - 1) > 1e-4:
                raise UserError(f"The probabilities of Discrete must add up to 1, not {total:g}.")
        super().__init__(numbers, probabilities)

    def __str__(self) -> str:
        return f"Discrete of {len(self.rows)} values"


def _numbers(what: str, values: Any) -> np.ndarray:
    try:
        array = np.asarray(values, float)
    except (TypeError, ValueError):
        raise UserError(
            f"{what} must be numbers, in rows of equal length, got {values!r}."
        ) from None
    if not np.isfinite(array).all():
        raise UserError(f"{what} must be finite, got {array[~np.isfinite(array)][0]}.")
    return array


def _cumulative(name: str, weights: Any, count: int) -> np.ndarray:
    what = "probabilities" if name == "Discrete" else "weights"
    if weights is None:
        return np.arange(1, count + 1) / count
    array = _numbers(f"The {what} of {name}", weights)
    if array.shape != (count,):
        raise UserError(
            f"The {what} of {name} must be one for each of its {count} rows, got shape "
            f"{array.shape}."
        )
    if (array < 0).any() or not array.sum() > 0:
        raise UserError(f"The {what} of {name} must be at least 0, and not all 0.")
    return np.cumsum(array) / array.sum()
