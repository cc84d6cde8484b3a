"""Known problems written a second time, in CasADi, for the controller of `mpc.py`.

What has no derivative there is smoothed. `tests/examples/test_twins.py` compares
them with the models.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import ilbo
from ilbo.builtin import hvac as hv
from ilbo.builtin import reservoirs as rs
from known import battery, hydro


@dataclass(frozen=True)
class Twin:
    """A model in CasADi: functions of symbols or numbers; `e` is how far kinks are smoothed."""

    problem: ilbo.Problem
    transition: Callable[..., Any]
    """(x, u, w, e) → x'."""
    reward: Callable[..., Any]
    """(x, u, x', time, e) → r."""
    limits: Callable[..., Any]
    """(x, u) → what must not be below 0."""
    noise: np.ndarray
    """The mean of the noise."""
    jumps: Callable[..., Any] | None = None
    """The exact reward, where `reward` replaces a jump."""
    smooth: float = 1e-3
    """How far kinks are smoothed in planning."""


def above(x: Any, e: float) -> Any:
    """max(x, 0)."""
    import casadi as ca

    return ca.fmax(x, 0) if e == 0 else (x + ca.sqrt(x**2 + e**2)) / 2


def least(x: Any, y: Any, e: float) -> Any:
    return x - above(x - y, e)


def navigation() -> Twin:
    import casadi as ca

    problem = problem_of("navigation-3")
    model = problem.model
    centers, decays = np.asarray(model.centers, float), np.asarray(model.decays, float)
    goal, spread = np.asarray(model.goal, float), np.sqrt(np.asarray(model.move_variance, float))

    def norm(x: Any, e: float) -> Any:
        return ca.sqrt(ca.sumsqr(x) + e**2)

    def transition(x: Any, u: Any, w: Any, e: float) -> Any:
        left = 1.0
        for center, decay in zip(centers, decays, strict=True):
            left = left * (2 / (1 + ca.exp(-decay * norm(x - center, e))) - 1)
        return x + left * u + spread * w

    def reward(x: Any, u: Any, moved: Any, time: int, e: float) -> Any:
        return -norm(goal - x, e)

    def limits(x: Any, u: Any) -> Any:
        return ca.vertcat(1 - u, 1 + u)

    return Twin(problem, transition, reward, limits, np.zeros(2))


def hvac() -> Twin:
    import casadi as ca

    problem = problem_of("hvac-6")
    model, n = problem.model, problem.state_size
    adjacent = np.asarray(model.adjacent, float)
    outside, hall = np.asarray(model.outside, float), np.asarray(model.hall, float)

    def transition(x: Any, u: Any, w: Any, e: float) -> Any:
        outer = hv.OUTSIDE_MEAN + hv.OUTSIDE_VARIANCE**0.5 * w[:n]
        inner = hv.HALL_MEAN + hv.HALL_VARIANCE**0.5 * w[n:]
        leak = (adjacent @ x - adjacent.sum(axis=1) * x) / hv.R_WALL
        leak = leak + n * outside * (outer - x) / hv.R_OUTSIDE + n * hall * (inner - x) / hv.R_HALL
        return x + hv.TIME_DELTA / hv.CAP * (u * hv.CAP_AIR * (hv.TEMP_AIR - x) + leak)

    def cost(x: Any, u: Any, e: float) -> Any:
        return u * hv.COST_AIR + 10 * ca.sqrt((hv.TEMP_MIDDLE - x) ** 2 + e**2)

    def reward(x: Any, u: Any, moved: Any, time: int, e: float) -> Any:
        away = above(hv.TEMP_LOW - x, e) + above(x - hv.TEMP_UP, e)
        return -ca.sum1(cost(x, u, e) + hv.PENALTY * away)

    def exact(x: Any, u: Any, moved: Any, time: int, e: float) -> Any:
        away = ca.logic_or(x < hv.TEMP_LOW, x > hv.TEMP_UP)
        return -ca.sum1(cost(x, u, 0.0) + hv.PENALTY * away)

    def limits(x: Any, u: Any) -> Any:
        return ca.vertcat(u, hv.AIR_MAX - u)

    return Twin(problem, transition, reward, limits, np.zeros(2 * n), exact)


def reservoir() -> Twin:
    import casadi as ca

    problem = problem_of("reservoir-20")
    model = problem.model
    scale, capacity, lower, upper = (
        np.asarray(x, float) for x in (model.rain_scale, model.capacity, model.lower, model.upper)
    )

    def transition(x: Any, u: Any, w: Any, e: float) -> Any:
        leaving = u + above(x - u - capacity, e)
        evaporated = rs.EVAPORATION * (x / capacity) ** 2 * x
        inflow = ca.vertcat(0, leaving[:-1])
        return above(x + scale * w - evaporated - leaving + inflow, e)

    def reward(x: Any, u: Any, moved: Any, time: int, e: float) -> Any:
        below, over = above(lower - moved, e), above(moved - upper, e)
        return ca.sum1(rs.LOW_PENALTY * below + rs.HIGH_PENALTY * over)

    def limits(x: Any, u: Any) -> Any:
        return ca.vertcat(u, x - u)

    mean = np.asarray(model.law.shape, float)
    # Levels are hundreds. IPOPT runs out of iterations where kinks are as sharp as elsewhere.
    return Twin(problem, transition, reward, limits, mean, smooth=1.0)


def the_battery() -> Twin:
    import casadi as ca

    def transition(x: Any, u: Any, w: Any, e: float) -> Any:
        kept = battery.KEPT
        return ca.vertcat(x[0] - (kept * u[0] + (1 - kept) * above(u[0], e)), x[1] + 1)

    def reward(x: Any, u: Any, moved: Any, time: int, e: float) -> Any:
        return float(battery.PRICES[time]) * u[0]

    def limits(x: Any, u: Any) -> Any:
        room = (battery.CAPACITY - x[0]) / battery.KEPT
        return ca.vertcat(battery.POWER - u[0], battery.POWER + u[0], u[0] + room, x[0] - u[0])

    return Twin(problem_of("battery"), transition, reward, limits, np.zeros(0))


def valley() -> Twin:
    import casadi as ca

    problem = problem_of("hydro-inflows-prices")
    slopes = np.diff(hydro.POWER) / np.diff(hydro.FLOW)
    lines = [(s, p - s * f) for s, p, f in zip(slopes, hydro.POWER, hydro.FLOW, strict=False)]

    def power(flow: Any, e: float) -> Any:
        found = [slope * flow + level for slope, level in lines]
        return least(least(found[0], found[1], e), found[2], e)

    def transition(x: Any, u: Any, w: Any, e: float) -> Any:
        upper = least(x[0] - u[0] + x[2], hydro.FULL, e)
        lower = least(x[1] - u[1] + u[0] + x[3], hydro.FULL, e)
        return ca.vertcat(upper, lower, w[0], w[1], w[2], x[5] + 1)

    def reward(x: Any, u: Any, moved: Any, time: int, e: float) -> Any:
        one, other = hydro.PRICES[time].tolist()
        spilled = above(x[1] - u[1] + u[0] - hydro.FULL, e)
        price = one + x[4] * (other - one)
        return price * (power(u[0], e) + power(u[1], e)) - hydro.SPILLING * spilled

    def limits(x: Any, u: Any) -> Any:
        most = hydro.FLOW[-1]
        return ca.vertcat(u, most - u, x[0] + x[2] - u[0], x[1] + x[3] + u[0] - u[1])

    return Twin(problem, transition, reward, limits, np.append(hydro.INFLOWS.mean(axis=0), 0.0))


TWINS: dict[str, Callable[[], Twin]] = {
    "battery": the_battery,
    "hydro-inflows-prices": valley,
    "navigation-3": navigation,
    "hvac-6": hvac,
    "reservoir-20": reservoir,
}
OF_THE_SUITE = {
    "battery": battery.battery,
    "hydro-inflows-prices": lambda: hydro.hydro(rains=True, trades=True),
}


def problem_of(name: str) -> ilbo.Problem:
    return OF_THE_SUITE[name]().problem if name in OF_THE_SUITE else ilbo.make(name)
