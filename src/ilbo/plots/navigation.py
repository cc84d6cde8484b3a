"""Navigation: the map, and the distance from the goal."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
from jaxtyping import Float

from ilbo.plots.canvas import (
    BLUE,
    INK,
    MUTED,
    ORANGE,
    PURPLE,
    band,
    band_handles,
    dress,
    heading,
    legend_below,
    new_figure,
    quantiles,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ilbo.builtin.navigation import Navigation
    from ilbo.mdp.problem import Problem
    from ilbo.mdp.simulate import PolicyFunction, Trajectories

SHADES, ARROWS, PATHS = 160, 15, 48


def draw(
    problem: Problem, policy: PolicyFunction, simulated: Trajectories, title: str | None
) -> Figure:
    model = cast("Navigation", problem.model)
    goal, zones = np.asarray(model.goal), np.asarray(model.centers)
    states = np.asarray(simulated.states)
    figure = new_figure(9.2, 4.9)
    heading(figure, title, f"{problem.name}: paths from the start and the policy's moves")
    left, right = figure.subplots(1, 2, width_ratios=(1.1, 1))
    dress(left, "arrows: the policy's moves; shaded: they come out shorter", "x", "y")
    _map(left, model, policy, states, goal, zones)
    dress(right, "distance from the goal", "step", "distance")
    distance = quantiles(np.linalg.norm(states - goal, axis=-1)[..., None])
    band(right, np.arange(distance.shape[1]), distance[..., 0], BLUE)
    right.set_ylim(0, None)
    handles, _ = left.get_legend_handles_labels()
    legend_below(figure, [*handles, *band_handles(BLUE)])
    return figure


def _map(
    ax: Axes,
    model: Navigation,
    policy: PolicyFunction,
    states: Float[np.ndarray, "episodes steps 2"],
    goal: Float[np.ndarray, " 2"],
    zones: Float[np.ndarray, "zones 2"],
) -> None:
    low, high = _extent(states, goal, zones)
    ax.set_xlim(low[0], high[0])
    ax.set_ylim(low[1], high[1])
    ax.grid(False)
    ax.imshow(
        _shade(model, low, high),
        extent=(low[0], high[0], low[1], high[1]),
        origin="lower",
        aspect="equal",
        interpolation="bilinear",
        zorder=0,
    )
    at, moves = _moves(model, policy, low, high)
    ax.quiver(
        *at.T,
        *moves.T,
        color=MUTED,
        alpha=0.55,
        angles="xy",
        width=0.0028,
        zorder=1,
        scale_units="xy",
        scale=1.55 * (ARROWS - 1) / (high - low).max(),
        pivot="mid",
    )
    for path in states[:PATHS]:
        ax.plot(*path.T, color=BLUE, lw=0.8, alpha=0.45, zorder=2)
    ax.plot([], [], color=BLUE, lw=1.2, label="path")
    ax.plot(*states[0, 0], "o", color=INK, ms=6, zorder=4, label="start", ls="")
    ax.plot(*goal, "*", color=ORANGE, mec=INK, mew=0.6, ms=14, zorder=4, label="goal", ls="")
    ax.plot(*zones.T, "X", color=PURPLE, mec=INK, mew=0.5, ms=7, zorder=3, label="zone", ls="")


def _extent(
    states: Float[np.ndarray, "episodes steps 2"],
    goal: Float[np.ndarray, " 2"],
    zones: Float[np.ndarray, "zones 2"],
) -> tuple[Float[np.ndarray, " 2"], Float[np.ndarray, " 2"]]:
    """A square that holds paths, goal and zones."""
    points = np.concatenate([states.reshape(-1, 2), goal[None], zones])
    low, high = points.min(axis=0), points.max(axis=0)
    middle, half = (low + high) / 2, (high - low).max() / 2 * 1.12
    return middle - half, middle + half


def _grid(
    low: Float[np.ndarray, " 2"], high: Float[np.ndarray, " 2"], count: int
) -> Float[np.ndarray, "points 2"]:
    x, y = (
        np.linspace(low[i], high[i], count + 1)[:-1] + (high - low)[i] / count / 2 for i in range(2)
    )
    return np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)


def _shade(
    model: Navigation, low: Float[np.ndarray, " 2"], high: Float[np.ndarray, " 2"]
) -> Float[np.ndarray, "shades shades 4"]:
    """Purple, the more opaque the less of a move is left."""
    import jax
    import jax.numpy as jnp
    from matplotlib.colors import to_rgb

    at = jnp.asarray(_grid(low, high, SHADES), jnp.float32)
    left = np.asarray(jax.jit(jax.vmap(model.deceleration))(at)).reshape(SHADES, SHADES)
    picture = np.empty((SHADES, SHADES, 4))
    picture[..., :3] = to_rgb(PURPLE)
    picture[..., 3] = 1.0 * (1 - np.clip(left, 0, 1))
    return picture


def _moves(
    model: Navigation,
    policy: PolicyFunction,
    low: Float[np.ndarray, " 2"],
    high: Float[np.ndarray, " 2"],
) -> tuple[Float[np.ndarray, "arrows 2"], Float[np.ndarray, "arrows 2"]]:
    """Where arrows stand, and the policy's moves there, clipped into the bounds."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    from ilbo.mdp.simulate import act

    at = jnp.asarray(_grid(low, high, ARROWS), jnp.float32)
    moves = eqx.filter_jit(act)(model, policy, at, jax.random.key(0), jnp.array(0))
    return np.asarray(at), np.asarray(moves)
