"""Compiled functions that keep a bounded number of programs.

A program stays in memory for as long as what compiled it does: tens of megabytes for each new model
or choice of settings. Here the program that was used longest ago goes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import equinox as eqx
import jax
import numpy as np


class Bounded:
    """A function compiled for each form of its arguments, as `eqx.filter_jit` does: arrays are
    traced, all else is part of the program. It must return arrays alone."""

    def __init__(
        self,
        function: Callable[..., Any],
        most: int,
        donates: bool = False,
        options: dict[str, Any] | None = None,
    ):
        """
        Args:
            function: What to compile.
            most: Programs that are kept.
            donates: Whether the arrays of the second argument are used up.
            options: For the compiler.
        """
        self.function, self.most, self.donates = function, most, donates
        self.options = options
        self.programs: OrderedDict[Hashable, Callable[..., Any]] = OrderedDict()
        self.lock = threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        arrays, rest = eqx.partition(arguments, _is_array)
        inputs, structure = jax.tree.flatten(arrays)
        static, form = jax.tree.flatten(rest)
        shapes = tuple((x.shape, str(x.dtype), getattr(x, "weak_type", False)) for x in inputs)
        key = structure, form, tuple(static), tuple(map(type, static)), shapes
        with self.lock:
            program = self.programs.pop(key, None) or self._compiled(structure, rest, arrays)
            self.programs[key] = program
            if len(self.programs) > self.most:
                self.programs.popitem(last=False)
        return program(*inputs)

    def _compiled(self, structure: Any, rest: Any, arrays: Any) -> Callable[..., Any]:
        function = self.function

        def call(*inputs: Any) -> Any:
            return function(*eqx.combine(jax.tree.unflatten(structure, inputs), rest))

        call.__name__ = call.__qualname__ = function.__name__
        kept = len(jax.tree.leaves(arrays[0]))
        donated = len(jax.tree.leaves(arrays[1])) if self.donates else 0
        used_up = tuple(range(kept, kept + donated))
        return jax.jit(call, donate_argnums=used_up, compiler_options=self.options)


def _is_array(x: Any) -> bool:
    return isinstance(x, jax.Array | np.ndarray | np.generic)
