"""`ilbo watch`: runs in the browser, as they go."""

from __future__ import annotations

import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tyro.conf import Positional

from ilbo.cli.interruption import Listener
from ilbo.cli.types import Trust

if TYPE_CHECKING:
    from ilbo.watch.beside import Beside


@dataclass(frozen=True)
class Command:
    """Follow runs in the browser as they go: a page for this machine alone, until Ctrl-C."""

    folders: Positional[tuple[Path, ...]] = (Path("runs"),)
    """Run folders, or folders with runs in them; they may still be written, or come from
    elsewhere."""
    trust: Trust = False
    port: int = 0
    """Port to listen on; 0 is any that is free."""
    no_open: bool = False
    """Print the address and open no browser."""

    def run(self) -> int:
        from ilbo.cli.output import say
        from ilbo.storage.cache import keep_compiled_programs
        from ilbo.watch.beside import open_in_browser
        from ilbo.watch.server import serve

        keep_compiled_programs()
        with (
            serve(self.folders, self.port, self.trust) as server,
            Listener(lambda _: server.shutdown(), signal.SIGINT, signal.SIGTERM),
        ):
            say(f"watching at {server.address} (Ctrl-C ends)")
            sys.stdout.flush()
            if not self.no_open:
                open_in_browser(server.address)
            server.serve_forever()
        return 0


class Page:
    """The page of a run that this process trains, where it is wanted; it ends with the block."""

    def __init__(self, wanted: bool):
        self.wanted = wanted
        self.beside: Beside | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.beside:
            self.beside.close()

    def open(self, folder: Path, trust: bool) -> None:
        from ilbo.cli.output import note
        from ilbo.watch.beside import Beside, open_in_browser

        if self.wanted:
            self.beside = Beside(folder, trust)
            note(f"ilbo: watching at {self.beside.address}")
            open_in_browser(self.beside.address)

    def stay(self) -> None:
        """Waits for Ctrl-C, so that what was found can be looked at."""
        from ilbo.cli.output import note

        if self.beside is None:
            return
        sys.stdout.flush()
        note(f"ilbo: the run stays in sight at {self.beside.address}; Ctrl-C ends.")
        ended = threading.Event()
        with Listener(lambda _: ended.set(), signal.SIGINT, signal.SIGTERM):
            ended.wait()
