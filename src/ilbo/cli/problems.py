"""`ilbo problems`: what is built in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """List the built-in problems: sizes, horizon, discount and noise."""

    json: bool = False
    """Print one JSON object and nothing else."""

    def run(self) -> int:
        import ilbo
        from ilbo.cli.output import print_json, print_table

        problems = [ilbo.make(name) for name in ilbo.problems()]
        if self.json:
            print_json(
                {
                    problem.name: {
                        "state_size": problem.state_size,
                        "action_size": problem.action_size,
                        "horizon": problem.horizon,
                        "discount": problem.discount,
                        "noise": str(problem.model.law),
                    }
                    for problem in problems
                }
            )
        else:
            print_table(
                ["name", "state", "action", "horizon", "discount", "noise"],
                [
                    [
                        problem.name,
                        str(problem.state_size),
                        str(problem.action_size),
                        str(problem.horizon),
                        f"{problem.discount:g}",
                        str(problem.model.law),
                    ]
                    for problem in problems
                ],
            )
        return 0
