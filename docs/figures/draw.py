"""Draws the pictures of the documentation: `python docs/figures/draw.py [NAME ...]`.

Names are minorise, window, scale, clock, and those of problems, whose policies are trained for it.
"""

import json
import re
import sys
from pathlib import Path

import numpy as np

from ilbo.plots.canvas import (
    BLUE,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    RED,
    dress,
    legend_below,
    new_figure,
    save,
)

FOLDER = Path(__file__).parent
RESULTS = FOLDER.parent / "results"
CYCLE = (BLUE, ORANGE, GREEN)
EPISODES = {"navigation-3": 200, "hvac-6": 200, "reservoir-20": 500}


def minorise() -> None:
    """The objective of a small MDP along one parameter, and the bounds at successive policies."""
    import jax
    import jax.numpy as jnp

    from ilbo import theory

    where = jnp.array([0.0, 0.5, 1.0])

    mdp = theory.FiniteMDP(
        T=lambda s, a: jax.nn.softmax(2 * where * a[0]),
        r=lambda s, a: 0.3 + 3 * where[s] * jnp.exp(-0.25 * a[0] ** 2),
        b0=[1.0, 0.0, 0.0],
        bounds=(-3.0, 4.0),
        gamma=0.8,
    )

    def everywhere(x):
        return np.full((3, 1), x)

    grid = np.linspace(-3.0, 4.0, 281)
    objective = [float(theory.objective(mdp, everywhere(x))) for x in grid]
    figure = new_figure(6.4, 3.7)
    ax = figure.subplots()
    dress(ax, "", "θ: the action, the same in every state", "expected discounted return")
    ax.plot(grid, objective, color=INK, lw=2, label="J(θ)")
    x = -2.0
    for m, color in enumerate((BLUE, GREEN, ORANGE)):
        bound = theory.bound(mdp, everywhere(x))
        values = np.array([bound(everywhere(y)) for y in grid])
        ax.plot(grid, values, color=color, lw=1.5, label=f"Ĵ(θ; θ{'⁰¹²'[m]})")
        ax.plot(x, theory.objective(mdp, everywhere(x)), "o", color=color, ms=6)
        x = grid[values.argmax()]
    ax.plot(x, theory.objective(mdp, everywhere(x)), "o", color=RED, ms=6, label="θ³")
    ax.set_ylim(min(objective) - 1.0, max(objective) + 0.4)
    legend_below(figure, ax.get_legend_handles_labels()[0])
    save(figure, FOLDER / "minorise.png")


def window(counted: int = 4, depth: int = 4) -> None:
    """Which states of a rolled window count, and where the critic takes over."""
    last = counted + depth - 1
    figure = new_figure(7.6, 2.3)
    ax = figure.subplots()
    ax.set_axis_off()
    ax.set_xlim(-0.6, last + 1.2)
    ax.set_ylim(-1.25, 1.35)
    for i in range(last):
        ax.annotate(
            "", (i + 0.83, 0), (i + 0.17, 0), arrowprops={"arrowstyle": "->", "color": MUTED}
        )
        ax.text(i + 0.5, 0.14, f"ξ{subscript(i + 1)}", ha="center", color=MUTED, fontsize=9)
    for i in range(last + 1):
        filled = i < counted
        ax.plot(
            i,
            0,
            "o",
            ms=15,
            mec=BLUE if filled else MUTED,
            color=BLUE if filled else "white",
            mew=1.4,
        )
        ax.text(i, -0.5, f"s{subscript(i)}", ha="center", color=INK, fontsize=10)
    ax.plot(last, 0, "o", ms=15, mec=ORANGE, color=ORANGE)
    span(
        ax,
        0,
        counted - 1,
        0.62,
        f"window = {counted}: each of these states gives its gradient",
        BLUE,
    )
    span(ax, counted - 1, last, -0.85, f"depth = {depth}: at least so many steps ahead", MUTED)
    ax.text(last + 0.28, 0, "critic:\nV(s)", va="center", color=ORANGE, fontsize=10)
    save(figure, FOLDER / "window.png")


def span(ax, low: float, high: float, y: float, words: str, color: str) -> None:
    ax.annotate(
        "", (high + 0.2, y), (low - 0.2, y), arrowprops={"arrowstyle": "<->", "color": color}
    )
    above = y > 0
    ax.text(
        (low + high) / 2,
        y + (0.1 if above else -0.1),
        words,
        ha="center",
        va="bottom" if above else "top",
        color=color,
        fontsize=9.5,
    )


def subscript(number: int) -> str:
    return str(number).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))


def scale() -> None:
    """Time per step and memory against problem size, from the files of benchmarks/scale.py."""
    files = sorted(RESULTS.glob("scale_*.jsonl"))
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    sizes = {
        "seeds": ("seeds", lambda row: row["seeds"]),
        "reservoirs": ("reservoirs", lambda row: int(re.search(r"\d+", row["problem"])[0])),
        "widths": ("units in each of two layers", lambda row: row["layers"][0]),
        "parallel": ("parallel episodes", lambda row: row["parallel"]),
    }
    figure = new_figure(10.4, 2.9)
    for ax, (varied, (label, size)) in zip(figure.subplots(1, 4), sizes.items(), strict=True):
        chosen = [row for row in rows if row["varied"] == varied]
        device = ", ".join(sorted({row["device"] for row in chosen}))
        x = [size(row) for row in chosen]
        dress(ax, device, label, "relative to the first" if varied == "seeds" else "")
        for field, color, name in (
            ("step_us", BLUE, "time per step"),
            ("peak_mib", ORANGE, "memory"),
        ):
            values = np.array([row[field] for row in chosen])
            ax.plot(x, values / values[0], "o-", color=color, ms=4, lw=1.5, label=name)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_ylim(0.5, 500)
        ax.set_xticks(x, [f"{value:,}" for value in x])
        ax.set_yticks((1, 10, 100), ("1", "10", "100"))
        ax.minorticks_off()
    legend_below(figure, ax.get_legend_handles_labels()[0])
    save(figure, FOLDER / "scale.png")


def clock() -> None:
    """Cost against seconds, from the file of benchmarks/clock.py."""
    from ilbo.experiments.drawing import cost_axis, round_ticks

    rows = [json.loads(line) for line in (RESULTS / "clock.jsonl").read_text().splitlines()]
    figure = new_figure(6.8, 3.6)
    ax = figure.subplots()
    colors = dict(zip(dict.fromkeys(row["planner"] for row in rows), CYCLE, strict=False))
    for row in rows:
        label = row["planner"] if row["seed"] == 0 else None
        costs = -np.array(row["current"])
        ax.plot(row["seconds"], costs, color=colors[row["planner"]], lw=1.3, label=label)
    seconds = [s for row in rows for s in (row["seconds"][0], row["seconds"][-1])]
    dress(ax, "", "seconds, compilation included", f"total cost on {rows[0]['problem']}")
    cost_axis(ax, [-value for row in rows for value in row["current"]])
    ax.set_xscale("log")
    ax.minorticks_off()
    ticks = round_ticks(min(seconds), max(seconds))
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    legend_below(figure, ax.get_legend_handles_labels()[0])
    save(figure, FOLDER / "clock.png")


def trained(name: str) -> None:
    """Learning curve and trajectories of a problem, with the default settings."""
    import ilbo
    from ilbo import plots

    problem = ilbo.make(name)
    plan = ilbo.plan(problem, ilbo.ILBO(evaluate_every=10), episodes=EPISODES[name])
    curve = f"{name}: {EPISODES[name]} episodes with the default settings"
    plots.learning_curve(plan.history, FOLDER / f"{name}-curve.png", title=curve)
    plots.trajectories(problem, plan.policy, FOLDER / f"{name}.png")


if __name__ == "__main__":
    drawn = {"minorise": minorise, "window": window, "scale": scale, "clock": clock}
    for name in sys.argv[1:] or [*drawn, *EPISODES]:
        drawn[name]() if name in drawn else trained(name)
