"""Relaxations: derivatives against central differences at τ > 0, exact values at τ = 0."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_rddl import write

import ilbo
from ilbo.rddl import build, draws, operators, relaxing
from ilbo.rddl.source import locate

X = np.array([0.31, -0.72, 1.13])
Y = np.array([0.52, -0.61, 0.94])
P = np.array([0.81, 0.12, 0.43])
Q = np.array([0.21, 0.62, 0.93])
EXACT = {
    **operators.RELATIONAL,
    **operators.LOGICAL,
    **operators.FUNCTIONS,
    **operators.AGGREGATIONS,
    "if": operators.choose,
    "switch": operators.switch,
}
ARGUMENTS = {
    **dict.fromkeys(("^", "&", "|", "=>", "<=>"), (P, Q)),
    **dict.fromkeys(("forall", "exists"), (P,)),
    **dict.fromkeys(("round", "floor", "ceil", "sgn"), (3 * X,)),
    **dict.fromkeys(("argmax", "argmin", "maximum", "minimum"), (X,)),
    **dict.fromkeys(("div", "mod"), (5 * X, 1 + P)),
    "~": (P,),
    "if": (P, X, Y),
    "switch": (2 * P, X, Y, X * Y),
}
NAMES = [*relaxing.SMOOTH, "if"]


def exact_of(name):
    """The exact operator of real numbers, truth values too; on the last axis if it reduces."""
    truths = name in operators.LOGICAL or name in operators.OF_TRUTHS
    kind = operators.truth if truths else operators.number
    axes = [(-1,)] if name in operators.AGGREGATIONS else []
    return lambda *xs: EXACT[name](jnp, *(kind(jnp, x) for x in xs), *axes)


def arguments_of(name, rounded=False):
    given = [jnp.asarray(x) for x in ARGUMENTS.get(name, (X, Y))]
    truths = len(given) if given[0] is P or name in (*operators.LOGICAL, "forall", "exists") else 1
    sharp = name in (*operators.LOGICAL, "forall", "exists", "if", "switch")
    return [jnp.round(x) if rounded and sharp and i < truths else x for i, x in enumerate(given)]


def slopes(function, arguments, h=1e-5):
    """The gradient of the summed value in all arguments, side by side, and central differences."""
    whole = jnp.concatenate(arguments)

    def value(whole):
        return jnp.sum(function(*jnp.split(whole, len(arguments))))

    steps = h * jnp.eye(whole.size)
    differences = jax.vmap(value)(whole + steps) - jax.vmap(value)(whole - steps)
    return jax.grad(value)(whole), differences / (2 * h)


@pytest.fixture(scope="module")
def measured():
    """For each operator: gradient and differences of the smooth one, gradient of the straight one,
    and values; compiled at once."""

    def measure(warm, cold, zero):
        found = {}
        for name in NAMES:
            exact, arguments = exact_of(name), arguments_of(name)
            smooth, straight = (
                relaxing.relaxed(way, name, exact, 1) for way in ("smooth", "straight")
            )
            sharp = arguments_of(name, rounded=True)
            found[name] = {
                "slopes": slopes(lambda *a, f=smooth: f(warm, *a), arguments),
                "straight slopes": slopes(lambda *a, f=straight: f(warm, *a), arguments)[0],
                "straight": straight(warm, *arguments),
                "exact": exact(*arguments) * 1.0,
                "at zero": [f(zero, *arguments) for f in (smooth, straight)],
                "cold": (smooth(cold, *sharp), exact(*sharp) * 1.0),
            }
        return found

    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, jax.jit(measure)(0.3, 1e-3, 0.0))


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_of_operators_against_differences(measured, name):
    found = measured[name]
    slope, difference = found["slopes"]
    np.testing.assert_allclose(slope, difference, rtol=1e-5, atol=1e-7)
    assert np.any(np.abs(slope) > 1e-3)
    np.testing.assert_array_equal(found["straight"], found["exact"])
    if name != "if":  # which takes one of its branches whole
        np.testing.assert_allclose(found["straight slopes"], slope, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_operators_are_exact_at_temperature_zero_and_nearly_so_when_cold(measured, name):
    found = measured[name]
    for value in found["at zero"]:
        np.testing.assert_array_equal(value, found["exact"])
    np.testing.assert_allclose(*found["cold"], atol=2e-3)


PARAMETERS = {
    "Bernoulli": (0.45,),
    "Geometric": (0.3,),
    "Discrete": (0.2, 0.5, 0.3),
    "UnnormDiscrete": (2.0, 5.0, 3.0),
    "Poisson": (3.3,),
    "Binomial": (9.0, 0.4),
    "NegativeBinomial": (3.0, 0.6),
}


def draw_of(name, count):
    parameters = [jnp.full(count, p) for p in PARAMETERS[name]]
    draw = draws.draw_of(name, (count,), [None] * len(parameters))
    noise = draw.law.sample(jax.random.key(3), ()).reshape(draw.noise_shape)
    return draw.sample, noise, parameters


def check_draws(names):
    def measure(warm, zero):
        found = {}
        for name in names:
            sample, noise, given = draw_of(name, 12)
            *others, last = given  # counts have a derivative in their last parameter
            smooth, straight = (
                relaxing.relaxed_draw(way, name, sample) for way in ("smooth", "straight")
            )
            inner = relaxing.DRAWS[name]
            found[name] = {
                "slopes": slopes(lambda p, f=inner, o=others, n=noise: f(warm, n, *o, p), [last]),
                "straight slopes": slopes(
                    lambda p, f=straight, o=others, n=noise: f(warm, n, *o, p), [last]
                )[0],
                "straight": straight(warm, noise, *given),
                "exact": sample(noise, *given) * 1.0,
                "at zero": [f(zero, noise, *given) for f in (smooth, straight)],
            }
        return found

    with jax.enable_x64(True):
        measured = jax.tree.map(np.asarray, jax.jit(measure)(0.2, 0.0))
    for found in measured.values():
        for value in (*found["at zero"], found["straight"]):
            np.testing.assert_array_equal(value, found["exact"])
        slope, difference = found["slopes"]
        np.testing.assert_allclose(slope, difference, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found["straight slopes"], slope, rtol=1e-6, atol=1e-12)
        assert np.any(np.abs(slope) > 1e-3)


def test_draws_are_exact_at_zero_and_have_derivatives():
    check_draws(("Bernoulli", "Geometric", "Discrete", "UnnormDiscrete"))


@pytest.mark.slow
def test_draws_of_counts_are_exact_at_zero_and_have_derivatives():
    check_draws(("Poisson", "Binomial", "NegativeBinomial"))


@pytest.mark.slow
def test_derivatives_of_counts_are_on_average_that_of_the_mean():
    """Of Poisson(rate), that is 1; the temperature blurs what lies near probabilities 0 and 1."""
    sample, noise, parameters = draw_of("Poisson", 4000)
    straight = relaxing.relaxed_draw("straight", "Poisson", sample)
    slope = jax.jit(jax.grad(lambda rate: jnp.mean(straight(jnp.asarray(0.02), noise, rate))))
    np.testing.assert_allclose(jnp.sum(slope(*parameters)), 1.0, rtol=0.1)


HIDDEN = dict(
    water="if (water(?t) > 3) then water(?t) - release(?t) else water(?t) + 1",
    reward="sum_{?t : tank} [water(?t) > 2]",
)


def test_a_problem_of_real_parts_is_relaxed_if_asked(tmp_path):
    path = write(tmp_path, **HIDDEN)
    plain = ilbo.make(path)
    assert plain.model is plain.exact
    relaxed = ilbo.make(path, arguments={"relaxation": "straight", "temperature": 0.5})
    state, action = jnp.array([1.0, 2.9, 3.2]), jnp.ones(3)

    def reward(model, state):
        return model.reward(state, action, model.transition(state, action, jnp.zeros(0)))

    value, slope = jax.value_and_grad(reward, 1)(relaxed.model, state)
    assert float(value) == float(reward(plain.model, state)) == 2
    assert not np.any(jax.grad(reward, 1)(plain.model, state))
    assert np.all(slope > 0)


def test_the_temperature_is_an_array_and_annealing_compiles_nothing(tmp_path):
    problem = ilbo.make(write(tmp_path, **HIDDEN), arguments={"relaxation": "smooth"})
    traced = []

    @jax.jit
    def reward(model):
        traced.append(1)
        return model.reward(jnp.array([1.0, 1.9, 2.2]), jnp.zeros(3), jnp.zeros(3))

    values = [
        float(reward(eqx.tree_at(lambda m: m.temperature, problem.model, jnp.asarray(t))))
        for t in (1.0, 0.1, 0.01, 0.0)
    ]
    assert len(traced) == 1
    assert values[-1] == 1.0
    assert values == sorted(values, reverse=True)


def test_models_at_temperature_zero_are_exact(tmp_path):
    parts = dict(
        more="open(tank) : { action-fluent, bool, default = false };\n"
        "        wet(tank) : { state-fluent, bool, default = true };\n"
        "        n(tank) : { state-fluent, int, default = 2 };",
        cpfs="wet'(?t) = Bernoulli(1 / (1 + exp[-water(?t)])) ^ open(?t);\n"
        "        n'(?t) = if (wet(?t)) then n(?t) + floor[water(?t)] else Geometric(0.5);",
        reward="(sum_{?t : tank} [wet'(?t) * water(?t)]) + (max_{?t : tank} [n(?t)])",
    )
    source = locate(write(tmp_path, **parts), None)
    exact = build.exact_model(source)
    state = jnp.array([0, 1, 1, 3, 0, 2, 1.2, -0.4, 2.5], float)
    action = jnp.array([1, 1, 0, 0.1, 0.2, 0.3], float)
    noise = jnp.linspace(0.1, 0.9, 6)
    for way in ("mixed", "straight", "smooth"):
        relaxed = build.relaxed_model(source, exact, way, 0.0)
        got = relaxed.transition(state, action, noise)
        np.testing.assert_allclose(got, exact.transition(state, action, noise), rtol=1e-6)
        rewards = (m.reward(state, action, got) for m in (relaxed, exact))
        np.testing.assert_allclose(*rewards, rtol=1e-6)


def test_bad_arguments_are_refused_in_one_sentence(tmp_path):
    path = write(tmp_path)
    for arguments, words in (
        ({"relaxation": "smoth"}, "did you mean 'smooth'"),
        ({"temperature": -1}, "must be a number from 0 on, got -1"),
        ({"temperature": "hot"}, "must be a number from 0 on"),
        ({"heat": 1}, "'heat' is no argument"),
        ({"functions": 3}, "a dict of names and functions"),
    ):
        with pytest.raises(ilbo.UserError, match=words):
            ilbo.make(path, arguments=arguments)
