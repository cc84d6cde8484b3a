"""JAX told to allow double precision, in a process of its own."""

import json

import numpy as np
import pytest
from process import run_python

DOUBLE = """
import jax, sys, ilbo, tiny_runs
assert jax.numpy.zeros(1).dtype == "float64"
for problem in (tiny_runs.problem(), ilbo.make("reservoir-10")):
    plan = ilbo.plan(problem, tiny_runs.CONFIG, seeds=2, episodes=4)
    assert plan.ending == "finished"
    assert {str(leaf.dtype) for leaf in jax.tree.leaves(plan.policy.network)} == {"float32"}
from ilbo.cli.main import main
out = sys.argv[1] + "/run"
assert main(["plan", "navigation-3", *tiny_runs.FLAGS, "--out", out]) == 0
"""


@pytest.mark.slow
def test_double_precision_may_be_allowed(tmp_path):
    """Policies are of single precision all the same, and evaluate alike in either."""
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    run_python(DOUBLE, tmp_path, JAX_ENABLE_X64="1", **cache)
    code = "import sys; from ilbo.cli.main import main; sys.exit(main(sys.argv[1:]))"
    arguments = ("evaluate", tmp_path / "run", "--episodes", "64", "--json")
    printed = [run_python(code, *arguments, JAX_ENABLE_X64=x64, **cache) for x64 in ("0", "1")]
    single, double = (json.loads(text)["mean"] for text in printed)
    np.testing.assert_allclose(double, single, rtol=1e-4)
