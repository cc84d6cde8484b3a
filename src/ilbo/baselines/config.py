"""The settings of planning through time and of SHAC. Free of JAX, as `ilbo.planning.config`."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from ilbo.errors import check_setting, tells_unknown_settings, tidy_settings
from ilbo.planning.config import Optimizer

Loss = Literal["linear", "squared"]


@tells_unknown_settings(lr="rate", learning_rate="rate", batch_size="batch")
@dataclass(frozen=True)
class ThroughTime:
    """Settings of back-propagation through whole trajectories, the method of tf-mdp."""

    layers: tuple[int, ...] = (256, 128, 64, 32)
    """Hidden layers of the policy."""

    epochs: int = 200
    """Gradient steps."""

    batch: int = 256
    """Episodes simulated for each of them."""

    loss: Loss = "linear"
    """Minus the mean total reward of the batch, or the mean of its square, which makes sense
    where all rewards are negative, and penalises variance."""

    optimizer: Optimizer = "rmsprop"
    """Optimiser of the policy."""

    rate: float = 1e-3
    """Its learning rate."""

    final_rate: float = 1.0
    """The learning rate decays to this fraction by the end of training."""

    evaluate_every: int = 10
    """Epochs between two tests of the policy."""

    test_episodes: int = 64
    """Episodes of each test."""

    def __post_init__(self) -> None:
        tidy_settings(self)

        check = partial(_check, self)
        _check_layers(self)
        _check_counts(self, "epochs", "batch", "evaluate_every", "test_episodes")
        check(self.loss in ("linear", "squared"), "loss", "linear or squared")
        check(self.optimizer in ("adam", "rmsprop"), "optimizer", "adam or rmsprop")
        _check_rates(self, "rate")

    @property
    def episodes(self) -> int:
        """Training episodes of a run."""
        return self.epochs * self.batch

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@tells_unknown_settings(lr="policy_rate", num_envs="parallel", horizon="window")
@dataclass(frozen=True)
class SHAC:
    """Settings of short-horizon actor-critic."""

    layers: tuple[int, ...] = (256, 128, 64, 32)
    """Hidden layers of the policy, and of the critic."""

    episodes: int = 10_000
    """Training episodes."""

    parallel: int = 16
    """Episodes side by side."""

    window: int = 32
    """Steps of an update, which the policy's gradient goes back through."""

    policy_rate: float = 2e-3
    """Learning rate of the policy."""

    critic_rate: float = 2e-3
    """Learning rate of the critic."""

    final_rate: float = 0.01
    """Both decay to this fraction by the end of training."""

    clip: float = 2.0
    """Gradients are cut at this many times their running mean length; 0: never."""

    td_lambda: float = 0.95
    """λ of the critic's targets: 0 trusts the critic one step on, 1 the whole window."""

    critic_passes: int = 16
    """Passes of the critic over each window."""

    critic_batches: int = 4
    """Gradient steps of each pass."""

    target_rate: float = 0.8
    """Share of the critic that its slow copy takes over after each window."""

    evaluate_every: int = 256
    """Episodes between two tests of the policy."""

    test_episodes: int = 64
    """Episodes of each test."""

    def __post_init__(self) -> None:
        tidy_settings(self)
        _check_layers(self)
        _check_counts(self, "episodes", "parallel", "window", "critic_passes", "critic_batches")
        _check_counts(self, "evaluate_every", "test_episodes")
        _check_rates(self, "policy_rate", "critic_rate")
        _check(self, 0 <= self.clip < math.inf, "clip", "a number of at least 0")
        _check(self, 0 <= self.td_lambda <= 1, "td_lambda", "in [0, 1]")
        _check(self, 0 < self.target_rate <= 1, "target_rate", "in (0, 1]")
        rows = self.parallel * self.window
        _check(self, self.critic_batches <= rows, "critic_batches", f"at most {rows}")

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def _check(settings: Any, good: object, name: str, wanted: str) -> None:
    check_setting(good, name, wanted, getattr(settings, name))


def _check_layers(settings: Any) -> None:
    sizes = all(isinstance(size, int) and size >= 1 for size in settings.layers)
    _check(settings, settings.layers and sizes, "layers", "a list of positive sizes")


def _check_counts(settings: Any, *names: str) -> None:
    for name in names:
        value = getattr(settings, name)
        good = isinstance(value, int) and value >= 1
        _check(settings, good, name, "a whole number of at least 1")


def _check_rates(settings: Any, *names: str) -> None:
    for name in names:
        _check(settings, 0 < getattr(settings, name) < math.inf, name, "a positive number")
    _check(settings, 0 < settings.final_rate <= 1, "final_rate", "in (0, 1]")
