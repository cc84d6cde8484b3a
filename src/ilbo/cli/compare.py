"""`ilbo compare`: policies side by side on equal noise, and what can be said of the difference."""

from __future__ import annotations

from dataclasses import dataclass

from tyro.conf import Positional

from ilbo.cli.types import Arguments, Changes, MaybeNumber, MaybeNumbers, MaybeText, Trust


@dataclass(frozen=True)
class Command:
    """Compare policies on equal noise."""

    policies: Positional[tuple[str, ...]]
    """Two or more run folders, policy files, or random, midpoint, hold, heuristic."""
    problem: MaybeText = None
    """The problem to compare them on, if not the one they were trained for; or that one where it is
    your own model, FILE.py:NAME."""
    instance: MaybeText = None
    """The RDDL instance file, where the problem is a domain file."""
    arguments: Arguments = ()
    trust: Trust = False
    episodes: int = 2048
    """How many episodes."""
    start: MaybeNumbers = None
    """The start state, one number for each state component; the problem's own if not given."""
    seed: MaybeNumber = None
    """Seed of the noise; if not given, the noise that `ilbo plan` takes its result on."""
    best: bool = False
    """Of run folders, take the policy that tested best during training, not the final one."""
    objective: str = "mean"
    """What of the returns is compared: mean, cvar:SHARE, entropic:LAMBDA or mean-std:LAMBDA."""
    changes: Changes = ()
    json: bool = False
    """Print one JSON object and nothing else."""

    def run(self) -> int:
        from ilbo.cli.contenders import changed, common_problem, contender
        from ilbo.cli.output import print_json, print_table, say
        from ilbo.errors import UserError
        from ilbo.mdp.evaluate import evaluate
        from ilbo.mdp.numbers import precise, precise_interval
        from ilbo.mdp.objective import objective_of
        from ilbo.mdp.ranking import rank
        from ilbo.mdp.simple import POLICIES
        from ilbo.runs.results import fresh_key
        from ilbo.storage.cache import keep_compiled_programs

        if len(self.policies) < 2:
            raise UserError("Name at least two policies to compare.")
        if len(set(self.policies)) < len(self.policies):
            raise UserError("Name each policy once.")
        keep_compiled_programs()
        contenders = [contender(name, self.best and name not in POLICIES) for name in self.policies]
        problem = common_problem(
            contenders, self.problem, self.instance, self.arguments, self.trust
        )
        objective_of(self.objective)  # refuses what there is not, before anything is run
        tried = changed(problem, self.changes)
        key = fresh_key() if self.seed is None else self.seed
        returns = {
            one.label: [
                evaluate(tried, policy, key, self.episodes, self.start).discounted_returns
                for policy in one.policies(problem)
            ]
            for one in contenders
        }
        ranking = rank(returns, self.objective)
        if self.json:
            print_json(
                {
                    "problem": problem.name,
                    "episodes": self.episodes,
                    "objective": self.objective,
                    "ranking": ranking.places,
                    "verdict": ranking.verdict,
                }
            )
            return 0
        say(f"{problem.name}, {self.episodes:,} episodes on equal noise")
        print_table(
            ["policy", "seeds", self.objective, "95 %", "behind the first", "95 %"],
            [
                [
                    entry.label,
                    str(entry.seeds),
                    precise(entry.mean),
                    precise_interval(*entry.ci95),
                    precise(entry.behind) if place else "",
                    precise_interval(*entry.behind_ci95) if place else "",
                ]
                for place, entry in enumerate(ranking.places)
            ],
        )
        say(ranking.verdict)
        return 0
