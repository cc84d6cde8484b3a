"""Seconds that `ilbo plan` takes the first time, and the second, when its programs are kept.

    python benchmarks/startup.py [--problems navigation-3 ...] [--repeats 3] [--out startup.json]

Each problem is planned twice by the command line, the first time with an empty cache, and that
several times; the medians are reported. Seconds count from the start of the process: to the first
line, which says what is planned, to the first test, after 25 episodes of training, and to the end,
with the policy evaluated and the pictures drawn. What was spent compiling, or loading what is
compiled, is what the command says of itself.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ilbo
from ilbo.experiments.study import grouped, markdown_table
from ilbo.storage.environment import environment


def plan(name: str, episodes: int, folder: Path) -> dict[str, float]:
    """Seconds of one `ilbo plan` with its cache in the folder."""
    arguments = ["plan", name, "--episodes", str(episodes), "--out", tempfile.mkdtemp(dir=folder)]
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "ilbo", *arguments],
        env={**os.environ, "XDG_CACHE_HOME": str(folder), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr
    process.stderr.readline()
    first_line = time.perf_counter() - began
    next((line for line in process.stderr if line.startswith("episode")), None)
    first_test = time.perf_counter() - began
    told = process.communicate()[0]
    compiling = re.search(r"of these compiling +([\d.]+)", told)
    assert compiling, f"`ilbo plan {name}` failed"
    return {
        "first_line": first_line,
        "first_test": first_test,
        "compiling": float(compiling[1]),
        "all": time.perf_counter() - began,
    }


def table(path: Path) -> str:
    """The table of a file that `--out` wrote."""
    return tabulate(json.loads(path.read_text())["rows"])


def tabulate(rows: list[dict]) -> str:
    timed = {
        "first_line": "to the first line, s",
        "first_test": "to the first test, s",
        "compiling": "of these compiling",
        "all": "in all, s",
    }
    lines = [
        [*key, *(f"{statistics.median(row[name] for row in found):.1f}" for name in timed)]
        for key, found in grouped(rows, "problem", "run").items()
    ]
    return markdown_table(["problem", "run", *timed.values()], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", default=list(ilbo.problems()))
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, help="JSON file for the figures")
    options = parser.parse_args()
    rows = []
    for _, name in itertools.product(range(options.repeats), options.problems):
        with tempfile.TemporaryDirectory() as folder:
            for run in ("first", "second"):
                found = plan(name, options.episodes, Path(folder))
                rows.append({"problem": name, "run": run, **found})
                print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    print(tabulate(rows))
    if options.out:
        content = {"environment": environment(), "rows": rows}
        options.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
