"""`ilbo simulate`: simple policies, the yardsticks of a problem."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from tyro.conf import Positional

from ilbo.cli.types import Arguments


@dataclass(frozen=True)
class Command:
    """Simulate a simple policy and summarise its returns."""

    problem: Positional[str]
    """A built-in problem (see `ilbo problems`), a generated chain such as "reservoir(100, 0)", an
    RDDL domain file, rddl:NAME/INSTANCE, or your own model: FILE.py:NAME or MODULE:NAME."""
    instance: Positional[str | None] = None
    """The RDDL instance file, where the problem is a domain file."""
    arguments: Arguments = ()
    policy: Literal["random", "midpoint", "hold", "heuristic"] = "random"
    """Uniform within the action bounds, their middle, the action nearest to 0, or the problem's
    hand-written controller."""
    episodes: int = 64
    """How many episodes."""
    seed: int = 0
    """Seed of the noise: the same for every policy."""
    start: tuple[float, ...] | None = None
    """The start state, one number for each state component; the problem's own if not given."""
    json: bool = False
    """Print one JSON object and nothing else."""

    def run(self) -> int:
        import ilbo
        from ilbo.cli.output import print_json, print_returns, say
        from ilbo.mdp.numbers import precise
        from ilbo.mdp.simple import POLICIES
        from ilbo.registry.python_file import arguments_of

        problem = ilbo.make(self.problem, self.instance, arguments_of(self.arguments))
        policy = POLICIES[self.policy](problem.exact)
        result = ilbo.evaluate(problem, policy, self.seed, self.episodes, self.start)
        if self.json:
            print_json(
                {
                    "problem": problem.name,
                    "policy": self.policy,
                    "episodes": result.episodes,
                    "seed": self.seed,
                    "mean": result.mean,
                    "std": result.std,
                    "ci95": result.ci95,
                    "discounted_mean": result.discounted_mean,
                    "discounted_std": result.discounted_std,
                    "violations": result.violations,
                    "broken": [dataclasses.asdict(broken) for broken in result.broken],
                }
            )
            return 0
        say(f"{problem.name}, {self.policy} policy, {result.episodes} episodes")
        print_returns(result)
        if result.violations:
            say(f"violations  {precise(result.violations)} constraints per episode")
            for broken in result.broken:
                say(f"  {broken.sentence}")
        return 0
