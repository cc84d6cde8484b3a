"""Models that are broken in one way each, and what is said of them."""

import jax.numpy as jnp
import pytest

import ilbo
from ilbo.mdp.check import check


class Sound(ilbo.Model):
    """A level that an action moves; the base of the broken ones."""

    law = ilbo.Gaussian(1)

    def transition(self, state, action, noise):
        return state + action + 0.1 * noise

    def reward(self, state, action, next_state):
        return -jnp.sum(next_state**2) - 0.1 * jnp.sum(action**2)

    def bounds(self, state):
        return jnp.full(1, -1.0), jnp.full(1, 1.0)


class NotFinite(Sound):
    def reward(self, state, action, next_state):
        return jnp.log(state[0])


class Crossed(Sound):
    def transition(self, state, action, noise):
        return 0.3 * state + 0.1 * noise + 0.01 * action

    def bounds(self, state):
        return jnp.full(1, -1.0), state


class NoRoom(Sound):
    def bounds(self, state):
        return jnp.full(1, 0.2), jnp.full(1, 0.2)

    def transition(self, state, action, noise):
        return 0.5 * state + action + noise


class Leaves(Sound):
    def transition(self, state, action, noise):
        return 1.5 * state + action + 5.0 + noise


class Tiny(Sound):
    def transition(self, state, action, noise):
        return 0.5 * state + 1e-3 * (action + noise)


class Penalty(Sound):
    def reward(self, state, action, next_state):
        return -jnp.sum(next_state**2) - 1e7 * jnp.maximum(next_state[0] - 5.0, 0.0)


class Ends(Sound):
    def terminal(self, state):
        return jnp.abs(state[0]) > 0.2


class AtItsEnd(Sound):
    def terminal(self, state):
        return state[0] < 1e9


class IdleState(Sound):
    def reward(self, state, action, next_state):
        return -(next_state[0] ** 2) - 0.1 * action[0] ** 2

    def transition(self, state, action, noise):
        return jnp.stack([state[0] + action[0], state[0] + noise[0]])


class IdleAction(Sound):
    def reward(self, state, action, next_state):
        return -jnp.sum(state**2)

    def transition(self, state, action, noise):
        return 0.9 * state + 0 * action + noise


class IdleNoise(Sound):
    def transition(self, state, action, noise):
        return state + action


class Root(Sound):
    def reward(self, state, action, next_state):
        return -jnp.sqrt(jnp.sum(jnp.maximum(next_state, 0.0)))


class Rounded(Sound):
    def transition(self, state, action, noise):
        return state + jnp.round(3 * action) / 3 + 0.1 * noise

    def reward(self, state, action, next_state):
        return -jnp.sum(next_state**2)


class Dead(Sound):
    def transition(self, state, action, noise):
        return 0.5 * state + jnp.maximum(action, 0.0) + 0.1 * noise

    def reward(self, state, action, next_state):
        return -jnp.sum((next_state - 1) ** 2)


class Late(Sound):
    """What is ordered comes twelve steps later."""

    def transition(self, state, action, noise):
        return jnp.concatenate([state[1:2] + 0.1 * noise, state[2:], action])

    def reward(self, state, action, next_state):
        return -((state[0] - 1) ** 2)


class Jump(Sound):
    def reward(self, state, action, next_state):
        return -jnp.sum(next_state**2) - jnp.where(action[0] > 0.3, 5.0, 0.0)


BROKEN = [
    (NotFinite(), "not finite", "The reward of broken is -inf at s1 = 0 with a1 = "),
    (Crossed(), "bounds crossed", "The bounds of a1 are [-1, "),
    (NoRoom(), "no room to act", "The bounds of a1 are equal at every state tried"),
    (Leaves(), "region left", "far outside its region [-2, 2]"),
    (Tiny(), "region too wide", "less than 1% of its region [-2, 2]"),
    (Penalty(), "reward of another size", "in size mostly, but"),
    (Ends(), "ends at once", "Half of the random episodes of broken end within 1 of 20 steps"),
    (AtItsEnd(), "starts at its end", "The initial state of broken is terminal"),
    (IdleState(), "idle state", "Nothing depends on s2"),
    (IdleAction(), "idle action", "No reward depends on the action a1"),
    (IdleNoise(), "idle noise", "Nothing depends on the noise of broken"),
    (Root(), "gradient not finite", "The derivative of what is earned in a1 is not finite"),
    (Rounded(), "no gradient", "depends on a1, but its derivative is 0 wherever it was tried"),
    (Dead(), "dead zone", "all of them where it is between -0."),
    (Late(), "late effect", "felt in rewards 13 steps later at the earliest"),
    (Jump(), "jump", "In a1, the reward jumps by 5 at 0.3 "),
]


def problem_of(model, **changes):
    size = {IdleState: 2, Late: 13}.get(type(model), 1)
    told = dict(name="broken", initial_state=[0.0] * size, horizon=20, region=(-2.0, 2.0))
    return ilbo.Problem(model, **(told | changes))


def of_quick(cases, names):
    """The others are slow: each is a model to compile."""
    return [
        pytest.param(*case, id=case[1], marks=() if case[1] in names else pytest.mark.slow)
        for case in cases
    ]


@pytest.mark.parametrize(("model", "name", "said"), of_quick(BROKEN, ("jump",)))
def test_broken_model_is_named_in_one_sentence(model, name, said):
    found = check(problem_of(model)).findings
    (finding,) = [one for one in found if one.name == name]
    assert said in finding.sentence
    assert ": " in finding.sentence  # what to do
    assert finding.sentence.endswith(".")
    others = {one.name for one in found} - {name}
    assert not others, [one.sentence for one in found]


def test_sound_model_is_passed_in_silence():
    seen = check(problem_of(Sound()))
    assert seen.findings == []
    assert seen.felt_after == {"a1": 0}
    assert seen.ended == 0
    low, high = seen.magnitudes["action"]["a1"]
    assert -1 <= low < -0.8
    assert 0.8 < high <= 1


@pytest.mark.slow
def test_states_outside_the_domain_are_named():
    found = check(problem_of(Sound(), domain=(-0.5, 0.5))).findings
    assert [one.name for one in found] == ["domain left"]


@pytest.mark.slow
def test_short_episodes_are_named():
    found = check(problem_of(Sound(), horizon=3)).findings
    assert [one.name for one in found] == ["short episodes"]
    assert "episodes=3334" in found[0].sentence


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["navigation-3", "hvac-3", "hvac-6", "reservoir-10", "reservoir-20"]
)
def test_built_in_problems_are_passed_in_silence(name):
    assert check(ilbo.make(name)).findings == []
