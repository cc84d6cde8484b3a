"""Policy files: whole or refused, and never a way to run code."""

import pickle
import random

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_runs
from nonsense import header_and_payload, injure, injure_header, sign

import ilbo
from ilbo.errors import UserError
from ilbo.mdp.bounds import bounds_are_fixed
from ilbo.nn.policy import Layers, Policy
from ilbo.runs.loading import load_policy
from ilbo.storage import arrays as arrayfile
from ilbo.storage.policyfile import read_header, save_policy


def saved(tmp_path, problem, seed=0):
    policy = Policy.init(jax.random.key(seed), problem, Layers((8, 4)))
    path = tmp_path / "policy.ilbo"
    save_policy(policy, path, problem)
    return policy, path


def assert_same_action(first, second):
    np.testing.assert_array_equal(*jax.jit(lambda s: (first(s), second(s)))(jnp.ones(1)))


@pytest.mark.parametrize("name", ["navigation-3", "hvac-3", "reservoir-10", "reservoir(3, 1)"])
def test_built_in_problems_policy_comes_back_from_its_file_alone(tmp_path, name):
    problem = ilbo.make(name)
    policy, path = saved(tmp_path, problem)
    loaded = load_policy(path)
    states = problem.starts(jax.random.key(1), (5,))
    same = jax.jit(lambda s: (jax.vmap(loaded)(s), jax.vmap(policy)(s)))(states)
    np.testing.assert_array_equal(*same)
    assert read_header(path)["problem"]["name"] == name


def test_own_models_policy_needs_no_problem_where_bounds_are_fixed(tmp_path):
    problem = tiny_runs.problem()
    policy, path = saved(tmp_path, problem)
    assert_same_action(load_policy(path), policy)


def test_own_models_policy_needs_the_problem_where_bounds_depend_on_the_state(tmp_path):
    problem = tiny_runs.problem(tiny_runs.Drift(state_bounds=True))
    policy, path = saved(tmp_path, problem)
    with pytest.raises(UserError, match="model of your own"):
        load_policy(path)
    assert_same_action(load_policy(path, problem), policy)


def test_fixed_bounds_are_told_from_those_of_the_state():
    assert bounds_are_fixed(tiny_runs.problem())
    assert bounds_are_fixed(ilbo.make("hvac-6"))
    assert not bounds_are_fixed(tiny_runs.problem(tiny_runs.Drift(state_bounds=True)))
    assert not bounds_are_fixed(ilbo.make("reservoir-10"))


def test_missing_bounds_come_back_infinite(tmp_path):
    class Free(tiny_runs.Drift):
        def bounds(self, state):
            return jnp.full(1, -jnp.inf), jnp.full(1, 2.0)

    _, path = saved(tmp_path, tiny_runs.problem(Free()))
    low, high = load_policy(path).model.bounds(jnp.ones(1))
    assert (float(low[0]), float(high[0])) == (-np.inf, 2.0)


def test_a_problem_of_the_users_own_is_not_mistaken_for_a_built_in_one(tmp_path):
    _, path = saved(tmp_path, tiny_runs.problem(name="navigation-3", states=1))
    assert read_header(path)["problem"]["origin"] == "python"


def test_policy_for_another_problem_is_refused(tmp_path):
    _, path = saved(tmp_path, ilbo.make("reservoir-10"))
    with pytest.raises(UserError, match=r"'reservoir-10', not for 'reservoir-20'.*10 states"):
        load_policy(path, ilbo.make("reservoir-20"))
    with pytest.raises(UserError, match="not for 'navigation-3'"):
        load_policy(path, ilbo.make("navigation-3"))


def test_policy_may_be_used_on_a_problem_with_the_same_components(tmp_path):
    _, path = saved(tmp_path, ilbo.make("reservoir(3, 1)"))
    other = ilbo.make("reservoir(3, 2)")
    loaded = load_policy(path, other)
    assert jax.eval_shape(loaded, other.initial_state).shape == (3,)


def test_newer_format_is_named_as_such(tmp_path):
    _, path = saved(tmp_path, tiny_runs.problem())
    header, payload = header_and_payload(path)
    sign(path, {**header, "format": 99}, payload)
    with pytest.raises(UserError, match=r"format 99.*update ilbo"):
        load_policy(path)


def test_each_kind_of_damage_gives_one_sentence(tmp_path):
    _, path = saved(tmp_path, tiny_runs.problem())
    good = path.read_bytes()
    cases = {
        "not a policy file": b"\x00" * 64,
        "cut short": good[:-3],
        "longer than its header says": good + b"\x00",
        "checksum": good[:-1] + bytes([good[-1] ^ 1]),
    }
    for wanted, data in cases.items():
        path.write_bytes(data)
        with pytest.raises(UserError, match=wanted) as raised:
            load_policy(path)
        assert "\n" not in str(raised.value)
    with pytest.raises(UserError, match="no file"):
        load_policy(tmp_path / "nowhere.ilbo")
    with pytest.raises(UserError, match="no policy in the folder"):
        load_policy(tmp_path / "..")


def test_a_checkpoint_is_not_taken_for_a_policy(tmp_path):
    arrayfile.write(tmp_path / "c.ilbo", "checkpoint", {}, {"x": np.zeros(2, np.float32)})
    with pytest.raises(UserError, match="checkpoint file of ilbo, not a policy"):
        load_policy(tmp_path / "c.ilbo")


class Bomb:
    """Unpickling it would leave a file behind."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_pickled_code_in_place_of_a_policy_is_not_run(tmp_path):
    marker, path = tmp_path / "marker", tmp_path / "policy.ilbo"
    payload = pickle.dumps(Bomb(marker))
    path.write_bytes(payload)
    with pytest.raises(UserError):
        load_policy(path)
    sign(path, {"format": 1, "kind": "policy", "arrays": []}, b"")
    path.write_bytes(path.read_bytes() + payload)
    with pytest.raises(UserError):
        load_policy(path)
    assert not marker.exists()


def fuzz(path, good, cases, seed):
    """Loads injured copies; returns how many were taken for sound."""
    draw = random.Random(seed)
    header, payload = header_and_payload(path)
    refusals = []
    for case in range(cases):
        if case % 3:
            path.write_bytes(injure(good, draw))
        else:
            key = draw.choice(sorted(header))
            sign(path, {**header, key: injure_header(header[key], draw)}, payload)
        try:
            load_policy(path)
        except UserError as error:
            refusals.append(str(error))
    assert not any("\n" in refusal for refusal in refusals)
    return cases - len(refusals)


def test_injured_files_are_refused_in_one_sentence(tmp_path):
    _, path = saved(tmp_path, tiny_runs.problem())
    # Injured headers whose checksum was made to fit may still describe a policy; no others may.
    assert fuzz(path, path.read_bytes(), 60, seed=0) < 20


@pytest.mark.slow
def test_thousands_of_injured_files_are_refused_in_one_sentence(tmp_path):
    for seed, name in enumerate(["navigation-3", "reservoir-10"]):
        _, path = saved(tmp_path, ilbo.make(name))
        assert fuzz(path, path.read_bytes(), 2000, seed) < 700


def test_array_of_nothing_times_too_much_is_refused(tmp_path):
    _, path = saved(tmp_path, tiny_runs.problem())
    header, payload = header_and_payload(path)
    empty = {"name": "x", "type": "<f4", "shape": [0, 2**47, 2**47]}
    sign(path, {**header, "arrays": [*header["arrays"], empty]}, payload)
    with pytest.raises(UserError, match="list of arrays cannot be read"):
        load_policy(path)


@pytest.mark.parametrize("files", [[], None, "x", [["a"]], [["a", 3]], [[]]])
def test_description_without_rddl_files_is_refused(tmp_path, files):
    _, path = saved(tmp_path, tiny_runs.problem())
    header, payload = header_and_payload(path)
    header["problem"] |= {"origin": "rddl", "files": files}
    sign(path, header, payload)
    with pytest.raises(UserError, match="RDDL files cannot be read"):
        load_policy(path)


def test_device_is_no_policy():
    with pytest.raises(UserError, match="not a plain file"):
        load_policy("/dev/zero")


def test_file_with_another_digest_is_refused_where_the_problem_is_rebuilt(tmp_path):
    _, path = saved(tmp_path, ilbo.make("reservoir-10"))
    header, payload = header_and_payload(path)
    assert len(header["problem"]["digest"]) == 64
    sign(path, {**header, "problem": {**header["problem"], "digest": "0" * 64}}, payload)
    with pytest.raises(UserError, match="not the one that it was written for"):
        load_policy(path)
    with pytest.raises(UserError, match="another problem of the name 'reservoir-10'"):
        load_policy(path, ilbo.make("reservoir-10"))
    sign(path, {**header, "problem": {**header["problem"], "digest": 3}}, payload)
    with pytest.raises(UserError, match="its digest is not a text"):
        load_policy(path)


def test_file_of_an_earlier_version_has_no_digest_and_still_loads(tmp_path):
    problem = ilbo.make("reservoir-10")
    policy, path = saved(tmp_path, problem)
    header, payload = header_and_payload(path)
    del header["problem"]["digest"]
    sign(path, header, payload)
    for loaded in (load_policy(path), load_policy(path, problem)):
        np.testing.assert_array_equal(loaded(problem.initial_state), policy(problem.initial_state))


def test_policy_may_be_used_on_its_problem_altered_in_memory(tmp_path):
    problem = ilbo.make("reservoir-10")
    _, path = saved(tmp_path, problem)
    drier = eqx.tree_at(lambda p: p.exact.rain_scale, problem, problem.exact.rain_scale / 2)
    assert np.isfinite(ilbo.evaluate(drier, load_policy(path, drier), 0, 4).mean)
