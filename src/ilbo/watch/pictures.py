"""What the policy of a run does, and what its critic believes: drawn as the run goes on."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ilbo.errors import UserError
from ilbo.mdp.problem import Problem
from ilbo.mdp.simulate import Trajectories, simulate
from ilbo.planning.ilbo import ILBOTrainer
from ilbo.planning.networks import Networks
from ilbo.plots import pictures
from ilbo.plots.pictures import PICTURE_SEED
from ilbo.report import parts
from ilbo.runs.checkpoint import read_critic
from ilbo.runs.layout import CHECKPOINT, MODEL, seed_folders
from ilbo.runs.saved import SavedRun, check_belongs
from ilbo.storage.policyfile import FINAL, read_policy
from ilbo.watch.folders import check_inside

EPISODES = 64
KEPT = 16
"""Pictures and problems that stay in memory."""


class Pictures:
    """Draws one picture at a time, and each of them once."""

    def __init__(self, trust: bool = False):
        """`trust`: whether Python files that folders name as their problems' sources may be run."""
        self.trust = trust
        self._lock = threading.Lock()
        self._problems: OrderedDict[Any, Problem] = OrderedDict()
        self._drawn: OrderedDict[Any, dict[str, Any]] = OrderedDict()

    def draw(self, run: SavedRun, seed: int) -> dict[str, Any]:
        """The figure of a seed's policy as HTML, and its critic's beliefs.

        A `UserError` says why there is none.
        """
        if seed not in run.seeds:
            raise UserError(f"The run {run.name!r} has no seed {seed}.")
        folder = seed_folders(run.path, run.seeds)[run.seeds.index(seed)]
        file = folder / FINAL
        check_inside(run.path, file)
        if not file.exists():
            raise UserError("There is no policy yet: it comes with the first test.")
        stamp = str(file), file.stat().st_mtime_ns
        with self._lock:
            if stamp not in self._drawn:
                self._drawn[stamp] = self._draw(run, seed, file)
                _forget(self._drawn)
            return self._drawn[stamp]

    def _draw(self, run: SavedRun, seed: int, file: Path) -> dict[str, Any]:
        problem = self._problem(run)
        check_belongs(file, run.description)
        policy = read_policy(file, problem)
        figure = pictures.draw_trajectories(problem, policy, EPISODES, title="")
        whose = f" of seed {seed}" if len(run.seeds) > 1 else ""
        caption = f"{EPISODES} episodes of the policy{whose} from the problem's own start."
        label = f"Trajectories on {problem.name}"
        drawn: dict[str, Any] = {"figure": parts.picture(figure, "t", label, caption)}
        try:
            simulated = simulate(problem, policy, PICTURE_SEED, EPISODES)
            drawn["beliefs"] = beliefs(run, problem, seed, simulated)
        except UserError as error:
            drawn["beliefs"] = {"error": str(error)}
        return drawn

    def _problem(self, run: SavedRun) -> Problem:
        """The problem, built once for each description: its file may be long to run."""
        if not run.can_build(self.trust):
            raise UserError(
                "The problem is a model of your own, and looking at a folder runs no code: "
                f"`ilbo watch --trust` runs its file, of which {MODEL} in the folder is a copy."
                if run.source
                else "The problem is a model of your own that was made in Python, so that nothing "
                "here can simulate it."
            )
        key = str(run.path), str(run.meta.get("created"))
        if key not in self._problems:
            self._problems[key] = run.problem(self.trust)
            _forget(self._problems)
        return self._problems[key]


def beliefs(run: SavedRun, problem: Problem, seed: int, simulated: Trajectories) -> dict[str, Any]:
    """What the critic believes at each step of the episodes, and what they earn from there on.

    Both are means over the episodes still running, discounted as the problem says.
    """
    file = run.path / CHECKPOINT
    if not file.exists():
        raise UserError("There is no checkpoint in the folder, and so no critic.")
    trainer = ILBOTrainer.of(problem, run.config, run.config.most_episodes)
    if trainer.beyond is not None:
        raise UserError("The critic of this run judges episodes by more than their mean return.")
    critic, unit = read_critic(file, trainer, seed)
    left = jnp.broadcast_to(problem.horizon - jnp.arange(problem.horizon), simulated.rewards.shape)
    q = _value(trainer.networks, critic, simulated.states[..., :-1, :], simulated.actions, left)
    alive = np.asarray(simulated.alive)
    earned = to_go(np.asarray(simulated.rewards, float), problem.discount)
    steps = np.flatnonzero(alive.any(axis=0))
    note = ""
    if not trainer.networks.timed:
        discount = float(trainer.networks.numbers.discount)
        note = f"This critic sees no end of the episode and discounts by {discount:g}."
    return {
        "note": note,
        "steps": steps.tolist(),
        "believed": _means(np.asarray(q, float) * unit, alive, steps),
        "earned": _means(earned, alive, steps),
    }


@eqx.filter_jit
def _value(networks: Networks, *arguments: Any) -> Float[Array, "episodes horizon"]:
    """Q(s, a) of a critic, in its own units, as one program."""
    return networks.value(*arguments)


def to_go(
    rewards: Float[np.ndarray, "episodes horizon"], discount: float
) -> Float[np.ndarray, "episodes horizon"]:
    """The return from each step on: G_t = r_t + γ G_{t+1}."""
    returns = np.zeros_like(rewards)
    following = np.zeros(len(rewards))
    for t in reversed(range(rewards.shape[1])):
        following = returns[:, t] = rewards[:, t] + discount * following
    return returns


def _means(
    values: Float[np.ndarray, "episodes horizon"],
    alive: Bool[np.ndarray, "episodes horizon"],
    steps: Int[np.ndarray, " steps"],
) -> list[float | None]:
    """Over the episodes still running at each step; None where that is not finite."""
    means = [float(values[alive[:, t], t].mean()) for t in steps]
    return [mean if np.isfinite(mean) else None for mean in means]


def _forget(held: OrderedDict[Any, Any]) -> None:
    while len(held) > KEPT:
        held.popitem(last=False)
