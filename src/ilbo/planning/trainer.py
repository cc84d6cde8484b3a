"""What a way of training is: the seam that `Planner` and the training loop work through."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from ilbo.mdp.problem import Problem
from ilbo.mdp.simulate import Trial
from ilbo.nn.policy import Policy
from ilbo.planning.records import Samples


class Metrics(NamedTuple):
    """Means over a segment of training; NaN where a trainer has no such quantity."""

    critic_loss: Float[Array, "*seeds"]
    """Mean square error of the critic, in units of the reward scale."""
    bound: Float[Array, "*seeds"]
    """The bound at the current policy: the estimated return from the sampled states."""
    policy_gradient: Float[Array, "*seeds"]
    """Length of the objective's gradient in θ, in units of the reward."""
    critic_gradient: Float[Array, "*seeds"]

    @classmethod
    def zeros(cls) -> Metrics:
        """To add those of single steps to."""
        return cls(*jnp.zeros(len(cls._fields), jnp.float32))

    def in_reward_units(self, unit: float) -> Metrics:
        """Those of training on rewards that were divided by a unit, in the reward's own."""
        if unit == 1:
            return self
        return self._replace(bound=self.bound * unit, policy_gradient=self.policy_gradient * unit)


class Trainer(eqx.Module):
    """A way of training a policy on one problem, as pure functions of an explicit state.

    `init`, `segment` and `select` are traced by JAX; state and parameters are pytrees of arrays of
    the trainer's own choice. What depends on the length of a run must be an array, or each length
    would compile anew.
    """

    problem: eqx.AbstractVar[Problem]
    config: eqx.AbstractVar[Any]
    """Settings, with `test_episodes` among them."""
    every: eqx.AbstractVar[int]
    """Episodes between two tests."""

    def as_program(self) -> Trainer:
        """The same as compiled programs take it: what they need not know ahead is an array, or is
        left out."""
        return self

    @abstractmethod
    def init(self, key: Key[Array, ""]) -> tuple[Any, Any]:
        """The state before training, and the parameters that would be selected now."""

    @abstractmethod
    def segment(self, state: Any, most: int, episodes: Int[Array, ""]) -> tuple[Any, Metrics]:
        """Trains for a number of episodes, up to `most`, which sizes the program."""

    @abstractmethod
    def select(self, state: Any, held: Any, test: Trial) -> tuple[Any, Any, Float[Array, ""]]:
        """Decides whether the newest parameters replace those held so far.

        Returns the state, the parameters selected and their mean return on the test, which must
        have no say in the choice.
        """

    def is_better(self, held: Any, earned: Array, best: Any, most: Array) -> Array:
        """Whether parameters that earned so much on a test come before the best tested so far."""
        return earned > most

    def unkept(self, held: Any) -> str | None:
        """A sentence where the policy held does not keep what it is to keep."""
        return None

    def lasting(self, episodes: float) -> Trainer:
        """The same for runs of another length, told as they go: schedules stretch, nothing else."""
        return self

    @property
    def can_follow_plans(self) -> bool:
        """Whether its policies can be open-loop plans: whether there are `from_plan` and
        `begin_at`."""
        return False

    def from_plan(self, plan: Float[Array, "horizon m"]) -> Any:
        """Parameters of the policy that follows an open-loop plan, given before the curve that maps
        into the bounds."""
        raise NotImplementedError

    def begin_at(self, state: Any, action: Float[Array, " m"]) -> Any:
        """The state before training, of a policy that takes about this action, given before the
        curve that maps into the bounds."""
        raise NotImplementedError

    @abstractmethod
    def policy(self, parameters: Any) -> Policy:
        """The policy with these parameters."""

    @abstractmethod
    def fault(self, state: Any) -> str | None:
        """Why training cannot go on, in a sentence; None where it can."""

    @abstractmethod
    def samples(self, episodes: int) -> Samples:
        """What one seed has consumed after so many episodes."""
