"""Small runs of several kinds, and whether a folder is as if nothing had ever happened to it."""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path

from faulty_disk import Disk

from ilbo.runs.layout import is_run
from ilbo.storage import arrays
from torture import children

SMALL = [
    "--layers", "4", "--policy-batch", "2", "--critic-batch", "4", "--guard", "2",
    "--test-episodes", "4", "--critic-store", "16", "--policy-store", "8",
    "--evaluate-every", "2", "--episodes", "4",
]  # fmt: skip
PATHWISE = ["--depth", "2", "--window", "1"]
TANK = """
domain tank {
    pvariables {
        water   : { state-fluent, real, default = 1.0 };
        release : { action-fluent, real, default = 0.0 };
    };
    cpfs { water' = water - release + Normal(0.0, 0.01); };
    reward = -pow[water - 1.5, 2];
    action-preconditions { release >= 0; release <= max[water, 0.5]; };
}
non-fluents none { domain = tank; }
instance tank_1 {
    domain = tank;
    non-fluents = none;
    init-state { water = 2.0; };
    max-nondef-actions = pos-inf;
    horizon = 4;
    discount = 1.0;
}
"""


@dataclass
class Scenario:
    """A way to call `ilbo plan`."""

    name: str
    arguments: list[str]
    reference: dict[str, bytes] = field(default_factory=dict)
    """Of a run never stopped: the files that must be the same, by name."""
    operations: int = 0
    """Operations on files of such a run."""
    bytes: int = 0
    seconds: float = 0.0

    def start(self, folder, before=None):
        (folder / "tank.rddl").write_text(TANK)
        return children.Child(folder, ["plan", *self.arguments, "--out", "run"], before)

    def resume(self, folder, before=None):
        """Goes on with the run, or starts it where it had not begun."""
        if not is_run(folder / "run"):
            return self.start(folder, before)
        return children.Child(folder, ["plan", "--resume", "run"], before)

    def measure(self, workplace):
        """Runs it without a fault, programs compiled, and keeps what that is like."""
        folder = workplace / f"reference-{self.name}"
        folder.mkdir()
        began = time.monotonic()
        ended = self.start(folder, lambda: _count_operations(folder / "operations")).wait()
        self.seconds = time.monotonic() - began
        if ended.code != 0:
            raise RuntimeError(f"{self.name} does not run: {ended.code} {ended.err}")
        self.operations = int((folder / "operations").read_text())
        self.bytes = sum(p.stat().st_size for p in (folder / "run").rglob("*") if p.is_file())
        self.reference = _content(folder / "run")

    def fault(self, folder):
        """What is wrong with a run folder in which something was interrupted; None if nothing."""
        run = folder / "run"
        for path in run.rglob("*.ilbo"):
            try:
                arrays.read(path, "checkpoint" if path.name == "checkpoint.ilbo" else "policy")
            except Exception as error:
                return f"after it: {error}"
        if not (run / "result.json").exists():
            return None
        try:
            return self._difference(_content(run))
        except ValueError as error:
            return f"after it: {error}"

    def unlike_reference(self, folder):
        """In what a run that has ended differs from one never stopped; None if in nothing."""
        run = folder / "run"
        if left := list(run.rglob("*.tmp")):
            return f"left {left[0].name}"
        return self._difference(_content(run))

    def _difference(self, content):
        for name in sorted(self.reference.keys() | content.keys()):
            if self.reference.get(name) != content.get(name):
                return f"{name} is not that of a run never stopped"
        return None


def prepare(scenarios, workplace):
    """Runs each without a fault: all at once to compile, then one after another to measure."""
    new = [scenario for scenario in scenarios if not scenario.reference]
    compiling = []
    for scenario in new:
        folder = workplace / f"compiled-{scenario.name}"
        folder.mkdir()
        compiling.append(scenario.start(folder))
    for child in compiling:
        child.wait()
    for scenario in new:
        scenario.measure(workplace)


def _count_operations(path):
    """Writes the number of operations to a file whenever the process has ended a command."""
    from ilbo.cli import main

    disk = Disk(setattr, 10**9)
    plain = main._dispatch

    def dispatch(argv):
        code = plain(argv)
        with disk.open(path, "w") as file:
            file.write(str(disk.passed))
        return code

    main._dispatch = dispatch


def _content(run: Path) -> dict[str, bytes]:
    """Policies and figures of a run, without what clocks say."""
    found = {str(p.relative_to(run)): p.read_bytes() for p in run.rglob("*.ilbo")}
    found.pop("checkpoint.ilbo", None)
    clocks = ("seconds", "compile_seconds")
    for name in ("result.json", "metrics.jsonl"):
        path = run / name
        if path.exists():
            text = path.read_text()
            lines = [text] if name == "result.json" else text.splitlines()
            values = [json.loads(line) for line in lines]
            plain = [{k: v for k, v in value.items() if k not in clocks} for value in values]
            found[name] = json.dumps(plain).encode()
    return found


SCENARIOS = [
    Scenario("navigation-3", ["navigation-3", *SMALL, *PATHWISE]),
    Scenario("preset paper", ["navigation-3", "--preset", "paper", *SMALL]),
    Scenario("RDDL", ["tank.rddl", *SMALL, *PATHWISE]),
    Scenario("three seeds", ["navigation-3", "--seeds", "3", *SMALL, *PATHWISE]),
]
