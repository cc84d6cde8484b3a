"""The settings of planning through time. Free of JAX, as `ilbo.planning.config`."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
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

        def check(good: object, name: str, wanted: str) -> None:
            check_setting(good, name, wanted, getattr(self, name))

        sizes = all(isinstance(size, int) and size >= 1 for size in self.layers)
        check(self.layers and sizes, "layers", "a list of positive sizes")
        for name in ("epochs", "batch", "evaluate_every", "test_episodes"):
            value = getattr(self, name)
            check(isinstance(value, int) and value >= 1, name, "a whole number of at least 1")
        check(self.loss in ("linear", "squared"), "loss", "linear or squared")
        check(self.optimizer in ("adam", "rmsprop"), "optimizer", "adam or rmsprop")
        check(0 < self.rate < math.inf, "rate", "a positive number")
        check(0 < self.final_rate <= 1, "final_rate", "in (0, 1]")

    @property
    def episodes(self) -> int:
        """Training episodes of a run."""
        return self.epochs * self.batch

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)
