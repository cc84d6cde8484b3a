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
from ilbo.mdp.widened import widened
from ilbo.nn.components import Components, mixings
from ilbo.nn.mlp import MLP
from ilbo.nn.policy import Layers, Maker, Policy, Scaling, shape_of
from ilbo.nn.shared import SharedLayers, SharedNetwork
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
    shared = isinstance(network, SharedNetwork)
    layered = network.network if isinstance(network, AroundPlan) else network
    own = not isinstance(layered, MLP | SharedNetwork)
    layers = [] if own or shared else layered.sizes
    learnt = eqx.filter(network, eqx.is_inexact_array)
    arrays = {f"network.{name}": leaf for name, leaf in named_leaves(learnt).items()}
    arrays |= {f"scaling.{name}": leaf for name, leaf in named_leaves(policy.scaling).items()}
    content = {**target, "layers": layers, **({"network": "python"} if own else {})}
    if policy.timed:
        content["horizon"] = policy.horizon
    if shared and policy.components is not None:
        whole = None if network.whole is None else network.whole.sizes
        content["shared"] = {"layers": network.each.sizes, "whole": whole}
        arrays |= {f"components.{name}": leaf for name, leaf in _kept(policy.components).items()}
    if policy.sees_return or policy.sees_drawn:
        extra = len(policy.scaling.center) - len(target["problem"]["states"])
        content["sees"] = {"return": policy.sees_return, "drawn": extra - policy.sees_return}
    arrayfile.write(path, "policy", content, {k: np.asarray(v) for k, v in arrays.items()})


def read_policy(
    path: str | Path,
    problem: Problem | None = None,
    make: Maker | None = None,
    *,
    of_same_sizes: bool = False,
) -> Policy:
    """`load_policy` for policy files and run folders only; `of_same_sizes`, for a problem that may
    be any other with as many states and actions.

    A policy that goes anywhere may be given any problem of its model.
    """
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
    sight = header.get("sees", {"return": False, "drawn": 0})
    sees_return, drawn = sight["return"], sight["drawn"]
    states += sees_return + drawn
    blank = jax.eval_shape(lambda: Scaling(*jnp.zeros((2, states), jnp.float32)))
    try:
        scaling = fill(blank, arrays, "scaling.")
        parts = None
        inputs = states + (horizon is not None)
        plain: Maker
        if "shared" in header:
            parts = _components(arrays, np.asarray(scaling.half, np.float64))
            inputs, plain = parts.inputs, _shared_layers(header["shared"])
        elif horizon is None:
            plain = Layers(tuple(layers))
        else:
            plain = TimedLayers(tuple(layers), horizon)
        network = fill(shape_of(make or plain, inputs, actions), arrays, "network.")
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{str(path)!r} does not hold a policy that makes sense: {error}."
        ) from None

    def policy(bounds: Any) -> Policy:
        return Policy(network, scaling, bounds, horizon, parts, sees_return, drawn > 0)

    if problem is not None and policy(problem.model).goes_anywhere:
        return policy(problem.model).on(problem)
    if problem is not None and of_same_sizes:
        if (states, actions) != (problem.state_size, problem.action_size) or sees_return or drawn:
            raise UserError(
                f"The policy {str(path)!r} is for {states} states and {actions} actions; "
                f"{problem.name} has {problem.state_size} and {problem.action_size}."
            )
        return policy(problem.model)
    if problem is not None:
        check_same(described, problem, f"The policy {str(path)!r}")
    elif bounds is None:
        problem = rebuild(described)
    if problem is None:
        knows: Any = bounds
    else:
        if drawn and (problem.uncertain is None or problem.uncertain.size != drawn):
            raise UserError(
                f"The policy {str(path)!r} sees {drawn} uncertain parameters, and {problem.name} "
                "has not as many: give it those that it was trained with."
            )
        knows = widened(problem, problem.uncertain if drawn else None, sees_return).model
    return policy(knows)


def _kept(parts: Components) -> dict[str, Any]:
    """What is written of components; the mixing, which is large, follows from the rest."""
    return {name: leaf for name, leaf in named_leaves(parts).items() if name != "mixing"}


def _components(arrays: dict[str, np.ndarray], half: np.ndarray) -> Components:
    """What `_kept` gave; a `ValueError` where that makes no sense."""
    acts, figures, middle, spread = (
        arrays.get(f"components.{name}", np.empty(0))
        for name in ("acts", "figures", "middle", "spread")
    )
    n, floats = len(half), (figures, middle, spread)
    if acts.shape != (n, n) or figures.ndim != 2 or len(figures) != n or acts.dtype != bool:
        raise ValueError("what it says of the components does not fit its states")
    if middle.shape != spread.shape or any(x.dtype != np.float32 for x in floats):
        raise ValueError("what it says of the components' figures makes no sense")
    return Components.built(acts, mixings(acts, half), *floats)


def _shared_layers(given: Any) -> SharedLayers:
    each, whole = given["layers"], given["whole"]
    if not _are_sizes(each) or not (whole is None or _are_sizes(whole)):
        raise ValueError("its layers are not a list of sizes")
    return SharedLayers(tuple(each), None if whole is None else tuple(whole))


def _are_sizes(layers: Any) -> bool:
    return isinstance(layers, list) and all(type(x) is int and 0 < x < 2**31 for x in layers)


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
    if not _are_sizes(layers):
        raise ValueError("its layers are not a list of sizes")
    horizon = header.get("horizon")
    if horizon is not None and not (type(horizon) is int and 0 < horizon < 2**31):
        raise ValueError("its horizon is not a number of steps")
    sees = header.get("sees", {"return": False, "drawn": 0})
    if type(sees["return"]) is not bool or type(sees["drawn"]) is not int:
        raise ValueError("it does not say what it sees")
    if not 0 <= sees["drawn"] < 2**31:
        raise ValueError("it does not say what it sees")
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
