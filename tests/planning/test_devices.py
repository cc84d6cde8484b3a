"""Seeds over several devices: eight simulated ones."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import jax
import numpy as np
import ilbo
from ilbo.planning.ilbo import ILBOTrainer
from ilbo.planning.planner import Planner

assert jax.device_count() == 8
problem = ilbo.make("navigation-3")
config = ilbo.ILBO(layers=(8,), depth=1, window=1, guard=8, test_episodes=8, evaluate_every=4)
trainer = ILBOTrainer.of(problem, config, 4)


def trained(seeds):
    planner = Planner(trainer, seeds, 4, vectorise=True)
    advanced = planner.advance(planner.start(), 4)
    return advanced.seeds.best, np.asarray(advanced.current)


shared, spread = trained(tuple(range(8)))
assert len(shared.sharding.device_set) == 8, shared.sharding
alone, together = trained(tuple(range(7)))
assert len(alone.sharding.device_set) == 1, alone.sharding
np.testing.assert_allclose(spread[:7], together, rtol=1e-3)
"""


@pytest.mark.slow
def test_seeds_that_divide_evenly_are_spread_over_the_devices_and_train_alike():
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
