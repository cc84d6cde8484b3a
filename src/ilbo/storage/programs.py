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
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
from jax.experimental import serialize_executable

from ilbo.registry.identity import describe
from ilbo.storage.environment import packages
from ilbo.storage.files import write_atomically

Program = Callable[..., Any]


class Kept:
    """Programs of one trainer, in a folder of the user's own."""

    def __init__(self, folder: Path, made_from: dict[str, Any]):
        self.folder = folder
        self.made_from = made_from
        self.found: dict[str, Future[Program]] = {}
        self.workers = ThreadPoolExecutor(2)
        self.lock = threading.Lock()

    @classmethod
    def of(cls, folder: Path | None, trainer: Any) -> Kept | None:
        """None without a folder, and for a model in Python: its code can change unseen."""
        if folder is None:
            return None
        problem = describe(trainer.problem)
        if problem["origin"] == "python":
            return None
        # One program serves any number of episodes.
        settings = {**trainer.config.to_dict(), "episodes": None, "capacity": trainer.capacity}
        return cls(folder, {"problem": problem, "settings": settings, **_surroundings()})

    def call(self, function: Program, first: Any, *rest: Any) -> Any:
        """function(first, *rest), where the arrays of all but the first argument are used up."""
        whole = [x for x in rest if isinstance(x, int)]
        program = self.begin(function, lambda: (first, *rest), *whole).result()
        return program(*jax.tree.leaves(eqx.filter((first, *rest), eqx.is_array)))

    def begin(self, function: Program, arguments: Callable[[], tuple], *whole: int):
        """Loads, or makes, a program that will be called.

        `arguments` gives those of the call, or their shapes, and is asked where there is none yet;
        `whole` are the whole numbers among them.
        """
        made_from = {**self.made_from, "function": function.__name__, "static": whole}
        name = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:32]
        with self.lock:
            if name not in self.found:
                path = self.folder / f"{name}.program"
                self.found[name] = self.workers.submit(_load_or_make, path, function, arguments)
            return self.found[name]


def _load_or_make(path: Path, function: Program, arguments: Callable[[], tuple]) -> Program:
    with contextlib.suppress(Exception):  # none yet, or a damaged one
        return _load(path)
    compiled, form = _compile(function, *arguments())
    with contextlib.suppress(Exception):  # it cannot be kept, but it can be used
        _save(path, compiled, form)
    return _whole(compiled, form)


def _compile(function: Program, first: Any, *rest: Any) -> tuple[Any, Any]:
    """The function of arrays alone, which uses up those of all but the first argument; the form of
    its answer."""
    arrays, static = eqx.partition((first, *rest), _is_array_or_shape)
    inputs, structure = jax.tree.flatten(arrays)
    kept = len(jax.tree.leaves(arrays[0]))
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


def _is_array_or_shape(x: Any) -> bool:
    return eqx.is_array(x) or isinstance(x, jax.ShapeDtypeStruct)


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
    for file in sorted(Path(__file__).parents[1].rglob("*.py")):
        source.update(file.read_bytes())
    choices = {k: v for k, v in os.environ.items() if k.startswith(("JAX_", "XLA_", "PJRT_"))}
    return {
        "source": source.hexdigest(),
        "packages": packages("pyRDDLGym"),
        "environment": choices,
        "devices": [str(device) for device in jax.devices()],
    }
