"""Commands of ilbo in forked children, which need not import all anew.

The parent has loaded JAX but never used it, so that its children can (`ilbo.forks`).
"""

import functools
import importlib
import os
import resource
import signal
import sys
import time
import traceback
from typing import NamedTuple

import numpy as np
from PIL import Image

HANGS = 600.0
"""Seconds after which a child counts as hanging."""
FEW = 8
"""Episodes that results are taken over and pictures drawn of: what is tested is the files."""


class Ended(NamedTuple):
    """How a child ended."""

    code: int | None
    """Its exit code; minus a signal's number; None for one that hung and was killed."""
    out: str
    err: str


def load():
    """Imports all that commands import, and starts nothing; leaves out what is not tested here.

    Of a run, pictures are written, but not drawn; its result is of the policies' parameters, and
    not of episodes; and a command line is parsed once. These took three quarters of the time.
    """
    from ilbo.cli.main import COMMANDS

    modules = [f"ilbo.cli.{name}" for name in COMMANDS]
    modules += ["ilbo.planning.ilbo", "ilbo.planning.loop", "ilbo.runs.finish"]
    modules += ["ilbo.runs.recorder", "ilbo.runs.loading", "ilbo.storage.programs"]
    modules += ["ilbo.builtin.catalogue", "ilbo.rddl.build", "ilbo.rddl.region"]
    modules += ["ilbo.report.page", "ilbo.export.policy", "ilbo.planning.estimators.pathwise"]
    modules += ["matplotlib.figure", "flatbuffers", "jax.export", "ilbo.mdp.ranking"]
    modules += ["pyRDDLGym.core.parser.parser", "pyRDDLGym.core.compiler.tracer"]
    modules += ["typeguard", "ilbo.api.progress", "ilbo.loggers.names", "ilbo.planning.warm_start"]
    modules += ["ilbo.runs.further", "ilbo.watch.beside", "ilbo.plots.components", "scipy.linalg"]
    modules += ["jaxlib.mlir.dialects.mhlo", "jaxlib.mlir.dialects.builtin"]
    modules += ["jax.experimental.multihost_utils", "matplotlib.backends.backend_svg"]
    for name in modules:
        importlib.import_module(name)
    from matplotlib.figure import Figure

    from ilbo.cli import main
    from ilbo.plots import canvas, pictures
    from ilbo.runs import finish, results

    results.FRESH_EPISODES = FEW
    results.evaluate_fresh = _figures
    finish.yardsticks = results.yardsticks = lambda *_: {}
    for draw in ("draw_trajectories", "draw_learning_curve"):
        setattr(pictures, draw, lambda *_, **__: Figure((1, 1)))
    canvas._save_png = lambda _, path: Image.effect_noise((64, 64), 50.0).save(path, "png")
    parse = functools.cache(main.parse)
    main.parse = lambda name, arguments: parse(name, tuple(arguments))


def _figures(problem, policies, episodes=FEW):
    """What stands for evaluations: numbers that the parameters of each policy decide."""
    import equinox as eqx
    import jax

    from ilbo.mdp.evaluate import Evaluation

    found = []
    for policy in policies:
        arrays = jax.tree.leaves(eqx.filter(policy, eqx.is_array))
        size = sum(float(np.abs(np.asarray(array, float)).sum()) for array in arrays)
        returns = size + np.arange(episodes)
        found.append(
            Evaluation(episodes, size, 1.0, (size, size), size, 1.0, 0.0, returns, returns)
        )
    return found


class Child:
    """A command in a child that works in a folder; it must say less than a pipe holds."""

    def __init__(self, folder, arguments, before=None):
        from ilbo.cli import main

        main.parse(arguments[0], arguments[1:])  # once for all children
        pipes = os.pipe(), os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if not self.pid:
            for number, (_, writer) in enumerate(pipes, start=1):
                os.dup2(writer, number)
            self._live(folder, arguments, before)
        for _, writer in pipes:
            os.close(writer)
        self.readers = [reader for reader, _ in pipes]

    def _live(self, folder, arguments, before):
        code = 99
        try:
            from ilbo.cli.main import main

            os.chdir(folder)
            if before:
                before()
            try:
                code = main(arguments)
            except SystemExit as finished:
                code = int(finished.code or 0)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def wait(self, seconds=HANGS):
        deadline = time.monotonic() + seconds
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return self._ended(os.waitstatus_to_exitcode(status))
            if time.monotonic() > deadline:
                self.kill()
                return self._ended(None)
            time.sleep(0.003)

    def kill(self, seconds=0.0):
        """Kills it after so long, unless it has ended by then."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not os.waitid(
            os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT
        ):
            time.sleep(0.001)
        os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        return self._ended(os.waitstatus_to_exitcode(status))

    def _ended(self, code):
        texts = []
        for reader in self.readers:
            with open(reader, "rb") as file:
                texts.append(file.read().decode(errors="replace"))
        return Ended(code, *texts)


def run(folder, *arguments, before=None):
    return Child(folder, list(arguments), before).wait()


def limit_files(size):
    """Has every file end at so many bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def export(workplace, finished):
    """An exported policy in the workplace."""
    ended = run(workplace, "export", str(finished), "--to", str(workplace / "exported"))
    if ended.code != 0:
        raise RuntimeError(ended.err)
    os.replace(workplace / "exported" / "policy.stablehlo", workplace / "policy.stablehlo")
