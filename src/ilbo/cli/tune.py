"""`ilbo tune`: settings for one problem, by trials."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from ilbo.cli import fields
from ilbo.cli.fields import Settings
from ilbo.cli.types import Address, Arguments, MaybePath, MaybeText, Place


@dataclass(frozen=True)
class Command:
    """Look for the settings that suit a problem best, with Optuna.

    Every trial is trained with the same seeds and judged on the same noise; those that fall behind
    on their tests are given up. In the end the best settings and those without tuning are trained
    with seeds that no trial has seen. Given again, the command goes on where it was stopped.
    """

    problem: Positional[str]
    """A built-in problem, an RDDL file, or your own model, as for `ilbo plan`."""
    instance: Positional[MaybeText] = None
    """The RDDL instance file, where the problem is a domain file."""
    arguments: Arguments = ()
    trials: int = 50
    """How many trials in all."""
    space: Annotated[MaybePath, arg(metavar="FILE", help_behavior_hint="(default: ours)")] = None
    """TOML file that says which settings are tried; the folder of a study holds ours."""
    config: Annotated[MaybePath, arg(metavar="FILE", help_behavior_hint="")] = None
    """TOML file with the other settings. Settings that are given, here or as flags, are the same
    for all trials and part of what the best is compared with."""
    out: Annotated[MaybePath, arg(metavar="DIR", help_behavior_hint="(default: tuned/PROBLEM)")] = (
        None
    )
    """Folder of the study."""
    fresh_seeds: int = 4
    """Seeds that the best settings and those without tuning are trained with in the end."""
    on: Place = "local"
    """Run trials here, or as many at once as there is room for on a Ray cluster that is up."""
    address: Address = None
    """Address of the Ray cluster."""
    json: bool = False
    """Print one JSON object and nothing else."""
    settings: Annotated[Settings, arg(name="")] = dataclasses.field(default_factory=Settings)

    def run(self) -> int:
        import ilbo
        from ilbo.cli.output import note, print_json, say
        from ilbo.registry.python_file import arguments_of
        from ilbo.runs import settings
        from ilbo.runs.layout import relative
        from ilbo.storage.cache import keep_compiled_programs
        from ilbo.storage.files import WriteError
        from ilbo.tune import folder
        from ilbo.tune.outcome import sentence
        from ilbo.tune.places import make_place
        from ilbo.tune.tuning import tune

        keep_compiled_programs()
        file = settings.read(self.config) if self.config else {}
        given = file | fields.given(self.settings)
        base = settings.config(given.get("preset", "default"), given)
        problem = ilbo.make(self.problem, self.instance, arguments_of(self.arguments))
        out = self.out or Path("tuned") / (re.sub(r"[^\w.()-]+", "-", problem.name).strip("-."))
        named = {
            "problem": self.problem,
            "instance": self.instance,
            "arg": list(self.arguments) or None,
        }
        try:
            result = tune(
                problem,
                base,
                out,
                trials=self.trials,
                seeds=settings.seeds({"seeds": 2, **given}),
                fresh_seeds=self.fresh_seeds,
                space=self.space,
                fixed=given,
                named=named,
                say=note,
                place=make_place(self.on, self.address),
            )
        except WriteError as error:
            note(f"ilbo: {error} Trials so far are kept: the same command goes on with them.")
            return 1
        if self.json:
            print_json({**result, "out": str(out)})
            return 0
        say(sentence(result))
        for name, value in result["best"].items() if result["handed_out"] == "tuned" else ():
            say(f"  {name} = {value}")
        say(f"saved in {relative(out)}; page: {folder.PAGE}")
        say(f"next: ilbo plan --config {relative(out / folder.BEST)}")
        return 0
