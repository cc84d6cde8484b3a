"""`ilbo.Run`: a run folder, opened from Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ilbo.mdp.evaluate import Evaluation, evaluate
from ilbo.mdp.problem import Problem
from ilbo.nn.policy import Policy
from ilbo.planning.config import ILBO
from ilbo.planning.records import Record
from ilbo.report.page import write_report
from ilbo.runs.layout import REPORT
from ilbo.runs.results import FRESH_EPISODES, fresh_key
from ilbo.runs.saved import read_run
from ilbo.storage.cache import keep_compiled_programs


class Run:
    """A run folder, as it is at the moment: finished, stopped, or still being written.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> problem = ilbo.make("navigation-3")
    >>> plan = ilbo.plan(problem, ilbo.ILBO(layers=(8,), depth=1, window=1), episodes=2, out=folder)
    >>> run = ilbo.Run(folder)
    >>> run.history[0][-1].episode
    2
    >>> run.evaluate().mean == run.result["mean"]
    True
    """

    def __init__(self, path: str | Path, problem: Problem | None = None, *, trust: bool = False):
        """
        Args:
            path: The run folder.
            problem: Its problem, where that is a model of your own.
            trust: Whether the Python file that the folder names as the problem's source may be run.
        """
        self._saved = read_run(path)
        self._problem = None if problem is None else self._saved.checked(problem)
        self._trust = trust

    def __repr__(self) -> str:
        state = "finished" if self.result else "not finished"
        return f"<Run {str(self.path)!r}: {self._saved.description['name']}, {state}>"

    @property
    def path(self) -> Path:
        return self._saved.path

    @property
    def config(self) -> ILBO:
        """All settings."""
        return self._saved.config

    @property
    def seeds(self) -> tuple[int, ...]:
        return self._saved.seeds

    @property
    def history(self) -> list[list[Record]]:
        """The tests so far, one list per seed."""
        return self._saved.history

    @property
    def result(self) -> dict[str, Any] | None:
        """What `ilbo plan --json` prints; None while the run has not finished."""
        return self._saved.result

    @property
    def problem(self) -> Problem:
        """The problem: the one given, or built again."""
        if self._problem is None:
            self._problem = self._saved.problem(self._trust)
        return self._problem

    @property
    def policies(self) -> list[Policy]:
        """The policies selected by now, one per seed."""
        return self._saved.policies(self.problem)

    @property
    def best_policies(self) -> list[Policy]:
        """Those that tested best."""
        return self._saved.policies(self.problem, best=True)

    @property
    def policy(self) -> Policy:
        """The policy of the first seed."""
        return self.policies[0]

    @property
    def best_policy(self) -> Policy:
        """That which tested best, of the first seed."""
        return self.best_policies[0]

    def evaluate(
        self, seed: int | None = None, episodes: int = FRESH_EPISODES, start: Any = None
    ) -> Evaluation:
        """The policy of the first seed on fresh episodes.

        Args:
            seed: Seed of the noise; if None, the noise that the result of every run is taken on.
            episodes: How many episodes.
            start: The start state; the problem's own if None.
        """
        keep_compiled_programs()
        key = fresh_key() if seed is None else seed
        return evaluate(self.problem, self.policy, key, episodes, start)

    def report(
        self, out: str | Path | None = None, *, limit: bool = False, bound: bool = False
    ) -> Path:
        """Writes the report, an HTML page, into the run folder or where `out` says; returns where.

        Args:
            out: HTML file to write.
            limit: Whether to compute the hindsight limit as well, which takes a while.
            bound: Whether to say how far the policy is from the best possible at the most.
        """
        keep_compiled_programs()
        path = Path(out) if out is not None else self.path / REPORT
        write_report([self.path], path, problem=self.problem, limit=limit, bound=bound)
        return path
