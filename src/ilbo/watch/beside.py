"""The page beside a command that trains, in a process of its own: training is not disturbed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

from ilbo.errors import UserError

NICENESS = 10
"""Drawing gives way to training."""


class Beside:
    """A server of one folder, in another process, that ends with this one."""

    def __init__(self, folder: Path, trust: bool = False):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ilbo.watch.beside", str(folder), *["--trust"][: int(trust)]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the training
        )
        assert self.process.stdout
        self.address = self.process.stdout.readline().strip()
        if not self.address:
            self.close()
            raise UserError(f"The page could not be served; try `ilbo watch {folder}`.")

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()


def open_in_browser(address: str) -> bool:
    """Opens the page where there is a screen to show it on."""
    import webbrowser

    screen = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    if not screen:
        return False
    with contextlib.suppress(webbrowser.Error):
        return webbrowser.open(address)
    return False


def _end_with(parent: IO[str]) -> None:
    """Ends the process once the other end of its input is gone, however that came about."""
    parent.read()
    os._exit(0)


def main(folder: str, *options: str) -> None:
    from ilbo.storage.cache import keep_compiled_programs
    from ilbo.watch.server import serve

    with contextlib.suppress(OSError, AttributeError):
        os.nice(NICENESS)
    keep_compiled_programs()
    server = serve([folder], trust="--trust" in options)
    print(server.address, flush=True)
    threading.Thread(target=_end_with, args=(sys.stdin,), daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
