"""How large an experiment is: to try it out, to see the effect, or as published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ilbo.experiments.arms import Arm
from ilbo.experiments.starts import starts_of
from ilbo.planning.config import ILBO

ScaleName = Literal["smoke", "small", "paper"]
PAPER, OURS = "ILBO, paper", "ILBO, ours"
TF_MDP, TUNED = "tf-mdp", "tf-mdp, tuned"


@dataclass(frozen=True)
class Scale:
    """Sizes that all experiments share."""

    name: ScaleName
    problems: tuple[str, ...]
    stability_problem: str
    """The problem of the experiment on stability."""
    architectures: Mapping[str, tuple[int, ...]]
    """Hidden layers by the name of the architecture, the main one last."""
    ours_in: tuple[str, ...]
    """The architectures that our method is run with."""
    paper: Mapping[str, Any]
    """Settings of the paper's method other than those of `ILBO.paper`."""
    ours: Mapping[str, Any]
    """Settings of our method other than its defaults."""
    through_time: Mapping[str, Any]
    """Settings of tf-mdp's method other than its defaults."""
    tuned: Mapping[str, Any]
    """Settings of tf-mdp's method that were found to do better: small batches, more steps."""
    grid_epochs: tuple[int, ...]
    grid_batches: tuple[int, ...]
    small_batches: tuple[int, ...]
    """Batches below those of the published grid."""
    small_batch_epochs: int
    depths: tuple[int, ...]
    """Depths of value expansion that are compared."""
    new_starts: int
    """Start states that policies are tried from without retraining."""
    ascent: int
    """Steps of the ascent to the hindsight limit."""
    search: int
    """Rounds of the search for it at most."""
    fresh: int
    """Fresh episodes of each evaluation."""

    @property
    def main(self) -> str:
        """Name of the main architecture."""
        return list(self.architectures)[-1]

    def paper_arm(self, problem: str, architecture: str) -> Arm:
        """The paper's method."""
        return self._ilbo_arm(PAPER, problem, architecture, ILBO.paper(**self.paper))

    def learners(self, problem: str, architecture: str) -> list[Arm]:
        """The paper's method, ours and tf-mdp's."""
        ours = self.our_arm(problem, architecture)
        return [
            self.paper_arm(problem, architecture),
            *([ours] if architecture in self.ours_in else []),
            self.through_time_arm(problem, architecture),
        ]

    def our_arm(self, problem: str, architecture: str) -> Arm:
        """Our method by its default settings."""
        return self._ilbo_arm(OURS, problem, architecture, ILBO(**self.ours))

    def _ilbo_arm(self, label: str, problem: str, architecture: str, settings: ILBO) -> Arm:
        # Each is evaluated from new starts whichever experiment asks, so that it is trained once.
        layers = list(self.architectures[architecture])
        starts = starts_of(problem, self.new_starts) if architecture == self.main else []
        return Arm(
            label,
            problem,
            "ilbo",
            {**settings.to_dict(), "layers": layers},
            test_starts=tuple(starts),
            fresh=self.fresh,
        )

    def through_time_arm(self, problem: str, architecture: str) -> Arm:
        settings = {"layers": list(self.architectures[architecture]), **self.through_time}
        return Arm(TF_MDP, problem, "through-time", settings, fresh=self.fresh)

    def tuned_arm(self, problem: str, architecture: str) -> Arm:
        settings = {"layers": list(self.architectures[architecture]), **self.tuned}
        return Arm(TUNED, problem, "through-time", settings, fresh=self.fresh)

    def yardsticks(self, problem: str, start: tuple[float, ...] | None = None) -> list[Arm]:
        """Baselines without training: the limit, an open-loop plan, a hand-written controller."""
        limit = {"steps": self.ascent, "rounds": self.search}
        return [
            Arm("hindsight limit", problem, "hindsight", limit, start, fresh=self.fresh),
            Arm("straight-line plan", problem, "straight-line", start=start, fresh=self.fresh),
            Arm("hand-written", problem, "heuristic", start=start, fresh=self.fresh),
        ]


PAPER_PROBLEMS = ("navigation-3", "hvac-6", "reservoir-20")
PAPER_ARCHITECTURES = {"1 layer": (2048,), "4 layers": (256, 128, 64, 32)}
TUNED_SETTINGS: dict[str, Any] = {
    "epochs": 600,
    "batch": 16,
    "optimizer": "adam",
    "rate": 1e-2,
    "final_rate": 0.05,
    "evaluate_every": 10,
}

SMOKE: dict[str, Any] = {
    "episodes": 6,
    "evaluate_every": 2,
    "policy_batch": 4,
    "critic_batch": 8,
    "test_episodes": 8,
    "guard": 4,
}

SCALES: dict[ScaleName, Scale] = {
    "smoke": Scale(
        name="smoke",
        problems=("navigation-3",),
        stability_problem="navigation-3",
        architectures={"1 layer": (16,), "2 layers": (8, 8)},
        ours_in=("1 layer", "2 layers"),
        paper={**SMOKE, "draws": 2},
        ours={**SMOKE, "depth": 2, "window": 2},
        through_time={"epochs": 4, "batch": 8, "evaluate_every": 1, "test_episodes": 8},
        tuned={
            "epochs": 8,
            "batch": 2,
            "optimizer": "adam",
            "rate": 1e-2,
            "evaluate_every": 2,
            "test_episodes": 8,
        },
        grid_epochs=(2, 4),
        grid_batches=(4, 8),
        small_batches=(2,),
        small_batch_epochs=8,
        depths=(1, 2),
        new_starts=2,
        ascent=20,
        search=1,
        fresh=32,
    ),
    "small": Scale(
        name="small",
        problems=PAPER_PROBLEMS,
        stability_problem="reservoir-20",
        architectures=PAPER_ARCHITECTURES,
        ours_in=tuple(PAPER_ARCHITECTURES),
        paper={"episodes": 500, "evaluate_every": 10},
        ours={"episodes": 500, "evaluate_every": 10},
        through_time={"epochs": 200, "batch": 256, "evaluate_every": 5},
        tuned=TUNED_SETTINGS,
        grid_epochs=(50, 100, 200, 300),
        grid_batches=(64, 128, 256),
        small_batches=(8, 16),
        small_batch_epochs=600,
        depths=(1, 2, 4, 8, 16),
        new_starts=10,
        ascent=200,
        search=2,
        fresh=2048,
    ),
    "paper": Scale(
        name="paper",
        problems=PAPER_PROBLEMS,
        stability_problem="reservoir-20",
        architectures=PAPER_ARCHITECTURES,
        ours_in=tuple(PAPER_ARCHITECTURES),
        paper={"episodes": 5_000, "evaluate_every": 25},
        ours={"episodes": 5_000, "evaluate_every": 25},
        through_time={"epochs": 200, "batch": 256, "evaluate_every": 2},
        tuned=TUNED_SETTINGS,
        grid_epochs=(50, 100, 200, 300),
        grid_batches=(64, 128, 256),
        small_batches=(8, 16),
        small_batch_epochs=600,
        depths=(1, 2, 4, 8, 16),
        new_starts=10,
        ascent=600,
        search=20,
        fresh=2048,
    ),
}
