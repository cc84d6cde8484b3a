"""Programs kept on disk: the same bits, found without tracing, never a wrong or broken one."""

import dataclasses
import importlib.metadata
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_runs
from process import run_python

import ilbo
from ilbo.planning import planner
from ilbo.planning.ilbo import ILBOTrainer
from ilbo.storage import cache
from ilbo.storage.private import PrivateFiles
from ilbo.storage.programs import Kept

X = jnp.linspace(0.0, 1.0, 4096)


def iterate(scale, x, steps):
    """A program with several kernels."""

    def step(x, _):
        return {"x": jnp.sin(scale * x["x"]) + jnp.mean(jnp.sort(x["x"]))}, jnp.max(x["x"])

    return jax.lax.scan(step, {"x": x}, None, steps)


def planner_of(config, episodes, folder):
    trainer = ILBOTrainer.of(ilbo.make("navigation-3"), config, episodes)
    return planner.Planner(trainer, (0,), episodes, programs=Kept.of(folder, trainer))


def call(folder, steps=3, **made_from):
    state, largest = Kept(folder, made_from).call(iterate, 2.0 * jnp.ones(()), X + 0, steps)
    return np.concatenate([state["x"], largest])


def files(folder):
    return sorted(folder.glob("*.program"))


def test_a_kept_program_gives_the_bits_of_any_other(tmp_path):
    state, largest = jax.jit(iterate, static_argnums=2)(2.0, X, 3)
    for _ in range(2):
        np.testing.assert_array_equal(call(tmp_path), np.concatenate([state["x"], largest]))
    assert len(files(tmp_path)) == 1


def test_what_is_made_from_other_things_is_another_program(tmp_path):
    for choice in ({}, {"steps": 4}, {"settings": {"rate": 1}}, {"settings": {"rate": 2}}):
        call(tmp_path, **choice)
    assert len(files(tmp_path)) == 4


def test_a_damaged_program_is_made_again(tmp_path):
    found = call(tmp_path)
    (file,) = files(tmp_path)
    file.write_bytes(file.read_bytes()[:1000])
    np.testing.assert_array_equal(call(tmp_path), found)
    assert file.stat().st_size > 1000


def test_a_folder_that_cannot_be_written_breaks_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    np.testing.assert_array_equal(call(tmp_path / "file"), call(tmp_path))


LAPACK = """
import sys
from pathlib import Path
import jax.numpy as jnp
from ilbo.storage.programs import Kept
def solve(matrix, x):
    return jnp.linalg.cholesky(matrix) @ x, jnp.linalg.inv(matrix)
matrix = jnp.array([[2.0, 1.0], [1.0, 3.0]])
found = Kept(Path(sys.argv[1]), {}).call(solve, matrix, jnp.ones(2))
print([x.tolist() for x in found])
"""


def test_a_loaded_program_finds_lapack(tmp_path):
    """In a process of its own: only lowering a program makes LAPACK ready."""
    made, loaded = (run_python(LAPACK, tmp_path) for _ in range(2))
    assert made == loaded
    assert len(files(tmp_path)) == 1


def test_flipped_bits_neither_crash_nor_change_the_answer(tmp_path):
    code = """
import random, sys
from pathlib import Path
import test_programs
folder = Path(sys.argv[1])
found, draw = test_programs.call(folder), random.Random(0)
(file,) = test_programs.files(folder)
for _ in range(20):
    damaged = bytearray(file.read_bytes())
    damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
    file.write_bytes(damaged)
    assert (test_programs.call(folder) == found).all()
    assert file.read_bytes() != damaged
"""
    run_python(f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n" + code, tmp_path)


class Evil:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def plant(folder, mark, sealed):
    """Puts a file of evil in the place of the only program, with a right checksum or with none."""
    (file,) = files(folder)
    if sealed:
        PrivateFiles(folder).put(file.name, pickle.dumps(Evil(mark)))
    else:
        file.write_bytes(pickle.dumps(Evil(mark)))
    return file


def give_away(path):
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(path, 65534, -1)


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda file: file.chmod(0o620), id="group"),
        pytest.param(lambda file: file.chmod(0o602), id="others"),
        pytest.param(give_away, id="owner"),
    ],
)
def test_a_program_that_others_could_have_written_is_not_run(tmp_path, change, sealed):
    folder, mark = tmp_path / "programs", tmp_path / "mark"
    found = call(folder)
    file = plant(folder, mark, sealed)
    change(file)
    np.testing.assert_array_equal(call(folder), found)
    assert not mark.exists()
    assert (file.stat().st_uid, file.stat().st_mode & 0o777) == (os.geteuid(), 0o600)


@pytest.mark.parametrize("sealed", [False, True])
def test_a_folder_of_another_user_is_not_used(tmp_path, sealed):
    folder, mark = tmp_path / "programs", tmp_path / "mark"
    found = call(folder)
    plant(folder, mark, sealed)
    give_away(folder)
    np.testing.assert_array_equal(call(folder), found)
    assert not mark.exists()


def test_the_evil_of_these_tests_works(tmp_path):
    """Who can write the user's own files can run code as the user in any case."""
    folder, mark = tmp_path / "programs", tmp_path / "mark"
    call(folder)
    plant(folder, mark, sealed=True)
    call(folder)
    assert mark.exists()


@pytest.mark.slow
def test_jax_keeps_no_second_copy_of_a_kept_program(tmp_path):
    """It would be of no use, or be found when only a part of what is found can be saved."""
    code = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from ilbo.storage.cache import cache_folder, keep_compiled_programs, programs_folder
keep_compiled_programs()
import test_programs
print(test_programs.call(programs_folder()).sum())
print(sorted(path.name for path in cache_folder().iterdir()))
"""
    said = []
    for _ in range(2):  # made, and made again
        said.append(run_python(code, XDG_CACHE_HOME=str(tmp_path)))
        (file,) = tmp_path.glob("ilbo/jax/*/programs/*.program")
        size = file.stat().st_size
        file.unlink()
    said.append(run_python(code, XDG_CACHE_HOME=str(tmp_path)))
    (file,) = tmp_path.glob("ilbo/jax/*/programs/*.program")
    assert abs(file.stat().st_size - size) < 1000  # whole
    time = file.stat().st_mtime_ns
    said.append(run_python(code, XDG_CACHE_HOME=str(tmp_path)))
    assert file.stat().st_mtime_ns == time  # loaded
    assert len(set(said)) == 1
    assert "iterate" not in said[0]


def test_training_is_kept_and_not_traced_again(tmp_path, monkeypatch):
    def train(folder):
        plans = planner_of(tiny_runs.CONFIG, 10, folder)
        seeds, *told = plans.advance(plans.start(), 2)
        return jax.tree.leaves((seeds[0].held, told))

    def _advance(*arguments):
        raise AssertionError("traced")

    plain, found = train(None), train(tmp_path)
    monkeypatch.setattr(planner, "_advance", _advance)
    for again, once, unkept in zip(train(tmp_path), found, plain, strict=True):
        np.testing.assert_array_equal(again, once)
        np.testing.assert_array_equal(once, unkept)


def draw(scale, key, x):
    """Takes and gives keys of random numbers."""
    key, now = jax.random.split(key)
    return key, x + scale * jax.random.normal(now, x.shape)


def test_keys_of_random_numbers_go_in_and_out(tmp_path):
    key, x = jax.jit(draw)(2.0, jax.random.key(3), X)
    for _ in range(2):  # made, then loaded
        given = jnp.array(2.0), jax.random.key(3), X + 0
        again, numbers = Kept(tmp_path, {}).call(draw, *given)
        assert again == key
        np.testing.assert_array_equal(numbers, x)


def test_all_but_the_first_argument_are_used_up(tmp_path):
    for _ in range(2):  # made, then loaded
        scale, x = 2.0 * jnp.ones(()), X + 0
        Kept(tmp_path, {}).call(iterate, scale, x, 3)
        assert x.is_deleted()
        assert not scale.is_deleted()


def test_threads_call_one_program_at_once(tmp_path):
    call(tmp_path)
    programs, scale = Kept(tmp_path, {}), 2.0 * jnp.ones(())

    def one(i):
        return np.asarray(programs.call(iterate, scale, X + i, 3)[0]["x"])

    expected = [one(i) for i in range(16)]
    with ThreadPoolExecutor(8) as pool:
        for found, wanted in zip(pool.map(one, range(16)), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_a_shorter_segment_needs_no_program_of_its_own(tmp_path):
    config = dataclasses.replace(tiny_runs.CONFIG, evaluate_every=2)
    plans = planner_of(config, 3, tmp_path)
    seeds = plans.start()
    assert list(plans.segments_after(0)) == [2, 1]
    for segment in plans.segments_after(0):
        seeds, *_ = plans.advance(seeds, segment)
    assert len(files(tmp_path)) == 2  # a start and a segment


def test_a_program_begun_with_shapes_is_the_one_that_is_called(tmp_path):
    programs = Kept(tmp_path, {})
    number, numbers = (jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (jnp.ones(()), X))
    programs.begin(iterate, lambda: (number, numbers, 3), 3).result()
    (file,) = files(tmp_path)
    state, largest = programs.call(iterate, 2.0 * jnp.ones(()), X + 0, 3)
    np.testing.assert_array_equal(np.concatenate([state["x"], largest]), call(tmp_path))
    assert files(tmp_path) == [file]


def test_a_trainer_is_known_by_problem_settings_and_store(tmp_path):
    def made_from(name, config, episodes):
        return str(Kept.of(tmp_path, ILBOTrainer.of(ilbo.make(name), config, episodes)).made_from)

    config = tiny_runs.CONFIG
    large = ilbo.ILBO(critic_store=10**6)
    same = made_from("navigation-3", config, 10)
    assert made_from("navigation-3", config, 20) == same
    assert made_from("navigation-3", dataclasses.replace(config, episodes=20), 20) == same
    assert made_from("navigation-3", ilbo.ILBO(), 10) != same
    assert made_from("hvac-3", config, 10) != same
    assert made_from("navigation-3", large, 10) != made_from("navigation-3", large, 10_000)


def test_a_program_is_known_by_what_else_makes_it(tmp_path, monkeypatch):
    trainer = ILBOTrainer.of(ilbo.make("navigation-3"), tiny_runs.CONFIG, 10)

    def made_from():
        return str(Kept.of(tmp_path, trainer).made_from)

    found = made_from()
    assert made_from() == found
    version = importlib.metadata.version
    for name in ("jax", "jaxlib", "pyRDDLGym"):
        with monkeypatch.context() as patch:
            patch.setattr(
                importlib.metadata, "version", lambda x, name=name: version(x) + "!" * (x == name)
            )
            assert made_from() != found, name
    with monkeypatch.context() as patch:
        (tmp_path / "cpuinfo").write_text("flags : fpu\n")
        patch.setattr(cache, "CPUINFO", tmp_path / "cpuinfo", raising=False)
        assert made_from() != found
    with monkeypatch.context() as patch:
        patch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
        assert made_from() != found


def test_programs_of_a_model_in_python_are_not_kept(tmp_path):
    assert Kept.of(tmp_path, ILBOTrainer.of(tiny_runs.problem(), tiny_runs.CONFIG, 10)) is None
