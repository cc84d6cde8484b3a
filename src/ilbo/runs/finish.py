"""The end of a run: its policies on fresh trajectories, its pictures, its result."""

from __future__ import annotations

import contextlib
import io
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ilbo.mdp.yardstick import yardsticks
from ilbo.planning.networks import blank_policy
from ilbo.planning.planner import Planner
from ilbo.planning.records import Plan
from ilbo.plots import pictures
from ilbo.plots.canvas import save
from ilbo.runs import results
from ilbo.runs.folder import RunFolder
from ilbo.runs.layout import CURVE, RESULT, TRAJECTORIES
from ilbo.storage.files import cannot_write, write_json


def finish(folder: RunFolder, plan: Plan) -> dict[str, Any]:
    """Evaluates the policies of a finished plan, draws them and writes the result, which it
    returns."""
    with ThreadPoolExecutor(1) as another_core:
        final, best = (
            another_core.submit(results.evaluate_fresh, plan.problem, policies)
            for policies in (plan.policies, plan.best_policies)
        )
        try:
            pictures.learning_curve(plan.history, folder.path / CURVE)
            # Of as many episodes as the result, so that one program serves both.
            pictures.trajectories(
                plan.problem, plan.policy, folder.path / TRAJECTORIES, results.FRESH_EPISODES
            )
        except OSError as error:
            raise cannot_write(folder.path, error) from error
        result = results.summary(plan, final.result(), best.result())
    write_json(folder.path / RESULT, result)
    return result


def get_ready(planner: Planner) -> None:
    """Loads what `finish` needs while another core trains: programs and drawing."""
    with contextlib.suppress(Exception):  # what fails here fails again at the end, and says so
        if training := planner.prepare():
            training.result()  # which is wanted first
        policy = blank_policy(planner.problem, planner.config)
        results.evaluate_fresh(planner.problem, [policy])
        yardsticks(planner.problem, results.fresh_key(), results.FRESH_EPISODES)
        figure = pictures.draw_trajectories(planner.problem, policy, results.FRESH_EPISODES)
        save(figure, io.BytesIO(), "png")
