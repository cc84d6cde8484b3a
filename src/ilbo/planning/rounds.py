"""Rounds of a search for open-loop plans: by evolution, and along the model's gradient.

Evolution is the separable natural evolution strategy (Wierstra et al., Natural evolution
strategies, JMLR 2014) with mirrored samples, over a few knots in time: it needs no derivative, and
sees over plateaus. Ascent takes the steps of Adam, at several rates side
by side: it moves each action of each step on its own, which evolution cannot.

Without noise the best plans graze what they must not touch, and a rounding error ends them. So
actions are shaken a little in such problems: otherwise in each generation, and the best plan is
the best of a few shakes.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from ilbo.mdp import sampling
from ilbo.mdp.problem import Problem
from ilbo.mdp.simulate import Trial, discounted_sum, draw_noise, returns, roll
from ilbo.planning.open_plan import Open, OpenLoop

PAIRS = 32
"""Mirrored pairs of plans in a generation of evolution."""
CONVERGED = 0.02
"""Of the first step size: below it a round of evolution has converged."""
RATES = np.geomspace(1e-3, 1.0, 7)
"""Of ascent, side by side."""
MEAN, SQUARE = 0.9, 0.99
"""What Adam's averages keep."""
PATIENCE = 60
"""Generations without a better plan after which a round ends."""
LONGEST = 300
"""Generations after which a round of evolution ends that is behind the best plan."""
SHAKE = 1e-3
"""Standard deviation of what is added to actions without noise, as a share of them."""
SHAKES = 8
"""Shakes that the best plan is judged by."""


class Judge(eqx.Module):
    """What plans are judged by: mean returns along noise that all share."""

    problem: Problem
    noise: Float[Array, "horizon e k"]

    @property
    def episodes(self) -> int:
        return self.noise.shape[1]

    @property
    def shaken(self) -> bool:
        return bool(self.problem.exact.law.size == 0)

    @property
    def trial(self) -> Trial:
        problem = self.problem
        starts = jnp.broadcast_to(problem.initial_state, (self.episodes, problem.state_size))
        return Trial(self.noise, starts)

    def as_policy(
        self, plan: Float[Array, "horizon m"], shake: Float[Array, "horizon m"]
    ) -> OpenLoop:
        stretched = Open.of(self.problem).stretch(plan)
        return OpenLoop(stretched, self.problem, shake if self.shaken else None)

    def earn(self, plan: Float[Array, "horizon m"], shake: Float[Array, "horizon m"]) -> Array:
        mean = jnp.mean(returns(self.problem, self.as_policy(plan, shake), self.trial))
        return jnp.where(jnp.isnan(mean), -jnp.inf, mean)

    def surely(self, plan: Float[Array, "horizon m"], earned: Float[Array, ""]) -> Array:
        """What a plan that earned so much earns under several shakes, where there are such."""
        if not self.shaken:
            return earned
        shakes = SHAKE * sampling.normal(jax.random.key(0), (SHAKES, *plan.shape))
        shakes = shakes.at[0].set(0.0)  # the plan itself
        return jnp.mean(jax.vmap(self.earn, in_axes=(None, 0))(plan, shakes))

    def slope(
        self,
        plan: Float[Array, "horizon m"],
        shake: Float[Array, "horizon m"],
        noise: Float[Array, "horizon e k"],
        factor: Float[Array, ""],
    ) -> Array:
        """The gradient of what a plan earns along the noise on the model with derivatives, whose
        relaxation is so many times as wide; 0 where that is not finite."""
        problem, starts = self.problem, self.trial.starts
        model = problem.model.relaxed(factor)

        def smooth(plan: Array) -> Array:
            policy, key = self.as_policy(plan, shake), jax.random.key(0)
            path = roll(model, policy, noise, key, starts)
            return jnp.mean(discounted_sum(problem, path.rewards))

        gradient = jax.grad(smooth)(plan)
        return jnp.where(jnp.isfinite(gradient), gradient, 0.0)


class Found(eqx.Module):
    """The best plan of all rounds."""

    best: Float[Array, "horizon m"]
    """Not yet stretched."""
    earned: Float[Array, ""]
    """Its mean return, on the search's own noise."""
    lately: Float[Array, ""]
    """The best of this round."""
    idle: Int[Array, ""]
    """Generations since this round found a better one."""

    @classmethod
    def nothing(cls, shape: tuple[int, int]) -> Found:
        worst = jnp.array(-jnp.inf, jnp.float32)
        return cls(jnp.zeros(shape, jnp.float32), worst, worst, jnp.array(0))

    def anew(self) -> Found:
        """At the beginning of another round."""
        return Found(self.best, self.earned, jnp.array(-jnp.inf, jnp.float32), jnp.array(0))

    def knowing(self, other: Found) -> Found:
        """With the best plan that another round has found since."""
        return Found(other.best, other.earned, self.lately, self.idle)

    def note(self, plan: Float[Array, "horizon m"], earned: Float[Array, ""]) -> Found:
        """After one more generation, with the best plan of it."""
        return Found(
            best=jnp.where(earned > self.earned, plan, self.best),
            earned=jnp.maximum(earned, self.earned),
            lately=jnp.maximum(earned, self.lately),
            idle=jnp.where(earned > self.lately, 0, self.idle + 1),
        )


class Round(eqx.Module):
    """A search under way."""

    found: eqx.AbstractVar[Found]
    key: eqx.AbstractVar[Key[Array, ""]]

    @abstractmethod
    def generation(self, judge: Judge) -> Round: ...

    @property
    @abstractmethod
    def is_over(self) -> Bool[Array, ""]: ...

    @property
    @abstractmethod
    def plans(self) -> int:
        """Plans that a generation rolls out, or about as much work."""


class Evolution(Round):
    """Plans, not yet stretched, are base + weights · knots."""

    found: Found
    key: Key[Array, ""]
    base: Float[Array, "horizon m"]
    weights: Float[Array, "horizon knots"]
    knots: Float[Array, "knots m"]
    widths: Float[Array, "knots m"]
    first_width: Float[Array, ""]
    rate: Float[Array, ""]
    """At which the widths learn."""
    taken: Int[Array, ""]

    @classmethod
    def begin(
        cls,
        found: Found,
        key: Key[Array, ""],
        base: Float[Array, "horizon m"],
        weights: Float[np.ndarray, "horizon knots"],
        widths: Float[np.ndarray, " knots"],
    ) -> Evolution:
        """Knots of width 0 are not searched."""
        wide = jnp.asarray(widths, jnp.float32)[:, None]
        shape = len(widths), base.shape[1]
        size = int(np.count_nonzero(widths)) * base.shape[1]
        return cls(
            found=found.anew(),
            key=key,
            base=base,
            weights=jnp.asarray(weights),
            knots=jnp.zeros(shape, jnp.float32),
            widths=jnp.broadcast_to(wide, shape),
            first_width=jnp.max(wide),
            rate=jnp.array((3 + math.log(size)) / (5 * math.sqrt(size)), jnp.float32),
            taken=jnp.array(0),
        )

    def generation(self, judge: Judge) -> Evolution:
        key, draw, shake_key = jax.random.split(self.key, 3)
        half = sampling.normal(draw, (PAIRS, *self.knots.shape))
        steps = jnp.concatenate([half, -half])
        tried = self.knots + self.widths * steps
        plans = self.base + jnp.einsum("hk,pkm->phm", self.weights, tried)
        shake = SHAKE * sampling.normal(shake_key, self.base.shape)
        earned = jax.vmap(judge.earn, in_axes=(0, None))(plans, shake)
        order = jnp.argsort(-earned)
        ranked, weight = steps[order], _utilities(2 * PAIRS)
        move = jnp.einsum("p,pkm->km", weight, ranked)
        spread = jnp.einsum("p,pkm->km", weight, ranked**2 - 1)
        plan = plans[order[0]]
        return Evolution(
            found=self.found.note(plan, judge.surely(plan, earned[order[0]])),
            key=key,
            base=self.base,
            weights=self.weights,
            knots=self.knots + self.widths * move,
            widths=self.widths * jnp.exp(jnp.clip(self.rate / 2 * spread, -0.5, 0.5)),
            first_width=self.first_width,
            rate=self.rate,
            taken=self.taken + 1,
        )

    @property
    def is_over(self) -> Bool[Array, ""]:
        """Whether the steps have become small, or long found nothing better."""
        found = self.found
        converged = jnp.max(self.widths) <= CONVERGED * self.first_width
        behind = (self.taken >= LONGEST) & (found.lately < found.earned)
        return converged | behind | (found.idle >= PATIENCE)

    @property
    def plans(self) -> int:
        return 2 * PAIRS


def _utilities(count: int) -> Float[np.ndarray, " plans"]:
    """What the plans of a generation count for, the best one first."""
    ranks = np.arange(count)
    utilities = np.maximum(0.0, np.log(count / 2 + 1) - np.log(ranks + 1))
    return (utilities / utilities.sum() - 1 / count).astype(np.float32)


class Ascent(Round):
    """Plans that climb, one for each rate."""

    found: Found
    key: Key[Array, ""]
    climbing: Float[Array, "rates horizon m"]
    mean: Float[Array, "rates horizon m"]
    """Running mean of the gradients."""
    square: Float[Array, "rates horizon m"]
    """That of their squares, in units of the largest."""
    factor: Float[Array, ""]
    """Of the relaxation's width."""
    taken: Int[Array, ""]

    @classmethod
    def begin(
        cls,
        found: Found,
        key: Key[Array, ""],
        plan: Float[Array, "horizon m"],
        factor: float = 1.0,
    ) -> Ascent:
        """From a plan, not yet stretched."""
        plans = jnp.broadcast_to(plan, (len(RATES), *plan.shape))
        still = jnp.zeros_like(plans)
        wide = jnp.array(factor, jnp.float32)
        return cls(found.anew(), key, plans, still, still, wide, jnp.array(0))

    def generation(self, judge: Judge) -> Ascent:
        key, shake_key, noise_key = jax.random.split(self.key, 3)
        shake = SHAKE * sampling.normal(shake_key, self.found.best.shape)
        # Fresh noise: to that of the judge, a plan with so many numbers would be fitted.
        sizes = judge.problem.horizon, judge.episodes
        noise = draw_noise(judge.problem.model, noise_key, sizes)
        slope = jax.vmap(judge.slope, in_axes=(0, None, None, None))
        slopes = slope(self.climbing, shake, noise, self.factor)
        # Adam does not see the size of gradients, whose squares may be beyond 32 bits.
        size = jnp.max(jnp.abs(slopes), axis=(1, 2), keepdims=True)
        slopes = jnp.where(size > 0, slopes / size, 0.0)
        mean = MEAN * self.mean + (1 - MEAN) * slopes
        square = SQUARE * self.square + (1 - SQUARE) * slopes**2
        taken = self.taken + 1
        step = mean / (1 - MEAN**taken) / (jnp.sqrt(square / (1 - SQUARE**taken)) + 1e-8)
        climbing = self.climbing + RATES.astype(np.float32)[:, None, None] * step
        earned = jax.vmap(judge.earn, in_axes=(0, None))(climbing, shake)
        top = jnp.argmax(earned)
        found = self.found.note(climbing[top], judge.surely(climbing[top], earned[top]))
        return Ascent(found, key, climbing, mean, square, self.factor, taken)

    @property
    def is_over(self) -> Bool[Array, ""]:
        return self.found.idle >= PATIENCE

    @property
    def plans(self) -> int:
        return 4 * len(RATES)  # a gradient costs some three evaluations


@eqx.filter_jit
def search(judge: Judge, round: Round, generations: Int[Array, ""]) -> tuple[Round, Array]:
    """So many generations, or as many as it takes the round to end, and their number."""

    def goes_on(carry: tuple[Array, Round]) -> Array:
        i, now = carry
        return (i < generations) & ~now.is_over

    def generation(carry: tuple[Array, Round]) -> tuple[Array, Round]:
        i, now = carry
        return i + 1, now.generation(judge)

    taken, done = jax.lax.while_loop(goes_on, generation, (jnp.array(0), round))
    return done, taken
