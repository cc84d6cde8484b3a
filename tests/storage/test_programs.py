"""Programs kept on disk: the same bits, found without tracing, never a wrong or broken one."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import tiny_runs
from ilbo.planning.training import Trainer
from jax.experimental.compilation_cache import compilation_cache

import ilbo
from ilbo.planning import planner
from ilbo.planning.planner import Planner
from ilbo.storage.programs import Programs

X = jnp.linspace(0.0, 1.0, 4096)


def iterate(scale, x, steps):
    """A program with several kernels."""

    def step(x, _):
        return {"x": jnp.sin(scale * x["x"]) + jnp.mean(jnp.sort(x["x"]))}, jnp.max(x["x"])

    return jax.lax.scan(step, {"x": x}, None, steps)


def call(folder, steps=3, **made_from):
    state, largest = Programs(folder, made_from).call(iterate, 2.0 * jnp.ones(()), X + 0, steps)
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


def test_a_program_is_whole_although_jax_keeps_one_too(tmp_path):
    settings = {
        "jax_compilation_cache_dir": str(tmp_path / "jax"),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in settings}
    for name, value in settings.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()
    try:
        first = call(tmp_path / "a")
        assert list((tmp_path / "jax").iterdir())
        for _ in range(2):  # compiled where JAX might find it; then loaded
            jax.clear_caches()
            np.testing.assert_array_equal(call(tmp_path / "b"), first)
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()


def test_training_is_kept_and_not_traced_again(tmp_path, monkeypatch):
    def train(folder):
        plans = Planner(ilbo.make("navigation-3"), tiny_runs.CONFIG, (0,), programs=folder)
        runs, *told = plans.advance(plans.start(), 2)
        return jax.tree.leaves((plans.final(runs[0]), told))

    def _advance(*arguments):
        raise AssertionError("traced")

    found = train(tmp_path)
    monkeypatch.setattr(planner, "_advance", _advance)
    for again, once in zip(train(tmp_path), found, strict=True):
        np.testing.assert_array_equal(again, once)


def test_a_shorter_segment_needs_no_program_of_its_own(tmp_path):
    config = dataclasses.replace(tiny_runs.CONFIG, evaluate_every=2)
    plans = Planner(ilbo.make("navigation-3"), config, (0,), 3, programs=tmp_path)
    runs = plans.start()
    for segment in plans.segments:
        runs, *_ = plans.advance(runs, segment)
    assert plans.segments == [2, 1]
    assert len(files(tmp_path)) == 2  # a start and a segment


def test_a_program_begun_with_shapes_is_the_one_that_is_called(tmp_path):
    programs = Programs(tmp_path, {})
    number, numbers = (jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (jnp.ones(()), X))
    programs.begin(iterate, lambda: (number, numbers, 3), 3).result()
    (file,) = files(tmp_path)
    state, largest = programs.call(iterate, 2.0 * jnp.ones(()), X + 0, 3)
    np.testing.assert_array_equal(np.concatenate([state["x"], largest]), call(tmp_path))
    assert files(tmp_path) == [file]


def test_a_trainer_is_known_by_problem_settings_and_store(tmp_path):
    def made_from(name, config, episodes):
        return str(Programs.of(tmp_path, Trainer.of(ilbo.make(name), config, episodes)).made_from)

    config = tiny_runs.CONFIG
    large = ilbo.ILBO(critic_store=10**6)
    same = made_from("navigation-3", config, 10)
    assert made_from("navigation-3", config, 20) == same
    assert made_from("navigation-3", dataclasses.replace(config, episodes=20), 20) == same
    assert made_from("navigation-3", ilbo.ILBO(), 10) != same
    assert made_from("hvac-3", config, 10) != same
    assert made_from("navigation-3", large, 10) != made_from("navigation-3", large, 10_000)


def test_programs_of_a_model_in_python_are_not_kept(tmp_path):
    assert Programs.of(tmp_path, Trainer.of(tiny_runs.problem(), tiny_runs.CONFIG, 10)) is None
