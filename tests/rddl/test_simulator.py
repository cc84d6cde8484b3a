"""One step of the compiled model equals one step of pyRDDLGym's NumPy simulator.

`benchmarks/rddl_steps.py` does so for three instances of every problem of rddlrepository.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rddl_simulation import Comparison, Simulator

from ilbo import rddl
from ilbo.mdp.bounds import within
from ilbo.rddl.source import locate

CONTINUOUS = [
    *("Bicycle_physics", "CartPole_Continuous_gym", "Epidemic", "HVAC", "HVAC_ippc2023"),
    *("Intruders_Continuous", "MarsRover_ippc2023", "MountainCar_Continuous_gym"),
    *("MountainCar_ippc2023", "Navigation_Continuous", "Pendulum_gym", "PowerGen_Continuous"),
    *("PowerGen_ippc2023", "Quadcopter_physics", "RaceCar_ippc2023", "Reacher_physics"),
    *("Reservoir_Continuous", "Reservoir_ippc2023", "UAV_Continuous", "UAV_Mixed"),
    *("UAV_ippc2023", "Zombies_arcade"),
]
ALIKE = {
    *("HVAC", "MountainCar_Continuous_gym", "PowerGen_Continuous", "Reservoir_Continuous"),
    *("UAV_Continuous", "UAV_ippc2023"),
}
"""Problems much like others of the list: compared by the slow tests."""
FIRST = [
    pytest.param(
        f"rddl:{name}/{rddl.instances(name)[0]}", marks=[pytest.mark.slow] * (name in ALIKE)
    )
    for name in CONTINUOUS
]
SECOND = [
    f"rddl:{name}/{rddl.instances(name)[1]}" for name in CONTINUOUS if len(rddl.instances(name)) > 1
]


def check_steps(name, steps=6):
    source = locate(name, None)
    model = rddl.exact_model(source)
    dynamics = model.dynamics
    simulator = Simulator(source, dynamics.compiler.slots)
    layouts = dynamics.state, dynamics.action

    @jax.jit
    def step(state, unit, noise):
        low, high = model.bounds(state)
        action = within(low, high, unit)
        following = model.transition(state, action, noise)
        reward = model.reward(state, action, following)
        return action, following, reward, model.terminal(following)

    draw = np.random.default_rng(0)
    noises = model.law.sample(jax.random.key(1), (steps,))
    # Off the initial state a little: single precision may not fall on the other side of an edge.
    real = np.concatenate([np.full(f.size, f.range == "real") for f in dynamics.state.fluents])
    state = dynamics.initial() + np.float32(1e-3) * draw.uniform(size=real.size) * real
    for noise in noises:
        unit = jnp.asarray(draw.uniform(size=dynamics.action.size))
        action, following, reward, ended = step(state, unit, noise)
        wanted, wanted_reward, wanted_ended = simulator.move(layouts, state, action, noise)
        got = np.asarray(following)[: len(wanted)]
        scale = 1 + np.abs(wanted) + np.abs(np.asarray(state)[: len(wanted)])
        np.testing.assert_array_less(np.abs(got - wanted) / scale, 2e-5)
        assert abs(reward - wanted_reward) <= 2e-5 * (1 + abs(wanted_reward))
        assert bool(ended) == wanted_ended
        state = following


@pytest.mark.parametrize("name", FIRST)
def test_one_step_equals_the_simulator(name):
    check_steps(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SECOND)
def test_one_step_equals_the_simulator_on_another_instance(name):
    check_steps(name)


DISCRETE = [
    "Blackjack_arcade/0",
    "Intruders_Discrete/0",
    "EarthObservation_ippc2018/1",
]


@pytest.mark.parametrize("name", DISCRETE)
def test_steps_of_problems_without_a_real_action_equal_the_simulator(name):
    source = locate(f"rddl:{name}", None)
    with jax.enable_x64(True):
        found = Comparison(source).run(10, 1e-9)
    assert found["differ"] == []
    assert found["equal"] >= 8
