"""`ilbo plan`: train a policy, in a run folder that can be stopped, resumed and looked at."""

from __future__ import annotations

import dataclasses
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from ilbo.cli import fields
from ilbo.cli.fields import Settings
from ilbo.cli.types import MaybePath, MaybeText
from ilbo.storage.cache import keep_compiled_programs, programs_folder, use_one_thread

if TYPE_CHECKING:
    from ilbo.mdp.problem import Problem
    from ilbo.mdp.yardstick import Yardstick
    from ilbo.planning.config import ILBO
    from ilbo.planning.planner import Planner
    from ilbo.runs.folder import RunFolder


@dataclass(frozen=True)
class Command:
    """Train a policy for a problem."""

    problem: Positional[MaybeText] = None
    """A built-in problem (see `ilbo problems`), a generated chain such as "reservoir(100, 0)", an
    RDDL domain file, or rddl:NAME/INSTANCE."""
    instance: Positional[MaybeText] = None
    """The RDDL instance file, where the problem is a domain file."""
    config: Annotated[MaybePath, arg(metavar="FILE", help_behavior_hint="")] = None
    """TOML file with settings, such as the config.toml of a run folder. A flag goes before the same
    setting in the file, which goes before the preset's."""
    out: Annotated[
        MaybePath, arg(metavar="DIR", help_behavior_hint="(default: runs/PROBLEM-SEED)")
    ] = None
    """Run folder to write."""
    resume: Annotated[MaybePath, arg(metavar="DIR", help_behavior_hint="")] = None
    """Go on with the run in this folder; all settings are the folder's."""
    overwrite: bool = False
    """Replace the run that --out holds."""
    tensorboard: bool = False
    """Write event files for TensorBoard into the run folder as well."""
    json: bool = False
    """Print one JSON object and nothing else."""
    settings: Annotated[Settings, arg(name="")] = dataclasses.field(default_factory=Settings)

    def run(self) -> int:
        keep_compiled_programs()
        return self._resume(self.resume) if self.resume is not None else self._start()

    def _start(self) -> int:
        import ilbo
        from ilbo.errors import UserError
        from ilbo.runs import settings
        from ilbo.runs.folder import RunFolder
        from ilbo.runs.layout import unused_folder

        file = settings.read(self.config) if self.config else {}
        values: dict[str, Any] = file | fields.given(self.settings)
        config = settings.config(values.get("preset", "default"), values)
        seeds = settings.seeds(values)
        if len(seeds) == 1:
            use_one_thread()
        name, instance = self.problem, self.instance
        if name is None:
            name, instance = file.get("problem"), file.get("instance")
        if name is None:
            raise UserError("Name a problem, for example `ilbo plan navigation-3`.")
        if self.overwrite and self.out is None:
            raise UserError("--overwrite needs --out: the folder to replace.")
        problem = ilbo.make(name, instance)
        out = self.out or unused_folder(Path("runs"), problem.name, seeds)
        overwrite = self.overwrite or self.out is None
        with RunFolder.create(
            out, problem, config, seeds, overwrite=overwrite, named=(name, instance)
        ) as folder:
            return self._train(problem, config, seeds, folder)

    def _resume(self, path: Path) -> int:
        from ilbo.cli.output import note
        from ilbo.errors import UserError
        from ilbo.runs.folder import RunFolder
        from ilbo.runs.saved import read_run

        clash = [f"--{name.replace('_', '-')}" for name in fields.given(self.settings)]
        clash += [f"--{name}" for name in ("config", "out", "overwrite") if getattr(self, name)]
        clash += ["PROBLEM"] if self.problem is not None else []
        if clash:
            raise UserError(
                f"--resume takes everything from the folder {str(path)!r}: leave out {clash[0]}."
            )
        saved = read_run(path)
        if len(saved.seeds) == 1:
            use_one_thread()
        if saved.result is not None:
            note(f"The run in {path} has finished.")
            self._show(saved.result, path)
            return 0
        problem = saved.problem()
        with RunFolder(path) as folder:
            done = saved.history[0][-1].episode if saved.history[0] else 0
            return self._train(problem, saved.config, saved.seeds, folder, done)

    def _train(
        self,
        problem: Problem,
        config: ILBO,
        seeds: tuple[int, ...],
        folder: RunFolder,
        done: int = 0,
    ) -> int:
        """Trains, from the folder's checkpoint where there is one, and finishes the run."""
        from ilbo.cli.output import note
        from ilbo.errors import PlanningWarning
        from ilbo.planning.ilbo import ILBOTrainer
        from ilbo.planning.loop import gradient_remarks
        from ilbo.planning.planner import Planner
        from ilbo.storage.files import WriteError
        from ilbo.storage.programs import Kept

        warnings.simplefilter("ignore", PlanningWarning)  # a command says it in its own way
        for remark in gradient_remarks(problem, config) if not done else []:
            note(f"ilbo: {remark}")
        episodes = config.most_episodes
        trainer = ILBOTrainer.of(problem, config, episodes)
        kept = Kept.of(programs_folder(), trainer)
        planner = Planner(trainer, seeds, episodes, programs=kept)
        try:
            return self._train_and_finish(planner, folder, done)
        except WriteError as error:
            note(
                f"ilbo: {error} What was saved before is kept: make room, then go on with "
                f"`ilbo plan --resume {folder.path}`."
            )
            return 1

    def _train_and_finish(self, planner: Planner, folder: RunFolder, done: int) -> int:
        from ilbo.cli.interruption import Interruption
        from ilbo.cli.output import note
        from ilbo.cli.progress import TrainingProgress
        from ilbo.cli.tensorboard import Events
        from ilbo.planning.loop import StopWhen, Tell, train
        from ilbo.runs.recorder import Recorder

        runs = f"seed {planner.seeds[0]}" + (
            f" to {planner.seeds[-1]}" if len(planner.seeds) > 1 else ""
        )
        seconds = planner.config.seconds
        length = f"{planner.episodes} episodes" if seconds is None else f"{seconds:g} seconds"
        title = f"{planner.problem.name}, {runs}, {length}"
        events = Events(folder.path, planner.seeds) if self.tensorboard else None
        program = planner.prepare()
        with (
            Interruption(lambda: program is not None and not program.done()) as interruption,
            TrainingProgress(
                title, planner.config.episodes, len(planner.seeds), done, seconds
            ) as bar,
        ):
            getting_ready = threading.Thread(target=_get_ready, args=(planner,))
            getting_ready.start()
            hooks = [Recorder(folder), Tell(bar), StopWhen(interruption.requested)]
            hooks = [*hooks, Tell(events.add)] if events else hooks
            plan = train(planner, hooks, seconds=seconds)
        getting_ready.join()
        if events:
            events.close()
        if plan.fault:
            note(f"ilbo: {plan.fault} It is in {folder.path}.")
            return 1
        if seconds is not None and plan.seconds > seconds and len(plan.history[0]) == 1:
            note(
                f"ilbo: {seconds:g} seconds were over before the first test, which came after "
                f"{plan.seconds:.0f} with compiling: the policy is that of {plan.episode} episodes."
            )
        if plan.ending != "finished":
            of = f" of {planner.episodes}" if seconds is None else ""
            note(
                f"ilbo: stopped after {plan.episode}{of} episodes; go on with "
                f"`ilbo plan --resume {folder.path}`."
            )
            return interruption.exit_code
        from ilbo.runs.finish import finish

        self._show(finish(folder, plan), folder.path)
        return 0

    def _show(self, result: dict[str, Any], path: Path) -> None:
        from ilbo.cli.output import print_json, print_table, say
        from ilbo.mdp.numbers import precise, precise_interval
        from ilbo.runs.layout import CURVE, TRAJECTORIES, relative

        if self.json:
            print_json({**result, "out": str(path)})
            return
        mean, std = precise(result["mean"]), precise(result["std"])
        if "seeds" in result:
            rows = zip(
                result["seeds"], result["means"], result["stds"], result["best_means"], strict=True
            )
            print_table(
                ["seed", "mean", "std", "best tested"],
                [[str(seed), *map(precise, figures)] for seed, *figures in rows],
            )
            say(f"mean of the seeds {mean}, std between them {std}")
        else:
            say(
                f"{result['problem']}: mean return {mean} on {result['test_episodes']:,} fresh "
                f"episodes (std {std}, 95 % {precise_interval(*result['ci95'])}); the best tested "
                f"policy {precise(result['best_mean'])}"
            )
        for yardstick in _yardsticks(result):
            say(f"compared: {yardstick.sentence}")
        if "discount" in result:
            say(
                f"discounted by {result['discount']:g}, which is what is planned for and tested: "
                f"{result['discounted_mean']:,.2f}"
            )
        print_table(
            ["what it took", "each run" if "seeds" in result else ""],
            [
                [label, f"{result[key]:,}"]
                for label, key in (
                    ("episodes", "episodes"),
                    ("transitions", "transitions"),
                    ("further model evaluations", "model_evaluations"),
                    ("random draws", "random_draws"),
                    ("gradient steps", "gradient_steps"),
                    ("seconds", "seconds"),
                    ("of these compiling", "compile_seconds"),
                )
            ],
        )
        say(f"saved in {relative(path)}; pictures: {CURVE}, {TRAJECTORIES}")
        say(f"next: ilbo evaluate {relative(path)}, ilbo report {relative(path)}")


def _yardsticks(result: dict[str, Any]) -> list[Yardstick]:
    """Those of a result; a file that an earlier version wrote has none."""
    from ilbo.mdp.yardstick import Yardstick

    found = result.get("yardsticks", [])
    return [Yardstick(**{**one, "ci95": one["ci95"] and tuple(one["ci95"])}) for one in found]


def _get_ready(planner: Planner) -> None:
    """Loads what the end of the run needs, the modules that it takes among it."""
    from ilbo.runs.finish import get_ready

    get_ready(planner)
