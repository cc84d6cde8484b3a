"""How long one decision takes: a single state on the CPU, policy by policy.

    python benchmarks/latency.py [RUN_OR_POLICY]

Without an argument, an untrained policy of the default size for navigation-3 and for reservoir-20:
the time does not depend on the weights. Each row is the median and the 99th percentile of many
calls, from a NumPy state to a NumPy action.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

import ilbo
from ilbo.export.policy import export_policy
from ilbo.nn.policy import Layers, Policy
from ilbo.registry.identity import rebuild
from ilbo.runs.loading import load_policy
from ilbo.storage.policyfile import read_header


def measure(decide: Callable[[np.ndarray], object], states: np.ndarray) -> tuple[float, float]:
    """Median and 99th percentile, in microseconds."""
    for state in states[:50]:
        np.asarray(decide(state))
    times = []
    for state in states:
        began = time.perf_counter_ns()
        np.asarray(decide(state))
        times.append((time.perf_counter_ns() - began) / 1000)
    return float(np.median(times)), float(np.percentile(times, 99))


def ways(policy: Policy, problem: ilbo.Problem, folder: Path) -> dict[str, Callable]:
    """The policy in each form that it can be called in."""
    import onnxruntime

    files = export_policy(policy, problem, folder, onnx=True).files
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(files["onnx"]), options)
    return {
        "policy, jax.jit": jax.jit(lambda state: policy(state)),
        "StableHLO, ilbo.load_policy": load_policy(files["stablehlo"]),
        "ONNX, onnxruntime": lambda state: session.run(None, {"state": state[None]})[0][0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("policy", nargs="?", help="a run folder or a policy file")
    parser.add_argument("--calls", type=int, default=2000)
    arguments = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    if arguments.policy:
        problem = rebuild(read_header(arguments.policy)["problem"])
        cases = [(problem, load_policy(arguments.policy, problem))]
    else:
        problems = [ilbo.make("navigation-3"), ilbo.make("reservoir-20")]
        layers = ilbo.ILBO().layers
        cases = [(p, Policy.init(jax.random.key(0), p, Layers(layers))) for p in problems]
    print(f"{'problem':14}  {'way':28}  {'median µs':>10}  {'99 % µs':>10}")
    for problem, policy in cases:
        states = np.asarray(problem.starts(jax.random.key(1), (arguments.calls,)))
        with tempfile.TemporaryDirectory() as folder:
            for way, decide in ways(policy, problem, Path(folder)).items():
                median, tail = measure(decide, states)
                print(f"{problem.name:14}  {way:28}  {median:10.1f}  {tail:10.1f}", flush=True)


if __name__ == "__main__":
    main()
