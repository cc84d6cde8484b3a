"""Training between two segments on disk: everything that going on bit for bit needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ilbo.errors import UserError
from ilbo.nn.critic import Critic
from ilbo.planning.ilbo import ILBOTrainer
from ilbo.planning.loop import Moment, Start
from ilbo.planning.planner import Planner, Seeds, SeedState
from ilbo.planning.store import Store
from ilbo.registry.identity import digest
from ilbo.storage import arrays as arrayfile
from ilbo.storage.trees import fill, named_leaves

LAYOUT = 5
"""What a seed's state consists of, and how: in another order, arrays of the same shapes mean
nothing."""


def save(path: Path, moment: Moment) -> None:
    """Writes all seeds; of a store only the part that is filled."""
    planner, arrays = moment.planner, {}
    for number, seed in zip(planner.seeds, planner.split(moment.seeds), strict=True):
        for name, leaf in named_leaves(_map_stores(Store.saved, seed)).items():
            data = jax.random.key_data(leaf) if _is_key(leaf) else leaf
            arrays[f"{number}.{name}"] = np.asarray(data)
    content = {
        "layout": LAYOUT,
        "identity": _identity(planner),
        "episode": moment.episode,
        "seconds": moment.clock.seconds,
        "compile_seconds": moment.clock.compile_seconds,
        "finished": moment.ending == "finished",
    }
    arrayfile.write(path, "checkpoint", content, arrays, compress=True)


def restore(path: Path, planner: Planner) -> Start:
    """The seeds as they were saved; the planner must be like the one that saved them."""
    try:
        header, arrays = arrayfile.read(path, "checkpoint")
    except UserError as error:
        raise UserError(f"{error} The run must start again, with --overwrite.") from None
    if header.get("layout") != LAYOUT:
        raise UserError(
            f"{str(path)!r} is of another version of ilbo, whose runs this one cannot go on with: "
            "start again with --overwrite."
        )
    written, wanted = _without_length(header.get("identity")), _without_length(_identity(planner))
    if isinstance(written, dict) and written.get("digest") != wanted["digest"]:
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
        seeds = [
            _restore(seed, arrays, f"{number}.")
            for number, seed in zip(planner.seeds, planner.split(fresh), strict=True)
        ]
        return Start(
            _like(fresh, seeds),
            episode=int(header["episode"]),
            seconds=float(header["seconds"]),
            compile_seconds=float(header["compile_seconds"]),
            # A run that was made longer since has not finished.
            finished=header.get("finished") is True and header["identity"] == _identity(planner),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{str(path)!r} does not fit this version of ilbo ({error}): "
            "start again with --overwrite."
        ) from None


def read_critic(path: Path, trainer: ILBOTrainer, seed: int) -> tuple[Critic, float]:
    """The slow critic of a seed, and what its values are multiplied by to be rewards."""
    _, arrays = arrayfile.read(path, "checkpoint")
    key = jax.random.key(0)
    shape = eqx.filter_eval_shape(lambda: trainer.networks.init(key, key)[1])
    try:
        parameters = fill(shape, arrays, f"{seed}.state.slow_critic.")
        scale = float(arrays[f"{seed}.state.reward_scale"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{str(path)!r} holds no critic of this run ({error}).") from None
    return trainer.networks.critic(parameters), scale * trainer.unit


def _identity(planner: Planner) -> dict[str, Any]:
    config = {**planner.config.to_dict(), "episodes": planner.episodes}
    identity: dict[str, Any] = {
        "problem": planner.problem.name,
        "digest": digest(planner.problem),
        "seeds": list(planner.seeds),
        "config": config,
    }
    if planner.problem.limits:
        identity["limits"] = [str(limit) for limit in planner.problem.limits]
    return json.loads(json.dumps(identity))  # lists for tuples, as a file has them


def _without_length(identity: Any) -> Any:
    """A run may be made longer as it goes: schedules stretch, and all else stays."""
    if not isinstance(identity, dict) or not isinstance(identity.get("config"), dict):
        return identity
    config = {k: v for k, v in identity["config"].items() if k not in ("episodes", "seconds")}
    return {**identity, "config": config}


def _is_store(node: Any) -> bool:
    return isinstance(node, Store)


def _map_stores(function: Callable[[Store], Any], tree: Any) -> Any:
    """The tree with a function applied to each store in it."""

    def one(node: Any) -> Any:
        return function(node) if _is_store(node) else node

    return jax.tree.map(one, tree, is_leaf=_is_store)


def _restore(template: SeedState, arrays: dict[str, np.ndarray], prefix: str) -> SeedState:
    """The state with its arrays taken by name, in the types and shapes of the template."""
    form = _map_stores(Store.saved, template)
    named = [arrays[prefix + name] for name in named_leaves(form)]
    saved = jax.tree.unflatten(jax.tree.structure(form), named)
    return jax.tree.map(_like_leaf, template, saved, is_leaf=_is_store)


def _like_leaf(wanted: Any, saved: Any) -> Any:
    if isinstance(wanted, Store):
        return wanted.restored(saved)
    if _is_key(wanted):
        leaf = jax.random.wrap_key_data(jnp.array(saved), impl=jax.random.key_impl(wanted))
    else:
        leaf = jnp.array(saved)
    if leaf.shape != wanted.shape or leaf.dtype != wanted.dtype:
        raise ValueError("an array has another shape or type")
    return leaf


def _like(fresh: Seeds, seeds: Sequence[SeedState]) -> Seeds:
    """The seeds as a list or stacked and spread over devices, as the planner starts them."""
    if not isinstance(fresh, SeedState):
        return list(seeds)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *seeds)
    arrays, rest = eqx.partition(stacked, eqx.is_array)
    shardings = jax.tree.map(lambda leaf: leaf.sharding, eqx.filter(fresh, eqx.is_array))
    return eqx.combine(jax.device_put(arrays, shardings), rest)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
