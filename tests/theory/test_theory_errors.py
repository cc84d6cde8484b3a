"""Bad input is refused in one sentence that names the state."""

import jax.numpy as jnp
import numpy as np
import pytest

from ilbo import UserError, theory


def mdp(**changes):
    settings = dict(
        T=lambda s, a: jnp.array([0.3, 0.3, 0.4]),
        r=lambda s, a: 1.0 + a[0],
        b0=[0.2, 0.3, 0.5],
        bounds=(-1.0, 1.0),
        gamma=0.9,
    )
    return theory.FiniteMDP(**(settings | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"T": lambda s, a: jnp.array([0.3, 0.3, 0.4]) + 0.1 * (s == 2)}, "state 2 .* sums to 1.3"),
        ({"T": lambda s, a: jnp.array([0.5, 0.5, a[0] * 0.1 * s])}, r"state 1 at action \[-1.0\]"),
        ({"T": lambda s, a: jnp.array([1.5, -0.5, 0.0])}, "next state 1 the probability -0.5"),
        ({"T": lambda s, a: jnp.array([0.5, 0.5, jnp.nan])}, "not finite in state 0"),
        ({"T": lambda s, a: jnp.array([0.5, 0.5])}, r"shape \(2,\).* 3 states"),
        ({"T": lambda s, a: np.eye(3)[s]}, "traced by JAX"),
        ({"r": lambda s, a: jnp.log(a[0] + s - 1)}, "reward is (nan|-inf) in state 0"),
        ({"r": lambda s, a: a}, "r.s, a. must return a scalar"),
        ({"b0": [0.5, 0.6, -0.1]}, "gives state 2 the probability -0.1"),
        ({"b0": [0.5, 0.5, 0.5]}, "start distribution sums to 1.5"),
        ({"b0": [[1.0]]}, "must be a vector"),
        ({"bounds": ([[0.0], [1.0], [0.0]], 0.5)}, r"state 1 are \[1, 0.5\]"),
        ({"bounds": (np.zeros((2, 1)), 1.0)}, "action bounds must be a pair"),
        ({"gamma": 1.0}, "discount is 1: without a horizon"),
        ({"gamma": 0.0}, "discount is 0"),
        ({"gamma": -0.5}, "discount is -0.5"),
        ({"gamma": 1.5, "horizon": 3}, "discount is 1.5"),
        ({"horizon": 0}, "horizon must be at least 1"),
    ],
)
def test_unsound_mdp_is_refused(changes, message):
    with pytest.raises(UserError, match=message):
        mdp(**changes)


def test_negative_reward_is_refused_by_the_bound_with_the_shift_to_give():
    sometimes = mdp(r=lambda s, a: jnp.where(s == 1, -2.5, 1.0) + a[0])
    with pytest.raises(UserError, match=r"state 1 at action \[0.0\] is -2.5.* shift of 2.5 or"):
        theory.bound(sometimes, np.zeros((3, 1)))
    assert theory.lowest_reward(sometimes) == -3.5
    assert np.isfinite(theory.bound(sometimes, np.zeros((3, 1)), shift=4.0)(-np.ones((3, 1))))


def test_negative_reward_at_the_other_policy_is_refused():
    j_hat = theory.bound(mdp(r=lambda s, a: a[0] + 0.5), np.zeros((3, 1)))
    with pytest.raises(UserError, match=r"state 0 at action .* is -0\.5"):
        j_hat(-np.ones((3, 1)))


def test_values_need_no_sign():
    at = theory.analyse(mdp(r=lambda s, a: -1.0), np.zeros((3, 1)))
    assert float(at.J) == pytest.approx(-10.0)


def test_unsound_transition_between_the_probed_actions_is_refused():
    def lapse(s, a):
        return jnp.array([0.3, 0.3, 0.4]) * jnp.where((s == 1) & (a[0] == 0.25), 0.5, 1.0)

    with pytest.raises(UserError, match=r"state 1 at action \[0.25\] sums to 0.5"):
        theory.analyse(mdp(T=lapse), np.full((3, 1), 0.25))


def test_policy_of_wrong_shape_or_outside_the_bounds_is_refused():
    with pytest.raises(UserError, match=r"shape \(3,\).* give shape \(3, 1\)"):
        theory.analyse(mdp(), np.zeros(3))
    with pytest.raises(UserError, match=r"state 2 is \[2.0\], outside the bounds \[-1, 1\]"):
        theory.analyse(mdp(), [[0.0], [0.0], [2.0]])


def test_settings_of_the_iterations_are_checked():
    with pytest.raises(UserError, match="tolerance"):
        theory.iterate(mdp(), np.zeros((3, 1)), tolerance=0.0)
    with pytest.raises(UserError, match="starts"):
        theory.iterate_from_many(mdp(), 0)
    with pytest.raises(UserError, match="without a horizon"):
        theory.value_iteration(mdp(horizon=3))
    with pytest.raises(UserError, match="finite action bounds"):
        theory.value_iteration(mdp(bounds=(0.0, np.inf)))
