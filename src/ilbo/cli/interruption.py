"""Ctrl-C and requests to terminate, heard at any moment.

Python runs its own handlers in the main thread between two instructions: not while compiled code
runs there, and in the midst of an import or of a callback, which then fails or swallows them. So a
thread of its own listens here, and ends the process itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from typing import Any, NoReturn, Self

SHOW_CURSOR = "\x1b[?25h"


class Listener:
    """Calls a function with each of these signals, in a thread of its own.

    Signals that the process was started to ignore, as in the background, stay ignored.
    """

    def __init__(self, heard: Callable[[int], None], *numbers: int):
        self.heard, self.numbers = heard, numbers
        self.before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        # Known before the thread begins: a signal must not be lost while this one is entered.
        self.before = {
            number: handler
            for number in self.numbers
            if (handler := signal.getsignal(number)) is not signal.SIG_IGN
        }
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.writer, False)
        self.wakeup = signal.set_wakeup_fd(self.writer, warn_on_full_buffer=False)
        threading.Thread(target=self._listen, daemon=True).start()
        for number in self.before:
            signal.signal(number, lambda *_: None)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self.wakeup)
        os.close(self.writer)

    def _listen(self) -> None:
        while read := os.read(self.reader, 1):
            if read[0] in self.before:
                self.heard(read[0])
        os.close(self.reader)


class Interruption(Listener):
    """Ctrl-C or a request to terminate: noted, so that the segment can end; the second acts.

    Args:
        compiling: Whether the first segment has not begun: then there is nothing to wait for.
    """

    def __init__(self, compiling: Callable[[], bool] = lambda: False) -> None:
        super().__init__(self._note, signal.SIGINT, signal.SIGTERM)
        self.compiling = compiling
        self.signal: int | None = None

    def requested(self) -> bool:
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        return 128 + (self.signal or 0)

    def _note(self, number: int) -> None:
        from ilbo.cli.output import note

        if self.signal is not None or self.compiling():
            end(number)
        self.signal = number
        note("ilbo: stopping after this segment; once more stops at once and loses the segment.")


def end_on_interrupt() -> None:
    """Has Ctrl-C end the process from now on, whatever it does."""
    Listener(end, signal.SIGINT).__enter__()


def end(number: int) -> NoReturn:
    """Ends the process at once. Files are whole all the same: they are replaced, not written over.

    What a live progress bar did to the terminal is undone.
    """
    with contextlib.suppress(OSError):
        os.write(2, f"{SHOW_CURSOR * os.isatty(2)}ilbo: interrupted\n".encode())
    os._exit(128 + number)
