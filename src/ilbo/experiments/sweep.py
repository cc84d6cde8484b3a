"""Runs what is missing of an experiment, then reports it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ilbo.errors import UserError
from ilbo.experiments.arms import Arm, Result, perform
from ilbo.experiments.catalogue import find
from ilbo.experiments.engines import Block, Engine, Perform, blocks, make_engine
from ilbo.experiments.folder import ExperimentFolder
from ilbo.experiments.scales import SCALES, ScaleName
from ilbo.experiments.study import Study
from ilbo.mdp.numbers import number
from ilbo.runs.settings import MOST_SEEDS
from ilbo.storage.files import write_text

Say = Callable[[str], None]


def reproduce(
    name: str,
    scale: ScaleName = "small",
    out: str | Path | None = None,
    seeds: int | None = None,
    engine: Engine = "local",
    address: str | None = None,
    say: Say = lambda _: None,
) -> Path:
    """Runs an experiment and writes data, figure and table; returns the folder.

    What the folder holds already, of this experiment or of another, is not run again: an
    interrupted sweep goes on where it stopped, and what several experiments need is trained once.

    Args:
        name: The experiment, one of `ilbo.experiments.NAMES`.
        scale: Its size.
        out: The folder, of any experiments at this scale; SCALE in the folder `reproduced` if None.
        seeds: Runs of each arm; the experiment's own number if None.
        engine: Where it runs.
        address: Of the Ray cluster; that of this machine if None.
        say: Called with a line as each block of runs finishes.
    """
    experiment = find(name)
    if scale not in SCALES:
        raise UserError(f"There is no scale {scale!r}; choose one of {', '.join(SCALES)}.")
    if seeds is not None and not 1 <= seeds <= MOST_SEEDS:
        raise UserError(f"The number of seeds must be from 1 to {MOST_SEEDS:,}, got {seeds}.")
    count = experiment.SEEDS[scale] if seeds is None else seeds
    folder = ExperimentFolder.open(out or Path("reproduced") / scale, scale)
    arms = experiment.arms(SCALES[scale])
    sweep(arms, count, folder, engine, address, say)
    runs = {arm.key: folder.results(arm, seeds_of(arm, count)) for arm in arms}
    study = Study(name, SCALES[scale], arms, runs, folder.path)
    body = experiment.report(study)
    study.write_runs()
    command = f"ilbo reproduce {name} --scale {scale} --seeds {count}"
    header = f"# {experiment.TITLE}\n\n{study.provenance(command)}\n"
    write_text(folder.path / f"{name}.md", f"{header}\n{body.strip()}\n")
    return folder.path


def seeds_of(arm: Arm, count: int) -> list[int]:
    """Seeds that an arm is run for: baselines without training are run once."""
    return list(range(count if arm.seeded else 1))


def sweep(
    arms: Sequence[Arm],
    seeds: int,
    folder: ExperimentFolder,
    engine: Engine = "local",
    address: str | None = None,
    say: Say = lambda _: None,
    perform: Perform = perform,
) -> None:
    """Runs the arms' seeds that the folder lacks, saving each block as it finishes."""
    missing = [(arm, folder.missing(arm, seeds_of(arm, seeds))) for arm in _distinct(arms)]
    missing = [(arm, which) for arm, which in missing if which]
    if not missing:
        return
    runner = make_engine(engine, address)
    size = runner.block_size
    work = [block for arm, which in missing for block in blocks(arm, which, size)]
    finished = 0

    def done(block: Block, results: list[Result]) -> None:
        nonlocal finished
        folder.save(block.arm, results)
        finished += 1
        earned = ", ".join(number(result.final) for result in results)
        took = results[0].seconds
        say(f"[{finished}/{len(work)}] {block}: {earned}" + (f" ({took:.0f} s)" if took else ""))

    runner.run(work, perform, done)


def _distinct(arms: Sequence[Arm]) -> list[Arm]:
    return list({arm.key: arm for arm in arms}.values())
