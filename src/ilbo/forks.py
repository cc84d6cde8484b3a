"""Notices a process that was forked after its parent had used JAX. Free of JAX."""

from __future__ import annotations

import os
import sys

from ilbo.errors import UserError

_forked_too_late = False


def jax_has_started() -> bool:
    """Whether JAX has made its backends; asked without importing it."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and bridge.backends_are_initialized()


def watch_forks() -> None:
    """Has children of this process know whether JAX had started when they were forked."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_note)


def check_not_forked() -> None:
    """Raises in a child that would wait for ever: for JAX's threads, which no fork copies."""
    if _forked_too_late:
        raise UserError(
            "This process was forked after its parent had used JAX, whose threads it lacks, and "
            'would hang: start processes by multiprocessing.get_context("spawn") or '
            '"forkserver", or fork before the first use of ilbo.'
        )


def _note() -> None:
    global _forked_too_late
    _forked_too_late = jax_has_started()
