"""What is made of an episode's return R: its mean, or a figure that minds the bad episodes.

Each is a maximum over a few numbers η of an expected utility, max_η E u(R; η). So training climbs
it in turns: the policy at fixed η, as for any sum of rewards, and η for the newest policy, from
returns along replayed noise. Free of JAX until it is used.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ilbo.errors import UserError

FORMS = "mean, cvar:SHARE, entropic:LAMBDA, mean-std:LAMBDA or worst"
STEEPEST = 20.0
"""Logarithm of the largest slope of the exponential utility; beyond it goes on as a line."""


@dataclass(frozen=True)
class Objective(ABC):
    """A figure of the law of the return, to be maximised.

    Subclasses are frozen dataclasses: programs are compiled for each value.
    """

    sees_return: ClassVar[bool] = True
    """Whether the best action depends on what was earned so far, so that the policy must see it."""
    of_returns: ClassVar[bool] = True
    """Whether it is about the law of the return, and not about means alone."""
    share_trained: ClassVar[float] = 1.0
    """Of it in what is climbed, beside the mean: below 1 where it does not care for the return of
    some episodes, so that a policy in them would have no direction at all."""
    over_parameters: ClassVar[bool] = False
    """Whether it is about the law of the uncertain parameters and not about that of the return."""

    @abstractmethod
    def value(self, returns: Any) -> Any:
        """The figure [] of a sample of returns [b], arrays of NumPy's or JAX's."""

    @abstractmethod
    def numbers(self, returns: Any) -> Any:
        """The best η [e] for this sample of returns."""

    @abstractmethod
    def utility(self, total: Any, numbers: Any) -> Any:
        """u(R; η) [], concave where bad episodes are to be avoided."""

    @property
    def effort(self) -> int:
        """How many times as many episodes its estimate takes as that of a mean."""
        return 1


@dataclass(frozen=True)
class Mean(Objective):
    """E R."""

    sees_return: ClassVar[bool] = False
    of_returns: ClassVar[bool] = False

    def value(self, returns: Any) -> Any:
        return returns.mean()

    def numbers(self, returns: Any) -> Any:
        return _of(returns).zeros(0, returns.dtype)

    def utility(self, total: Any, numbers: Any) -> Any:
        return total

    def __str__(self) -> str:
        return "mean"


@dataclass(frozen=True)
class CVaR(Objective):
    """The mean of the worst share α of the episodes: max_z z − E (z − R)₊ / α."""

    share_trained: ClassVar[float] = 0.9
    share: float

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise UserError(f"The share of cvar must be in (0, 1], got {self.share:g}.")

    def value(self, returns: Any) -> Any:
        import numpy as np

        xp = _of(returns)
        weights = np.clip(self.share * len(returns) - np.arange(len(returns)), 0.0, 1.0)
        used = int(np.ceil(weights.sum()))  # the others must not enter: 0 · (−inf) is no number
        worst = xp.sort(returns)[:used]
        return (worst * xp.asarray(weights[:used], worst.dtype)).sum() / weights.sum()

    def numbers(self, returns: Any) -> Any:
        xp = _of(returns)
        return xp.sort(returns)[max(0, math.ceil(self.share * len(returns)) - 1)][None]

    def utility(self, total: Any, numbers: Any) -> Any:
        (z,) = numbers
        return z - _of(total).maximum(z - total, 0.0) / self.share

    @property
    def effort(self) -> int:
        return min(10, math.ceil(1 / self.share))

    def __str__(self) -> str:
        return f"cvar:{self.share:g}"


@dataclass(frozen=True)
class Entropic(Objective):
    """−ln E e^(−λR) / λ: a sure return worth as much; λ > 0 shuns bad episodes, λ < 0 seeks good
    ones. The same as max_c c + (1 − E e^(−λ(R − c))) / λ for λ > 0."""

    sees_return: ClassVar[bool] = False
    rate: float

    def __post_init__(self) -> None:
        if self.rate == 0 or not math.isfinite(self.rate):
            raise UserError(f"The rate of entropic must be a number other than 0, got {self.rate}.")

    def value(self, returns: Any) -> Any:
        xp = _of(returns)
        exponents = -self.rate * returns
        most = exponents.max()
        return -(most + xp.log(xp.exp(exponents - most).mean())) / self.rate

    def numbers(self, returns: Any) -> Any:
        return self.value(returns)[None]

    def utility(self, total: Any, numbers: Any) -> Any:
        # Relative to what is usual, so that nothing overflows; what does anyway goes on as a line.
        (usual,) = numbers
        xp = _of(total)
        x = -self.rate * (total - usual)
        near = xp.minimum(x, STEEPEST)
        grown = xp.exp(near) * (1 + x - near)
        return usual + (1 - grown) / self.rate

    def __str__(self) -> str:
        return f"entropic:{self.rate:g}"


@dataclass(frozen=True)
class MeanStd(Objective):
    """E R − λ std R: max over m and σ of E R − λ (σ + E (R − m)² / σ) / 2, for λ > 0."""

    weight: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.weight):
            raise UserError(f"The weight of mean-std must be a number, got {self.weight}.")

    def value(self, returns: Any) -> Any:
        return returns.mean() - self.weight * returns.std()

    def numbers(self, returns: Any) -> Any:
        xp = _of(returns)
        mean, std = returns.mean(), returns.std()
        return xp.stack([mean, xp.maximum(std, 1e-6 * (1e-6 + abs(mean)))])

    def utility(self, total: Any, numbers: Any) -> Any:
        mean, std = numbers
        return total - self.weight * (std + (total - mean) ** 2 / std) / 2

    def __str__(self) -> str:
        return f"mean-std:{self.weight:g}"


@dataclass(frozen=True)
class Worst(Objective):
    """The mean return under the worst values of a problem's uncertain parameters."""

    sees_return: ClassVar[bool] = False
    of_returns: ClassVar[bool] = False
    over_parameters: ClassVar[bool] = True

    def value(self, returns: Any) -> Any:
        """Of returns [b], or [parameters, b]."""
        return returns.mean() if returns.ndim == 1 else returns.mean(axis=1).min()

    def numbers(self, returns: Any) -> Any:
        raise NotImplementedError  # the weights of the parameters are found by `Tilt`

    def utility(self, total: Any, numbers: Any) -> Any:
        return total

    @property
    def effort(self) -> int:
        return 4

    def __str__(self) -> str:
        return "worst"


_KINDS: dict[str, Callable[[float], Objective]] = {
    "cvar": CVaR,
    "entropic": Entropic,
    "mean-std": MeanStd,
}


def objective_of(given: str | Objective) -> Objective:
    """The objective of a text such as "cvar:0.1".

    >>> objective_of("cvar:0.1")
    CVaR(share=0.1)
    """
    if isinstance(given, Objective):
        return given
    name, colon, number = str(given).partition(":")
    if not colon and name in ("mean", "worst"):
        return Mean() if name == "mean" else Worst()
    if name in _KINDS and colon:
        try:
            return _KINDS[name](float(number))
        except ValueError:
            pass
    raise UserError(f"There is no objective {given!r}: it is one of {FORMS}, such as cvar:0.1.")


def _of(array: Any) -> Any:
    """NumPy for its arrays and plain numbers, JAX's for the others."""
    import numpy as np

    if isinstance(array, np.ndarray | np.generic | float | int):
        return np
    import jax.numpy as jnp

    return jnp
