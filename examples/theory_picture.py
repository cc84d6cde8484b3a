"""Draws minorise-maximise at work and prints the figures of the page on theory.

    python examples/theory_picture.py [FILE]

Above: the exact objective J of an MDP with six states and one policy parameter, and successive
bounds that touch it from below. Below: how fast the iterations close in on the optimum, and how a
continuous problem's optimum is approached by ever finer grids.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.lines import Line2D

import ilbo
from ilbo import theory
from ilbo.plots.canvas import BLUE, GREEN, INK, MUTED, ORANGE, RED, dress, new_figure, save

DEFAULT_FILE = Path(__file__).parent.parent / "docs" / "figures" / "theory.png"
PLACES = np.linspace(-1.0, 1.0, 6)
START = -0.62
SHIFTS = (0.0, 0.1, 0.5)
COLOURS = (BLUE, GREEN, ORANGE, RED)


def promenade() -> theory.FiniteMDP:
    """Six places on a line; the action is a push. The reward peaks at 0.6; pushing costs."""
    places = jnp.asarray(PLACES)

    def transition(s, a):
        return jax.nn.softmax(-2.5 * (places - 0.5 * places[s] - a[0]) ** 2)

    def reward(s, a):
        return jnp.exp(-3 * (places[s] - 0.6) ** 2 - 0.6 * a[0] ** 2)

    start = np.eye(len(PLACES))[0]
    return theory.FiniteMDP(transition, reward, start, bounds=(-2.0, 2.0), gamma=0.7)


def one_push(theta, s):
    """The policy of the picture: the same push θ everywhere."""
    return theta


class LinearQuadratic(ilbo.Model):
    """s' = 0.95 s + 0.5 a + 0.5 ξ with reward −s² − 0.3 a²: its optimum has a closed form."""

    law = ilbo.Gaussian(1)

    def transition(self, state, action, noise):
        return 0.95 * state + 0.5 * action + 0.5 * noise

    def reward(self, state, action, next_state):
        return -jnp.sum(state**2) - 0.3 * jnp.sum(action**2)

    def bounds(self, state):
        return -3 * jnp.ones(1), 3 * jnp.ones(1)


def linear_quadratic() -> ilbo.Problem:
    return ilbo.Problem(
        LinearQuadratic(),
        name="linear-quadratic",
        initial_state=[1.5],
        horizon=40,
        discount=0.8,
        region=(-3.0, 3.0),
    )


def closed_form() -> tuple[float, float]:
    """Gain K of the optimal action −K s, and the optimal objective, by the Riccati equation."""
    P = 1.0
    for _ in range(1000):
        K = 0.8 * 0.5 * 0.95 * P / (0.3 + 0.8 * 0.25 * P)
        P = 1 + 0.3 * K**2 + 0.8 * P * (0.95 - 0.5 * K) ** 2
    return K, -P * 1.5**2 - 0.8 / 0.2 * P * 0.25


def draw_bounds(ax, mdp, history) -> None:
    """J(θ), and Ĵ(θ; θ^m) of the first iterations, each leading to the next."""

    def table(theta):
        return np.full((mdp.states, 1), theta)

    thetas = np.linspace(-1.1, 1.6, 271)
    J = np.array([theory.objective(mdp, table(theta)) for theta in thetas])
    bottom, top = -0.12, 1.1 * J.max()
    for m, color in enumerate(COLOURS):
        theta, following = history.theta[m, 0], history.theta[m + 1, 0]
        j_hat = theory.bound(mdp, table(theta))
        values = np.array([j_hat(table(t)) for t in thetas])
        ax.plot(thetas, values, color=color, linewidth=1.7)
        ax.fill_between(thetas, bottom - 1, values, color=color, alpha=0.05, linewidth=0)
        ax.plot([following] * 2, [history.J_hat[m], history.J[m + 1]], ":", color=color, lw=1.5)
        ax.plot(following, history.J_hat[m], "o", mfc="white", mec=color, ms=5, zorder=4)
        ax.plot(theta, history.J[m], "o", color=color, ms=7.5, zorder=5)
        note(ax, f"$\\theta^{m}$", (theta, history.J[m]), (-10, 7), color, size=12)
    ax.plot(thetas, J, color=INK, linewidth=2.6)
    ax.plot(history.theta[len(COLOURS), 0], history.J[len(COLOURS)], "o", color=INK, ms=6, zorder=5)
    ax.plot(history.theta[-1, 0], history.J[-1], "*", color=INK, ms=13, zorder=5)
    ax.set_xlim(thetas[0], thetas[-1])
    ax.set_ylim(bottom, top)
    note(ax, r"objective $J(\theta)$", (1.13, np.interp(1.13, thetas, J)), (8, 4), INK, "left")
    note(ax, "optimum", (history.theta[-1, 0], history.J[-1]), (0, 9), INK)
    note(ax, r"bound $\hat J(\theta;\,\theta^0)$", (-0.83, -0.08), (0, -4), COLOURS[0], "left")
    handles = [
        Line2D([], [], color=MUTED, marker="o", ls="", ms=7, label="the bound touches J"),
        Line2D([], [], color=MUTED, marker="o", ls="", ms=5, mfc="white", label="its maximum"),
        Line2D([], [], color=MUTED, ls=":", lw=1.5, label="improvement of J beyond it"),
    ]
    ax.legend(handles=handles, loc="upper left", frameon=False, fontsize=9, labelcolor=INK)


def note(ax, text, at, offset, color, align="center", size=9.5) -> None:
    ax.annotate(
        text, at, offset, textcoords="offset points", color=color, fontsize=size, ha=align,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.8}, zorder=6,
    )  # fmt: skip


def draw_progress(ax, runs) -> None:
    """The distance from the optimum in each iteration, for several shifts of the reward."""
    best = max(history.J[-1] for history in runs.values())
    for (shift, history), color in zip(runs.items(), COLOURS, strict=False):
        distance = best - history.J
        ax.semilogy(np.where(distance > 1e-12, distance, np.nan), color=color, linewidth=1.7)
        end = int(np.flatnonzero(distance > 1e-3)[-1])
        place = ((-6, -4), color, "right") if shift == 0 else ((6, 2), color, "left")
        note(ax, f"c = {shift:g}", (end, distance[end]), *place)
    ax.set_xlim(0, 70)
    ax.set_ylim(1e-8, 2)


def draw_grids(ax, grids) -> None:
    """The error of the finite optimum against the number of points."""
    points = np.array(list(grids))
    errors = np.abs(np.array(list(grids.values())) - closed_form()[1])
    ax.loglog(points, errors[0] * (points[0] / points) ** 2, color=MUTED, linewidth=1, ls="--")
    ax.loglog(points, errors, "o", color=RED, ms=7)
    note(ax, "second order", (points[1] * 1.3, errors[1] / 1.7), (8, 4), MUTED, "left")
    ax.set_xticks(points, [str(n) for n in points])
    ax.minorticks_off()


def solve_grids(sizes=(8, 16, 32, 64)) -> dict[int, float]:
    """The optimum of the linear-quadratic problem on grids of so many points."""
    found = {}
    for n in sizes:
        grid = theory.discretise(linear_quadratic(), n, interval=(-3.0, 3.0))
        found[n] = theory.value_iteration(grid.mdp, points=401)[1]
    return found


def main(path: Path) -> None:
    mdp = promenade()
    runs = {c: theory.iterate(mdp, [START], one_push, shift=c, tolerance=1e-7) for c in SHIFTS}
    grids = solve_grids()

    figure = new_figure(8.6, 7.6)
    panels = [["bounds", "bounds"], ["progress", "grids"]]
    axes = figure.subplot_mosaic(panels, height_ratios=[1.6, 1])
    dress(
        axes["bounds"],
        "Each bound touches the objective and lies below it; its maximum is the next policy",
        "θ, the push in every state",
        "expected discounted reward",
    )
    dress(axes["progress"], "Distance from the optimum, rewards shifted by c", "iteration m")
    dress(axes["grids"], "Error of a grid's optimum, continuous state", "points of the grid")
    draw_bounds(axes["bounds"], mdp, runs[0.0])
    draw_progress(axes["progress"], runs)
    draw_grids(axes["grids"], grids)
    save(figure, path)

    first = runs[0.0]
    print("  m   theta    J(theta^m)  bound's maximum  gap")
    for m in range(6):
        print(
            f"{m:3d}  {first.theta[m, 0]:7.4f}  {first.J[m]:9.6f}  {first.J_hat[m]:12.6f}"
            f"  {first.gap[m]:12.6f}"
        )
    for c, history in runs.items():
        end = f"theta = {history.theta[-1, 0]:.4f}, J = {history.J[-1]:.6f}"
        print(f"shift {c:g}: {history.iterations} iterations to {end}")
    gain, J = closed_form()
    print(f"closed form: action -{gain:.4f} s, J = {J:.4f}")
    for n, J_grid in grids.items():
        print(f"{n:3d} points: J = {J_grid:.4f}, error {abs(J_grid - J):.4f}")
    print(f"written: {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FILE)
