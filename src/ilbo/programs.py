"""Training programs kept on disk, so that a second process need neither trace nor compile them.

JAX's own cache spares the compiling, but only a traced program can be looked up in it, and tracing
a training step takes seconds. Here a program is found by what it is made from.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
from jax.experimental import serialize_executable

from ilbo.files import write_atomically
from ilbo.identity import describe
from ilbo.training import Trainer
from ilbo.versions import packages

Program = Callable[..., Any]


class Programs:
    """Programs of one trainer, in a folder of the user's own."""

    def __init__(self, folder: Path, made_from: dict[str, Any]):
        self.folder = folder
        self.made_from = made_from
        self.ready: dict[str, Program] = {}
        self.lock = threading.Lock()

    @classmethod
    def of(cls, folder: Path, trainer: Trainer) -> Programs | None:
        """None for a model in Python: its code can change unseen."""
        problem = describe(trainer.problem)
        if problem["origin"] == "python":
            return None
        # One program serves any number of episodes.
        settings = {**trainer.config.to_dict(), "episodes": None, "capacity": trainer.capacity}
        return cls(folder, {"problem": problem, "settings": settings, **_surroundings()})

    def call(self, function: Program, first: Any, *rest: Any) -> Any:
        """function(first, *rest), where the arrays of all but the first argument are used up."""
        arrays, static = eqx.partition((first, *rest), eqx.is_array)
        inputs, structure = jax.tree.flatten(arrays)
        kept = len(jax.tree.leaves(arrays[0]))
        made_from = {
            **self.made_from,
            "function": function.__name__,
            "static": [x for x in rest if isinstance(x, int)],
            "inputs": [f"{jax.typeof(x)} {getattr(x, 'weak_type', False)}" for x in inputs],
        }
        name = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:32]

        path = self.folder / f"{name}.program"
        with self.lock:
            if name not in self.ready:
                with contextlib.suppress(Exception):  # none yet, or a damaged one
                    self.ready[name] = _load(path)
            if name not in self.ready:
                compiled, form = _compile(function, static, structure, inputs, kept)
                self.ready[name] = _whole(compiled, form)
                with contextlib.suppress(Exception):  # it cannot be kept, but it can be used
                    _save(path, compiled, form)
        return self.ready[name](*inputs)


def _compile(function: Program, static: Any, structure: Any, inputs: list[jax.Array], kept: int):
    """The function of arrays alone, which uses up all but the first `kept`; its answer's form."""
    forms: list[Any] = []

    def flat(*inputs):
        out = function(*eqx.combine(jax.tree.unflatten(structure, inputs), static))
        forms.append(jax.tree.map(lambda _: 0, out))
        return jax.tree.leaves(out)

    # Of a program that JAX finds in its own cache only a part can be saved: a name of its own
    # makes sure that it finds none.
    flat.__name__ = f"{function.__name__}_{secrets.token_hex(8)}"
    donated = tuple(range(kept, len(inputs)))
    return jax.jit(flat, donate_argnums=donated).lower(*inputs).compile(), forms[0]


def _whole(compiled: Program, form: Any) -> Program:
    structure = jax.tree.structure(form)
    return lambda *inputs: jax.tree.unflatten(structure, compiled(*inputs))


def _load(path: Path) -> Program:
    saved, form = pickle.loads(path.read_bytes())
    return _whole(serialize_executable.deserialize_and_load(*saved), form)


def _save(path: Path, compiled: Any, form: Any) -> None:
    saved = serialize_executable.serialize(compiled)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, [pickle.dumps((saved, form))])


def _surroundings() -> dict[str, Any]:
    """What else a program depends on: our own source, packages, environment, devices."""
    source = hashlib.sha256()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        source.update(file.read_bytes())
    choices = {k: v for k, v in os.environ.items() if k.startswith(("JAX_", "XLA_", "PJRT_"))}
    return {
        "source": source.hexdigest(),
        "packages": packages("pyRDDLGym"),
        "environment": choices,
        "devices": [str(device) for device in jax.devices()],
    }
