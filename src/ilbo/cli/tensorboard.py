"""Training as event files that TensorBoard shows, one folder for each seed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ilbo.errors import UserError

if TYPE_CHECKING:
    from ilbo.planning.records import Record


class Events:
    """Writes each record's figures at its episode."""

    def __init__(self, folder: Path, seeds: Sequence[int]):
        try:
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError as error:
            raise UserError(
                "--tensorboard needs the package tensorboard, which is not installed: "
                "pip install 'ilbo[tensorboard]'."
            ) from error
        root = folder / "tensorboard"
        self.writers = {seed: EventFileWriter(str(root / f"seed-{seed}")) for seed in seeds}

    def add(self, record: Record) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        figures = dataclasses.asdict(record)
        seed, episode = figures.pop("seed"), figures.pop("episode")
        values = [
            Summary.Value(tag=f"ilbo/{name}", simple_value=value) for name, value in figures.items()
        ]
        self.writers[seed].add_event(Event(step=episode, summary=Summary(value=values)))

    def close(self) -> None:
        for writer in self.writers.values():
            writer.close()
