"""Training programs kept on disk, so that a second process need neither trace nor compile them.

JAX's own cache spares the compiling, but only a traced program can be looked up in it, and tracing
a training step takes seconds. Here a program is found by what it is made from.

Kept is the compiled program. To keep the traced one (`jax.export`) and leave the compiled one to
JAX's cache takes 1.06 times the processor time in a second `ilbo plan`, and one more package; to
keep neither, 1.3 times. It makes nothing safer: either cache holds machine code, and the form of an
answer must be pickled in any case. So what counts is where the bytes come from (`PrivateFiles`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import platform
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.experimental import serialize_executable

from ilbo.registry.identity import describe
from ilbo.storage.cache import KEPT, instruction_set
from ilbo.storage.environment import packages
from ilbo.storage.private import PrivateFiles

Program = Callable[..., Any]
SOURCES = (".py", ".json", ".rddl")
"""Files of ours that programs are made from."""


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
        """None without a folder, and for models, networks and estimators in Python: their code can
        change unseen."""
        if folder is None:
            return None
        problem = describe(trainer.problem)
        if problem["origin"] == "python" or trainer.config.holds_code:
            return None
        # One program serves any number of episodes, and all numbers that are its inputs.
        form = trainer.as_program()
        settings = {
            **form.config.to_dict(),
            "inputs": str(jax.tree.structure(eqx.filter(form.numbers, eqx.is_array))),
            "capacity": trainer.capacity,
            "unit": trainer.unit,
            "limits": [limit.form for limit in trainer.problem.limits],
        }
        return cls(folder, {"problem": problem, "settings": settings, **_surroundings()})

    def call(self, function: Program, first: Any, *rest: Any) -> Any:
        """function(first, *rest), where the arrays of all but the first argument are used up."""
        whole = [x for x in rest if isinstance(x, int)]
        program = self.begin(function, lambda: (first, *rest), *whole).result()
        return program(*jax.tree.leaves(eqx.filter((first, *rest), eqx.is_array)))

    def begin(
        self, function: Program, arguments: Callable[[], tuple[Any, ...]], *whole: int
    ) -> Future[Program]:
        """Loads, or makes, a program that will be called.

        `arguments` gives those of the call, or their shapes, and is asked where there is none yet;
        `whole` are the whole numbers among them.
        """
        made_from = {**self.made_from, "function": function.__name__, "static": whole}
        name = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:32]
        with self.lock:
            if name not in self.found:
                self.found[name] = self.workers.submit(
                    _load_or_make, self.folder, f"{name}.program", function, arguments
                )
            return self.found[name]


def _load_or_make(
    folder: Path, name: str, function: Program, arguments: Callable[[], tuple]
) -> Program:
    files = None
    with contextlib.suppress(OSError):  # without a folder it is made each time
        files = PrivateFiles(folder)
    saved = files.get(name) if files else None
    if saved is not None:
        with contextlib.suppress(Exception):  # such as a part of a program
            return _load(saved)
    compiled, form, lapack = _compile(function, *arguments())
    if files:
        with contextlib.suppress(Exception):  # it cannot be kept, but it can be used
            saved = pickle.dumps((serialize_executable.serialize(compiled), form, lapack))
            files.put(name, saved)
    return _whole(compiled, form)


def _load(saved: bytes) -> Program:
    """The program of a private file: no other bytes may come here."""
    executable, form, lapack = pickle.loads(saved)
    if lapack:
        # jaxlib looks for LAPACK's functions when a program that calls them is lowered; one that
        # is loaded would jump to nowhere.
        jax.jit(jax.lax.linalg.cholesky).lower(jax.ShapeDtypeStruct((1, 1), jnp.float32))
    return _whole(serialize_executable.deserialize_and_load(*executable), form)


def _compile(function: Program, first: Any, *rest: Any) -> tuple[Any, Any, bool]:
    """The function of arrays alone, which uses up those of all but the first argument; the form of
    its answer; whether it calls LAPACK."""
    arrays, static = eqx.partition((first, *rest), _is_array_or_shape)
    inputs, structure = jax.tree.flatten(arrays)
    kept = len(jax.tree.leaves(arrays[0]))
    forms: list[Any] = []

    def flat(*inputs: Any) -> list[Any]:
        out = function(*eqx.combine(jax.tree.unflatten(structure, inputs), static))
        forms.append(jax.tree.map(lambda _: 0, out))
        return jax.tree.leaves(out)

    flat.__name__ = f"{KEPT}_{function.__name__}"
    donated = tuple(range(kept, len(inputs)))
    lowered = jax.jit(flat, donate_argnums=donated).lower(*inputs)
    return lowered.compile(), forms[0], "lapack_" in lowered.as_text()


def _is_array_or_shape(x: Any) -> bool:
    return eqx.is_array(x) or isinstance(x, jax.ShapeDtypeStruct)


def _whole(compiled: Program, form: Any) -> Program:
    structure = jax.tree.structure(form)
    return lambda *inputs: jax.tree.unflatten(structure, compiled(*inputs))


def _surroundings() -> dict[str, Any]:
    """What else a program depends on: our own source, packages, settings, devices, processor."""
    source, root = hashlib.sha256(), Path(__file__).parents[1]
    for file in sorted(root.rglob("*")):
        if file.suffix in SOURCES:
            source.update(f"{file.relative_to(root)}\0".encode())
            source.update(hashlib.sha256(file.read_bytes()).digest())
    choices = {k: v for k, v in os.environ.items() if k.startswith(("JAX_", "XLA_", "PJRT_"))}
    return {
        "source": source.hexdigest(),
        "python": platform.python_version(),
        "packages": packages("pyRDDLGym"),
        "environment": choices,
        "options": {name: str(value) for name, value in jax.config.values.items()},
        "devices": [str(device) for device in jax.devices()],
        "processor": instruction_set(),
    }
