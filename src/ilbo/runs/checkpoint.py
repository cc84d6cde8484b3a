"""Training runs on disk between two segments: everything that going on bit for bit needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ilbo.errors import UserError
from ilbo.planning.planner import Planner, Run
from ilbo.registry.identity import digest
from ilbo.storage import arrays as arrayfile
from ilbo.storage.trees import named_leaves

_ROWS = "state.store.rows."
LAYOUT = 3
"""What runs consist of, and how: in another order, parameters of the same shapes mean nothing."""


@dataclass(frozen=True)
class Checkpoint:
    """Runs after a number of episodes."""

    runs: list[Run] | Run
    episode: int
    seconds: float
    """Time that planning has taken so far, over all sessions."""
    compile_seconds: float


def save(path: Path, planner: Planner, checkpoint: Checkpoint) -> None:
    """Writes the runs; of the store only the part that is filled."""
    arrays = {}
    for seed, run in zip(planner.seeds, planner.split(checkpoint.runs), strict=True):
        held = min(int(run.state.store.count), run.state.store.capacity)
        for name, leaf in named_leaves(run).items():
            data = np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
            arrays[f"{seed}.{name}"] = data[:held] if name.startswith(_ROWS) else data
    content = {
        "layout": LAYOUT,
        "identity": _identity(planner),
        "episode": checkpoint.episode,
        "seconds": checkpoint.seconds,
        "compile_seconds": checkpoint.compile_seconds,
    }
    arrayfile.write(path, "checkpoint", content, arrays)


def load(path: Path, planner: Planner) -> Checkpoint:
    """The runs as they were saved; the planner must be the one that saved them."""
    try:
        header, arrays = arrayfile.read(path, "checkpoint")
    except UserError as error:
        raise UserError(f"{error} The run must start again, with --overwrite.") from None
    if header.get("layout") != LAYOUT:
        raise UserError(
            f"{str(path)!r} is of another version of ilbo, whose runs this one cannot go on with: "
            "start again with --overwrite."
        )
    written, wanted = header.get("identity"), _identity(planner)
    if isinstance(written, dict):
        written = {"digest": wanted["digest"], **written}  # which older ones do not have
        if written["digest"] != wanted["digest"]:
            raise UserError(
                f"{str(path)!r} was written for another problem of the name "
                f"{planner.problem.name!r}, which has changed since: undo the change, or start "
                "again with --overwrite."
            )
    if written != wanted:
        raise UserError(
            f"{str(path)!r} was written with other settings than those of the run folder: "
            "undo the change of its config.toml, or start again with --overwrite."
        )
    fresh = planner.start()
    try:
        runs = [
            _restore(run, arrays, f"{seed}.")
            for seed, run in zip(planner.seeds, planner.split(fresh), strict=True)
        ]
        episode = int(header["episode"])
        seconds, compiling = float(header["seconds"]), float(header["compile_seconds"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{str(path)!r} does not fit this version of ilbo ({error}): "
            "start again with --overwrite."
        ) from None
    return Checkpoint(_like(fresh, runs), episode, seconds, compiling)


def _identity(planner: Planner) -> dict[str, Any]:
    config = {**planner.config.to_dict(), "episodes": planner.episodes}
    config["layers"] = list(config["layers"])
    return {
        "problem": planner.problem.name,
        "digest": digest(planner.problem),
        "seeds": list(planner.seeds),
        "config": config,
    }


def _restore(template: Run, arrays: dict[str, np.ndarray], prefix: str) -> Run:
    leaves = []
    for name, wanted in named_leaves(template).items():
        array = arrays[prefix + name]
        if name.startswith(_ROWS):
            array = _padded(array, wanted.shape[0])
        if _is_key(wanted):
            leaf = jax.random.wrap_key_data(jnp.array(array), impl=jax.random.key_impl(wanted))
        else:
            leaf = jnp.array(array)
        if leaf.shape != wanted.shape or leaf.dtype != wanted.dtype:
            raise ValueError(f"{name} has another shape or type")
        leaves.append(leaf)
    return jax.tree.unflatten(jax.tree.structure(template), leaves)


def _padded(array: np.ndarray, capacity: int) -> np.ndarray:
    whole = np.zeros((capacity, *array.shape[1:]), array.dtype)
    whole[: len(array)] = array
    return whole


def _like(fresh: list[Run] | Run, runs: Sequence[Run]) -> list[Run] | Run:
    """The runs as a list or stacked and spread over devices, as the planner starts them."""
    if not isinstance(fresh, Run):
        return list(runs)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *runs)
    arrays, rest = eqx.partition(stacked, eqx.is_array)
    shardings = jax.tree.map(lambda leaf: leaf.sharding, eqx.filter(fresh, eqx.is_array))
    return eqx.combine(jax.device_put(arrays, shardings), rest)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
