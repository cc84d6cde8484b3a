"""Kills, full disks, and two processes at once: a run goes on as if nothing had happened."""

import functools
import shutil
import subprocess
import time

from faulty_disk import Disk

from ilbo.runs.layout import is_run
from torture import children
from torture.runs import SCENARIOS, Scenario

KILLS = 250
"""Of each scenario."""
DISKS = 100
"""Full disks of each kind."""
ROUNDS = 3
"""How often each pair of commands meets."""


def kill_at_operation(scenario: Scenario, number, draw, folder):
    """Ends the process at one of its operations on files: the first, the second and so on."""
    passing = number % scenario.operations
    disk = functools.partial(Disk, setattr, passing, ends=True)
    ended = scenario.start(folder, disk).wait()
    if ended.code not in (0, -9):
        return f"operation {passing}: {_told(ended)}"
    return _goes_on(scenario, folder)


def kill_at_moment(scenario: Scenario, number, draw, folder):
    """Kills the run at a random moment, and now and then the one that goes on with it as well."""
    scenario.start(folder).kill(draw.uniform(0.0, 1.1 * scenario.seconds))
    while draw.random() < 0.25:
        if fault := scenario.fault(folder):
            return fault
        scenario.resume(folder).kill(draw.uniform(0.0, 1.1 * scenario.seconds))
    return _goes_on(scenario, folder)


def _goes_on(scenario: Scenario, folder):
    if fault := scenario.fault(folder):
        return fault
    ended = scenario.resume(folder).wait()
    if ended.code != 0:
        return f"does not go on: {_told(ended)}"
    return scenario.unlike_reference(folder)


def _told(ended):
    return f"exit code {ended.code}: {ended.err[-600:]}"


def _is_refusal(ended):
    """Whether a failed command has said why in a sentence."""
    lines = [line for line in ended.err.splitlines() if line.startswith("ilbo: ")]
    return ended.code in (1, 2) and len(lines) == 1 and "Traceback" not in ended.err


def full_disk(scenario: Scenario, number, draw, folder):
    """No more than so many bytes can be written in all."""
    room = draw.randrange(scenario.bytes)
    disk = functools.partial(Disk, setattr, room, full=True, by_bytes=True)
    return _fills(scenario, folder, scenario.start(folder, disk).wait())


def short_files(scenario: Scenario, number, draw, folder):
    """No file can be longer than so many bytes."""
    most = int(2 ** draw.uniform(0, 17))
    limit = functools.partial(children.limit_files, most)
    return _fills(scenario, folder, scenario.start(folder, limit).wait())


def small_disk(scenario: Scenario, number, draw, folder):
    """The run folder lies on a file system of so many bytes, which then grows."""
    pages = 1 + number * (scenario.bytes // 4096 + 8) // DISKS
    (folder / "run").mkdir(parents=True)

    def mount(*options):
        subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", folder / "run"], check=True)

    mount("-o", f"size={pages * 4096}")
    try:
        ended = scenario.start(folder).wait()
        mount("-o", f"remount,size={1 << 26}")
        return _fills(scenario, folder, ended)
    finally:
        subprocess.run(["umount", folder / "run"], check=True)


def _fills(scenario, folder, ended):
    if ended.code != 0 and not _is_refusal(ended):
        return f"full: {_told(ended)}"
    return _goes_on(scenario, folder)


def can_mount(workplace):
    """Whether this user may make small file systems."""
    place = workplace / "mounted"
    place.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], capture_output=True)
    if done.returncode == 0:
        subprocess.run(["umount", place], check=True)
    return done.returncode == 0


PAIRED = {
    "plan": ["plan", "--out", "run"],
    "overwrite": ["plan", "--out", "run", "--overwrite"],
    "resume": ["plan", "--resume", "run"],
    "evaluate": ["evaluate", "run", "--episodes", "8"],
    "compare": ["compare", "run", "midpoint", "--episodes", "8"],
    "report": ["report", "run", "--episodes", "8"],
    "export": ["export", "run", "--to", "run/exported"],
}
PAIRS = [(first, second) for first in PAIRED for second in PAIRED]


def two_at_once(scenario: Scenario, number, draw, folder):
    """Two commands on one folder, which holds a run that was killed or has finished."""
    both = PAIRS[number % len(PAIRS)]
    scenario.start(folder).kill(draw.uniform(0.3, 1.2) * scenario.seconds)
    pair = []
    for name in both:
        arguments = [*PAIRED[name]]
        if name in ("plan", "overwrite"):
            arguments[1:1] = scenario.arguments
        pair.append(children.Child(folder, arguments))
        time.sleep(draw.choice([0.0, draw.uniform(0.0, scenario.seconds)]))
    for name, child in zip(both, pair, strict=True):
        ended = child.wait()
        if ended.code != 0 and not _is_refusal(ended):
            return f"{name} of {both}: {_told(ended)}"
    shutil.rmtree(folder / "run" / "exported", ignore_errors=True)
    if not is_run(folder / "run"):
        shutil.rmtree(folder / "run", ignore_errors=True)
    return _goes_on(scenario, folder)


def kinds(workplace):
    """Name, scenario, number of cases and what does one of them."""
    found = []
    for scenario in SCENARIOS:
        found += [
            (f"kill at a file operation, {scenario.name}", scenario, KILLS // 2, kill_at_operation),
            (f"kill at a random moment, {scenario.name}", scenario, KILLS // 2, kill_at_moment),
        ]
    first = SCENARIOS[0]
    found += [
        ("disk full after so many bytes", first, DISKS, full_disk),
        ("files cut at a size", first, DISKS, short_files),
        ("two commands at once", first, ROUNDS * len(PAIRS), two_at_once),
    ]
    if can_mount(workplace):
        found.append(("file system of a size", first, DISKS, small_disk))
    return found
