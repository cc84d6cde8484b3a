"""Loggers by the names that users give them on a command line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ilbo.errors import UserError, suggest
from ilbo.loggers.logger import Logger
from ilbo.loggers.mlflow_runs import MLflow
from ilbo.loggers.tensorboard_events import TensorBoard
from ilbo.loggers.wandb_runs import WandB

NAMES: dict[str, type[Logger]] = {"tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WandB}


def check_installed(names: Iterable[str]) -> None:
    """Raises where a program is not there, before anything is written."""
    for name in names:
        NAMES[name].check_installed()


def named(name: str, folder: Path | None) -> Logger:
    """The logger of a name; the files of TensorBoard go into the run folder."""
    if name not in NAMES:
        hint = suggest(name, NAMES, f"there are: {', '.join(NAMES)}.")
        raise UserError(f"There is no logger {name!r}; {hint}")
    if NAMES[name] is not TensorBoard:
        return NAMES[name]()
    if folder is None:
        raise UserError(
            "The files of TensorBoard go into the run folder: say where with `out`, or give "
            "`ilbo.loggers.TensorBoard(FOLDER)`."
        )
    return TensorBoard(folder / "tensorboard")


class Loggers(list[Logger]):
    """Some loggers, which end together."""

    def close(self, result: Mapping[str, Any] | None = None) -> None:
        for logger in self:
            logger.close(result)


@contextlib.contextmanager
def loggers(asked: Any, folder: Path | None) -> Iterator[Loggers]:
    """Those asked for, by name or as they are; closed at the end at the latest."""
    one_alone = isinstance(asked, str) or not isinstance(asked, Iterable)
    each = [asked] if one_alone else list(asked)
    for one in each:
        if not isinstance(one, str | Logger):
            raise UserError(
                f"A logger is one of {', '.join(NAMES)}, or an object of `ilbo.loggers`, got "
                f"{one!r}."
            )
    found = Loggers(one if isinstance(one, Logger) else named(one, folder) for one in each)
    for logger in found:
        logger.check_installed()
    try:
        yield found
    finally:
        found.close()  # where it is closed already, nothing is left to do
