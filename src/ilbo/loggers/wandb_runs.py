"""Training as runs of Weights & Biases."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ilbo.loggers.logger import Figures, Logger


class WandB(Logger):
    """Writes to Weights & Biases; with `WANDB_MODE=offline`, into files for `wandb sync`."""

    name, package, extra = "Weights & Biases", "wandb", "wandb"

    def __init__(self, project: str | None = None, **options: Any):
        """
        Args:
            project: Its name; if None, that of `WANDB_PROJECT`, or else "ilbo".
            options: Others of `wandb.init`, such as `entity`, `group`, `mode`, `dir`.
        """
        super().__init__()
        self.project = project or os.environ.get("WANDB_PROJECT") or "ilbo"
        self.options = options

    def track(self, title: str, seed: int, settings: Mapping[str, Any]) -> _Run:
        import wandb

        fixed = {"project": self.project, "name": title, "config": dict(settings)}
        return _Run(wandb.init(**{**fixed, "reinit": "create_new", **self.options}))


class _Run:
    def __init__(self, run: Any):
        self.run = run

    def write(self, episode: int, figures: Figures) -> None:
        self.run.log(figures, step=episode)

    def end(self, final: Figures, finished: bool) -> None:
        self.run.summary.update({f"final/{name}": value for name, value in final.items()})
        self.run.finish(exit_code=0 if finished else 1)
