"""`ilbo plan`: train a policy, in a run folder that can be stopped, resumed and looked at."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
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
    from ilbo.planning.planner import Planner
    from ilbo.runs.folder import RunFolder
    from ilbo.runs.saved import SavedRun
    from ilbo.runs.session import Session


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
        from ilbo.planning.planner import Planner
        from ilbo.runs import settings
        from ilbo.runs.folder import RunFolder
        from ilbo.runs.layout import unused_folder

        file = settings.read(self.config) if self.config else {}
        values: dict[str, Any] = file | fields.given(self.settings)
        config = settings.config(values.get("preset", "default"), values)
        seeds = _seeds(values.get("seed", 0), values.get("seeds", 1))
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
        planner = Planner(problem, config, seeds, programs=programs_folder())
        out = self.out or unused_folder(Path("runs"), problem.name, seeds)
        overwrite = self.overwrite or self.out is None
        with RunFolder.create(
            out, problem, config, seeds, overwrite=overwrite, named=(name, instance)
        ) as folder:
            return self._train(planner, folder)

    def _resume(self, path: Path) -> int:
        from ilbo.cli.output import note
        from ilbo.errors import UserError
        from ilbo.planning.planner import Planner
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
            planner = Planner(problem, saved.config, saved.seeds, programs=programs_folder())
            return self._train(planner, folder, saved)

    def _train(self, planner: Planner, folder: RunFolder, saved: SavedRun | None = None) -> int:
        from ilbo.cli.output import note
        from ilbo.storage.files import WriteError

        try:
            return self._train_and_finish(planner, folder, saved)
        except WriteError as error:
            note(
                f"ilbo: {error} What was saved before is kept: make room, then go on with "
                f"`ilbo plan --resume {folder.path}`."
            )
            return 1

    def _train_and_finish(self, planner: Planner, folder: RunFolder, saved: SavedRun | None) -> int:
        from ilbo.cli.output import note
        from ilbo.cli.progress import TrainingProgress
        from ilbo.cli.tensorboard import Events
        from ilbo.runs.session import train

        runs = f"seed {planner.seeds[0]}" + (
            f" to {planner.seeds[-1]}" if len(planner.seeds) > 1 else ""
        )
        title = f"{planner.problem.name}, {runs}, {planner.episodes} episodes"
        done = saved.history[0][-1].episode if saved and saved.history[0] else 0
        events = Events(folder.path, planner.seeds) if self.tensorboard else None
        with (
            Interruption() as interruption,
            TrainingProgress(title, planner.episodes, len(planner.seeds), done) as bar,
        ):
            getting_ready = threading.Thread(target=_get_ready, args=(planner,))
            getting_ready.start()

            def progress(record):
                bar(record)
                if events:
                    events.add(record)

            session = train(planner, folder, progress=progress, stop=interruption.requested)
        getting_ready.join()
        if events:
            events.close()
        if session.fault:
            note(f"ilbo: {session.fault} It is in {folder.path}.")
            return 1
        if session.stopped:
            note(
                f"ilbo: stopped after {session.episode} of {planner.episodes} episodes; go on with "
                f"`ilbo plan --resume {folder.path}`."
            )
            return interruption.exit_code
        self._finish(planner.problem, session, folder)
        return 0

    def _finish(self, problem: Problem, session: Session, folder: RunFolder) -> None:
        from ilbo import plots
        from ilbo.runs import results
        from ilbo.runs.layout import CURVE, RESULT, TRAJECTORIES
        from ilbo.storage.files import cannot_write, write_json

        plan = session.plan
        with ThreadPoolExecutor(1) as another_core:
            final, best = (
                another_core.submit(results.evaluate_fresh, problem, policies)
                for policies in (plan.policies, plan.best_policies)
            )
            try:
                plots.learning_curve(plan.history, folder.path / CURVE)
                # Of as many episodes as the result, so that one program serves both.
                plots.trajectories(
                    problem, plan.policy, folder.path / TRAJECTORIES, results.FRESH_EPISODES
                )
            except OSError as error:
                raise cannot_write(folder.path, error) from error
            result = results.summary(plan, final.result(), best.result())
        write_json(folder.path / RESULT, result)
        self._show(result, folder.path)

    def _show(self, result: dict[str, Any], path: Path) -> None:
        from ilbo.cli.output import print_json, print_table
        from ilbo.runs.layout import CURVE, TRAJECTORIES, relative

        if self.json:
            print_json({**result, "out": str(path)})
            return
        if "seeds" in result:
            rows = zip(
                result["seeds"], result["means"], result["stds"], result["best_means"], strict=True
            )
            print_table(
                ["seed", "mean", "std", "best tested"],
                [[str(s), f"{m:,.2f}", f"{d:,.2f}", f"{b:,.2f}"] for s, m, d, b in rows],
            )
            print(f"mean of the seeds {result['mean']:,.2f}, std between them {result['std']:,.2f}")
        else:
            low, high = result["ci95"]
            print(
                f"{result['problem']}: mean return {result['mean']:,.2f} on "
                f"{result['test_episodes']:,} fresh episodes (std {result['std']:,.2f}, 95 % "
                f"[{low:,.2f}, {high:,.2f}]); the best tested policy {result['best_mean']:,.2f}"
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
        print(f"saved in {relative(path)}; pictures: {CURVE}, {TRAJECTORIES}")
        print(f"next: ilbo evaluate {relative(path)}, ilbo report {relative(path)}")


class Interruption:
    """Ctrl-C or a request to terminate: noted, so that the segment can end; the second acts."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        for number in (signal.SIGINT, signal.SIGTERM):
            self.before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def requested(self) -> bool:
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        return 128 + (self.signal or 0)

    def _note(self, number: int, frame: Any) -> None:
        from ilbo.cli.output import note

        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number
        note("ilbo: stopping after this segment; once more stops at once and loses the segment.")


def _get_ready(planner: Planner) -> None:
    """Loads what the end of a run needs while another core trains: programs and drawing."""
    with contextlib.suppress(Exception):  # what fails here fails again at the end, and says so
        if training := planner.get_ready():
            training.result()  # which is wanted first
        from ilbo import plots
        from ilbo.nn.policy import Policy
        from ilbo.runs import results

        policy = Policy.blank(planner.problem, planner.config.layers)
        results.evaluate_fresh(planner.problem, [policy])
        figure = plots.draw_trajectories(planner.problem, policy, results.FRESH_EPISODES)
        plots.save(figure, io.BytesIO(), "png")


def _seeds(first: int, count: int) -> tuple[int, ...]:
    from ilbo.errors import UserError

    if count < 1 or count > 10_000:
        raise UserError(f"The number of seeds must be from 1 to 10,000, got {count}.")
    if not 0 <= first <= 2**32 - count:
        raise UserError(f"A seed is a whole number from 0 to 2³² − 1, got {first}.")
    return tuple(range(first, first + count))
