"""Run folders as `ilbo plan` leaves them, written without training."""

from pathlib import Path

import jax
import numpy as np

from ilbo.nn.policy import Layers, Policy
from ilbo.planning.config import ILBO
from ilbo.planning.records import Record
from ilbo.runs.folder import RunFolder
from ilbo.runs.layout import RESULT
from ilbo.runs.results import FIGURES
from ilbo.storage.files import write_json

LAYERS = (8,)


def write_run(path: Path, problem, seeds=(0,), key=0, finished=True, tests=6) -> Path:
    """A run folder as `ilbo plan` leaves it, with networks as they are before training."""
    config = ILBO(layers=LAYERS, episodes=5 * max(tests, 1), evaluate_every=5)
    with RunFolder.create(path, problem, config, seeds) as folder:
        values = -100 - 50 * np.exp(-np.arange(tests))
        for i, value in enumerate(values):
            folder.append(
                Record(seed, 5 * (i + 1), value, value, 2.0, value, 3.0, 4.0, float(i))
                for seed in seeds
            )
        policies = [
            Policy.init(jax.random.key(key + seed), problem, Layers(LAYERS)) for seed in seeds
        ]
        folder.save_policies(problem, seeds, policies, policies)
        if finished:
            each = [-90.0] * len(seeds)
            lists = {"seeds": list(seeds), "means": each, "stds": each, "best_means": each}
            figures = {**dict.fromkeys(FIGURES, 0), "best_mean": -90.0, "seconds": 75.0}
            result = {"problem": problem.name, "ci95": [-91.0, -89.0], **lists, **figures}
            write_json(path / RESULT, result)
    return path
