"""Training elsewhere in sight: TensorBoard, MLflow, Weights & Biases, all through one hook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ilbo.lazy import on_first_use

if TYPE_CHECKING:
    from ilbo.loggers.logger import Logger, Track
    from ilbo.loggers.mlflow_runs import MLflow
    from ilbo.loggers.tensorboard_events import TensorBoard
    from ilbo.loggers.wandb_runs import WandB

__all__ = ["Logger", "MLflow", "TensorBoard", "Track", "WandB"]

__getattr__ = on_first_use(
    __name__,
    {
        "logger": ("Logger", "Track"),
        "mlflow_runs": ("MLflow",),
        "tensorboard_events": ("TensorBoard",),
        "wandb_runs": ("WandB",),
    },
)
