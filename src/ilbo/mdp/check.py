"""A look at a model before training: what is off, where, and what to do about it.

Random episodes, steps from states of the region, and changes of one input at a time are compared:
what nothing depends on, what is not finite, what jumps, where derivatives vanish, how long an
action takes to be felt. `mdp/trials.py` runs the model; here its numbers become sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from ilbo.mdp import trials
from ilbo.mdp.problem import Problem
from ilbo.mdp.shapes import KeyOrSeed
from ilbo.mdp.simulate import as_key

FAR = 3.0
"""Times the region's half width from its middle that states may wander."""
NARROW = 0.01
"""Share of the region that visited states should fill."""
OUTLIER = 1e4
"""Times the usual size of rewards."""
DEAD = 0.25
"""Share of states and actions at which an action may have no gradient."""
DEPTH = 10
"""Steps that planning looks ahead by default."""
FEW_STEPS = 10
"""Episodes shorter than this need more than the default number of them."""
SHOWN = 8
"""Components of one kind that are listed."""


@dataclass(frozen=True)
class Finding:
    """One thing that is off."""

    name: str
    """Which kind it is, in a few words."""
    sentence: str
    """What it is, where, and what to do."""

    def __str__(self) -> str:
        return f"{self.name}: {self.sentence}"


@dataclass(frozen=True)
class Check:
    """What was seen of a model."""

    findings: list[Finding]
    magnitudes: dict[str, dict[str, tuple[float, float]]]
    """Lowest and highest value seen of the states, the actions, the noise and the reward."""
    felt_after: dict[str, int | None]
    """Steps until a reward feels an action; None: never."""
    ended: float
    """Share of the random episodes that reach a terminal state."""

    def __str__(self) -> str:
        said = [str(one) for one in self.findings] or ["nothing is off"]
        return "\n".join([*self._tables(), "", *said])

    def _tables(self) -> list[str]:
        """Magnitudes, how late actions are felt, and ends."""
        out = []
        for kind, rows in self.magnitudes.items():
            shown = list(rows.items())[:SHOWN]
            out += [f"  {kind:6}  {name}: {low:.4g} to {high:.4g}" for name, (low, high) in shown]
            if len(rows) > SHOWN:
                out.append(f"  {kind:6}  ... ({len(rows)} in all)")
        late = {name: steps for name, steps in self.felt_after.items() if steps}
        for name, steps in list(late.items())[:SHOWN]:
            out.append(f"  {name} is felt in rewards {steps} step{'s' * (steps != 1)} later")
        if self.ended:
            out.append(f"  {self.ended:.0%} of the random episodes reach a terminal state")
        return out


def check(problem: Problem, key: KeyOrSeed = 0) -> Check:
    """Tries a model out; takes some seconds.

    Args:
        problem: What to look at.
        key: A JAX key, or a seed, of what is tried.
    """
    seen = trials.look(problem, as_key(key))
    found = list(_numbers(problem, seen))
    finite = not found
    found += _places(problem, seen)
    found += _rewards(problem, seen)
    found += _episodes(problem, seen)
    if finite:  # comparisons of what is not finite say nothing
        found += _idle(problem, seen)
        found += _gradients(problem, seen)
        found += _delays(problem, seen)
        if not any(one.name == "no gradient" for one in found):
            found += _jumps(problem, seen)
    return Check(found, _magnitudes(problem, seen), _felt(problem, seen), seen.ended)


def _numbers(problem: Problem, seen: trials.Seen) -> Iterator[Finding]:
    """Numbers that are not finite; bounds that are none."""
    for what, values in (("next state", seen.moved), ("reward", seen.rewards[:, None])):
        bad = np.argwhere(~np.isfinite(values))
        if len(bad):
            row, i = bad[0]
            name = f" {problem.state_names[i]}" if what == "next state" else ""
            where = _where(problem.state_names, seen.states[row])
            yield Finding(
                "not finite",
                f"The {what}{name} of {problem.name} is {values[row, i]:g} at {where} with "
                f"{_where(problem.action_names, seen.actions[row])}: guard divisions, roots and "
                "logarithms against such states.",
            )
            break
    crossed = np.argwhere(~(seen.low <= seen.high))
    if len(crossed):
        row, i = crossed[0]
        yield Finding(
            "bounds crossed",
            f"The bounds of {problem.action_names[i]} are [{seen.low[row, i]:g}, "
            f"{seen.high[row, i]:g}] at {_where(problem.state_names, seen.states[row])}: the "
            "lowest must not be above the highest at any state that episodes reach.",
        )
    for i in np.flatnonzero((seen.low == seen.high).all(axis=0))[:1]:
        yield Finding(
            "no room to act",
            f"The bounds of {problem.action_names[i]} are equal at every state tried, so there is "
            "nothing to choose: leave the action out, or widen its bounds.",
        )


def _places(problem: Problem, seen: trials.Seen) -> Iterator[Finding]:
    """Visited states against region and domain."""
    low, high = (np.asarray(end, float) for end in problem.region)
    half = np.where(high > low, (high - low) / 2, 1.0)
    visited = seen.visited[np.isfinite(seen.visited).all(axis=1)]
    if not len(visited):
        return
    away = np.quantile(np.abs(visited - (low + high) / 2) / half, 0.95, axis=0)
    bottom, top = visited.min(axis=0), visited.max(axis=0)
    for i in np.flatnonzero(away > FAR)[:1]:
        yield Finding(
            "region left",
            f"Random episodes take {problem.state_names[i]} to [{bottom[i]:.3g}, {top[i]:.3g}], "
            f"far outside its region [{low[i]:g}, {high[i]:g}], which is the scale of the "
            "networks' inputs: widen the region to where episodes go.",
        )
    narrow = (top > bottom) & (top - bottom < NARROW * (high - low))
    for i in np.flatnonzero(narrow)[:1]:
        yield Finding(
            "region too wide",
            f"Random episodes keep {problem.state_names[i]} in [{bottom[i]:.4g}, {top[i]:.4g}], "
            f"less than {NARROW:.0%} of its region [{low[i]:g}, {high[i]:g}]: the networks hardly "
            "see it move; narrow the region.",
        )
    least, most = (np.asarray(end, float) for end in problem.domain)
    slack = 1e-4 * np.where(np.isfinite(most - least), most - least, 1.0) + 1e-6
    for i in np.flatnonzero((bottom < least - slack) | (top > most + slack))[:1]:
        yield Finding(
            "domain left",
            f"Random episodes take {problem.state_names[i]} to [{bottom[i]:.4g}, {top[i]:.4g}], "
            f"outside its domain [{least[i]:g}, {most[i]:g}]: clip it in `transition`, or tighten "
            "the action bounds there.",
        )


def _rewards(problem: Problem, seen: trials.Seen) -> Iterator[Finding]:
    sizes = np.sort(np.abs(seen.earned[np.isfinite(seen.earned)]))
    if not len(sizes):
        return
    usual = sizes[: max(1, int(0.9 * len(sizes)))].mean()
    if sizes[-1] > OUTLIER * max(usual, 1e-30) and usual > 0:
        yield Finding(
            "reward of another size",
            f"Rewards of {problem.name} are {usual:.2g} in size mostly, but {sizes[-1]:.2g} at "
            "times: the critic then learns the rare ones alone; make that penalty smaller, or let "
            "it grow gradually.",
        )


def _episodes(problem: Problem, seen: trials.Seen) -> Iterator[Finding]:
    if seen.steps.max() == 0:
        yield Finding(
            "starts at its end",
            f"The initial state of {problem.name} is terminal, so nothing can be earned: look at "
            "`terminal`.",
        )
    elif np.median(seen.steps) <= 0.1 * problem.horizon:
        yield Finding(
            "ends at once",
            f"Half of the random episodes of {problem.name} end within "
            f"{int(np.median(seen.steps))} of {problem.horizon} steps: planning sees little of the "
            "rest; start elsewhere, or end episodes less readily.",
        )
    if problem.horizon < FEW_STEPS:
        enough = -(-10_000 // problem.horizon)
        yield Finding(
            "short episodes",
            f"Episodes of {problem.name} have {problem.horizon} steps, so the default number of "
            f"them is little to learn from: plan with episodes={enough}.",
        )


def _idle(problem: Problem, seen: trials.Seen) -> Iterator[Finding]:
    """Inputs on which nothing depends, by changing one at a time."""
    n, m = problem.state_size, problem.action_size
    on_state, on_reward = seen.changes[:, :n], seen.changes[:, n]
    matters = on_reward[:n] | seen.changes[:n, n + 1]  # rewards now; bounds and ends
    for _ in range(n):
        matters = matters | (on_state[:n] & matters).any(axis=1)
    for i in np.flatnonzero(~matters)[:1]:
        yield Finding(
            "idle state",
            f"Nothing depends on {problem.state_names[i]}, neither rewards nor bounds nor a state "
            "that does: leave it out, or look for an index that is wrong.",
        )
    for i in range(m):
        if not (on_reward[n + i] or (on_state[n + i] & matters).any()):
            yield Finding(
                "idle action",
                f"No reward depends on the action {problem.action_names[i]}, now or later: leave "
                "it out, or look for an index that is wrong or a factor that is 0.",
            )
            break
    of_noise = seen.changes[n + m :]
    if len(of_noise) and not of_noise.any():
        yield Finding(
            "idle noise",
            f"Nothing depends on the noise of {problem.name}, {problem.exact.law}: use it in "
            "`transition`, or say `law = ilbo.Gaussian(0)` where nothing is random.",
        )


def _gradients(problem: Problem, seen: trials.Seen) -> Iterator[Finding]:
    """Derivatives of what is earned later in the action."""
    slopes = seen.slopes
    broken = ~np.isfinite(slopes)
    if broken.any():
        row, i = np.argwhere(broken)[0]
        yield Finding(
            "gradient not finite",
            f"The derivative of what is earned in {problem.action_names[i]} is not finite at "
            f"{_where(problem.state_names, seen.slope_states[row])}: a root or a norm of 0, or a "
            "`where` whose other side divides by 0, has none; add a small number inside.",
        )
    dead = slopes == 0
    n, m = problem.state_size, problem.action_size
    alive = seen.changes[n : n + m].any(axis=1)  # those that are idle have been named
    for i in np.flatnonzero(alive & dead.all(axis=0))[:1]:
        yield Finding(
            "no gradient",
            f"What is earned depends on {problem.action_names[i]}, but its derivative is 0 "
            "wherever it was tried: rounding, comparisons and choices between constants have none; "
            "give planning a smooth version, and the true model as `exact`.",
        )
    share = dead.mean(axis=0)
    some = alive & (share > DEAD) & (share < 1)
    for i in np.flatnonzero(some)[:1]:
        where, places = "", np.sort(seen.slope_actions[dead[:, i], i])
        live = seen.slope_actions[~dead[:, i], i]
        if not ((live > places[0]) & (live < places[-1])).any():
            where = f", all of them where it is between {places[0]:.3g} and {places[-1]:.3g}"
        yield Finding(
            "dead zone",
            f"The derivative of what is earned in {problem.action_names[i]} is 0 at {share[i]:.0%} "
            f"of the states and actions tried{where}: planning learns nothing there; narrow the "
            "bounds to where it acts, or give the flat part a small slope.",
        )


def _delays(problem: Problem, seen: trials.Seen) -> Iterator[Finding]:
    for name, steps in _felt(problem, seen).items():
        if steps is not None and steps >= DEPTH:
            yield Finding(
                "late effect",
                f"An action {name} is felt in rewards {steps} steps later at the earliest, beyond "
                f"the {DEPTH} that planning looks ahead: plan with depth={steps + 5}.",
            )
            break


def _jumps(problem: Problem, seen: trials.Seen) -> Iterator[Finding]:
    if seen.jump is not None:
        row, which, value, output, size = seen.jump
        names = (*problem.state_names, *problem.action_names)
        of = "the reward" if output == problem.state_size else problem.state_names[output]
        yield Finding(
            "jump",
            f"In {names[which]}, {of} jumps by {size:.3g} at {value:.4g} (at "
            f"{_where(problem.state_names, seen.states[row])}): derivatives do not see a jump; "
            "smooth it, and give the true model as `exact`.",
        )


def _felt(problem: Problem, seen: trials.Seen) -> dict[str, int | None]:
    first = [int(row.argmax()) if row.any() else None for row in seen.felt]
    return dict(zip(problem.action_names, first, strict=True))


def _magnitudes(problem: Problem, seen: trials.Seen) -> dict[str, dict[str, tuple[float, float]]]:
    def of(values: Float[np.ndarray, "e x"], names: Sequence[str]) -> dict[str, Any]:
        if not len(values):
            return {}
        ends = values.min(axis=0).tolist(), values.max(axis=0).tolist()
        return dict(zip(names, zip(*ends, strict=True), strict=True))

    noise = [f"noise {i}" for i in range(seen.noise.shape[1])]
    return {
        "state": of(seen.visited, problem.state_names),
        "action": of(seen.actions, problem.action_names),
        "noise": of(seen.noise, noise),
        "reward": of(seen.earned[:, None], ["reward"]),
    }


def _where(names: Sequence[str], values: Float[np.ndarray, " x"]) -> str:
    shown = [f"{name} = {value:.4g}" for name, value in zip(names, values, strict=True)]
    return ", ".join(shown if len(shown) <= 4 else [*shown[:3], "..."])
