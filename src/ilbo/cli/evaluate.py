"""`ilbo evaluate`: what a trained policy earns on fresh episodes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tyro.conf import Positional

from ilbo.cli.types import Arguments, Changes, Keep, MaybeNumber, MaybeNumbers, MaybeText, Trust

if TYPE_CHECKING:
    from ilbo.mdp.evaluate import Evaluation
    from ilbo.mdp.problem import Problem

LIMIT_EPISODES = 64
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Command:
    """Evaluate a trained policy on fresh episodes."""

    policy: Positional[str]
    """A run folder or a policy file."""
    problem: Positional[MaybeText] = None
    """The problem to use it on, if not the one it was trained for; or that one where it is your own
    model, FILE.py:NAME."""
    instance: Positional[MaybeText] = None
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
    """Take the policy that tested best during training, not the final one."""
    changes: Changes = ()
    keep: Keep = ()
    limit: bool = False
    """Give the gap to the hindsight limit as well: the best return with perfect information, that
    is, with the noise of each episode known beforehand (slow)."""
    bound: bool = False
    """Say how far the policy is from the best possible at the most, by hindsight that pays for what
    it knows of the noise (slow). Of several seeds it is the best one that is bounded."""
    json: bool = False
    """Print one JSON object and nothing else."""

    def run(self) -> int:
        from ilbo.cli.contenders import changed, common_problem, contender
        from ilbo.cli.output import print_json, say
        from ilbo.mdp.evaluate import evaluate
        from ilbo.mdp.yardstick import against, yardsticks
        from ilbo.runs.results import fresh_key
        from ilbo.storage.cache import keep_compiled_programs

        keep_compiled_programs()
        chosen = contender(self.policy, self.best)
        problem = common_problem([chosen], self.problem, self.instance, self.arguments, self.trust)
        policies = chosen.policies(problem)  # with the bounds that they were trained with
        problem = changed(problem, self.changes, self.keep)
        key = fresh_key() if self.seed is None else self.seed
        found = [evaluate(problem, p, key, self.episodes, self.start) for p in policies]
        limit = self._limit(problem, policies, key) if self.limit else None
        bound = None
        if self.bound:
            from ilbo.baselines.bounding import bound_best

            earned = [e.discounted_returns for e in found]
            bound = bound_best(problem, policies, earned, key, self.start)
        others = yardsticks(problem, key, self.episodes, self.start)
        compared = against([e.discounted_returns for e in found], others)
        bounded = {} if bound is None else {"bound": {**asdict(bound), "sentence": bound.sentence}}
        if self.json:
            figures = self._object(problem, chosen.seeds, found)
            print_json({**figures, "yardsticks": compared, "limit": limit, **bounded})
        else:
            self._print(problem, chosen.seeds, found, limit)
            for yardstick in compared:
                say(f"compared    {yardstick.sentence}")
            if bound:
                say(f"bound       {bound.sentence}")
        return 0

    def _limit(self, problem: Problem, policies: list[Any], key: Any) -> dict[str, Any]:
        """The hindsight limit, and how far the policies are below it on the same noise."""
        import numpy as np

        from ilbo.baselines import hindsight
        from ilbo.mdp.bootstrap import bootstrap
        from ilbo.mdp.evaluate import evaluate

        episodes = min(self.episodes, LIMIT_EPISODES)
        best = hindsight(problem, key, episodes, self.start, policies=policies)
        earned = [
            evaluate(problem, p, key, episodes, self.start).discounted_returns for p in policies
        ]
        gap = best.returns - np.mean(earned, axis=0)
        return {
            "episodes": episodes,
            "mean": best.mean,
            "gap": float(gap.mean()),
            "gap_ci95": bootstrap(gap),
        }

    def _object(
        self, problem: Problem, seeds: tuple[int, ...], found: list[Evaluation]
    ) -> dict[str, Any]:
        from ilbo.runs.results import over_seeds, spending

        figures = [
            {
                "mean": e.mean,
                "std": e.std if e.episodes > 1 else None,
                "ci95": e.ci95 if e.episodes > 1 else None,
                "quantiles": e.quantiles(QUANTILES),
                "cvar10": e.cvar(0.1),
                "discounted_mean": e.discounted_mean,
                "discounted_std": e.discounted_std,
                "violations": e.violations,
                "broken": [asdict(broken) for broken in e.broken],
                **spending(problem, [e]),
            }
            for e in found
        ]
        head = {
            "problem": problem.name,
            "policy": self.policy,
            "episodes": self.episodes,
            "seed": self.seed,
        }
        if len(found) == 1:
            return {**head, **figures[0]}
        runs = [{"seed": seed, **f} for seed, f in zip(seeds, figures, strict=True)]
        return {**head, **over_seeds(found), "runs": runs}

    def _print(
        self,
        problem: Problem,
        seeds: tuple[int, ...],
        found: list[Evaluation],
        limit: dict[str, Any] | None,
    ) -> None:
        from ilbo.cli.output import print_returns, print_spending, print_table, say
        from ilbo.mdp.numbers import precise, precise_interval
        from ilbo.runs.results import over_seeds

        which = "best tested policy" if self.best else "policy"
        count = "1 episode" if self.episodes == 1 else f"{self.episodes:,} episodes"
        say(f"{problem.name}, {which} of {self.policy}, {count}")
        if len(found) > 1:
            print_table(
                ["seed", "mean", "std", "5 %", "median", "95 %"],
                [
                    [str(seed), *(precise(x) for x in (e.mean, e.std, *_quantiles(e)))]
                    for seed, e in zip(seeds, found, strict=True)
                ],
            )
            both = over_seeds(found)
            mean, std = precise(both["mean"]), precise(both["std"])
            say(f"mean of the seeds {mean}, std between them {std}")
        else:
            (e,) = found
            print_returns(e)
            if e.episodes > 1:
                quantiles = e.quantiles(QUANTILES).items()
                say("quantiles   " + "   ".join(f"{q:.0%} {precise(x)}" for q, x in quantiles))
                say(f"worst 10 %  {precise(e.cvar(0.1))} in the mean")
        violations = sum(e.violations for e in found) / len(found)
        say(f"violations  {precise(violations)} constraints per episode")
        for broken in (each for e in found for each in e.broken):
            say(f"  {broken.sentence}")
        print_spending(seeds, found)
        if limit:
            say(
                f"hindsight   {precise(limit['mean'])} with the noise known beforehand "
                f"({limit['episodes']} episodes): the policy is {precise(limit['gap'])} below   "
                f"95 % {precise_interval(*limit['gap_ci95'])}"
            )


def _quantiles(evaluation: Evaluation) -> list[float]:
    return list(evaluation.quantiles((0.05, 0.5, 0.95)).values())
