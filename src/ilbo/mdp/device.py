"""Whether JAX can start at all."""

from __future__ import annotations

import functools
import os

import jax

from ilbo.errors import UserError


@functools.cache
def check_device() -> None:
    """Raises, in one sentence, where JAX_PLATFORMS asks for a device that is not there."""
    platforms = os.environ.get("JAX_PLATFORMS")
    if not platforms:
        return
    try:
        jax.devices()
    except Exception as error:  # which one differs from device to device
        raise UserError(
            f"JAX finds no device for JAX_PLATFORMS={platforms!r}: install what it needs for that, "
            "or leave the variable out."
        ) from error


def on_accelerator() -> bool:
    """Whether programs run on a GPU or the like. There a step takes as long as it has kernels to
    launch: loops of known length are better unrolled, and many seeds cost little more than one."""
    return jax.default_backend() != "cpu"
