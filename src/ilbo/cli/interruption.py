"""Ctrl-C and requests to terminate, noted so that what is under way can end in order."""

from __future__ import annotations

import signal
from typing import Any


class Interruption:
    """Ctrl-C or a request to terminate: noted, so that the segment can end; the second acts."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        for number in (signal.SIGINT, signal.SIGTERM):
            self.before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def requested(self) -> bool:
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        return 128 + (self.signal or 0)

    def _note(self, number: int, frame: Any) -> None:
        from ilbo.cli.output import note

        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number
        note("ilbo: stopping after this segment; once more stops at once and loses the segment.")
