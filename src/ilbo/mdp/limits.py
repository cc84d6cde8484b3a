"""Limits on what episodes cost, kept beside the return.

A model tells its costs by name (`Model.costs`); a limit is a bound on one of them: on its sum over
an episode in the mean, on its mean at each step, or on the chance that an episode breaks it at all.
Training charges the costs against the reward, at multipliers that follow the limits
(`ilbo.planning.limited`).
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ilbo.errors import UserError, suggest
from ilbo.mdp.shapes import Number

Costs = dict[str, Any]
"""What a step or a whole sample of episodes costs, by name."""
FORMS = '"E(energy) <= 400", "each E(energy) <= 20" or "P(level > 0) <= 0.05"'
_NUMBER = r"([-+]?[\d.]+(?:[eE][-+]?\d+)?)"
_NAME = r"\s*([^<>=()]+?)\s*"


class Tally(eqx.Module):
    """Count, mean and variance of samples."""

    count: Any
    mean: Float[Any, " terms"]
    variance: Float[Any, " terms"]

    @classmethod
    def of(cls, samples: Float[Any, "b terms"]) -> Tally:
        return cls(float(len(samples)), samples.mean(axis=0), samples.var(axis=0))

    def adding(self, other: Tally) -> Tally:
        """Of both samples together."""
        count = self.count + other.count
        share, apart = other.count / count, other.mean - self.mean
        within = self.variance + share * (other.variance - self.variance)
        variance = within + share * (1 - share) * apart**2
        return Tally(count, self.mean + share * apart, variance)


class Limit(eqx.Module):
    """A bound on a cost."""

    cost: str = eqx.field(static=True)
    at_most: Number
    """May be changed without compiling anew."""

    of_steps: ClassVar[bool] = False
    """Whether each step has a bound of its own."""
    of_chance: ClassVar[bool] = False
    """Whether it is a bound on the chance that an episode breaks it."""

    def __check_init__(self) -> None:
        if not isinstance(self.cost, str):
            raise UserError(f"A limit is on a cost by its name, not on {self.cost!r}.")
        self._check("at_most", -math.inf, math.inf, "a finite number")

    def _check(self, name: str, low: float, high: float, wanted: str) -> None:
        value = getattr(self, name)
        if isinstance(value, jax.Array):
            return
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not number or not low < value < high:
            raise UserError(
                f"The limit on {self.cost!r} has {name}={value!r}; it must be {wanted}."
            )
        object.__setattr__(self, name, float(value))

    @abstractmethod
    def samples(
        self, costs: Float[Any, "b horizon"], alive: Bool[Any, "b horizon"]
    ) -> Float[Any, "b terms"]:
        """What each episode adds to the figures that are bounded."""

    @property
    def allowed(self) -> Number:
        """What the mean of `samples` may be."""
        return self.at_most

    def ends(self, tally: Tally, errors: float) -> tuple[Any, Any]:
        """So many standard errors below and above the figures [terms]."""
        error = errors * (tally.variance / tally.count) ** 0.5
        return tally.mean - error, tally.mean + error

    def terms(self, horizon: int) -> int:
        """How many figures are bounded."""
        return horizon if self.of_steps else 1

    @property
    def effort(self) -> int:
        """How many times as many episodes as a mean return takes to tell whether it is kept."""
        return 4

    @property
    def form(self) -> str:
        """What compiled programs depend on."""
        return f"{type(self).__name__} {self.cost}"


class Expected(Limit):
    """The cost of an episode, summed over its steps, is at most so much in the mean.

    >>> print(Expected("energy", at_most=400))
    E(energy) <= 400
    """

    def samples(self, costs: Any, alive: Any) -> Any:
        return _of(costs).where(alive, costs, 0.0).sum(axis=1, keepdims=True)

    def __str__(self) -> str:
        return f"E({self.cost}) <= {_shown(self.at_most)}"


class EachStep(Limit):
    """The cost of each step is at most so much in the mean over episodes.

    >>> print(EachStep("energy", at_most=20))
    each E(energy) <= 20
    """

    of_steps: ClassVar[bool] = True

    def samples(self, costs: Any, alive: Any) -> Any:
        return _of(costs).where(alive, costs, 0.0)

    def __str__(self) -> str:
        return f"each E({self.cost}) <= {_shown(self.at_most)}"


class Chance(Limit):
    """The chance that the cost of any step of an episode is more than `at_most` is at most
    `probability`.

    >>> print(Chance("level", at_most=0, probability=0.05))
    P(level > 0) <= 0.05
    """

    probability: float = eqx.field(static=True)

    of_chance: ClassVar[bool] = True

    def __check_init__(self) -> None:
        self._check("probability", 0, 1, "in (0, 1)")

    def samples(self, costs: Any, alive: Any) -> Any:
        broken = ((costs > self.at_most) & alive).any(axis=1, keepdims=True)
        return broken.astype(np.float32)

    @property
    def allowed(self) -> Number:
        return self.probability

    def ends(self, tally: Tally, errors: float) -> tuple[Any, Any]:
        """By Wilson: right for small chances too."""
        n, share = tally.count, tally.mean
        spread = errors**2 / n
        middle = (share + spread / 2) / (1 + spread)
        half = errors * (share * (1 - share) / n + spread / (4 * n)) ** 0.5 / (1 + spread)
        return middle - half, middle + half

    @property
    def effort(self) -> int:
        return min(64, max(4, math.ceil(0.8 / self.probability)))

    @property
    def form(self) -> str:
        return f"{super().form} {self.probability}"

    def __str__(self) -> str:
        return f"P({self.cost} > {_shown(self.at_most)}) <= {_shown(self.probability)}"


def limit_of(given: str | Limit) -> Limit:
    """The limit of a text such as "P(level > 0) <= 0.05"."""
    if isinstance(given, Limit):
        return given
    text = given if isinstance(given, str) else ""
    if found := re.fullmatch(rf"\s*(each)?\s*E\({_NAME}\)\s*<=\s*{_NUMBER}\s*", text):
        kind = EachStep if found[1] else Expected
        return kind(found[2], _number(found[3], text))
    if found := re.fullmatch(rf"\s*P\({_NAME}>\s*{_NUMBER}\s*\)\s*<=\s*{_NUMBER}\s*", text):
        return Chance(found[1], _number(found[2], text), _number(found[3], text))
    raise UserError(f"{given!r} is no limit; write one such as {FORMS}.")


def limits_of(given: Any, names: Sequence[str], problem: str) -> tuple[Limit, ...]:
    """Limits as a user gives them, on costs that there are."""
    if isinstance(given, str | Limit) or not isinstance(given, Iterable):
        raise UserError(
            f"Problem {problem!r}: limits is a list such as "
            f'[ilbo.Expected("energy", at_most=400)], not {given!r}.'
        )
    found = tuple(limit_of(one) for one in given)
    for limit in found:
        if not names:
            raise UserError(
                f"Problem {problem!r}: there is a limit on {limit.cost!r}, but the model has no "
                "costs: write its method `costs`, which returns them by name."
            )
        if limit.cost not in names:
            hint = suggest(limit.cost, names, f"it has: {', '.join(names)}.")
            raise UserError(f"Problem {problem!r}: the model has no cost {limit.cost!r}; {hint}")
    return found


class Charges(eqx.Module):
    """What costs are charged at in training: λ, and how soft the edges of the chances are."""

    multipliers: Float[Array, " terms"]
    """λ of each figure that is bounded, in the reward's units: one of each limit, or as many as
    there are steps."""
    widths: Float[Array, " limits"]
    """Of the soft edges, in the cost's units."""
    usual: Float[Array, "limits times"]
    """Chance that a limit is broken already after so many steps."""

    def charged(
        self,
        limits: Sequence[Limit],
        costs: Costs,
        broke: Float[Array, " chances"],
        time: Any,
        horizon: int,
    ) -> Float[Array, ""]:
        """Σ λ c of a step; `broke` is by how much each chance has been broken in it.

        What is broken for good has no slope. So while most episodes break a chance, how far they do
        is charged too, by the share of those.
        """
        total, first, chance = jnp.zeros(()), 0, 0
        for i, limit in enumerate(limits):
            price = self.multipliers[first + time if limit.of_steps else first]
            first += limit.terms(horizon)
            if limit.of_chance:
                over = jnp.maximum(costs[limit.cost] - limit.at_most, 0.0) / self.widths[i]
                share = self.usual[i, -1]
                total, chance = total + price * (broke[chance] + share * over), chance + 1
            else:
                total = total + price * costs[limit.cost]
        return total


def edge(over: Float[Array, "..."]) -> Float[Array, "..."]:
    """How far a limit counts as broken that a cost is so many widths over: 0 at −1 and below, ½ at
    0, and towards 1 beyond, ever more slowly, so that there is a way back."""
    x = jnp.maximum(over + 1, 0.0) ** 2
    return x / (1 + x)


def broken_after(
    limits: Sequence[Limit],
    widths: Float[Array, " limits"],
    broken: Float[Array, " chances"],
    costs: Costs,
) -> Float[Array, " chances"]:
    """How far each chance counts as broken after a step: 1 − Π (1 − edge)."""
    each = [
        edge((costs[limit.cost] - limit.at_most) / width)
        for limit, width in zip(limits, widths, strict=True)
        if limit.of_chance
    ]
    return broken + (1 - broken) * jnp.stack(each) if each else broken


def chances(limits: Sequence[Limit]) -> int:
    """How many of the limits are chances."""
    return sum(limit.of_chance for limit in limits)


def with_arrays(limits: Sequence[Limit]) -> tuple[Limit, ...]:
    """The limits as compiled programs take them."""
    return tuple(
        eqx.tree_at(lambda one: one.at_most, limit, jnp.asarray(limit.at_most, jnp.float32))
        for limit in limits
    )


def _number(text: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError(f"{whole!r} is no limit: {text!r} is no number.") from None


def _shown(value: Any) -> str:
    return f"{float(value):.10g}"


def _of(array: Any) -> Any:
    return np if isinstance(array, np.ndarray | np.generic) else jnp
