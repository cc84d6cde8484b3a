"""What the compiler must be told so that results are right. Free of JAX: it must come first."""

from __future__ import annotations

import importlib.metadata
import os
import warnings

from ilbo.forks import jax_has_started

FLAG = "--xla_cpu_experimental_ynn_fusion_type"


def avoid_wrong_sums() -> None:
    """Keeps XLA from using a library for sums on a CPU that gets large ones wrong in jaxlib 0.10.

    There a sum with more than 2¹⁵ results can be wrong in those beyond. Other versions are left
    alone: they may not know the flag, and XLA aborts on flags it does not know. Works before JAX's
    first computation, and warns after it; a user's own choice for the flag stays.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if FLAG in flags or not _has_the_fault():
        return
    os.environ["XLA_FLAGS"] = f"{flags} {FLAG}=-reduce".strip()
    if jax_has_started():
        warnings.warn(
            "JAX computed before `import ilbo`, too late to keep jaxlib 0.10 from getting large "
            f"sums on a CPU wrong: import ilbo first, or set XLA_FLAGS={FLAG}=-reduce.",
            RuntimeWarning,
            stacklevel=3,
        )


def _has_the_fault() -> bool:
    try:
        return importlib.metadata.version("jaxlib").split(".")[:2] == ["0", "10"]
    except importlib.metadata.PackageNotFoundError:
        return False
