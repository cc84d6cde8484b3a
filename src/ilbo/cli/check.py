"""`ilbo check`: what is off with a model, before training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tyro.conf import Positional

from ilbo.cli.types import Arguments

if TYPE_CHECKING:
    from ilbo.mdp.check import Check


@dataclass(frozen=True)
class Command:
    """Try a model out before training and say what is off with it, and what to do about it."""

    problem: Positional[str]
    """A built-in problem (see `ilbo problems`), an RDDL file, rddl:NAME/INSTANCE, or your own
    model: FILE.py:NAME or MODULE:NAME."""
    instance: Positional[str | None] = None
    """The RDDL instance file, where the problem is a domain file."""
    arguments: Arguments = ()
    seed: int = 0
    """Seed of what is tried."""
    json: bool = False
    """Print one JSON object and nothing else."""

    def run(self) -> int:
        import ilbo
        from ilbo.cli.output import print_json, say
        from ilbo.mdp.check import check
        from ilbo.registry.python_file import arguments_of
        from ilbo.storage.cache import keep_compiled_programs

        keep_compiled_programs()
        problem = ilbo.make(self.problem, self.instance, arguments_of(self.arguments))
        seen = check(problem, self.seed)
        if self.json:
            print_json({"problem": problem.name, **_plain(seen)})
        else:
            say(f"{problem.name}\n{seen}")
        return 0


def _plain(seen: Check) -> dict[str, Any]:
    return {
        "findings": seen.findings,
        "magnitudes": seen.magnitudes,
        "felt_after": seen.felt_after,
        "ended": seen.ended,
    }
