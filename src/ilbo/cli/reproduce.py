"""`ilbo reproduce`: the paper's experiments, one command each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from ilbo.cli.types import Address, MaybeNumber, MaybePath, Place


@dataclass(frozen=True)
class Command:
    """Reproduce an experiment of the paper: data (CSV), a figure (PNG, PDF), a table (Markdown).

    learning-curves: return against episodes, the paper's ILBO, ours and tf-mdp (figure 2)

    stability: return of the current policy through training (figure 4)

    grid: cost at the end for tf-mdp's epochs and batches, against ILBO (figure 3)

    generalisation: new start states: one ILBO policy, tf-mdp retrained (figures 5 and S)

    claims: the paper's claims one by one, from the runs of the four above

    estimators: our ablation: estimators of the bound's gradient, baselines, depth

    all: all of these

    What the output folder holds is not run again: an interrupted command, given again, does what is
    missing, and experiments in one folder share their runs.
    """

    name: Positional[str]
    """One of the above."""
    scale: str = "small"
    """smoke (a minute or two, to try it out), small (for two cores and an hour or so) or paper (as
    published, for a GPU: 10 runs, ILBO with 5,000 episodes)."""
    out: Annotated[
        MaybePath, arg(metavar="DIR", help_behavior_hint="(default: reproduced/SCALE)")
    ] = None
    """Output folder."""
    seeds: Annotated[MaybeNumber, arg(metavar="INT", help_behavior_hint="(default: by scale)")] = (
        None
    )
    """Training runs of each planner."""
    on: Place = "local"
    """Run here, or as tasks on a Ray cluster that is up."""
    address: Address = None
    """Address of the Ray cluster."""

    def run(self) -> int:
        from ilbo.cli.output import note, say
        from ilbo.experiments.catalogue import NAMES, find
        from ilbo.experiments.sweep import reproduce
        from ilbo.storage.cache import keep_compiled_programs

        names = list(NAMES) if self.name == "all" else [self.name]
        find(names[0])
        keep_compiled_programs()
        for name in names:
            folder = reproduce(
                name,
                self.scale,  # type: ignore[arg-type]
                self.out,
                self.seeds,
                self.on,
                self.address,
                say=note,
            )
            for path in (folder / f"{name}.md", folder / f"{name}.png"):
                if path.is_file():
                    say(str(path))
        return 0
