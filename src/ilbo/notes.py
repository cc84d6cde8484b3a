"""Remarks to whoever watches: one line on standard error. Free of JAX."""

from __future__ import annotations

import contextlib
import sys


def printable(text: str) -> str:
    """The text with what would act on a terminal, such as escape sequences, written out."""
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    )


def note(text: str) -> None:
    """A remark or progress line on standard error; if nobody takes it, work goes on."""
    with contextlib.suppress(OSError):
        print(printable(text), file=sys.stderr, flush=True)
