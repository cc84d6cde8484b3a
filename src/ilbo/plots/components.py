"""Any problem: one small panel for each component of the state and of the action that varies, and
for each further quantity that the model lets be observed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from ilbo.errors import UserError
from ilbo.mdp.shapes import Action, State
from ilbo.plots.canvas import (
    BLUE,
    GREEN,
    ORANGE,
    band,
    band_handles,
    dress,
    heading,
    legend_below,
    new_figure,
    quantiles,
    thousands,
)
from ilbo.plots.grid import MOST, columns_for

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ilbo.mdp.problem import Problem
    from ilbo.mdp.simulate import PolicyFunction, Trajectories


FEW = 9
"""Panels that make one block, whatever their kinds."""


@dataclass(frozen=True)
class _Kind:
    """Components that are drawn alike."""

    what: str
    levels: Float[np.ndarray, "5 steps k"]
    names: tuple[str, ...]
    units: tuple[str, ...]
    color: str
    style: dict[str, str]

    @property
    def varying(self) -> list[int]:
        """The components that are not one number throughout."""
        known = np.isfinite(self.levels)
        highest = np.where(known, self.levels, -np.inf).max(axis=(0, 1))
        lowest = np.where(known, self.levels, np.inf).min(axis=(0, 1))
        size = np.maximum(np.abs(highest), np.abs(lowest))
        return [int(i) for i in np.flatnonzero(highest - lowest > 1e-6 * size)]


def draw(
    problem: Problem, policy: PolicyFunction, simulated: Trajectories, title: str | None
) -> Figure:
    kinds = _kinds(problem, simulated)
    varying = [kind.varying for kind in kinds]
    if not any(varying):
        varying = [list(range(len(kind.names))) for kind in kinds]
    shown = [places[:MOST] for places in varying]
    panels = [(kind, i) for kind, places in zip(kinds, shown, strict=True) for i in places]
    if len(panels) <= FEW:  # one after the other
        columns, blocks = _columns_for_few(len(panels)), [panels]
    else:  # each kind begins a row
        columns = max(columns_for(len(places)) for places in shown if places)
        blocks = [[panel for panel in panels if panel[0] is kind] for kind in kinds]
    rows = [-(-len(block) // columns) for block in blocks]
    figure = new_figure(max(5.4, 2.5 * columns + 0.4), 1.6 * sum(rows) + 0.9)
    heading(figure, title, f"{problem.name}: states and actions{_left_out(kinds, varying, shown)}")
    layout = figure.add_gridspec(sum(rows), columns)
    row = 0
    for block, height in zip(blocks, rows, strict=True):
        for place, (kind, i) in enumerate(block):
            down, across = divmod(place, columns)
            ax = figure.add_subplot(layout[row + down, across])
            lowest = place + columns >= len(block)
            dress(ax, kind.names[i], "step" if lowest else "", kind.units[i])
            steps = np.arange(kind.levels.shape[1])
            band(ax, steps, kind.levels[..., i], kind.color, **kind.style)
            ax.set_xlim(0, problem.horizon)
        row += height
    legend_below(figure, band_handles(BLUE))
    return figure


def _columns_for_few(panels: int) -> int:
    if panels <= 4:
        return 2 if panels == 4 else panels
    return min((3, 4), key=lambda columns: -panels % columns)


def _kinds(problem: Problem, simulated: Trajectories) -> list[_Kind]:
    alive = np.asarray(simulated.alive)
    states, actions = np.asarray(simulated.states), np.asarray(simulated.actions)
    stepped = {"drawstyle": "steps-post"}
    names, units = problem.state_names, problem.state_units
    kinds = [_Kind("states", quantiles(states), names, units, BLUE, {})]
    names, units = problem.action_names, problem.action_units
    kinds.append(_Kind("actions", quantiles(actions, alive), names, units, ORANGE, stepped))
    observed = _observed(problem, simulated)
    if observed:
        values = np.stack(list(observed.values()), axis=-1)
        names, units = tuple(observed), ("",) * len(observed)
        kinds.append(_Kind("quantities", quantiles(values, alive), names, units, GREEN, stepped))
    return kinds


def _observed(
    problem: Problem, simulated: Trajectories
) -> dict[str, Float[np.ndarray, "episodes horizon"]]:
    """What the model's `observe` gives at every step."""

    def one(state: State, action: Action, time: Int[Array, ""]) -> dict[str, Array]:
        return problem.exact.at(time).observe(state, action)

    look = jax.jit(jax.vmap(jax.vmap(one), in_axes=(0, 0, None)))
    found = look(simulated.states[:, :-1], simulated.actions, np.arange(problem.horizon))
    for name, values in found.items():
        if values.ndim != 2:
            raise UserError(
                f"{type(problem.exact).__name__}.observe gives {name!r} the shape "
                f"{values.shape[2:]}: each quantity must be a scalar."
            )
    return {name: np.asarray(values, float) for name, values in found.items()}


def _left_out(kinds: list[_Kind], varying: list[list[int]], shown: list[list[int]]) -> str:
    """What has no panel: what never changes, with its value, and what there is no room for."""
    still = [
        f"{kind.names[i]} = {thousands(float(kind.levels[2, 0, i]))}"
        for kind, places in zip(kinds, varying, strict=True)
        for i in range(len(kind.names))
        if i not in places
    ]
    words = []
    if still:
        few = ", ".join(still[:3]) + (f" and {len(still) - 3} more" if len(still) > 3 else "")
        words.append(f"constant: {few}")
    words += [
        f"{len(places) - len(drawn)} more {kind.what} not shown"
        for kind, places, drawn in zip(kinds, varying, shown, strict=True)
        if len(places) > len(drawn)
    ]
    return f" ({'; '.join(words)})" if words else ""
