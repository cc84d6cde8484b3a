import dataclasses

import jax
import numpy as np
import pytest
import tiny_runs

import ilbo
from ilbo.builtin.hvac import hvac
from ilbo.mdp.problem import Origin
from ilbo.nn.components import Components, mixings
from ilbo.nn.parameters import pack
from ilbo.nn.policy import Policy
from ilbo.nn.shared import SharedLayers
from ilbo.planning.sharing import remarks, settle
from ilbo.planning.warm_start import check_fits

WALLS = [(0, 1), (1, 2), (2, 3), (3, 4), (1, 4)]


def house(order=range(5)):
    """Five rooms under other numbers: room i is the one that was order[i]."""
    place = {old: new for new, old in enumerate(order)}
    facts = {
        "rooms": 5, "adjacent": [(place[i], place[j]) for i, j in WALLS],
        "adj_outside": [place[0], place[4]], "adj_hall": [place[2]],
        "initial_temp": 10.0, "horizon": 20, "discount": 1.0,
    }  # fmt: skip
    return hvac("house", facts, Origin())


LAYERS = SharedLayers((16, 8))


def policy_for(problem, layers=LAYERS):
    return Policy.init(jax.random.key(0), problem, layers, Components.of(problem))


def test_like_components_in_another_order_take_the_same_actions_in_that_order():
    order = np.array([3, 0, 4, 1, 2])
    problem = house()
    policy, permuted = policy_for(problem), policy_for(house(order))
    states = problem.starts(jax.random.key(1), (6,))
    np.testing.assert_allclose(
        permuted(states[:, order]), policy(states)[:, order], rtol=1e-4, atol=1e-5
    )


def test_parameters_do_not_grow_with_the_number_of_components():
    few, many = (policy_for(ilbo.reservoir(n)) for n in (4, 30))
    assert [x.shape for x in pack(few.network)] == [x.shape for x in pack(many.network)]


def test_neighbours_are_those_that_the_transition_says():
    acts = np.asarray(Components.of(ilbo.reservoir(5)).acts)
    np.testing.assert_array_equal(acts, np.eye(5, k=-1, dtype=bool))
    walls = np.asarray(Components.of(house()).acts)
    np.testing.assert_array_equal(np.argwhere(np.triu(walls)), sorted(WALLS))


def test_mixing_along_a_chain_in_closed_form():
    half = np.array([1.0, 2.0, 4.0, 8.0])
    up, up2, down, _, all_up, _, amounts, mean = mixings(np.eye(4, k=-1, dtype=bool), half)
    x = np.array([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(up @ x, [0, 1, 2, 3])
    np.testing.assert_allclose(up2 @ x, [0, 0, 1, 2])
    np.testing.assert_allclose(down @ x, [2, 3, 4, 0])
    np.testing.assert_allclose((all_up @ x)[3], 0.2 * (3 + 0.8 * 2 + 0.8**2 * 1))
    np.testing.assert_allclose((amounts @ x)[2], 0.2 * (2 * 2 + 0.8 * 1 * 1) / 4)
    np.testing.assert_allclose(mean @ x, 2.5)


@pytest.mark.parametrize("whole", [None, (8,)])
def test_saved_loaded_packed_and_fixed_it_is_the_same(whole, tmp_path):
    problem = ilbo.reservoir(4)
    layers = SharedLayers((16, 8), whole)
    policy = policy_for(problem, layers)
    states = problem.starts(jax.random.key(1), (6, 3))
    together = policy(states)
    np.testing.assert_allclose(together[4, 1], policy(states[4, 1]), rtol=1e-5)
    np.testing.assert_allclose(policy.fixed()(states), together, rtol=1e-4)
    again = Policy.of(pack(policy.network), problem, layers, Components.of(problem))
    np.testing.assert_array_equal(again(states), together)
    ilbo.save_policy(policy, tmp_path / "p.ilbo", problem)
    for loaded in (ilbo.load_policy(tmp_path / "p.ilbo", given) for given in (None, problem)):
        np.testing.assert_array_equal(loaded(states), together)


def test_it_goes_to_another_number_of_components(tmp_path):
    few, many = ilbo.reservoir(4), ilbo.reservoir(9, 1)
    policy = policy_for(few)
    ilbo.save_policy(policy, tmp_path / "p.ilbo", few)
    loaded = ilbo.load_policy(tmp_path / "p.ilbo", many)
    action = loaded(many.initial_state)
    assert action.shape == (9,)
    np.testing.assert_array_equal(action, policy.on(many)(many.initial_state))
    np.testing.assert_array_equal(policy.on(few)(few.initial_state), policy(few.initial_state))
    with pytest.raises(ilbo.UserError, match="problems of its model alone"):
        policy.on(house())
    with pytest.raises(ilbo.UserError, match="sees the state as a whole"):
        policy_for(few, SharedLayers((8,), (8,))).on(many)
    with pytest.raises(ilbo.UserError, match="components of another size"):
        check_fits(policy, policy_for(many))


def test_where_nothing_corresponds_the_policy_is_a_plain_network():
    problem = tiny_runs.problem()
    config = dataclasses.replace(tiny_runs.CONFIG, policy="shared")
    assert "single component" in remarks(problem, config)[0]
    settled, components = settle(problem, config)
    assert (settled.policy, components) == ("state", None)


@pytest.mark.slow
def test_it_learns_on_a_few_reservoirs_and_serves_more(tmp_path):
    few, many = ilbo.reservoir(5), ilbo.reservoir(15, 3)
    config = ilbo.ILBO(policy="shared", shared_layers=(32, 32), own_start=0.25)
    plan = ilbo.plan(few, config, episodes=100, out=tmp_path / "run")
    elsewhere = ilbo.load_policy(tmp_path / "run", many)
    simple = ilbo.compare(many, elsewhere, many.model.heuristic, 1, episodes=256)
    assert plan.policy.goes_anywhere
    assert simple.ci95[0] > 0
