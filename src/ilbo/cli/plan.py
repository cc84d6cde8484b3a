"""`ilbo plan`: train a policy, in a run folder that can be stopped, resumed and looked at."""

from __future__ import annotations

import dataclasses
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, UseAppendAction, arg

from ilbo.cli import fields
from ilbo.cli.fields import Settings
from ilbo.cli.types import Arguments, Keep, MaybePath, MaybeText, Trust
from ilbo.cli.watch import Page
from ilbo.storage.cache import keep_compiled_programs, programs_folder, use_one_thread

if TYPE_CHECKING:
    from ilbo.loggers.names import Loggers
    from ilbo.mdp.problem import Problem
    from ilbo.mdp.yardstick import Yardstick
    from ilbo.planning.planner import Planner
    from ilbo.runs.folder import RunFolder
    from ilbo.runs.saved import SavedRun


ENDED_EARLY = {
    "patience": "so many tests in a row have brought no better policy",
    "target": "the policy earns what was asked for on the test",
}


@dataclass(frozen=True)
class Command:
    """Train a policy for a problem."""

    problem: Positional[MaybeText] = None
    """A built-in problem (see `ilbo problems`), a generated chain such as "reservoir(100, 0)", an
    RDDL domain file, rddl:NAME/INSTANCE, or your own model: FILE.py:NAME or MODULE:NAME."""
    instance: Positional[MaybeText] = None
    """The RDDL instance file, where the problem is a domain file."""
    arguments: Arguments = ()
    keep: Keep = ()
    trust: Trust = False
    config: Annotated[MaybePath, arg(metavar="FILE", help_behavior_hint="")] = None
    """TOML file with settings, such as the config.toml of a run folder. A flag goes before the same
    setting in the file, which goes before the preset's."""
    out: Annotated[
        MaybePath, arg(metavar="DIR", help_behavior_hint="(default: runs/PROBLEM-SEED)")
    ] = None
    """Run folder to write."""
    resume: Annotated[MaybePath, arg(metavar="DIR", help_behavior_hint="")] = None
    """Go on with the run in this folder; all settings are the folder's. With --episodes or
    --seconds, in all, a run is trained further."""
    warm_start: Annotated[MaybePath, arg(metavar="DIR", help_behavior_hint="")] = None
    """Begin with the policy of this run folder or policy file, also of another problem with as many
    states and actions."""
    overwrite: bool = False
    """Replace the run that --out holds."""
    watch: bool = False
    """Follow the run in the browser, as `ilbo watch` does; the page stays until Ctrl-C."""
    log: Annotated[
        tuple[Literal["tensorboard", "mlflow", "wandb"], ...],
        UseAppendAction,
        arg(metavar="{tensorboard,mlflow,wandb}", help_behavior_hint=""),
    ] = ()
    """Tell another program of the run as well: TensorBoard by files in the run folder, MLflow or
    Weights & Biases as they are set up; may be given several times."""
    json: bool = False
    """Print one JSON object and nothing else."""
    settings: Annotated[Settings, arg(name="")] = dataclasses.field(default_factory=Settings)

    def run(self) -> int:
        keep_compiled_programs()
        with Page(self.watch) as page:
            begun = self.resume
            code = self._start(page) if begun is None else self._resume(begun, page)
            if code == 0:
                page.stay()
        return code

    def _start(self, page: Page) -> int:
        import ilbo
        from ilbo.errors import UserError
        from ilbo.loggers.names import check_installed
        from ilbo.planning.networks import blank_policy
        from ilbo.planning.stopping import rules
        from ilbo.planning.warm_start import check_fits
        from ilbo.registry.python_file import arguments_of, is_reference
        from ilbo.runs import settings
        from ilbo.runs.folder import RunFolder
        from ilbo.runs.further import earlier_policy
        from ilbo.runs.layout import unused_folder
        from ilbo.runs.saved import read_run

        file = settings.read(self.config) if self.config else {}
        values: dict[str, Any] = file | fields.given(self.settings)
        config = settings.config(values.get("preset", "default"), values)
        seeds = settings.seeds(values)
        if len(seeds) == 1:
            use_one_thread()
        name, instance, arguments = self.problem, self.instance, self.arguments
        if name is None:
            name, instance = file.get("problem"), file.get("instance")
            arguments = arguments or tuple(file.get("arg", ()))
            if name is not None and is_reference(name) and not self.trust:
                raise UserError(
                    f"{str(self.config)!r} names a model of your own, {name}, and reading a file "
                    "runs no code: name the model on the command line, or say --trust."
                )
        if name is None:
            raise UserError("Name a problem, for example `ilbo plan navigation-3`.")
        check_installed(self.log)
        if self.overwrite and self.out is None:
            raise UserError("--overwrite needs --out: the folder to replace.")
        stop = {key: values.get(key) for key in ("patience", "target")}
        # Refuses what makes no sense, before anything is written.
        rules(stop["patience"], stop["target"])
        problem = ilbo.make(name, instance, arguments_of(arguments))
        if keep := self.keep or tuple(file.get("keep", ())):
            problem = problem.with_limits(keep)
        first = None
        if self.warm_start is not None:
            first = earlier_policy(self.warm_start, problem, None)
            check_fits(first, blank_policy(problem, config))
        out = self.out or unused_folder(Path("runs"), problem.name, seeds)
        overwrite = self.overwrite or self.out is None
        with RunFolder.create(
            out,
            problem,
            config,
            seeds,
            overwrite=overwrite,
            named=(name, instance),
            rules=stop,
            warm_start=first,
        ) as folder:
            page.open(folder.path, trust=True)  # the model is the one that was named here
            return self._train(problem, read_run(folder.path), folder)

    def _resume(self, path: Path, page: Page) -> int:
        import ilbo
        from ilbo.cli.output import note
        from ilbo.errors import UserError
        from ilbo.registry.python_file import arguments_of
        from ilbo.runs.folder import RunFolder
        from ilbo.runs.further import LENGTH, prolonged
        from ilbo.runs.saved import read_run

        given = fields.given(self.settings)
        length = {name: value for name, value in given.items() if name in LENGTH}
        clash = [f"--{name.replace('_', '-')}" for name in given if name not in LENGTH]
        others = ("config", "out", "overwrite", "warm_start", "keep")
        clash += [f"--{name.replace('_', '-')}" for name in others if getattr(self, name)]
        saved = read_run(path)
        own = saved.description["origin"] == "python"
        clash += ["PROBLEM"] if self.problem is not None and not own else []
        if clash:
            raise UserError(
                f"--resume takes everything from the folder {str(path)!r}: leave out {clash[0]}."
            )
        if len(saved.seeds) == 1:
            use_one_thread()
        longer = prolonged(saved, length) if length else saved
        if longer.result is not None:
            note(f"The run in {path} has finished; --episodes trains it further.")
            self._show(saved.result or {}, saved)
            return 0
        if self.problem is not None:
            problem = ilbo.make(self.problem, self.instance, arguments_of(self.arguments))
            if saved.source:
                saved.source.tell_changes(path, problem)
            problem = saved.checked(problem)
        elif own and saved.source is None:
            name = saved.description["name"]
            raise UserError(
                f"The problem {name!r} of the run {str(path)!r} is a model of your own: name it, "
                "FILE.py:NAME, or go on in Python with `ilbo.resume(path, problem=...)`."
            )
        else:
            problem = saved.problem(self.trust)
        with RunFolder(path) as folder:
            if length:
                folder.prolong(longer)
            page.open(path, self.trust)
            return self._train(problem, longer, folder)

    def _train(self, problem: Problem, saved: SavedRun, folder: RunFolder) -> int:
        """Trains, from the folder's checkpoint where there is one, and finishes the run."""
        from ilbo.cli.output import note
        from ilbo.errors import PlanningWarning
        from ilbo.loggers.names import loggers
        from ilbo.planning.ilbo import ILBOTrainer
        from ilbo.planning.loop import remarks
        from ilbo.planning.planner import Planner
        from ilbo.storage.files import WriteError
        from ilbo.storage.programs import Kept

        warnings.simplefilter("ignore", PlanningWarning)  # a command says it in its own way
        for remark in remarks(problem, saved.config) if not saved.history[0] else []:
            note(f"ilbo: {remark}")
        episodes = saved.config.most_episodes
        trainer = ILBOTrainer.of(problem, saved.config, episodes)
        kept = Kept.of(programs_folder(), trainer)
        planner = Planner(trainer, saved.seeds, episodes, programs=kept)
        try:
            with loggers(self.log, folder.path) as told:
                return self._train_and_finish(planner, saved, folder, told)
        except WriteError as error:
            note(
                f"ilbo: {error} What was saved before is kept: make room, then go on with "
                f"`ilbo plan --resume {saved.on_command_line}`."
            )
            return 1

    def _train_and_finish(
        self, planner: Planner, saved: SavedRun, folder: RunFolder, told: Loggers
    ) -> int:
        from ilbo.api.progress import of_planner
        from ilbo.cli.interruption import Interruption
        from ilbo.cli.output import note
        from ilbo.planning.loop import StopWhen, Tell, train
        from ilbo.runs.further import hooks_of
        from ilbo.runs.recorder import Recorder

        seconds = planner.config.seconds
        done = saved.history[0][-1].episode if saved.history[0] else 0
        program = planner.prepare()
        with (
            Interruption(lambda: program is not None and not program.done()) as interruption,
            of_planner(planner, done, seconds) as bar,
        ):
            getting_ready = threading.Thread(target=_get_ready, args=(planner,))
            getting_ready.start()
            hooks = [Recorder(folder), *hooks_of(saved, planner.problem), Tell(bar)]
            hooks += [StopWhen(interruption.requested), *told]
            plan = train(planner, hooks, seconds=seconds)
        getting_ready.join()
        if plan.fault:
            note(f"ilbo: {plan.fault} It is in {folder.path}.")
            return 1
        if seconds is not None and plan.seconds > seconds and len(plan.history[0]) == 1:
            note(
                f"ilbo: {seconds:g} seconds were over before the first test, which came after "
                f"{plan.seconds:.0f} with compiling: the policy is that of {plan.episode} episodes."
            )
        if not plan.is_finished:
            of = f" of {planner.episodes}" if seconds is None else ""
            note(
                f"ilbo: stopped after {plan.episode}{of} episodes; go on with "
                f"`ilbo plan --resume {saved.on_command_line}`."
            )
            return interruption.exit_code
        if plan.ending in ENDED_EARLY:
            note(f"ilbo: ended after {plan.episode} episodes: {ENDED_EARLY[plan.ending]}.")
        for sentence in filter(None, plan.unkept):
            note(f"ilbo: {sentence}")
        from ilbo.runs.finish import finish

        result = finish(folder, plan)
        told.close(result)
        self._show(result, saved)
        return 0

    def _show(self, result: dict[str, Any], saved: SavedRun) -> None:
        from ilbo.cli.output import print_json, print_table, say
        from ilbo.mdp.numbers import precise, precise_interval
        from ilbo.runs.layout import CURVE, TRAJECTORIES, relative

        if self.json:
            print_json({**result, "out": str(saved.path)})
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
        for sentence in _limits(result):
            say(f"limit: {sentence}")
        if "objective_value" in result:
            say(f"planned for {result['objective']}: {precise(result['objective_value'])}")
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
        say(f"saved in {relative(saved.path)}; pictures: {CURVE}, {TRAJECTORIES}")
        say(f"next: ilbo evaluate {saved.on_command_line}, ilbo report {saved.on_command_line}")


def _yardsticks(result: dict[str, Any]) -> list[Yardstick]:
    """Those of a result; a file that an earlier version wrote has none."""
    from ilbo.mdp.yardstick import Yardstick

    found = result.get("yardsticks", [])
    return [Yardstick(**{**one, "ci95": one["ci95"] and tuple(one["ci95"])}) for one in found]


def _limits(result: dict[str, Any]) -> list[str]:
    """How the limits are kept, for each seed."""
    from ilbo.mdp.spending import Keeping

    each = result.get("limits", [])
    if "seeds" not in result:
        each = [each]
    wanted = [field.name for field in dataclasses.fields(Keeping)]
    found = []
    for i, limits in enumerate(each):
        whose = f"seed {result['seeds'][i]}: " if "seeds" in result else ""
        for limit in limits:
            figures = {name: limit[name] for name in wanted}
            found.append(whose + Keeping(**{**figures, "ci95": tuple(limit["ci95"])}).sentence)
    return found


def _get_ready(planner: Planner) -> None:
    """Loads what the end of the run needs, the modules that it takes among it."""
    from ilbo.runs.finish import get_ready

    get_ready(planner)
