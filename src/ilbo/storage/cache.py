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
from typing import Any

from ilbo.storage.private import PrivateFiles

LIMIT = 2**30
"""Bytes of compiled programs that are kept."""
DAY = 86_400.0
CPUINFO = Path("/proc/cpuinfo")


KEPT = "kept"
"""How the names of those programs begin that `storage.programs` keeps whole."""


class CheckedCache:
    """What JAX's cache keeps, in files that are checked.

    JAX itself reads files of any owner, compresses them without a checksum where it has zstd, and
    never replaces a damaged one.
    """

    def __init__(self, folder: Path):
        self.files = PrivateFiles(folder)
        self._path = folder  # JAX names it in its log

    def get(self, key: str) -> bytes | None:
        return None if _is_kept_whole(key) else self.files.get(key)

    def put(self, key: str, value: bytes) -> None:
        if not _is_kept_whole(key):
            self.files.put(key, value)


def _is_kept_whole(key: str) -> bool:
    """Of a program that JAX finds in its cache only a part can be saved again, so JAX keeps none of
    those that are saved."""
    return key.startswith(f"jit_{KEPT}_")


def keep_compiled_programs() -> None:
    """Turns JAX's cache on disk on, unless the user set one or the folder cannot be private."""
    import jax

    if (
        getattr(jax.config, "jax_compilation_cache_dir", None)
        or os.environ.get("ILBO_CACHE") == "off"
    ):
        return
    folder = cache_folder()
    try:
        cache = CheckedCache(folder)
        with tempfile.TemporaryFile(dir=folder):
            pass
        _prune(folder)
    except OSError:
        return
    if not _give_to_jax(cache):
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")


def _give_to_jax(cache: CheckedCache) -> bool:
    """Has JAX use it for its folder. JAX has no public way: False where this one is gone, and then
    nothing is kept rather than read unchecked."""
    try:
        from jax._src import compilation_cache as inside

        otherwise = inside.get_file_cache
    except (ImportError, AttributeError):
        return False
    own = str(cache.files.folder)

    def get_file_cache(path: str) -> Any:
        return (cache, path) if path == own else otherwise(path)

    inside.get_file_cache = get_file_cache
    return True


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
    kind = hashlib.sha256(instruction_set().encode()).hexdigest()[:12]
    return Path(root) / "ilbo" / "jax" / kind


def instruction_set() -> str:
    """What code the processor runs, and which it is; the machine's name where that is not told."""
    try:
        lines = CPUINFO.read_text().splitlines()
        told = sorted({line for line in lines if line.startswith(("flags", "Features", "model"))})
    except OSError:
        told = []
    return "\n".join([platform.machine(), *(told or [platform.processor(), platform.node()])])


def _prune(folder: Path) -> None:
    """Removes the oldest programs while there are too many; looks once a day."""
    looked = folder / "looked"
    if looked.exists() and time.time() - looked.stat().st_mtime < DAY:
        return
    looked.touch(mode=0o600)
    files = [path for path in folder.rglob("*") if path.is_file() and path != looked]
    entries = sorted(((path.stat().st_mtime, path) for path in files), reverse=True)
    total = 0
    for _, path in entries:
        total += path.stat().st_size
        if total > LIMIT:
            with contextlib.suppress(OSError):
                path.unlink()
