"""Ctrl-C in a script or a notebook: training ends after its segment and returns what it found."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ilbo.notes import note


@contextlib.contextmanager
def first_interrupt_noted() -> Iterator[Callable[[], bool]]:
    """Gives a function that says whether Ctrl-C was pressed; the second time it raises
    `KeyboardInterrupt` as ever.

    In other threads than the main one, and where the program handles the signal itself, nothing is
    changed.
    """
    heard = threading.Event()
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield heard.is_set
        return

    def hear(number: int, frame: Any) -> None:
        if heard.is_set():
            raise KeyboardInterrupt
        heard.set()
        note("ilbo: stopping after this segment; once more stops at once and loses the segment.")

    signal.signal(signal.SIGINT, hear)
    try:
        yield heard.is_set
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
