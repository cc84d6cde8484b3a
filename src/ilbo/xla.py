"""What the compiler must be told so that results are right. Free of JAX: it must come first."""

from __future__ import annotations

import os

FLAG = "--xla_cpu_experimental_ynn_fusion_type"


def avoid_wrong_sums() -> None:
    """Keeps XLA from handing sums on a CPU to a library that gets large ones wrong.

    In jaxlib 0.10 a sum with more than 2¹⁵ results inside a loop has garbage in the rest of them.
    Works before JAX first compiles; a user's own choice for this flag stays.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if FLAG not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {FLAG}=-reduce".strip()
