"""The real command in its own process, with compiled programs shared between tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PLAN = [
    "plan", "navigation-3", "--layers", "8", "--depth", "2", "--window", "1", "--policy-batch", "2",
    "--critic-batch", "4", "--test-episodes", "4", "--evaluate-every", "2", "--episodes", "80",
]  # fmt: skip
"""A run of forty segments that takes about as long as starting Python."""


class Command:
    """Starts `ilbo` with a cache folder of its own."""

    def __init__(self, cache: Path):
        self.environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "JAX_PLATFORMS": "cpu"}

    def start(self, *arguments, **options) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-m", "ilbo", *map(str, arguments)],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def run(self, *arguments, **options) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        process = self.start(*arguments, **options)
        out, err = process.communicate(timeout=500)
        return process.returncode, out, err


def kill(process: subprocess.Popen) -> None:
    """Ends the process without a chance to tidy up."""
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)


def wait_for_lines(process: subprocess.Popen, path: Path, lines: int) -> bool:
    """Waits until the file has this many lines; False if the process ended before."""
    deadline = time.monotonic() + 400
    while process.poll() is None and time.monotonic() < deadline:
        if path.exists() and path.read_bytes().count(b"\n") >= lines:
            return True
        time.sleep(0.002)
    return False
