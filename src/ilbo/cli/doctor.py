"""`ilbo doctor`: what is installed and what it computes on, as a bug report needs it."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import re
import sys
from dataclasses import dataclass
from typing import Any

from ilbo.version import __version__

BUNDLES = ("all", "benchmarks", "dev", "docs")
"""Extras that say nothing about what a user can do."""


@dataclass(frozen=True)
class Command:
    """Show versions, devices, the cache, and what is missing for which extra."""

    json: bool = False
    """Print one JSON object and nothing else."""

    def run(self) -> int:
        from ilbo.cli.output import print_json, say

        found = examine()
        if self.json:
            print_json(found)
        else:
            say("\n".join(_lines(found)))
        return 0 if found["devices"] else 1


def examine() -> dict[str, Any]:
    """All that `ilbo doctor` tells."""
    from ilbo.storage.cache import cache_folder
    from ilbo.storage.environment import commit, processor

    folder = cache_folder()
    sizes = []
    for path in folder.rglob("*") if folder.exists() else ():
        with contextlib.suppress(OSError):  # another process may be tidying up
            sizes.append(path.stat().st_size)
    core, extras = requirements()
    return {
        "ilbo": __version__,
        "commit": commit(),
        "python": f"{platform.python_version()} ({sys.executable})",
        "platform": platform.platform(),
        "processor": processor(),
        "devices": _devices(),
        "packages": {name: _version(name) for name in core},
        "extras": {
            extra: {name: _version(name) for name in names} for extra, names in extras.items()
        },
        "cache": {"folder": folder, "megabytes": round(sum(sizes) / 1e6, 1)},
    }


def requirements() -> tuple[list[str], dict[str, list[str]]]:
    """The packages that ilbo needs, and those that each extra adds."""
    core: list[str] = []
    extras: dict[str, list[str]] = {}
    try:
        wanted = importlib.metadata.requires("ilbo") or []
    except importlib.metadata.PackageNotFoundError:  # it runs from its source, not installed
        from ilbo.storage.environment import PACKAGES

        return list(PACKAGES), {}
    for line in wanted:
        package = re.split(r"[^\w.-]", line, maxsplit=1)[0]
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        if extra is None:
            core.append(package)
        elif extra[1] not in BUNDLES and package != "ilbo":
            extras.setdefault(extra[1], []).append(package)
    return core, extras


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _devices() -> list[str]:
    try:
        import jax

        return [f"{device.platform}: {device.device_kind}" for device in jax.devices()]
    except Exception:  # whatever is wrong with JAX, the rest is worth telling
        return []


def _lines(found: dict[str, Any]) -> list[str]:
    lines = [f"ilbo {found['ilbo']}" + (f", commit {found['commit']}" if found["commit"] else "")]
    rows = [(name, found[name]) for name in ("python", "platform", "processor")]
    devices = ", ".join(found["devices"]) or "none: JAX does not find any, or is not installed"
    rows.append(("devices", devices))
    kept = found["cache"]
    rows.append(("cache", f"{kept['folder']} ({kept['megabytes']:g} MB)"))
    lines += [f"{name:10}  {text}" for name, text in rows]
    lines += ["", "packages"]
    lines += [f"  {_told(name, version)}" for name, version in found["packages"].items()]
    lines += ["", "extras"]
    width = max(map(len, found["extras"]), default=0)
    for extra, packages in found["extras"].items():
        missing = [name for name, version in packages.items() if version is None]
        text = ", ".join(_told(name, version) for name, version in packages.items())
        hint = f"; to add: pip install 'ilbo[{extra}]'" if missing else ""
        lines.append(f"  {extra:{width}}  {text}{hint}")
    return lines


def _told(name: str, version: str | None) -> str:
    return f"{name} {version}" if version else f"{name} is missing"
