"""`ilbo check`: what is off with a model, before training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tyro.conf import Positional

from ilbo.cli.types import Arguments

if TYPE_CHECKING:
    from ilbo.mdp.check import Check

SHOWN = 8
"""Components of one kind that are listed."""


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
            say("\n".join([problem.name, *_tables(seen), "", *findings(seen)]))
        return 0


def findings(seen: Check) -> list[str]:
    """The findings for a reader."""
    if not seen.findings:
        return ["nothing is off"]
    return [str(one) for one in seen.findings]


def _tables(seen: Check) -> list[str]:
    """Magnitudes, how late actions are felt, and ends."""
    out = []
    for kind, rows in seen.magnitudes.items():
        shown = list(rows.items())[:SHOWN]
        out += [f"  {kind:6}  {name}: {low:.4g} to {high:.4g}" for name, (low, high) in shown]
        if len(rows) > SHOWN:
            out.append(f"  {kind:6}  ... ({len(rows)} in all)")
    late = {name: steps for name, steps in seen.felt_after.items() if steps}
    for name, steps in list(late.items())[:SHOWN]:
        out.append(f"  {name} is felt in rewards {steps} step{'s' * (steps != 1)} later")
    if seen.ended:
        out.append(f"  {seen.ended:.0%} of the random episodes reach a terminal state")
    return out


def _plain(seen: Check) -> dict[str, Any]:
    return {
        "findings": seen.findings,
        "magnitudes": seen.magnitudes,
        "felt_after": seen.felt_after,
        "ended": seen.ended,
    }
