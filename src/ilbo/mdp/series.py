"""Tables of data that models look up by the time."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ilbo.errors import UserError


class Series(eqx.Module):
    """Values by the step: `prices[time]`. After the last one it stays there, or begins anew."""

    values: Float[Array, "steps *shape"]
    cyclic: bool = eqx.field(static=True)

    def __getitem__(self, time: Any) -> Float[Array, "*shape"]:
        last = len(self.values) - 1
        place = time % (last + 1) if self.cyclic else jnp.clip(time, 0, last)
        return self.values[place]

    def __len__(self) -> int:
        return len(self.values)


def series(values: Any, *, cyclic: bool = False) -> Series:
    """A table of data for a model that sees the time: prices by the hour, rain by the day.

    Args:
        values: Numbers by the step, [steps], or several at each step, [steps, ...].
        cyclic: Whether it begins anew after the last; otherwise the last one stays.

    >>> price = series([10.0, 30.0, 20.0], cyclic=True)
    >>> float(price[1]), float(price[4])
    (30.0, 30.0)
    """
    try:
        table = np.asarray(values, np.float32)
    except (TypeError, ValueError):
        raise UserError(f"A series is a list of numbers, or an array, not {values!r}.") from None
    if table.ndim < 1 or len(table) == 0:
        raise UserError(f"A series needs at least one value; its shape is {table.shape}.")
    if not np.isfinite(table).all():
        place = int(np.argwhere(~np.isfinite(table))[0][0])
        raise UserError(f"The series has a number that is not finite, at step {place}.")
    return Series(jnp.asarray(table), bool(cyclic))
