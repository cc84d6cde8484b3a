"""Training that begins with an earlier policy."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ilbo.errors import UserError
from ilbo.nn.mlp import MLP
from ilbo.nn.parameters import pack
from ilbo.nn.policy import Policy, Scaling
from ilbo.nn.timed import AroundPlan
from ilbo.planning.loop import Hook, Start
from ilbo.planning.planner import Planner, Seeds, SeedState


class WarmStart(Hook):
    """Has all seeds begin with the network of a policy; all else begins anew, the critic among it.

    The problem may be another one of the same sizes. Where its region is another, the first layer
    is adapted, so that the network is the same function of the state.
    """

    def __init__(self, policy: Policy):
        self.policy = policy

    def begin(self, planner: Planner) -> Start:
        fresh = planner.start()
        (wanted, *_), _ = planner.policies(fresh)
        check_fits(self.policy, wanted)
        parameters = pack(rescaled(self.policy, wanted.scaling))
        return Start(_with_policy(fresh, parameters))


def check_fits(policy: Policy, wanted: Policy) -> None:
    """Raises unless the networks have the same form."""
    form, own = (_form(part.network) for part in (wanted, policy))
    if form == own:
        if _figures(policy) == _figures(wanted):
            return
        raise UserError(
            "The policy to begin with knows components of another size than the run's: it can be "
            "used on the problem as it is, and begin runs on its own one."
        )
    if policy.timed != wanted.timed:
        which = "sees" if policy.timed else "does not see"
        setting = "time-left" if policy.timed else "state"
        raise UserError(
            f"The policy to begin with {which} the time left, unlike the run's: give the run the "
            f"same, --policy {setting}."
        )
    networks = policy.network, wanted.network
    if all(isinstance(network, MLP) for network in networks):
        theirs, ours = (network.sizes for network in networks)
        if theirs != ours:
            sizes = " ".join(map(str, theirs))
            raise UserError(
                f"The policy to begin with has the hidden layers {sizes}, and the run "
                f"{' '.join(map(str, ours))}: give the run the same, --layers {sizes}."
            )
    raise UserError(
        "The policy to begin with has a network of another form than the run's: it must be for as "
        "many states and actions, and made by the same settings."
    )


def rescaled(policy: Policy, scaling: Scaling) -> Any:
    """The network for states that are scaled so, the same function of the state as it was."""
    network, old = policy.network, policy.scaling
    same = jax.tree.map(lambda a, b: bool(np.array_equal(a, b)), old, scaling)
    inner = _inner(network)
    if all(jax.tree.leaves(same)) or not isinstance(inner, MLP):
        return network
    first, states = inner.hidden[0].dense, len(old.center)
    rows = first.weight[:states]
    shift = (scaling.center - old.center) / old.half
    weight = first.weight.at[:states].set(rows * (scaling.half / old.half)[:, None])
    changed = (weight, first.bias + shift @ rows)
    return eqx.tree_at(
        lambda n: (_inner(n).hidden[0].dense.weight, _inner(n).hidden[0].dense.bias),
        network,
        changed,
    )


def _inner(network: Any) -> Any:
    """The network behind a plan, which sees the state in its first inputs."""
    return network.network if isinstance(network, AroundPlan) else network


def _with_policy(seeds: Seeds, parameters: Any) -> Seeds:
    if isinstance(seeds, SeedState):
        return _place(seeds, parameters)
    return [_place(seed, parameters) for seed in seeds]


def _place(seed: SeedState, parameters: Any) -> SeedState:
    """The seed, or several stacked, with the parameters wherever those of a policy stand."""

    def parts(seed: SeedState) -> tuple[Any, ...]:
        held, best = (getattr(part, "theta", part) for part in (seed.held, seed.best_policy))
        return seed.state.policy, seed.state.slow_policy, held, best

    def like(leaf: Any, new: Any) -> Any:
        # A copy for each place: training uses up the arrays that it is given.
        copy = jnp.array(np.broadcast_to(np.asarray(new), leaf.shape), leaf.dtype)
        # One that is bound to a device without need would have the program compiled again.
        return jax.device_put(copy, leaf.sharding) if leaf.committed else copy

    places = parts(seed)
    return eqx.tree_at(parts, seed, tuple(jax.tree.map(like, p, parameters) for p in places))


def _figures(policy: Policy) -> Any:
    """The scale of what the policy sees of the model, where it does."""
    parts = policy.components
    return parts and [np.asarray(x).tolist() for x in (parts.middle, parts.spread)]


def _form(network: Any) -> Any:
    arrays = eqx.filter(network, eqx.is_inexact_array)
    return [leaf.shape for leaf in jax.tree.leaves(arrays)]
