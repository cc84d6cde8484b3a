"""Training as event files that TensorBoard shows, one folder for each seed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ilbo.loggers.logger import Figures, Logger


class TensorBoard(Logger):
    """Writes event files below a folder: `tensorboard --logdir FOLDER` shows them."""

    name, package, extra = "TensorBoard", "tensorboard", "tensorboard"

    def __init__(self, folder: str | Path):
        super().__init__()
        self.folder = Path(folder)
        self.history_told = True  # it lies in earlier files of the folder

    def track(self, title: str, seed: int, settings: Mapping[str, Any]) -> _Events:
        return _Events(self.folder / f"seed-{seed}", settings)


class _Events:
    def __init__(self, folder: Path, settings: Mapping[str, Any]):
        from tensorboard.plugins.hparams.summary_v2 import hparams_pb
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self.writer = EventFileWriter(str(folder))
        self._add(0, hparams_pb(dict(settings)))

    def write(self, episode: int, figures: Figures) -> None:
        self._values(episode, {f"ilbo/{name}": value for name, value in figures.items()})

    def end(self, final: Figures, finished: bool) -> None:
        self._values(int(final.get("episodes", 0)), {f"final/{k}": v for k, v in final.items()})
        self.writer.close()

    def _values(self, step: int, values: Figures) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        scalars = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        self._add(step, Summary(value=scalars))

    def _add(self, step: int, summary: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self.writer.add_event(Event(step=step, summary=summary))
