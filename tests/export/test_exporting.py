"""Exported policies do what the policy does."""

import hashlib
import json
import random

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_runs
from nonsense import injure

import ilbo
from ilbo.errors import UserError
from ilbo.export import policy as exporting
from ilbo.export.onnx import convert
from ilbo.export.policy import export_policy
from ilbo.nn.components import Components
from ilbo.nn.policy import Layers, Policy
from ilbo.nn.shared import SharedLayers
from ilbo.nn.timed import TimedLayers
from ilbo.runs.loading import load_policy


@pytest.fixture(scope="module", params=["navigation-3", "reservoir-10"])
def exported(request, tmp_path_factory):
    problem = ilbo.make(request.param)
    policy = Policy.init(jax.random.key(0), problem, Layers((16, 8)))
    folder = tmp_path_factory.mktemp("exported")
    return problem, policy, export_policy(policy, problem, folder, onnx=True)


def test_stablehlo_takes_single_states_and_batches_of_any_size(exported):
    problem, policy, written = exported
    loaded = load_policy(written.files["stablehlo"])
    states = problem.starts(jax.random.key(5), (7,))
    wanted = jax.jit(jax.vmap(policy))(states)
    np.testing.assert_allclose(loaded(states), wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(loaded(states[:3]), wanted[:3], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(loaded(states[0]), wanted[0], rtol=1e-5, atol=1e-5)
    with pytest.raises(UserError, match=f"states of {problem.state_size} numbers"):
        loaded(np.zeros(problem.state_size + 1))


def test_stablehlo_needs_nothing_of_ours(exported):
    problem, policy, written = exported
    data = written.files["stablehlo"].read_bytes()
    call = jax.export.deserialize(bytearray(data)).call
    states = problem.starts(jax.random.key(6), (2,))
    wanted = jax.jit(jax.vmap(policy))(states)
    np.testing.assert_allclose(call(states), wanted, rtol=1e-5, atol=1e-5)


def test_onnx_runs_elsewhere_within_the_bounds(exported):
    onnxruntime = pytest.importorskip("onnxruntime")
    problem, policy, written = exported
    session = onnxruntime.InferenceSession(str(written.files["onnx"]))
    for count in (1, 9):
        states = np.asarray(problem.starts(jax.random.key(count), (count,)))
        (actions,) = session.run(None, {"state": states})
        low, high = jax.vmap(problem.model.bounds)(states)
        assert np.all((low <= actions) & (actions <= high))
        wanted = jax.jit(jax.vmap(policy))(states)
        np.testing.assert_allclose(actions, wanted, rtol=1e-4, atol=1e-4)


def test_onnx_carries_names_and_units(exported):
    onnx = pytest.importorskip("onnx")
    problem, _, written = exported
    model = onnx.load(str(written.files["onnx"]))
    words = {entry.key: entry.value for entry in model.metadata_props}
    assert words["problem"] == problem.name
    for name in ("state_names", "state_units", "action_names", "action_units"):
        assert tuple(json.loads(words[name])) == getattr(problem, name)
    assert model.graph.input[0].name == "state"
    assert problem.action_names[0] in model.graph.output[0].doc_string


def test_description_lies_beside_the_files(exported):
    problem, _, written = exported
    described = json.loads((written.files["onnx"].parent / "policy.json").read_text())
    assert described["problem"]["name"] == problem.name
    assert described["input"]["shape"] == ["batch", problem.state_size]
    assert set(described["sha256"]) == {"policy.stablehlo", "policy.onnx"}


def test_damaged_stablehlo_is_refused(exported, tmp_path):
    _, _, written = exported
    good = written.files["stablehlo"].read_bytes()
    path = tmp_path / "policy.stablehlo"
    for data in (b"", b"junk" * 20, good[:100]):
        path.write_bytes(data)
        with pytest.raises(UserError, match="is damaged, or is no exported policy"):
            load_policy(path)
    described = (written.files["stablehlo"].parent / "policy.json").read_text()
    (tmp_path / "policy.json").write_text(described)
    path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(UserError, match="another checksum"):
        load_policy(path)


def test_any_damage_to_a_stablehlo_file_is_noticed_without_its_description(exported, tmp_path):
    """To load damaged bytes can hang, or give a policy that answers nonsense."""
    _, _, written = exported
    good, draw = written.files["stablehlo"].read_bytes(), random.Random(0)
    path = tmp_path / "policy.stablehlo"
    path.write_bytes(good)
    load_policy(path)
    for _ in range(300):
        injured = injure(good, draw)
        if injured == good:  # a byte replaced by the same
            continue
        path.write_bytes(injured)
        with pytest.raises(UserError, match="is damaged, or is no exported policy"):
            load_policy(path)


def test_stablehlo_that_calls_foreign_code_is_refused(tmp_path):

    spec = jax.ShapeDtypeStruct((2, 2), jnp.float32)
    ignored = [jax.export.DisabledSafetyCheck.custom_call("xla_ffi_python_cpu_callback")]

    def solving(states):
        return jnp.linalg.inv(states)

    try:
        data = jax.export.export(jax.jit(solving), disabled_checks=ignored)(spec).serialize()
    except ValueError:
        pytest.skip("this JAX exports no custom calls")
    sealed = data + exporting.SEAL + hashlib.sha256(data).digest()
    (tmp_path / "policy.stablehlo").write_bytes(sealed)
    with pytest.raises(UserError, match="calls code outside of itself"):
        load_policy(tmp_path / "policy.stablehlo")


def test_a_wrong_export_is_found_out_and_not_written(tmp_path, monkeypatch):
    problem = tiny_runs.problem()
    policy = Policy.init(jax.random.key(0), problem, Layers((4,)))
    right = exporting._run_stablehlo
    monkeypatch.setattr(exporting, "_run_stablehlo", lambda *args: right(*args) + 0.01)
    with pytest.raises(UserError, match="does not do what the policy does"):
        export_policy(policy, problem, tmp_path)
    assert list(tmp_path.iterdir()) == []


MATRIX = np.array([[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]], np.float32)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.stack([x[0], x[2], jnp.max(x), jnp.sum(x * x)]),
        lambda x: MATRIX @ x,
        lambda x: jnp.concatenate([x[::2], x[jnp.array([2, 0])], jnp.cumsum(jnp.ones(2)) * x[1]]),
        lambda x: jnp.where(jnp.all(x > 0), x**3, jnp.where(jnp.any(x < -0.5), jnp.exp(x), -x)),
        lambda x: jnp.clip(jnp.sin(x) + jnp.floor(3 * x) + jnp.expm1(x), -1.0, jnp.min(x)),
        lambda x: jnp.logaddexp(x, 0.0) + jnp.log1p(x**2) + jax.lax.rsqrt(1 + x**2) + x**1.0,
        lambda x: jnp.outer(x, x).reshape(-1) / 2 + jnp.isfinite(1 / x).astype(jnp.float32).sum(),
    ],
    ids=["stack", "matmul", "indexing", "where", "arithmetic", "smooth", "outer"],
)
def test_functions_that_bounds_may_use_come_out_right_in_onnx(function):
    onnxruntime = pytest.importorskip("onnxruntime")
    model = convert(jax.vmap(function), 3, "test").SerializeToString()
    session = onnxruntime.InferenceSession(model)
    states = np.asarray(jax.random.normal(jax.random.key(0), (20, 3)))
    (got,) = session.run(None, {"state": states})
    np.testing.assert_allclose(got, jax.vmap(function)(states), rtol=1e-4, atol=1e-5)


def test_what_onnx_cannot_express_is_named():
    with pytest.raises(UserError, match="cannot express `sort`"):
        convert(jax.vmap(jnp.sort), 3, "test")


@pytest.mark.slow
def test_a_policy_that_components_share_is_exported_in_full(tmp_path):
    pytest.importorskip("onnxruntime")
    problem = ilbo.reservoir(4)
    make = SharedLayers((8, 4), whole=(4,))
    policy = Policy.init(jax.random.key(0), problem, make, Components.of(problem))
    written = export_policy(policy, problem, tmp_path, onnx=True)  # refuses what differs
    assert set(written.differences) == {"stablehlo", "onnx"}


def test_a_policy_that_sees_the_time_takes_it_as_a_second_input(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    problem = ilbo.make("hvac-3")
    make = TimedLayers((8,), problem.horizon)
    policy = Policy.init(jax.random.key(0), problem, make)
    plan = jax.random.normal(jax.random.key(1), (problem.horizon, problem.action_size))
    policy = eqx.tree_at(lambda p: p.network.plan, policy, plan)
    written = export_policy(policy, problem, tmp_path, onnx=True)
    states = np.asarray(problem.starts(jax.random.key(5), (7,)))
    times = np.array([0, 1, 5, 20, 38, 39, 2], np.float32)
    wanted = policy(states, times)
    loaded = load_policy(written.files["stablehlo"])
    assert loaded.timed
    np.testing.assert_allclose(loaded(states, times), wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(loaded(states[2], 5), wanted[2], rtol=1e-4, atol=1e-4)
    with pytest.raises(UserError, match=r"policy\(state, time\)"):
        loaded(states)
    session = onnxruntime.InferenceSession(str(written.files["onnx"]))
    (actions,) = session.run(None, {"state": states, "time": times})
    np.testing.assert_allclose(actions, wanted, rtol=1e-4, atol=1e-4)
