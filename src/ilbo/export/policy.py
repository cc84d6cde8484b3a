"""Policies for use elsewhere: StableHLO by `jax.export`, and ONNX; both checked when written."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ilbo.errors import UserError
from ilbo.mdp.problem import Problem
from ilbo.mdp.widened import Sight, as_seen
from ilbo.nn.policy import Policy
from ilbo.registry.identity import describe
from ilbo.storage.files import cannot_write, read_bytes, read_json, write_atomically, write_json
from ilbo.version import __version__

STABLEHLO, ONNX, DESCRIPTION = "policy.stablehlo", "policy.onnx", "policy.json"
PLATFORMS = ("cpu", "cuda", "tpu")
CHECKED_STATES = 1024
SEAL = b"ilbo sha256 "
"""What stands before the checksum at the end of a StableHLO file; readers of the format stop
before it. Without one, damage goes unnoticed until the program hangs or answers nonsense."""
_TIME = {"name": "time", "type": "float32", "shape": ["batch"], "what": "steps taken so far"}
TOLERANCE = 1e-4
"""Largest difference that passes, as a share of the largest action."""


@dataclass(frozen=True)
class Exported:
    """Files that were written, and how far each is from the policy."""

    files: dict[str, Path]
    """The format and its file."""
    differences: dict[str, float]
    """Largest difference of an action on random states, in the action's units."""


class ExportedPolicy:
    """A policy from a StableHLO file: state [n] → action [m], or [batch, n] → [batch, m].

    One that sees the time (`timed`) takes the number of steps taken so far as well, [] or [batch].
    """

    def __init__(self, exported: Any):
        self.state_size = exported.in_avals[0].shape[1]
        self.timed = len(exported.in_avals) == 2
        self._many = jax.jit(exported.call)
        self._one = jax.jit(lambda *given: exported.call(*(x[None] for x in given))[0])

    def __call__(self, state: Any, time: Any = None) -> Float[Array, "*batch m"]:
        state = np.asarray(state, np.float32)
        if self.timed and time is None:
            raise UserError(
                "This policy sees the time: call it as policy(state, time), with the number of "
                "steps taken so far."
            )
        if state.ndim not in (1, 2) or state.shape[-1] != self.state_size:
            raise UserError(
                f"The policy takes states of {self.state_size} numbers, got shape {state.shape}."
            )
        given = [state]
        if self.timed:
            given.append(np.broadcast_to(np.asarray(time, np.float32), state.shape[:-1]))
        return self._one(*given) if state.ndim == 1 else self._many(*given)


def export_policy(
    policy: Policy, problem: Problem, folder: str | Path, onnx: bool = False
) -> Exported:
    """Writes a policy into a folder as StableHLO (and ONNX), with a description beside it.

    Args:
        policy: What to export; the files carry its action bounds.
        problem: What it is for: names and sizes, and the region that the check draws states from.
        folder: Where to write; made if need be.
        onnx: Whether to write ONNX as well (`pip install 'ilbo[onnx]'`).
    """
    if onnx:
        _check_onnx_installed()  # first: what it brings is enough for StableHLO as well
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error
    files, sums, differences = {}, {}, {}
    described = describe(problem)
    described.pop("files", None)
    problem = as_seen(problem, Sight.of(policy), policy.scaling.center, policy.scaling.half)
    states = np.asarray(problem.starts(jax.random.key(0), (CHECKED_STATES,)))
    given = [states]
    if policy.timed:
        given.append(np.arange(CHECKED_STATES, dtype=np.float32) % problem.horizon)
    wanted = np.asarray(jax.jit(jax.vmap(policy))(*given))
    contents = {"stablehlo": (STABLEHLO, _stablehlo(policy, problem), _run_stablehlo)}
    if onnx:
        contents["onnx"] = (ONNX, _onnx(policy, problem), _run_onnx)
    for kind, (name, data, run) in contents.items():
        differences[kind] = _check(kind, wanted, run(data, given))
        files[kind], sums[name] = folder / name, hashlib.sha256(data).hexdigest()
        write_atomically(folder / name, [data])
    write_json(
        folder / DESCRIPTION,
        {
            "ilbo": __version__,
            "problem": described,
            "input": {"name": "state", "type": "float32", "shape": ["batch", problem.state_size]},
            **({"time": _TIME} if policy.timed else {}),
            "output": {
                "name": "action",
                "type": "float32",
                "shape": ["batch", problem.action_size],
            },
            "sha256": sums,
            "largest_difference": differences,
        },
    )
    return Exported(files, differences)


def load_exported(path: str | Path) -> ExportedPolicy:
    """The policy of a StableHLO file. Files that would call into foreign code are refused."""
    path = Path(path)
    data = read_bytes(path)
    _check_sums(path, data)
    export = _jax_export()
    try:
        exported = export.deserialize(bytearray(data))
        shapes = [aval.shape for aval in (*exported.in_avals, *exported.out_avals)]
        sound = [len(shape) for shape in shapes] in ([2, 2], [2, 1, 2])
        module = exported.mlir_module()
    except Exception as error:  # the reader of the format may raise any exception
        raise UserError(f"{str(path)!r} is damaged, or is no exported policy.") from error
    if not sound:
        raise UserError(f"{str(path)!r} is no exported policy: it must map states to actions.")
    if re.search(r"custom_call(?! @shape_assertion\()", module):
        raise UserError(f"{str(path)!r} calls code outside of itself and is not loaded.")
    return ExportedPolicy(exported)


def _check_sums(path: Path, data: bytes) -> None:
    """Raises unless the file has its checksum, at its end or in the description, and it is right:
    to load damaged bytes can crash or hang."""
    beside, known = path.with_name(DESCRIPTION), None
    if beside.exists():
        described = read_json(beside)
        sums = described.get("sha256") if isinstance(described, dict) else None
        known = sums.get(path.name) if isinstance(sums, dict) else None
        if known not in (None, hashlib.sha256(data).hexdigest()):
            raise UserError(f"{str(path)!r} is damaged: {DESCRIPTION} has another checksum for it.")
    content, seal, digest = data.rpartition(SEAL)
    if known is None and (not seal or digest != hashlib.sha256(content).digest()):
        raise UserError(
            f"{str(path)!r} is damaged, or is no exported policy: its checksum is missing or does "
            f"not fit. A file of ilbo 0.1 needs its {DESCRIPTION} beside it."
        )


def _jax_export() -> Any:
    try:
        import flatbuffers  # noqa: F401
        from jax import export
    except ImportError as error:
        raise UserError(
            "StableHLO needs the package flatbuffers, which is not installed: "
            "pip install 'ilbo[export]'."
        ) from error
    return export


def _stablehlo(policy: Policy, problem: Problem) -> bytes:
    export = _jax_export()
    (batch,) = export.symbolic_shape("batch")
    given = [jax.ShapeDtypeStruct((batch, problem.state_size), jnp.float32)]
    if policy.timed:
        given.append(jax.ShapeDtypeStruct((batch,), jnp.float32))
    function = jax.jit(lambda *given: jax.vmap(policy)(*given))
    data = bytes(export.export(function, platforms=PLATFORMS)(*given).serialize())
    return data + SEAL + hashlib.sha256(data).digest()


def _run_stablehlo(data: bytes, given: list[np.ndarray]) -> Float[np.ndarray, "batch m"]:
    return np.asarray(_jax_export().deserialize(bytearray(data)).call(*given))


def _check_onnx_installed() -> None:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"ONNX needs the package {error.name}, which is not installed: "
            "pip install 'ilbo[onnx]'."
        ) from error


def _onnx(policy: Policy, problem: Problem) -> bytes:
    from ilbo.export.onnx import convert

    model = convert(jax.vmap(policy), problem.state_size, "policy", _words(problem), policy.timed)
    for value, what in ((model.graph.input[0], "state"), (model.graph.output[0], "action")):
        names = getattr(problem, f"{what}_names")
        value.doc_string = f"[batch, {len(names)}]: {', '.join(names)}"
    return model.SerializeToString()


def _words(problem: Problem) -> dict[str, str]:
    """What the numbers are, as the metadata of a file; lists as JSON."""
    lists = ("state_names", "state_units", "action_names", "action_units")
    return {
        "ilbo": __version__,
        "problem": problem.name,
        **{name: json.dumps(getattr(problem, name), ensure_ascii=False) for name in lists},
    }


def _run_onnx(data: bytes, given: list[np.ndarray]) -> Float[np.ndarray, "batch m"]:
    import onnxruntime

    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, dict(zip(("state", "time"), given, strict=False)))[0])


def _check(
    kind: str, wanted: Float[np.ndarray, "batch m"], got: Float[np.ndarray, "batch m"]
) -> float:
    """The largest difference, or an error where it is too large to be rounding."""
    difference = float(np.max(np.abs(got - wanted)))
    scale = max(1.0, float(np.max(np.abs(wanted))))
    if not difference <= TOLERANCE * scale:
        raise UserError(
            f"The {kind} file does not do what the policy does (an action differs by "
            f"{difference:.3g}) and was not written."
        )
    return difference
