"""Results that look like those of planners, made without planning."""

from collections.abc import Sequence

import numpy as np

from ilbo.experiments.arms import Arm, Result

FINAL = {"ilbo": -100.0, "through-time": -120.0, "hindsight": -90.0}
"""Returns at the end; others earn −150."""
ENVIRONMENT = {
    "python": "3.11.0",
    "packages": {"jax": "0.10.2"},
    "commit": "0123456789abcdef+",
    "processor": "3 cores of another machine",
    "device": "1 x cpu",
}


def fake(arm: Arm, seeds: Sequence[int]) -> list[Result]:
    """Runs whose returns rise from ten times the final ones; seed s ends s lower."""
    return [_run(arm, seed, len(seeds)) for seed in seeds]


def _run(arm: Arm, seed: int, together: int) -> Result:
    final = FINAL.get(arm.planner, -150.0) - seed
    count = arm.settings.get("episodes") or arm.settings.get("epochs", 0) * arm.settings.get(
        "batch", 0
    )
    tests = 8 if arm.seeded else 0
    episodes = [count * (i + 1) // tests for i in range(tests)]
    current = [final * (1 + 9 * 0.5**i) for i in range(tests - 1)] + [final] * bool(tests)
    if tests:
        current[5] -= 30.0  # a drop on the way
    counts = ("transitions", "model_evaluations", "random_draws", "gradient_steps")
    return Result(
        seed=seed,
        episodes=tuple(episodes),
        current=tuple(current),
        best=tuple(float(x) for x in np.maximum.accumulate(current)),
        final=final,
        final_best=final,
        starts=tuple(final - i for i in range(len(arm.test_starts))),
        standard_error=1.0,
        samples={"episodes": count, **{name: 7 * count for name in counts}},
        seconds=10.0,
        compile_seconds=1.0,
        together=together,
        fault=None,
        environment=ENVIRONMENT,
    )
