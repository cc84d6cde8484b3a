"""`ilbo inspect`: how a problem is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tyro.conf import Positional

from ilbo.cli.types import Arguments


@dataclass(frozen=True)
class Command:
    """Show how a problem is read: components, bounds, noise, density, what is not enforced."""

    problem: Positional[str]
    """A built-in problem (see `ilbo problems`), an RDDL file, rddl:NAME/INSTANCE, or your own
    model: FILE.py:NAME or MODULE:NAME."""
    instance: Positional[str | None] = None
    """The RDDL instance file, where the problem is a domain file."""
    arguments: Arguments = ()
    check: bool = False
    """Try it out as well and say what is off with it, as `ilbo check` does."""
    json: bool = False
    """Print one JSON object and nothing else."""

    def run(self) -> int:
        import ilbo
        from ilbo.cli.output import print_json, say
        from ilbo.registry.inspection import inspect
        from ilbo.registry.python_file import arguments_of

        problem = ilbo.make(self.problem, self.instance, arguments_of(self.arguments))
        report = inspect(problem)
        if self.check:
            from ilbo.mdp.check import check

            report["findings"] = [str(one) for one in check(problem).findings]
        if self.json:
            print_json(report)
        else:
            say("\n".join(lines(report)))
        return 0


def lines(report: dict[str, Any]) -> list[str]:
    """The report for a reader."""
    out = [f"{report['problem']}: horizon {report['horizon']}, discount {report['discount']:g}"]
    if "files" in report:
        out.append(f"domain {report['domain']}, instance {report['instance']}")
        out += [f"  {path}" for path in report["files"]]
    out += ["", f"state, {report['state_size']} components"]
    for row in report["state"]:
        low, high = row["region"]
        out.append(f"  {_fluent(row)}  training starts in [{low:.4g}, {high:.4g}]")
    out += ["", f"action, {report['action_size']} components"]
    for row in report["action"]:
        low, high = row["at_start"]
        moving = ", depending on the state" if row["depends_on_state"] else ""
        out.append(f"  {_fluent(row)}  [{low:.4g}, {high:.4g}]{moving}")
        out += [f"    {text}" for text in row["bounds"]]
    law = f": {report['noise_law']}" if report["noise_size"] else ""
    out += ["", f"noise, {report['noise_size']} components{law}"]
    for row in report.get("noise", []):
        out.append(f"  {row['where']} draws from {row['distribution']}: {row['law']}")
    out += ["", *_density(report)]
    if "relaxation" in report:
        out += ["", _relaxation(report)]
    if report.get("preconditions"):
        out += ["", "preconditions, and how they are kept"]
        out += [f"  {row['text']}  ({_KEPT[row['kept']]})" for row in report["preconditions"]]
    for title, key in _LISTS.items():
        if report.get(key):
            out += ["", title, *(f"  {item}" for item in report[key])]
    return out


_KEPT = {
    "by construction": "kept by construction",
    "counted": "not enforced, counted where it is broken",
}
_LISTS = {
    "the episode ends when one of these holds": "terminations",
    "the episode ends when one of these does not hold": "invariants",
    "discrete parts": "relaxed",
    "hidden state components": "hidden",
    "what is off": "findings",
}


def _relaxation(report: dict[str, Any]) -> str:
    if report["relaxation"] == "exact":
        return "planning differentiates the exact problem"
    how = f"{report['relaxation']} relaxation, temperature {report['temperature']:.4g}"
    return f"relaxed for planning: {how}; evaluation is exact"


def _density(report: dict[str, Any]) -> list[str]:
    if report["has_density"]:
        return ["density ln T: yes; all estimators apply"]
    found = report["no_density"]
    return [
        "density ln T: no; the pathwise estimator applies, the score estimator does not",
        *(
            f"  {_few([name for name, given in found.items() if given == why])} {why}"
            for why in dict.fromkeys(found.values())
        ),
    ]


def _few(names: list[str]) -> str:
    shown = names if len(names) <= 6 else [*names[:4], f"... ({len(names)} in all)"]
    return ", ".join(shown)


def _fluent(row: dict[str, Any]) -> str:
    return f"{row['fluent']} ({row['range']} × {row['size']})"
