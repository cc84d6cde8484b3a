"""`ilbo export`: a trained policy as files that other programs run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from ilbo.cli.types import Arguments, MaybeText, Trust


@dataclass(frozen=True)
class Command:
    """Export a trained policy for use elsewhere: StableHLO (by jax.export), and ONNX if asked."""

    policy: Positional[str]
    """A run folder or a policy file."""
    problem: Positional[MaybeText] = None
    """The problem to use it on, if not the one it was trained for; or that one where it is your own
    model, FILE.py:NAME."""
    instance: Positional[MaybeText] = None
    """The RDDL instance file, where the problem is a domain file."""
    arguments: Arguments = ()
    trust: Trust = False
    to: Annotated[Path, arg(metavar="DIR")] = Path("exported")
    """Folder to write into."""
    onnx: bool = False
    """Write ONNX as well."""
    best: bool = False
    """Take the policy that tested best during training, not the final one."""
    json: bool = False
    """Print one JSON object and nothing else."""

    def run(self) -> int:
        from ilbo.cli.contenders import common_problem, contender
        from ilbo.cli.output import print_json, say
        from ilbo.errors import UserError
        from ilbo.export.policy import export_policy
        from ilbo.mdp.simple import POLICIES
        from ilbo.storage.cache import keep_compiled_programs

        keep_compiled_programs()
        if self.policy in POLICIES:
            raise UserError("Only trained policies can be exported.")
        chosen = contender(self.policy, self.best)
        if len(chosen.seeds) > 1:
            raise UserError(
                f"{self.policy!r} holds the policies of {len(chosen.seeds)} seeds: name one, "
                f"for example {str(Path(self.policy) / f'seed-{chosen.seeds[0]}')!r}."
            )
        problem = common_problem([chosen], self.problem, self.instance, self.arguments, self.trust)
        (policy,) = chosen.policies(problem)
        done = export_policy(policy, problem, self.to, self.onnx)
        if self.json:
            print_json({"problem": problem.name, **vars(done)})
            return 0
        for kind, path in done.files.items():
            size = path.stat().st_size / 1000
            say(
                f"{path}  {size:,.1f} kB  {kind}, within {done.differences[kind]:.1g} of the "
                "policy on random states"
            )
        seen = "state, time" if policy.timed else "state"
        say(f"in Python: ilbo.load_policy({str(done.files['stablehlo'])!r})({seen})")
        return 0
