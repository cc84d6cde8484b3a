"""Training as runs of MLflow."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from ilbo.loggers.logger import Figures, Logger
from ilbo.version import __version__

MOST_TOGETHER = 100
"""Settings that MLflow takes in one call."""


class MLflow(Logger):
    """Writes to where MLflow is set to (`MLFLOW_TRACKING_URI`), into one experiment."""

    name, package, extra = "MLflow", "mlflow", "mlflow"

    def __init__(self, experiment: str | None = None, uri: str | None = None):
        """
        Args:
            experiment: Its name; if None, that of `MLFLOW_EXPERIMENT_NAME`, or else "ilbo".
            uri: Where to write; if None, where MLflow is set to.
        """
        super().__init__()
        self.experiment = experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME") or "ilbo"
        self.uri = uri

    def track(self, title: str, seed: int, settings: Mapping[str, Any]) -> _Run:
        from mlflow import MlflowClient

        client = MlflowClient(self.uri)
        found = client.get_experiment_by_name(self.experiment)
        experiment = found.experiment_id if found else client.create_experiment(self.experiment)
        return _Run(client, experiment, title, settings)


class _Run:
    def __init__(self, client: Any, experiment: str, title: str, settings: Mapping[str, Any]):
        from mlflow.entities import Param

        self.client = client
        tags = {"ilbo": __version__}
        self.id = client.create_run(experiment, run_name=title, tags=tags).info.run_id
        params = [Param(name, str(value)) for name, value in settings.items()]
        for start in range(0, len(params), MOST_TOGETHER):
            client.log_batch(self.id, params=params[start : start + MOST_TOGETHER])

    def write(self, episode: int, figures: Figures) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [Metric(name, value, now, episode) for name, value in figures.items()]
        self.client.log_batch(self.id, metrics=metrics)

    def end(self, final: Figures, finished: bool) -> None:
        named = {f"final/{name}": value for name, value in final.items()}
        self.write(int(final.get("episodes", 0)), named)
        self.client.set_terminated(self.id, "FINISHED" if finished else "KILLED")
