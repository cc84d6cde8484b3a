"""Policies on disk: the network's arrays and what is needed to use them (`ilbo.storage.arrays`)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ilbo.errors import UserError
from ilbo.forks import check_not_forked
from ilbo.mdp.bounds import FixedBounds, bounds_are_fixed
from ilbo.mdp.problem import Problem
from ilbo.nn.mlp import MLP
from ilbo.nn.policy import Layers, Maker, Policy, Scaling, shape_of
from ilbo.nn.timed import AroundPlan, TimedLayers
from ilbo.registry.identity import check_description, check_same, describe, rebuild
from ilbo.storage import arrays as arrayfile
from ilbo.storage.trees import fill, named_leaves

SUFFIX = ".ilbo"
FINAL, BEST = f"policy{SUFFIX}", f"best{SUFFIX}"


def save_policy(policy: Policy, path: str | Path, problem: Problem) -> None:
    """Writes a policy for the problem; the file is whole or not there at all.

    Args:
        policy: As planning returns it.
        path: File to write.
        problem: What it is for. A problem of ilbo's own or from RDDL is written along, so that
            `load_policy` needs the file alone.
    """
    write_policy(policy, path, target(problem))


def target(problem: Problem) -> dict[str, Any]:
    """What the header of a policy file says about the problem."""
    return {"problem": describe(problem), "bounds": _describe_bounds(problem)}


def write_policy(policy: Policy, path: str | Path, target: dict[str, Any]) -> None:
    """`save_policy` for a target that is known already."""
    network = policy.network
    layered = network.network if isinstance(network, AroundPlan) else network
    own = not isinstance(layered, MLP)
    layers = [] if own else [layer.dense.weight.shape[1] for layer in layered.hidden]
    learnt = eqx.filter(network, eqx.is_inexact_array)
    arrays = {f"network.{name}": leaf for name, leaf in named_leaves(learnt).items()}
    arrays |= {f"scaling.{name}": leaf for name, leaf in named_leaves(policy.scaling).items()}
    content = {**target, "layers": layers, **({"network": "python"} if own else {})}
    if policy.timed:
        content["horizon"] = policy.horizon
    arrayfile.write(path, "policy", content, {k: np.asarray(v) for k, v in arrays.items()})


def read_policy(
    path: str | Path,
    problem: Problem | None = None,
    make: Maker | None = None,
    *,
    of_same_sizes: bool = False,
) -> Policy:
    """`load_policy` for policy files and run folders only; `of_same_sizes`, for a problem that may
    be any other with as many states and actions."""
    check_not_forked()
    path = policy_path(Path(path))
    header, arrays = arrayfile.read(path, "policy")
    described, layers, bounds = _checked(path, header)
    horizon = header.get("horizon")
    if header.get("network") == "python" and make is None:
        raise UserError(
            f"The policy {str(path)!r} has a network of your own: give what makes it, "
            "`ilbo.load_policy(path, policy=...)`."
        )
    states, actions = len(described["states"]), len(described["actions"])
    blank = jax.eval_shape(lambda: Scaling(*jnp.zeros((2, states), jnp.float32)))
    try:
        plain = Layers(tuple(layers)) if horizon is None else TimedLayers(tuple(layers), horizon)
        shape = shape_of(make or plain, states + (horizon is not None), actions)
        network = fill(shape, arrays, "network.")
        scaling = fill(blank, arrays, "scaling.")
    except ValueError as error:
        raise UserError(
            f"{str(path)!r} does not hold a policy that makes sense: {error}."
        ) from None
    if problem is not None and of_same_sizes:
        if (states, actions) != (problem.state_size, problem.action_size):
            raise UserError(
                f"The policy {str(path)!r} is for {states} states and {actions} actions; "
                f"{problem.name} has {problem.state_size} and {problem.action_size}."
            )
        return Policy(network, scaling, problem.model, horizon)
    if problem is not None:
        check_same(described, problem, f"The policy {str(path)!r}")
        return Policy(network, scaling, problem.model, horizon)
    if bounds is not None:
        return Policy(network, scaling, bounds, horizon)
    return Policy(network, scaling, rebuild(described).model, horizon)


def read_header(path: str | Path) -> dict[str, Any]:
    """What a policy file says about itself: problem, layers, bounds."""
    path = policy_path(Path(path))
    header, _ = arrayfile.read(path, "policy")
    _checked(path, header)
    return header


def policy_path(path: Path) -> Path:
    """The policy file meant by a path that may be a run folder."""
    if not os.path.isdir(path):
        return path
    if (path / FINAL).exists():
        return path / FINAL
    seeds = sorted(folder.name for folder in path.glob("seed-*") if (folder / FINAL).exists())
    if seeds:
        raise UserError(
            f"{str(path)!r} holds the policies of {len(seeds)} seeds: name one of them, "
            f"for example {str(path / seeds[0])!r}."
        )
    raise UserError(f"There is no policy in the folder {str(path)!r}.")


def _describe_bounds(problem: Problem) -> dict[str, Any]:
    """The bounds at the problem's own start, and whether they are the same everywhere."""
    low, high = problem.model.at(np.int32(0)).bounds(problem.initial_state)
    return {
        "fixed": bounds_are_fixed(problem),
        "low": [float(x) if np.isfinite(x) else None for x in np.asarray(low)],
        "high": [float(x) if np.isfinite(x) else None for x in np.asarray(high)],
    }


def _checked(
    path: Path, header: dict[str, Any]
) -> tuple[dict[str, Any], list[int], FixedBounds | None]:
    """The problem's description, the layers, and the bounds where they are fixed."""
    try:
        return _parts(header)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise UserError(
            f"{str(path)!r} does not hold a policy that makes sense: {error}."
        ) from None


def _parts(header: dict[str, Any]) -> tuple[dict[str, Any], list[int], FixedBounds | None]:
    described, layers, bounds = header["problem"], header["layers"], header["bounds"]
    check_description(described)
    if not isinstance(layers, list) or not all(type(x) is int and 0 < x < 2**31 for x in layers):
        raise ValueError("its layers are not a list of sizes")
    horizon = header.get("horizon")
    if horizon is not None and not (type(horizon) is int and 0 < horizon < 2**31):
        raise ValueError("its horizon is not a number of steps")
    if len(layers) > len(header["arrays"]):
        raise ValueError("it has fewer arrays than layers")
    if bounds["fixed"] is not True:
        return described, layers, None
    with np.errstate(over="ignore"):
        low = np.array([-np.inf if x is None else float(x) for x in bounds["low"]], np.float32)
        high = np.array([np.inf if x is None else float(x) for x in bounds["high"]], np.float32)
    if not low.shape == high.shape == (len(described["actions"]),):
        raise ValueError("its bounds do not fit its actions")
    return described, layers, FixedBounds(jnp.array(low, jnp.float32), jnp.array(high, jnp.float32))
