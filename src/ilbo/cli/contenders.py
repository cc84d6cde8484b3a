"""The policies that a command line names: run folders, policy files, simple policies."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ilbo.errors import UserError
from ilbo.mdp.problem import Problem
from ilbo.mdp.simple import POLICIES
from ilbo.registry.identity import check_same, rebuild, same
from ilbo.registry.python_file import arguments_of
from ilbo.runs.layout import is_run
from ilbo.runs.saved import SavedRun, read_run
from ilbo.storage.policyfile import BEST, FINAL, policy_path, read_header, read_policy


@dataclass(frozen=True)
class Contender:
    """One or more policies under one name, one for each seed."""

    label: str
    description: dict[str, Any] | None
    """The problem they were trained for; None for simple policies, which fit all."""
    seeds: tuple[int, ...]
    """Seeds of the training runs; (0,) where there was none or it is not known."""
    policies: Callable[[Problem], list[Any]]
    """The policies for a problem, one for each seed."""
    run: SavedRun | None = None
    """The run, where a run folder is named."""
    goes_anywhere: bool = False
    """Whether the policies can be used on any problem of the same model."""


def contender(name: str, best: bool = False) -> Contender:
    """The policies that a name on the command line refers to.

    Args:
        name: A run folder, a policy file, or random, midpoint, hold or heuristic.
        best: Of run folders, take the policy that tested best, not the final one.
    """
    if name in POLICIES and not os.path.exists(name):
        return Contender(name, None, (0,), lambda problem: [POLICIES[name](problem.exact)])
    path = Path(name)
    if is_run(path):
        run = read_run(path)
        anywhere = run.config.policy == "shared"
        return Contender(
            *(name, run.description, run.seeds, lambda problem: run.policies(problem, best)),
            *(run, anywhere),
        )
    if os.path.isdir(path):
        path = policy_path(path).with_name(BEST if best else FINAL)
    elif best:
        raise UserError(f"--best needs a run folder; {name!r} is a single policy.")
    header = read_header(path)
    description = header["problem"]
    anywhere = header.get("shared", {}).get("whole", ()) is None
    return Contender(
        name, description, (0,), lambda problem: [read_policy(path, problem)], None, anywhere
    )


def common_problem(
    contenders: list[Contender],
    name: str | None,
    instance: str | None,
    arguments: Sequence[str] = (),
    trust: bool = False,
) -> Problem:
    """The problem to use policies on: the named one, or the one they were trained for.

    Args:
        contenders: The policies.
        name: The problem as the user names it; None for that of the policies.
        instance: The RDDL instance file.
        arguments: NAME=VALUE each, of the function that returns the problem.
        trust: Whether the Python file that a run folder names may be run.
    """
    from ilbo import make
    from ilbo.cli.output import note

    described = [c for c in contenders if c.description is not None]
    if name is None:
        if not described:
            raise UserError("Name the problem with --problem: simple policies fit any.")
        first = described[0].description
        assert first is not None
        for other in described[1:]:
            assert other.description is not None
            if not same(other.description, first):
                raise UserError(
                    f"{described[0].label!r} was trained for {_name(described[0])} and "
                    f"{other.label!r} for {_name(other)}: name the problem to use them on."
                )
        if arguments:
            raise UserError("--arg needs the problem that it is for: name the problem as well.")
        return _rebuilt(described, trust)
    problem = make(name, instance, arguments_of(arguments))
    if described and described[0].run and not problem.limits and problem.cost_names:
        problem = described[0].run.limited(problem)
    for one in described:
        assert one.description is not None
        if one.run and one.run.source:
            one.run.source.tell_changes(one.run.path, problem)
        if not one.goes_anywhere:  # otherwise loading says whether it fits
            check_same(one.description, problem, f"The policy {one.label!r}")
        if _name(one) != problem.name:
            note(f"{one.label} was trained for {_name(one)}; this is {problem.name}.")
    return problem


def changed(problem: Problem, changes: Sequence[str], keep: Sequence[str] = ()) -> Problem:
    """The problem with the parameters of `--set NAME=VALUE` and the limits of `--keep`."""
    if keep:
        problem = problem.with_limits(keep)
    if not changes:
        return problem
    return problem.with_parameters(arguments_of(changes, "--set"))


def _rebuilt(described: list[Contender], trust: bool) -> Problem:
    """The problem of the first; of a run folder that knows the file where there is one."""
    runs = [one.run for one in described if one.run and one.run.source]
    if runs:
        return runs[0].problem(trust)
    first = described[0].description
    assert first is not None
    if first.get("origin") == "python":
        raise UserError(
            f"{described[0].label!r} was trained for {first['name']!r}, a model of your own: name "
            "the model, FILE.py:NAME."
        )
    run = described[0].run
    return run.problem(trust) if run else rebuild(first)


def _name(contender: Contender) -> str:
    return str((contender.description or {}).get("name"))
