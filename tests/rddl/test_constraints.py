"""Action bounds and conditions, read from action preconditions and state invariants."""

import jax.numpy as jnp
import numpy as np
import pytest
from tiny_rddl import INSTANCE, write

import ilbo
from ilbo import rddl
from ilbo.rddl.source import locate

INF = np.inf
STATE = jnp.array([1.0, 2.0, 3.0])
"""water of a, b and c; their SIZEs are 4, 6 and 4."""

CASES = {
    "constants": ("forall_{?t : tank} [release(?t) >= -1 ^ release(?t) <= 2.5];", -1, 2.5),
    "turned round": (
        "forall_{?t : tank} [-1 <= release(?t) ^ SIZE(?t) >= release(?t)];",
        -1,
        [4, 6, 4],
    ),
    "non-fluents": ("forall_{?t : tank} release(?t) <= SIZE(?t) / 2;", -INF, [2, 3, 2]),
    "the state": (
        "forall_{?t : tank} (0 <= release(?t) ^ release(?t) <= water(?t));",
        0,
        [1, 2, 3],
    ),
    "the tightest of several": (
        "forall_{?t : tank} release(?t) <= water(?t); forall_{?t : tank} release(?t) <= 2;",
        -INF,
        [1, 2, 2],
    ),
    "a negated side": ("forall_{?t : tank} [-release(?t) <= water(?t)];", [-1, -2, -3], INF),
    "a sum": ("forall_{?t : tank} [release(?t) + water(?t) <= SIZE(?t)];", -INF, [3, 4, 1]),
    "a difference": (
        "forall_{?t : tank} [water(?t) - release(?t) >= 0.5];",
        -INF,
        [0.5, 1.5, 2.5],
    ),
    "a product": ("forall_{?t : tank} [2 * release(?t) <= water(?t)];", -INF, [0.5, 1, 1.5]),
    "a negative factor": (
        "forall_{?t : tank} [(water(?t) - 2) * release(?t) <= 4];",
        [-4, -INF, -INF],
        [INF, INF, 4],
    ),
    "a quotient": ("forall_{?t : tank} [release(?t) / -2 <= 1];", -2, INF),
    "an absolute value": (
        "forall_{?t : tank} [abs[release(?t) - 1] <= water(?t)];",
        [0, -1, -2],
        [2, 3, 4],
    ),
    "a strict inequality": ("forall_{?t : tank} [release(?t) < 2];", -INF, 2 - 3e-6),
    "a negation": ("forall_{?t : tank} [~(release(?t) > 2)];", -INF, 2),
    "an equation": ("forall_{?t : tank} [release(?t) == water(?t)];", [1, 2, 3], [1, 2, 3]),
    "an implication": (
        "forall_{?t : tank} [water(?t) >= 2 => release(?t) <= 1];",
        -INF,
        [INF, 1, 1],
    ),
    "an alternative": (
        "forall_{?t : tank} [water(?t) < 2 | release(?t) <= 1];",
        -INF,
        [INF, 1, 1],
    ),
    "a quantifier that the action lacks": (
        "forall_{?t : tank, ?u : tank} [LINK(?t, ?u) => release(?t) <= water(?u)];",
        -INF,
        [2, 3, INF],
    ),
    "quantifiers in another order": (
        "forall_{?u : tank} [forall_{?t : tank} [LINK(?t, ?u) => release(?t) <= water(?u)]];",
        -INF,
        [2, 3, INF],
    ),
    "the lower above the upper": (
        "forall_{?t : tank} [release(?t) >= 2 ^ release(?t) <= water(?t)];",
        [1, 2, 2],
        [1, 2, 3],
    ),
}


def model_of(tmp_path, **parts):
    return rddl.exact_model(locate(write(tmp_path, **parts), None))


@pytest.mark.parametrize("case", CASES)
def test_bounds(tmp_path, case):
    preconditions, low, high = CASES[case]
    model = model_of(tmp_path, preconditions=preconditions)
    got = model.bounds(STATE)
    np.testing.assert_allclose(got[0], np.broadcast_to(low, 3), rtol=1e-6)
    np.testing.assert_allclose(got[1], np.broadcast_to(high, 3), rtol=1e-6)
    assert not model.rules.conditions
    assert int(model.violations(STATE, jnp.full(3, 99.0))) == 0


def test_constant_bounds_are_found_once_and_the_others_at_each_state(tmp_path):
    model = model_of(
        tmp_path,
        preconditions="forall_{?t : tank} [release(?t) >= 0 ^ release(?t) <= water(?t)];",
    )
    assert [bound.constant for bound in model.rules.found] == [True, False]
    np.testing.assert_allclose(model.rules.fixed["release"][0], 0.0)
    np.testing.assert_allclose(model.bounds(2 * STATE)[1], 2 * STATE)


COUPLED = {
    "a budget": ("(sum_{?t : tank} [release(?t)]) <= 4;", [1, 2, 3], 1),
    "a budget kept": ("(sum_{?t : tank} [release(?t)]) <= 6;", [1, 2, 3], 0),
    "two actions": (
        "forall_{?t : tank, ?u : tank} [LINK(?t, ?u) => release(?t) <= release(?u)];",
        [2, 1, 0],
        2,
    ),
    "a square": ("forall_{?t : tank} [pow[release(?t), 2] <= 4];", [1, 2, 3], 1),
    "an absolute value from below": ("forall_{?t : tank} [abs[release(?t)] >= 2];", [1, -2, 3], 1),
    "an alternative of actions": (
        "forall_{?t : tank} [release(?t) <= 1 | release(?t) >= 3];",
        [1, 2, 3],
        1,
    ),
    "a guarded budget": (
        "(sum_{?t : tank} [water(?t)]) > 1 => (sum_{?t : tank} [release(?t)]) <= 4;",
        [1, 2, 3],
        1,
    ),
    "the state alone": ("forall_{?t : tank} [water(?t) <= 2];", [0, 0, 0], 1),
}


@pytest.mark.parametrize("case", COUPLED)
def test_constraints_beyond_bounds_are_counted(tmp_path, case):
    preconditions, action, broken = COUPLED[case]
    model = model_of(tmp_path, preconditions=preconditions)
    assert not model.rules.found
    assert len(model.rules.conditions) == 1
    assert int(model.violations(STATE, jnp.array(action, float))) == broken
    assert np.isinf(model.bounds(STATE)).all()


def test_too_many_actions_off_their_default_are_a_violation(tmp_path):
    instance = INSTANCE.replace("pos-inf", "1")
    model = model_of(tmp_path, instance=instance)
    assert int(model.violations(STATE, jnp.array([0.0, 0.0, 2.0]))) == 0
    assert int(model.violations(STATE, jnp.array([0.0, 1.0, 2.0]))) == 1


def test_a_literal_object_bounds_its_component_alone(tmp_path):
    text = (
        "domain valves {\n types { pipe : {@left, @right}; };\n pvariables {\n"
        "  open(pipe) : { action-fluent, real, default = 0.0 };\n"
        "  flow : { state-fluent, real, default = 0.0 };\n };\n"
        " cpfs { flow' = open(@left) - open(@right); };\n reward = flow;\n"
        " action-preconditions { open(@right) <= 3; forall_{?p : pipe} open(?p) >= 0; };\n}\n"
        "non-fluents none { domain = valves; }\n"
        "instance i { domain = valves; non-fluents = none; horizon = 3; discount = 1.0; }\n"
    )
    path = tmp_path / "valves.rddl"
    path.write_text(text)
    model = rddl.exact_model(locate(str(path), None))
    low, high = model.bounds(jnp.zeros(1))
    np.testing.assert_allclose(low, [0, 0])
    np.testing.assert_allclose(high, [INF, 3])


def test_invariants_give_the_domain_and_end_the_episode(tmp_path):
    invariants = (
        "state-invariants { forall_{?t : tank} [water(?t) >= 0 ^ water(?t) <= SIZE(?t)]; };"
    )
    model = model_of(tmp_path, blocks=invariants)
    np.testing.assert_allclose(model.rules.domain[0], [0, 0, 0])
    np.testing.assert_allclose(model.rules.domain[1], [4, 6, 4])
    assert not bool(model.terminal(STATE))
    assert bool(model.terminal(jnp.array([1.0, 7.0, 3.0])))
    assert bool(model.terminal(jnp.array([-0.1, 2.0, 3.0])))


def test_broken_constraints_are_told_apart_with_the_first_state_and_action(tmp_path):
    budget = "(sum_{?t : tank} [release(?t)]) <= 4; forall_{?t : tank} [water(?t) <= 2];"
    bounds = "forall_{?t : tank} [release(?t) >= 0 ^ release(?t) <= 9];"
    path = write(tmp_path, water="water(?t)", preconditions=bounds + budget)
    problem = ilbo.make(path)

    def policy(state):
        return jnp.array([1.0, 2.0, 3.0])

    result = ilbo.evaluate(problem, policy, 0, episodes=4)
    assert result.violations == 10  # two in each of five steps
    first, second = result.broken
    assert (first.times, first.episodes, first.step) == (20, 4, 1)
    assert first.action == {"release(a)": 1.0, "release(b)": 2.0, "release(c)": 3.0}
    assert second.state["water(c)"] == 3.0
    assert "<= 4: 20 times, in 4 episodes; first in step 1 with release(a) = 1" in first.sentence
    assert "water(c) = 3" in second.sentence
    assert "release" not in second.sentence
    assert ilbo.evaluate(problem, lambda state: jnp.zeros(3), 0, 4).broken[0].times == 20
