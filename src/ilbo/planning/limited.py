"""Limits in training: what costs are charged at, and which policy is handed out.

The policy climbs the bound of the Lagrangian, the return less Σ λ c, at multipliers λ that are a
part of the state of training. After each segment the newest policy is run along fresh noise: λ
goes up where a limit is broken there, with a margin, and down where there is room. The steps are of
ln λ, because nobody knows its size: longer while a limit stays on one side, half as long after each
crossing, so that λ finds its size soon and then settles.

A chance has no derivative. What is charged is a soft step (`limits.edge`), as wide as the worst
costs of episodes are spread; what λ follows is the chance itself, so that softness costs return
but breaks nothing.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ilbo.mdp.limits import Charges, Limit, Tally
from ilbo.mdp.problem import Problem
from ilbo.mdp.simulate import Trajectories

if TYPE_CHECKING:
    from ilbo.mdp.widened import Widened

MARGIN = 3.5
"""Standard errors of the estimate by which a limit must be kept: enough that the 95 %
interval of an evaluation on as many fresh episodes will most likely keep it too."""
BEGIN = 0.1
"""Share of training before which costs are charged nothing: what an untrained policy breaks tells
nothing."""
FIRST, FIRST_OF_STEPS = 0.001, 0.03
"""First λ, in units of how the spread of returns compares with that of costs: low, because both are
those of a policy that has hardly learnt yet. Those of single steps have further to go together."""
LOWEST, HIGHEST = -10.0, 14.0
"""Of ln λ in these units; at the lowest nothing is charged."""
SLOWEST, FASTEST = 0.05, 1.5
"""Steps of ln λ."""
LONGER, SHORTER = 1.5, 0.5
"""Factors of the step where a limit stays on its side, and where it has crossed."""
DAMPING = 0.5
"""How far ln λ follows the change of what is broken, beside the integral of it."""
NEAR = 0.05
"""Of what is allowed: farther from it than that, the steps are as long as they may be."""
SOFT = 0.5
"""Width of the soft edges, in spreads of the worst cost of an episode."""
PACE = 0.5


class Prices(eqx.Module):
    """What moves λ, between segments; all of it for each figure that is bounded."""

    log: Float[Array, " terms"]
    """ln λ in units."""
    unit: Float[Array, " terms"]
    """0 until costs are charged."""
    speed: Float[Array, " terms"]
    last: Float[Array, " terms"]
    """How far the limit was broken the last time, from −1 to 1."""
    widths: Float[Array, " limits"]
    usual: Float[Array, "limits times"]

    @classmethod
    def first(cls, limits: tuple[Limit, ...], horizon: int, costs: list[Any]) -> Prices:
        """Before training; `costs` are those of the untrained policy."""
        low = [
            FIRST_OF_STEPS if limit.of_steps else FIRST
            for limit in limits
            for _ in range(limit.terms(horizon))
        ]
        none = jnp.zeros(len(low), jnp.float32)
        start = cls(
            log=jnp.log(jnp.array(low, jnp.float32)),
            unit=none,
            speed=none + FASTEST / 2,
            last=none,
            widths=jnp.ones(len(limits), jnp.float32),
            usual=jnp.zeros((len(limits), horizon + 1), jnp.float32),
        )
        return start.seeing(limits, costs, pace=1.0)

    @property
    def charges(self) -> Charges:
        multipliers = self.unit * (jnp.exp(self.log) - jnp.exp(LOWEST))
        return Charges(multipliers, self.widths, self.usual)

    def seeing(self, limits: tuple[Limit, ...], costs: list[Any], pace: float) -> Prices:
        """With the edges and the usual breaches of episodes with these costs and alive [b, h]."""
        widths, usual = [], []
        for limit, (cost, alive) in zip(limits, costs, strict=True):
            worst = jnp.max(jnp.where(alive, cost, -jnp.inf), axis=1)
            worst = jnp.where(jnp.isfinite(worst), worst, limit.at_most)
            off = jnp.abs(jnp.mean(worst) - limit.at_most)
            widths.append(SOFT * jnp.std(worst) + 0.1 * off + 1e-6)
            broken = jnp.maximum.accumulate((cost > limit.at_most) & alive, axis=1)
            usual.append(jnp.pad(jnp.mean(broken, axis=0), (1, 0)))
        return dataclasses.replace(
            self,
            widths=_towards(self.widths, jnp.stack(widths), pace),
            usual=_towards(self.usual, jnp.stack(usual), pace),
        )

    def moved(
        self,
        limits: tuple[Limit, ...],
        tallies: list[Tally],
        returns: Float[Array, " b"],
        done: Float[Array, ""],
    ) -> Prices:
        """After a segment, whose newest policy has these tallies of what is bounded."""
        broken = [_broken(limit, tally) for limit, tally in zip(limits, tallies, strict=True)]
        signal = jnp.clip(jnp.concatenate(broken), -1.0, 1.0)
        spread = jnp.std(returns) + NEAR * jnp.abs(jnp.mean(returns)) + 1e-30
        sizes = [_size(limit, tally) for limit, tally in zip(limits, tallies, strict=True)]
        begun = self.unit > 0
        unit = jnp.where(begun, self.unit, spread / jnp.concatenate(sizes))
        same = signal * self.last > 0
        speed = jnp.where(same, LONGER * self.speed, SHORTER * self.speed)
        # Rates fall towards the end of training, and so does what the policy makes of a new λ.
        speed = jnp.clip(speed, SLOWEST, FASTEST * (1 - 0.8 * done**2))
        step = speed * signal + DAMPING * speed * (signal - self.last)
        log = jnp.clip(jnp.where(begun, self.log + step, self.log), LOWEST, HIGHEST)
        sound = jnp.all(jnp.isfinite(signal)) & (done >= BEGIN)
        new = dataclasses.replace(self, log=log, unit=unit, speed=speed, last=signal)
        return jax.tree.map(
            lambda new, old: jnp.where(sound, new, old).astype(jnp.float32), new, self
        )


def _towards(old: Array, new: Array, pace: float) -> Array:
    there = jnp.where(jnp.isfinite(new), new, old)
    return (old + pace * (there - old)).astype(jnp.float32)


def _broken(limit: Limit, tally: Tally) -> Float[Array, " terms"]:
    """How far a limit is broken, with the margin: 1 or more where that is far."""
    above = limit.ends(tally, MARGIN)[1]
    if limit.of_chance:
        return jnp.log(jnp.maximum(above, 1e-12) / limit.allowed)
    scale = NEAR * jnp.abs(limit.allowed) + 0.25 * jnp.sqrt(tally.variance) + 1e-30
    return (above - limit.allowed) / scale


def _size(limit: Limit, tally: Tally) -> Float[Array, " terms"]:
    """A usual difference of what is bounded."""
    least = NEAR * jnp.abs(jnp.asarray(limit.allowed)) + 1e-30
    return jnp.maximum(jnp.sqrt(tally.variance), least)


class Kept(eqx.Module):
    """How a policy keeps the limits, over all episodes that it was run for."""

    tallies: list[Tally]
    figures: Float[Array, "3 limits"]
    """Of each limit, at its worst step: the estimate; what it is too much with the margin; and that
    in units of its size."""

    @classmethod
    def of(cls, limits: tuple[Limit, ...], tallies: list[Tally]) -> Kept:
        columns = []
        for limit, tally in zip(limits, tallies, strict=True):
            over = limit.ends(tally, MARGIN)[1] - limit.allowed
            worst = jnp.argmax(over)
            columns.append([tally.mean[worst], over[worst], (over / _size(limit, tally))[worst]])
        figures = jnp.array(columns, jnp.float32).T
        return cls(tallies, jnp.where(jnp.isfinite(figures), figures, jnp.inf))

    @classmethod
    def unknown(cls, limits: tuple[Limit, ...], horizon: int) -> Kept:
        """Of a policy that was never run."""
        zeros = [jnp.zeros(limit.terms(horizon), jnp.float32) for limit in limits]
        tallies = [Tally(jnp.zeros((), jnp.float32), zero, zero) for zero in zeros]
        return cls(tallies, jnp.full((3, len(limits)), jnp.inf, jnp.float32))

    def adding(self, limits: tuple[Limit, ...], more: list[Tally]) -> Kept:
        """After further episodes."""
        both = [tally.adding(new) for tally, new in zip(self.tallies, more, strict=True)]
        return Kept.of(limits, both)

    @property
    def all(self) -> Bool[Array, ""]:
        """Whether all limits are kept, with the margin."""
        return (self.figures[1] <= 0).all()


def is_better(new: Kept, earned: Any, old: Kept, before: Any) -> Bool[Array, ""]:
    """Whether a policy comes before another: one that keeps all limits before one that does not; of
    two that keep them, the one that earns more; of two that do not, the one that breaks less."""
    less = jnp.max(new.figures[2]) < jnp.max(old.figures[2])
    among = jnp.where(new.all, earned > before, less)
    return jnp.where(new.all == old.all, among, new.all)


def measured(
    wide: Widened, limits: tuple[Limit, ...], path: Trajectories
) -> list[tuple[Float[Array, "b horizon"], Bool[Array, "b horizon"]]]:
    """The cost that each limit is on, of episodes in the wider state, and whether they run."""

    def one(state: Array, action: Array, following: Array, time: Array) -> dict[str, Array]:
        return wide.at(time).costs(state, action, following)

    over_time = jax.vmap(one)
    times = jnp.arange(path.actions.shape[1])
    found = jax.vmap(over_time, in_axes=(0, 0, 0, None))(
        path.states[:, :-1], path.actions, path.states[:, 1:], times
    )
    return [(found[limit.cost], path.alive) for limit in limits]


def episodes_of(problem: Problem, guard: int) -> int:
    """Episodes that tell whether limits are kept."""
    return max(guard, 1) * max(limit.effort for limit in problem.limits)


def remark(problem: Problem, kept: Kept) -> str | None:
    """A sentence where no policy has kept the limits."""
    figures = np.asarray(kept.figures)
    if (figures[1] <= 0).all():
        return None
    worst = int(np.argmax(figures[2]))
    limit, least = problem.limits[worst], figures[0, worst]
    if not np.isfinite(least):
        return f"No policy for {problem.name} was found whose costs are finite numbers."
    return (
        f"No policy for {problem.name} was found that surely keeps {limit}: the least found is "
        f"{least:.4g}; allow more, or train longer."
    )
