"""Policies from wherever they lie: a policy file, a run folder, an exported file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ilbo.mdp.problem import Problem
from ilbo.nn.policy import Maker
from ilbo.runs.layout import is_run
from ilbo.runs.saved import check_belongs, read_meta
from ilbo.storage.policyfile import policy_path, read_policy


def load_policy(
    path: str | Path, problem: Problem | None = None, policy: Maker | None = None
) -> Any:
    """The policy of a file, a run folder or an exported file: state [n] → action [m].

    Args:
        path: A policy file, a run folder (its final policy), or what `ilbo export` wrote.
        problem: The problem to use it on, where the file cannot tell (for models of your own whose
            action bounds depend on the state) or where it is another one: one with the same
            components, under another name or altered in memory.

        policy: What makes the policy's network, as in `ILBO(policy=...)`, where it is your own.

    Loading runs no code of the file's; a damaged file raises `UserError`.
    """
    path = Path(path)
    if path.suffix == ".stablehlo":
        from ilbo.export.policy import load_exported

        return load_exported(path)
    run = path.parent if path.name.startswith("seed-") else path
    if is_run(run):
        check_belongs(policy_path(path), read_meta(run)["problem"])
    return read_policy(path, problem, policy)
