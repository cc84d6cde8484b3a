"""`make torture`: tries all cases, goes on where it was stopped, prints tried and failed."""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "support"))


def arguments(argv):
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, help="the most of each kind; all if not given")
    parser.add_argument("--out", type=Path, default=Path("torture.jsonl"))
    parser.add_argument("--cores", type=int, default=1, help="processes that share the cases")
    parser.add_argument("--only", default="", help="kinds whose name holds this")
    parser.add_argument("--inputs", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--faults", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--table", action="store_true", help="print the table of what was tried")
    return parser.parse_args(argv)


class Log:
    """A line of JSON for each case that was tried."""

    def __init__(self, path, seed):
        self.path, self.seed = path, seed
        lines = path.read_text().splitlines() if path.exists() else []
        self.cases = [case for case in map(json.loads, lines) if case["seed"] == seed]

    def tried(self, kind):
        return {case["case"] for case in self.cases if case["kind"] == kind}

    def add(self, kind, number, failed, seconds):
        case = {"seed": self.seed, "kind": kind, "case": number, "failed": failed}
        case["seconds"] = round(seconds, 3)
        self.cases.append(case)
        with self.path.open("a") as file:
            file.write(json.dumps(case) + "\n")
        if failed:
            print(f"FAILED {kind}, case {number}: {failed}", flush=True)

    def table(self):
        kinds = list(dict.fromkeys(case["kind"] for case in self.cases))
        rows = [[kind, *self._figures(kind)] for kind in kinds]
        rows.append(["all", *self._figures(None)])
        head = ["kind", "tried", "failed", "seconds"]
        lines = [head, ["---", "---:", "---:", "---:"], *rows]
        return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in lines)

    def _figures(self, kind):
        found = [case for case in self.cases if kind in (None, case["kind"])]
        failed = sum(bool(case["failed"]) for case in found)
        return f"{len(found):,}", failed, f"{sum(case['seconds'] for case in found):,.0f}"


def main(argv=None):
    args = arguments(argv)
    log, sound = Log(args.out, args.seed), True
    if not args.table:
        workplace = Path(tempfile.mkdtemp(prefix="torture-"))
        try:
            sound = torture(args, log, workplace)
        except KeyboardInterrupt:
            print("stopped; the same command goes on")
        finally:
            shutil.rmtree(workplace, ignore_errors=True)
        log = Log(args.out, args.seed)
    print(log.table())
    return 1 if not sound or any(case["failed"] for case in log.cases) else 0


def torture(args, log, workplace):
    """Tries what has not been tried yet, a share of it in each process; whether all have ended."""
    cache = os.environ.get("TORTURE_CACHE") or str(workplace / "cache")
    os.environ |= {"XDG_CACHE_HOME": cache, "JAX_PLATFORMS": "cpu", "COLUMNS": "100"}
    os.environ |= {"PJRT_NPROC": "1"}
    from torture import children, faults, inputs, runs

    children.load()

    def left(kind, count):
        most = count if args.cases is None else min(count, args.cases)
        tried = log.tried(kind)
        return [n for n in range(most) if n not in tried] if args.only in kind else []

    faulty = [
        (kind, scenario, numbers, do)
        for kind, scenario, count, do in (faults.kinds(workplace) if args.faults else ())
        if (numbers := left(kind, count))
    ]
    mutated = [(kind, left(kind, count)) for kind, count in inputs.COUNTS.items() if args.inputs]
    runs.prepare({scenario.name: scenario for _, scenario, _, _ in faulty}.values(), workplace)
    if any(numbers for kind, numbers in mutated if kind == "StableHLO files"):
        children.export(workplace, inputs.FOLDERS / "finished")

    def share(core):
        folder = workplace / f"case-{core}"
        for kind, scenario, numbers, do in faulty:
            for number in numbers[core :: args.cores]:
                began = time.monotonic()
                folder.mkdir()
                failed = do(scenario, number, inputs.draw_of(args.seed, kind, number), folder)
                shutil.rmtree(folder)
                log.add(kind, number, failed, time.monotonic() - began)
        for kind, numbers in mutated:
            shared = numbers[core :: args.cores]
            for number, failed, seconds in inputs.try_all(kind, args.seed, shared, workplace):
                log.add(kind, number, failed, seconds)

    return in_processes(share, args.cores)


def in_processes(work, cores):
    """Calls work(0), work(1), ... in a process each; whether all of them have ended well."""
    running = []
    sys.stdout.flush()
    for core in range(cores):
        running.append(os.fork())
        if not running[-1]:
            code = 1
            try:
                work(core)
                code = 0
            except KeyboardInterrupt:
                pass
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
    codes = []
    try:
        while running:
            codes.append(os.waitpid(running[0], 0)[1])
            running.pop(0)
    finally:
        for pid in running:
            os.kill(pid, signal.SIGINT)
            os.waitpid(pid, 0)
    return not any(codes)


if __name__ == "__main__":
    sys.exit(main())
