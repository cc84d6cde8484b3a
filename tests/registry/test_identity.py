"""What files say of a problem: enough to build it again, and to notice that it is another one."""

import json
import os
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
import tiny_runs
from tiny_rddl import INSTANCE, write

import ilbo
from ilbo.builtin import catalogue
from ilbo.mdp.problem import Origin
from ilbo.registry import identity
from ilbo.registry.identity import check_same, describe, digest, rebuild, same


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return ilbo.make(write(tmp_path_factory.mktemp("tiny")))


def altered(problem):
    """The same in all but the numbers of its start."""
    return eqx.tree_at(lambda p: p.initial_state, problem, problem.initial_state + 1)


@pytest.mark.parametrize("name", ["navigation-3", "hvac-3", "reservoir-10", "reservoir(3, 1)"])
def test_built_in_problem_is_rebuilt_as_it_was(name):
    problem = ilbo.make(name)
    described = json.loads(json.dumps(describe(problem)))
    assert described["origin"] == problem.origin.kind == "built-in"
    assert eqx.tree_equal(rebuild(described), problem)


def test_rddl_problem_is_rebuilt_from_the_texts_alone(tiny):
    described = json.loads(json.dumps(describe(tiny)))
    assert described["origin"] == "rddl"
    assert [name for name, _ in described["files"]] == ["tiny.rddl"]
    again = rebuild(described)
    assert describe(again) == described
    assert again.origin.files == tiny.origin.files


def test_rddl_problem_is_rebuilt_with_its_relaxation_and_is_the_same_to_policies(tmp_path, tiny):
    given = {"relaxation": "smooth", "temperature": 0.5}
    relaxed = ilbo.make(write(tmp_path), arguments=given)
    described = json.loads(json.dumps(describe(relaxed)))
    again = rebuild(described)
    assert describe(again) == described
    assert again.model.dynamics.compiler.relaxation == "smooth"
    assert float(again.model.temperature) == 0.5
    assert digest(relaxed) == digest(tiny)
    check_same(describe(relaxed), tiny, "The policy")
    for wrong in ({"relaxation": "'no'"}, {"temperature": "'hot'"}, {"temperature": "[1]"}, 3):
        with pytest.raises(ilbo.UserError):
            rebuild({**described, "arguments": wrong})


def test_own_model_has_neither_origin_nor_digest():
    problem = tiny_runs.problem()
    assert problem.origin == Origin()
    assert describe(problem)["origin"] == "python"
    assert digest(problem) is None
    with pytest.raises(ilbo.UserError, match="'drift' is a model of your own"):
        rebuild(describe(problem))


def test_describing_builds_nothing(monkeypatch, tiny):
    navigation = ilbo.make("navigation-3")

    def refuse(*_):
        raise AssertionError("built again")

    monkeypatch.setattr(identity, "named", refuse)
    monkeypatch.setattr(catalogue, "built_in", refuse)
    assert describe(navigation)["origin"] == "built-in"
    assert describe(tiny)["origin"] == "rddl"


def field(name, value):
    def change(problem):
        leaves, form = jax.tree.flatten(problem)
        copy = jax.tree.unflatten(form, leaves)
        object.__setattr__(copy, name, value)
        return copy

    return change


CHANGES = {
    "start": altered,
    "region": lambda p: eqx.tree_at(lambda p: p.region[1], p, p.region[1] + 1),
    "domain": lambda p: eqx.tree_at(lambda p: p.domain[0], p, p.domain[0] * 0 - 5),
    "precision": lambda p: eqx.tree_at(lambda p: p.region[0], p, p.region[0].astype(jnp.bfloat16)),
    "horizon": field("horizon", 3),
    "discount": field("discount", 0.5),
    "name": field("name", "reservoir-10"),
    "units": field("state_units", ("m", "m")),
}


@pytest.mark.parametrize("what", CHANGES)
def test_problem_altered_in_memory_is_the_users_own(what, tiny):
    for problem in (ilbo.make("navigation-3"), tiny):
        assert problem.is_as_built
        changed = CHANGES[what](problem)
        assert describe(changed)["origin"] == "python"
        assert digest(changed) is None


def test_other_model_in_place_of_the_own_one_is_noticed(tmp_path, tiny):
    navigation = ilbo.make("navigation-3")

    class Easier(type(navigation.model)):
        def reward(self, state, action, next_state):
            return jnp.array(0.0)

    model = navigation.model
    easier = Easier(model.goal, model.centers, model.decays, model.move_variance)
    moved = eqx.tree_at(lambda m: m.goal, model, jnp.array([9.0, 9.0]))
    for other in (easier, moved):
        assert describe(eqx.tree_at(lambda p: p.exact, navigation, other))["origin"] == "python"
    twin = ilbo.make(write(tmp_path, reward="0.0"))
    assert describe(eqx.tree_at(lambda p: p.exact, tiny, twin.exact))["origin"] == "python"


def test_problem_with_an_origin_goes_through_jit_and_back(tiny):
    for problem in (ilbo.make("navigation-3"), tiny):
        hash(problem.origin)
        back = eqx.filter_jit(lambda p: p)(problem)
        assert back.origin == problem.origin
        assert describe(back) == describe(problem)


def test_equal_problems_share_one_compiled_program():
    traced = []

    @eqx.filter_jit
    def start(problem):
        traced.append(problem.name)
        return problem.initial_state

    for _ in range(2):
        start(ilbo.make("navigation-3"))
    assert len(traced) == 1


DIGESTS = """
import sys, ilbo
from ilbo.registry.identity import digest
print(*map(digest, map(ilbo.make, sys.argv[1:])), sep="\\n")
"""


def test_digest_is_the_same_in_another_process_and_precision(tmp_path, tiny):
    path = write(tmp_path)
    names = ["navigation-3", "hvac-6", "reservoir-20", "reservoir(5, 2)", path]
    environment = {**os.environ, "JAX_ENABLE_X64": "1", "PYTHONHASHSEED": "7"}
    run = subprocess.run(
        [sys.executable, "-c", DIGESTS, *names], capture_output=True, text=True, env=environment
    )
    own = [digest(ilbo.make(name)) for name in names[:-1]]
    assert run.stdout.split() == [*own, digest(tiny)]
    assert len(set(run.stdout.split())) == 5


def test_digest_depends_on_what_the_problem_is_made_from(monkeypatch, tmp_path, tiny):
    other = ilbo.make(write(tmp_path, instance=INSTANCE.replace("SIZE(b) = 6.0", "SIZE(b) = 7.0")))
    assert digest(other) != digest(tiny)
    before = digest(ilbo.make("navigation-3"))
    changed = {"navigation-3": {**catalogue._instances()["navigation-3"], "goal": [9.0, 9.0]}}
    monkeypatch.setattr(catalogue, "_instances", lambda: changed)
    assert digest(ilbo.make("navigation-3")) != before
    assert digest(ilbo.make("reservoir(3, 1)")) != digest(ilbo.make("reservoir(3, 2)"))


def test_description_whose_text_was_changed_is_refused(tiny):
    described = describe(tiny)
    ((name, text),) = described["files"]
    changed = {**described, "files": [[name, text.replace("SIZE(b) = 6.0", "SIZE(b) = 7.0")]]}
    with pytest.raises(ilbo.UserError, match=r"'tiny'.* not the one .* was changed") as caught:
        rebuild(changed)
    assert "\n" not in str(caught.value)
    with pytest.raises(ilbo.UserError, match="its RDDL files cannot be read"):
        rebuild({**described, "files": 3})
    del changed["digest"]  # as an earlier version wrote it
    assert rebuild(changed).name == "tiny"


def test_built_in_problem_that_is_no_longer_the_same_is_refused():
    described = describe(ilbo.make("navigation-3"))
    with pytest.raises(ilbo.UserError, match="another version of ilbo"):
        rebuild({**described, "digest": "0" * 64})
    del described["digest"]
    assert rebuild(described).name == "navigation-3"


def test_same_name_needs_the_same_digest(tmp_path, tiny):
    described = describe(tiny)
    changed = ilbo.make(write(tmp_path, reward="0.0"))
    check_same(described, tiny, "It")
    with pytest.raises(ilbo.UserError, match=r"^It is for another problem of the name 'tiny'"):
        check_same(described, changed, "It")
    del described["digest"]
    check_same(described, changed, "It")


def test_other_name_or_own_model_needs_the_same_components(tmp_path, tiny):
    described = describe(tiny)
    check_same(described, ilbo.make(write(tmp_path, name="other.rddl", reward="0.0")), "It")
    check_same(described, altered(tiny), "It")
    with pytest.raises(ilbo.UserError, match=r"'tiny', not for 'navigation-3': it has 3 states"):
        check_same(described, ilbo.make("navigation-3"), "It")


def test_descriptions_are_compared_as_far_as_both_tell(tiny):
    described = describe(tiny)
    older = {key: value for key, value in described.items() if key != "digest"}
    assert same(described, older)
    assert same(older, described)
    assert not same(described, {**described, "digest": "0" * 64})
    assert not same(describe(altered(tiny)), described)
