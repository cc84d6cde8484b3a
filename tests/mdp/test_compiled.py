"""Compiled programs: as many as are kept, and no more."""

import gc
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_rddl
import tiny_runs

import ilbo
from ilbo.mdp.compiled import Bounded


class Scaled(eqx.Module):
    """x times an array and a plain number."""

    by: jax.Array
    factor: float

    def __call__(self, x):
        return self.factor * self.by * x


def apply(function, x, power):
    return {"y": function(x) ** power}


def live():
    gc.collect()
    return len(jax.devices()[0].client.live_executables())


class Compilations:
    """Counts what JAX compiles."""

    def __init__(self):
        self.count = 0
        jax.monitoring.register_event_duration_secs_listener(self._note)

    def _note(self, name, *_, **__):
        self.count += name.endswith("backend_compile_duration")

    def since(self, before):
        return self.count - before


@pytest.fixture(scope="module")
def compilations():
    return Compilations()


def test_what_is_no_array_is_part_of_the_program():
    compiled = Bounded(apply, most=4)
    for factor in (2.0, 3.0):
        for power in (1, 2):
            got = compiled(Scaled(jnp.array(5.0), factor), np.arange(3.0), power)["y"]
            np.testing.assert_allclose(got, (factor * 5 * np.arange(3.0)) ** power)
    assert len(compiled.programs) == 4


def test_equal_forms_share_a_program(compilations):
    compiled = Bounded(apply, most=4)
    x = jnp.arange(3.0)
    equal = x + 0
    compiled(Scaled(x, 2.0), x, 1)
    before = compilations.count
    compiled(Scaled(equal, 2.0), x, 1)
    assert compilations.since(before) == 0
    assert len(compiled.programs) == 1


def test_no_more_programs_live_than_are_kept():
    compiled = Bounded(apply, most=3)
    x = jnp.arange(3.0)
    compiled(Scaled(x, 0.5), x, 1)
    before = live()
    for factor in range(30):
        compiled(Scaled(x, float(factor)), x, 1)
    assert len(compiled.programs) == 3
    assert live() <= before + 3


def test_arrays_that_are_used_up_are_gone():
    compiled = Bounded(apply, most=2, donates=True)
    by, x = jnp.arange(3.0), jnp.arange(3.0)
    compiled(Scaled(by, 1.0), x, 1)
    assert x.is_deleted()
    assert not by.is_deleted()


def test_rddl_that_is_read_again_is_not_compiled_again(tmp_path, compilations):
    pytest.importorskip("pyRDDLGym")
    path = tiny_rddl.write(tmp_path)

    def midpoint(state):
        return jnp.zeros(3)

    ilbo.simulate(ilbo.make(path), midpoint, 0, 2)
    before = compilations.count
    ilbo.simulate(ilbo.make(path), midpoint, 0, 2)
    assert compilations.since(before) == 0
    tiny_rddl.write(tmp_path, reward="sum_{?t : tank} [2 * water(?t)]")
    changed = ilbo.simulate(ilbo.make(path), midpoint, 0, 2)
    assert compilations.since(before) > 0
    assert changed.rewards.sum() > 0


@pytest.mark.slow
def test_settings_by_the_dozen_do_not_fill_the_memory():
    """Each new choice takes some 35 MB while its programs are kept."""
    problem, memory, programs = tiny_runs.problem(), [], []
    for units in range(2, 32):
        config = ilbo.ILBO(**{**vars(tiny_runs.CONFIG), "layers": (units,)})
        ilbo.plan(problem, config, episodes=2)
        programs.append(live())
        memory.append(int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6)
    assert max(programs[20:]) <= programs[15] + 20
    assert memory[-1] - memory[12] < 200, memory
