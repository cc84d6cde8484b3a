"""Which versions made a result, and what machine."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ilbo.version import __version__

PACKAGES = ("jax", "jaxlib", "equinox", "optax", "numpy")


def environment() -> dict[str, Any]:
    """Versions of Python and of the packages, the commit of a source checkout, the machine."""
    import jax

    return {
        "ilbo": __version__,
        "commit": commit(),
        "python": platform.python_version(),
        "packages": packages(),
        "platform": platform.platform(),
        "processor": processor(),
        "device": f"{jax.device_count()} x {jax.devices()[0].device_kind}",
        "command": [word.encode(errors="backslashreplace").decode() for word in sys.argv],
    }


def machine(environment: Mapping[str, Any]) -> str:
    """What computed in a recorded environment: the accelerators, or the processor without any."""
    device = environment["device"]
    return environment.get("processor", device) if "cpu" in device.lower() else device


def processor() -> str:
    """What the machine computes with, apart from accelerators."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    return f"{os.cpu_count()} cores of {name}"


def packages(*further: str) -> dict[str, str]:
    """Versions of the packages that results depend on, and of further ones where they are there."""
    found = {}
    for name in (*PACKAGES, *further):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def commit() -> str | None:
    """The commit of the source that runs, with "+" where it was changed since; None elsewhere."""
    folder = Path(__file__).parents[1]

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        ).stdout.strip()

    try:
        git(
            "ls-files", "--error-unmatch", "__init__.py"
        )  # tracked there, not merely inside some checkout
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return None
