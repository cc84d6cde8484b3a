import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ilbo.planning.store import Store, Transition


def batch(numbers):
    n = jnp.array(numbers, jnp.float32)
    wide = n[:, None] * jnp.ones(2)
    return Transition(
        state=wide, action=-n[:, None], noise=wide + 0.5, next_state=wide + 1,
        reward=10 * n, steps_left=n.astype(int) + 1, ended=n % 2 == 0,
    )  # fmt: skip


def test_what_goes_in_comes_out():
    store = Store.init((2, 1, 2), 8).add(batch([3, 4]))
    taken = store.take(jnp.array([0, 1]))
    for found, wanted in zip(jax.tree.leaves(taken), jax.tree.leaves(batch([3, 4])), strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(store.noise(jnp.array([1])), [[4.5, 4.5]])


def test_the_ring_overwrites_the_oldest():
    store = Store.init((2, 1, 2), 6)
    for i in range(0, 10, 2):
        store = store.add(batch([i, i + 1]))
    assert int(store.count) == 10
    assert set(np.asarray(store.take(jnp.arange(6)).reward)) == {40, 50, 60, 70, 80, 90}


def test_recent_reaches_the_latest_and_only_those():
    store = Store.init((2, 1, 2), 6)
    for i in range(0, 10, 2):
        store = store.add(batch([i, i + 1]))
    unit = jnp.linspace(0, 0.9999, 50)
    assert set(np.asarray(store.take(store.recent(unit, 3)).reward)) == {70, 80, 90}
    young = Store.init((2, 1, 2), 6).add(batch([5, 6]))
    assert set(np.asarray(young.take(young.recent(unit)).reward)) == {50, 60}


def test_a_loop_updates_the_ring_in_place():
    store = Store.init((2, 1, 2), 4096)

    def step(store, i):
        store = store.add(jax.tree.map(lambda x: x + 0, batch([1, 2])))
        return store, jnp.sum(store.take(store.recent(jnp.array([0.1, 0.9]))).reward)

    program = jax.jit(
        lambda rows, count: jax.lax.scan(
            step, Store(rows, count, (2, 1, 2), 1), jnp.arange(50)
        )[0].rows,
        donate_argnums=0,
    )  # fmt: skip
    text = program.lower(store.rows, store.count).compile().as_text()
    assert "f32[4096,10]" in text
    assert not [line for line in text.splitlines() if "= f32[4096,10]{1,0} copy(" in line]


def test_a_million_transitions_of_reservoir_20_fit_well_under_a_gibibyte():
    shape = eqx.filter_eval_shape(Store.init, (20, 20, 20), 1_000_000)
    assert 4 * np.prod(shape.rows.shape) < 0.4 * 2**30


def test_prioritised_rows_are_picked_in_proportion():
    store = Store.init((2, 1, 2), 8, prioritised=True).add(batch([0, 1, 2, 3]))
    store = store.reprioritise(jnp.arange(4), jnp.array([0.0, 1.0, 1.0, 8.0]))
    index, weights = store.wanted(jnp.linspace(0.0, 0.9999, 4_000))
    share = np.bincount(index, minlength=8) / 4_000
    wanted = (np.array([0.0, 1.0, 1.0, 8.0]) + 1e-3) ** 0.6
    np.testing.assert_allclose(share[:4], wanted / wanted.sum(), atol=2e-3)
    assert not share[4:].any()
    assert weights[0] == pytest.approx(1.0)  # the rarest pick counts most
    assert float(weights[-1]) < 0.2


@pytest.mark.parametrize("prioritised", [False, True])
@pytest.mark.parametrize("added", [3, 8, 11])
def test_a_saved_store_is_the_same_again_and_holds_only_what_was_written(added, prioritised):
    store = Store.init((2, 1, 2), 16, 2, prioritised)
    for i in range(added):
        keys = jax.random.split(jax.random.key(i), 4)
        state, following, noise = (jax.random.normal(key, (2, 2)) for key in keys[:3])
        action, left = jax.random.normal(keys[3], (2, 1)), jnp.array([i, i + 1])
        rewards, ended = jnp.arange(2.0), jnp.array([False, True])
        store = store.add(Transition(state, action, noise, following, rewards, left, ended))
    saved = store.saved()
    assert saved["columns"].shape[1] == min(2 * added, 16)
    again = Store.init((2, 1, 2), 16, 2, prioritised).restored(saved)
    jax.tree.map(np.testing.assert_array_equal, again, store)


@pytest.mark.parametrize("capacity", [8, 32])
@pytest.mark.parametrize("added", [3, 11])
def test_a_store_of_another_capacity_takes_the_latest_that_it_holds(added, capacity):
    """As where a run is made longer."""
    store = Store.init((2, 1, 2), 16, 2, prioritised=True)
    for i in range(added):
        states = jnp.full((2, 2), float(i))
        row = Transition(
            states, jnp.ones((2, 1)), states, states, jnp.arange(2.0), jnp.array([i, i]),
            jnp.zeros(2, bool),
        )  # fmt: skip
        store = store.add(row)
    again = Store.init((2, 1, 2), capacity, 2, prioritised=True).restored(store.saved())
    held = min(2 * added, 16, capacity)
    for kept in (store, again):
        ages = kept.recent(jnp.arange(held) / held + 1e-3, span=held)
        latest = kept.take(ages)
        wanted = [added - 1 - i // 2 for i in range(held)]
        np.testing.assert_array_equal(latest.state[:, 0], wanted)
        np.testing.assert_array_equal(latest.reward, [1.0, 0.0] * (held // 2))
    assert int(jnp.minimum(again.count, capacity)) == held
    assert int(jnp.sum(again.priority > 0)) == held


def test_next_states_that_are_the_following_states_cost_nothing():
    store = Store.init((2, 1, 2), 16, 1)
    path = jax.random.normal(jax.random.key(0), (9, 2))
    for state, following in itertools.pairwise(path):
        store = store.add(
            Transition(
                state[None], jnp.ones((1, 1)), jnp.ones((1, 2)), following[None], jnp.ones(1),
                jnp.ones(1, int), jnp.zeros(1, bool),
            )
        )  # fmt: skip
    columns = store.saved()["columns"]
    assert not columns[5:7, :-1].any()
    assert columns[5:7, -1].all()
