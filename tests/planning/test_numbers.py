"""Numbers are inputs of the compiled programs: to change one compiles nothing."""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import ilbo
from ilbo.mdp.changeable import changeable
from ilbo.planning import loop
from ilbo.planning.config import NUMBERS, SWITCHES
from ilbo.planning.ilbo import ILBOTrainer
from ilbo.planning.numbers import Numbers
from ilbo.planning.planner import _advance, _start

SMALL = dict(layers=(8,), guard=8, test_episodes=8, policy_batch=4, critic_batch=4, depth=2)


class Tank(ilbo.Model):
    """A level that drifts and is pumped up or down, kept near a target."""

    target: float
    gain: float = 0.5
    law = ilbo.Gaussian(1)

    def transition(self, state, action, noise):
        return 0.9 * state + self.gain * action + 0.1 * noise

    def reward(self, state, action, next_state):
        return -jnp.sum((next_state - self.target) ** 2)

    def bounds(self, state):
        return -jnp.ones(1), jnp.ones(1)


class Choosing(Tank):
    """One that needs its floats as numbers."""

    def transition(self, state, action, noise):
        return super().transition(state, action, noise) * math.sqrt(self.gain)


def tank(target, discount=1.0, kind=Tank):
    return ilbo.Problem(
        kind(target), name="tank", initial_state=[0.0], horizon=5, region=(-2, 2), discount=discount
    )


@pytest.fixture
def compiled():
    """The names of what JAX has compiled since."""
    found = []

    def heard(event, seconds, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            found.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(heard)
    yield found
    jax.monitoring.unregister_event_duration_listener(heard)


@pytest.mark.slow
def test_a_sweep_compiles_once(compiled):
    """Of rates, of a model's floats and of the discount; training and evaluation."""
    found = []
    rates = (1e-4, 1e-3, 3e-3, 1e-2, 3e-2)
    for i, rate in enumerate(rates):
        problem = tank(0.5 + 0.5 * i, 0.9 + 0.02 * i)
        config = ilbo.ILBO(policy_rate=rate, critic_rate=rate, exploration=0.1 + 0.1 * i, **SMALL)
        plan = loop.plan(problem, config, episodes=4)
        found.append(ilbo.evaluate(problem, plan.policy, 0, episodes=8).mean)
        if i == 0:
            assert compiled
            compiled.clear()
    assert compiled == []
    assert len(set(found)) == len(rates)


@pytest.mark.slow
def test_a_sweep_of_rates_alone_changes_what_is_learnt():
    problem = tank(1.0)
    plans = [
        loop.plan(problem, ilbo.ILBO(policy_rate=rate, **SMALL), episodes=4)
        for rate in (1e-3, 1e-2)
    ]
    first, second = (jax.tree.leaves(plan.policy.network)[0] for plan in plans)
    assert not jnp.array_equal(first, second)


def test_floats_as_arrays_earn_what_floats_do():
    problem = tank(1.0)
    assert isinstance(changeable(problem).model.target, jax.Array)
    start = jnp.array([0.3])
    for first, second in ((problem.model, changeable(problem).model),):
        moved = [m.transition(start, jnp.array([0.2]), jnp.array([0.1])) for m in (first, second)]
        assert float(moved[0][0]) == pytest.approx(float(moved[1][0]), rel=1e-6)


def test_a_model_that_needs_numbers_keeps_them():
    problem = tank(1.0, kind=Choosing)
    assert changeable(problem).model.gain == 0.5
    assert ilbo.evaluate(problem, "midpoint", 0, episodes=4).mean < 0


@pytest.mark.slow
def test_each_number_has_an_effect_and_can_be_mapped_over():
    problem = tank(1.0, 0.95)
    trainer = ILBOTrainer.of(problem, ilbo.ILBO(critic="discounted", **SMALL), 8).as_program()
    names = [field.name for field in dataclasses.fields(trainer.numbers)]
    halved = [
        eqx.tree_at(lambda n, name=name: getattr(n, name), trainer.numbers, replace_fn=_half)
        for name in names
    ]
    trials = jax.tree.map(lambda *x: jnp.stack(x), trainer.numbers, *halved)

    @jax.jit
    @jax.vmap
    def after(numbers):
        changed = dataclasses.replace(trainer, numbers=numbers)
        start = _start(changed, jnp.uint32(0))
        state = _advance(changed, start, 8, jnp.int32(8))[0].state
        parts = jax.tree.leaves((state.policy, state.critic, state.slow_policy))
        return jnp.concatenate([part.ravel() for part in parts])

    plain, *others = after(trials)
    idle = {n for n, other in zip(names, others, strict=True) if jnp.array_equal(plain, other)}
    assert idle <= {"critic_share", "inward"}  # limits, which this run does not reach


def _half(number):
    return 0.5 * number


def test_programs_cannot_read_the_numbers_of_their_settings():
    form = ilbo.ILBO(clip=0.0).form
    assert all(getattr(form, name) is None for name in NUMBERS)
    assert form.clip == 0
    assert form.critic_share == math.inf
    assert {f.name for f in dataclasses.fields(ilbo.ILBO) if f.type == "float"} <= {
        *NUMBERS,
        *SWITCHES,
    }
    assert form == ilbo.ILBO(clip=0.0, policy_rate=1.0, episodes=7).form
    assert form != ilbo.ILBO().form


def test_kept_programs_are_found_for_other_rates(tmp_path):
    from ilbo.storage.programs import Kept

    problem = ilbo.make("navigation-3")
    keys = [
        Kept.of(tmp_path, ILBOTrainer.of(problem, ilbo.ILBO(**changes), 10)).made_from
        for changes in ({}, {"policy_rate": 0.1, "exploration": 0.5}, {"clip": 0.0})
    ]
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize(
    ("limits", "least"),
    [
        ([], 0.0),
        (["P(energy > 9) <= 0.1", "each E(energy) <= 9"], 0.0),
        (["each E(energy) <= 9", "E(energy) <= 90"], 0.1),
    ],
)
def test_a_price_on_whole_episodes_keeps_a_share_for_the_critic(limits, least):
    """Without such a limit it is a 0 that the program knows of."""
    problem = ilbo.make("hvac-3").with_limits(limits)
    assert Numbers.of(problem, ilbo.ILBO()).least_share == least
