"""How compiled programs are kept and run."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import tempfile
import time
import warnings
from pathlib import Path

LIMIT = 2**30
"""Bytes of compiled programs that are kept."""
DAY = 86_400.0


def keep_compiled_programs() -> None:
    """Turns JAX's cache on disk on, unless the user set one or the folder cannot be written."""
    import jax

    if (
        getattr(jax.config, "jax_compilation_cache_dir", None)
        or os.environ.get("ILBO_CACHE") == "off"
    ):
        return
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        _prune(folder)
    except OSError:
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")


def programs_folder() -> Path | None:
    """Where whole programs are kept: beside JAX's cache, where that is ours."""
    import jax

    folder = cache_folder()
    ours = getattr(jax.config, "jax_compilation_cache_dir", None) == str(folder)
    return folder / "programs" if ours else None


def use_one_thread() -> None:
    """One thread for the programs of this process, where they train a single seed on a CPU.

    A step is a chain of small operations: handing them from core to core takes longer than they do.
    A thread runs what it calls itself, so that another can work beside it. Must be called before
    JAX is used.
    """
    import jax

    os.environ.setdefault("PJRT_NPROC", "1")
    jax.config.update("jax_cpu_enable_async_dispatch", False)


def cache_folder() -> Path:
    """The user's cache folder for this kind of machine: programs hold its processor's code."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        flags = sorted({line for line in lines if line.startswith(("flags", "Features", "model"))})
        return (
            Path(root) / "ilbo" / "jax" / hashlib.sha256("\n".join(flags).encode()).hexdigest()[:12]
        )
    return Path(root) / "ilbo" / "jax" / platform.machine()


def _prune(folder: Path) -> None:
    """Removes the oldest programs while there are too many; looks once a day."""
    looked = folder / "looked"
    if looked.exists() and time.time() - looked.stat().st_mtime < DAY:
        return
    looked.touch()
    files = [path for path in folder.rglob("*") if path.is_file() and path != looked]
    entries = sorted(((path.stat().st_mtime, path) for path in files), reverse=True)
    total = 0
    for _, path in entries:
        total += path.stat().st_size
        if total > LIMIT:
            with contextlib.suppress(OSError):
                path.unlink()
