"""What planning reports and returns."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ilbo.mdp.problem import Problem
from ilbo.nn.policy import Policy


@dataclass(frozen=True)
class Record:
    """One test of one seed, and the means of the training before it."""

    seed: int
    episode: int
    """Training episodes so far."""
    current: float
    """Mean return, on the test trajectories, of the policy selected by now; discounted as the
    problem says."""
    best: float
    """The best of these so far."""
    critic_loss: float
    bound: float
    policy_gradient: float
    critic_gradient: float
    seconds: float
    """Since the start of the run, compilation included."""


class Stop(enum.Enum):
    """What `progress` returns to end training."""

    STOP = "stop"


STOP = Stop.STOP
"""Returned by `progress`, ends training after the segment."""
Progress = Callable[..., Any]
"""Called with each test's `Record`; with the policy tested as well where it takes two arguments."""


@dataclass(frozen=True)
class Samples:
    """Everything that one seed consumed."""

    episodes: int
    transitions: int
    """Steps of training episodes."""
    model_evaluations: int
    """Further evaluations of the model: rolled windows, episodes that select a policy, and probes
    of the reward's scale."""
    random_draws: int
    """Noise vectors drawn for training."""
    gradient_steps: int
    """Updates of the policy and of the critic together."""
    test_transitions: int
    """Steps of the test episodes; training does not see them."""

    def with_scouting(self, steps: int) -> Samples:
        """With the steps of the model that a search for plans took."""
        return replace(self, model_evaluations=self.model_evaluations + steps)


@dataclass(frozen=True)
class Plan:
    """What planning returns. Lists have one entry per seed."""

    problem: Problem
    config: Any
    """The settings: `ILBO`, or those of another trainer."""
    seeds: tuple[int, ...]
    policies: list[Policy]
    """The policy selected at the end of training."""
    best_policies: list[Policy]
    """The policy that tested best on the way."""
    history: list[list[Record]]
    samples: Samples
    """Of each seed: all seeds of one plan consume the same."""
    seconds: float
    compile_seconds: float
    """Part of `seconds` spent compiling (or loading compiled programs)."""
    faults: list[str | None]
    """Why a seed stopped early, with the last good policy kept; None where it did not."""
    ending: str = "finished"
    """"finished"; "patience", "target" or "progress", which is what ended it early; "stopped" by
    Ctrl-C; or "fault"."""
    unkept: list[str | None] = field(default_factory=list)
    """What a seed's policy does not keep of the problem's limits, in a sentence with the least
    found; None where it keeps them all."""

    @property
    def is_finished(self) -> bool:
        """Whether training came to an end of its own, at its last episode or by a rule."""
        return self.ending not in ("stopped", "fault")

    @property
    def policy(self) -> Policy:
        """The final policy of the first seed."""
        return self.policies[0]

    @property
    def best_policy(self) -> Policy:
        """The best tested policy of the first seed."""
        return self.best_policies[0]

    @property
    def episode(self) -> int:
        """Training episodes that every seed has had."""
        return self.samples.episodes

    @property
    def fault(self) -> str | None:
        """The first fault, if there was one."""
        return next((fault for fault in self.faults if fault), None)


def segments(episodes: int, every: int) -> list[int]:
    """Episodes of each segment of training where a test comes every so many episodes."""
    full, rest = divmod(episodes, every)
    return [every] * full + [rest] * bool(rest)
