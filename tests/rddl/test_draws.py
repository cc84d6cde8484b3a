"""Draws from explicit noise follow the distributions that pyRDDLGym's simulator draws from."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pyRDDLGym.core.simulator import RDDLSimulator
from scipy import stats

from ilbo import rddl
from ilbo.rddl import quantiles
from ilbo.rddl.parsing import parse, quiet
from ilbo.rddl.source import locate

CONSTANT = {
    "normal": ("real", "Normal(1.0, 4.0)"),
    "uniform": ("real", "Uniform(-1.0, 3.0)"),
    "exponential": ("real", "Exponential(2.0)"),
    "laplace": ("real", "Laplace(1.0, 2.0)"),
    "gumbel": ("real", "Gumbel(1.0, 2.0)"),
    "cauchy": ("real", "Cauchy(1.0, 2.0)"),
    "weibull": ("real", "Weibull(1.5, 2.0)"),
    "gam": ("real", "Gamma(0.7, 2.0)"),
    "chi": ("real", "ChiSquare(3.0)"),
    "bet": ("real", "Beta(0.7, 2.0)"),
    "student": ("real", "Student(3.0)"),
    "pareto": ("real", "Pareto(3.0, 2.0)"),
    "gompertz": ("real", "Gompertz(0.5, 2.0)"),
    "kumaraswamy": ("real", "Kumaraswamy(0.7, 2.0)"),
    "bernoulli": ("bool", "Bernoulli(0.3)"),
    "geometric": ("int", "Geometric(0.3)"),
    "discrete": ("colour", "Discrete(colour, @red : 0.2, @green : 0.5, @blue : 0.3)"),
    "weighted": ("colour", "UnnormDiscrete(colour, @red : 2, @green : 5, @blue : 3)"),
}
"""Fluents that are drawn with constant parameters: their range and law."""

MOVING = {
    "s-normal": ("real", "Normal(k, k)"),
    "s-weibull": ("real", "Weibull(k, k)"),
    "s-bernoulli": ("bool", "Bernoulli(k / 3)"),
    "s-geometric": ("int", "Geometric(k / 3)"),
}
"""The same with parameters that depend on the state k = 1.5."""

INVERTED = {
    "poisson": ("int", "Poisson(2.5)"),
    "binomial": ("int", "Binomial(10, 0.3)"),
    "negative": ("int", "NegativeBinomial(3.0, 0.4)"),
    "s-gamma": ("real", "Gamma(k, 2.0)"),
    "s-chi": ("real", "ChiSquare(k)"),
    "s-beta": ("real", "Beta(k, 2.0)"),
    "s-student": ("real", "Student(2 * k)"),
    "s-poisson": ("int", "Poisson(k)"),
}
"""Those that are the quantile of a uniform noise, found by bisection: slow to compile."""


def problem_text(laws):
    variables = "".join(
        f"  {n} : {{ state-fluent, {r}, default = {d} }};\n" for n, r, d in laws_of(laws)
    )
    cpfs = "".join(f"  {name}' = {law};\n" for name, (_, law) in laws.items())
    return (
        "domain draws {\n types { colour : {@red, @green, @blue}; };\n pvariables {\n"
        f"{variables}  k : {{ state-fluent, real, default = 1.5 }};\n"
        "  a : { action-fluent, real, default = 0.0 };\n };\n"
        f" cpfs {{\n{cpfs}  k' = k + a;\n }};\n reward = k;\n}}\n"
        "non-fluents none { domain = draws; }\n"
        "instance i { domain = draws; non-fluents = none; horizon = 3; discount = 1.0; }\n"
    )


def laws_of(laws):
    defaults = {"real": "0.0", "bool": "false", "int": "0", "colour": "@red"}
    return [(name, kind, defaults[kind]) for name, (kind, _) in laws.items()]


def model_of(folder, laws):
    path = folder / "draws.rddl"
    path.write_text(problem_text(laws))
    return rddl.exact_model(locate(str(path), None))


def compare_draws(model, count=600):
    """Next states by us and by the simulator, for each fluent."""
    state, action = jnp.asarray(model.dynamics.initial()), jnp.zeros(1)

    @jax.jit
    def draw(key):
        noises = model.law.sample(key, (count,))
        return jax.vmap(lambda xi: model.transition(state, action, xi))(noises)

    ours = np.asarray(draw(jax.random.key(0)))
    with quiet():
        simulator = RDDLSimulator(parse(model.dynamics.source), objects_as_strings=False)
    simulator.seed(1)
    theirs = []
    for _ in range(count):
        simulator.reset()
        simulator.step({"a": 0.0})
        theirs.append([float(simulator.subs[f.name]) for f in model.dynamics.state.fluents])
    for fluent, column, wanted in zip(
        model.dynamics.state.fluents, ours.T, np.array(theirs).T, strict=True
    ):
        if fluent.name != "k":
            assert len(np.unique(column)) > 1, fluent.name
            assert stats.ks_2samp(column, wanted, method="asymp").pvalue > 1e-4, fluent.name


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return model_of(tmp_path_factory.mktemp("draws"), CONSTANT | MOVING)


def test_draws_follow_the_simulators_distribution(model):
    compare_draws(model)


@pytest.mark.slow
def test_draws_by_inversion_follow_the_simulators_distribution(tmp_path):
    model = model_of(tmp_path, INVERTED)
    compare_draws(model)
    check_derivatives(model, ("s-gamma", "s-chi", "s-beta", "s-student"))


def test_noise_has_the_own_law_where_the_shape_is_constant(model):
    slots = {slot.where.rstrip("'"): slot for slot in model.dynamics.compiler.slots.values()}
    laws = {name: type(slot.draw.law).__name__ for name, slot in slots.items()}
    assert laws["normal"] == laws["s-normal"] == "Gaussian"
    assert laws["gam"] == laws["chi"] == "Gamma"
    assert laws["weibull"] == "Weibull"
    assert laws["bet"] == "Beta"
    assert laws["student"] == "Student"
    assert (laws["uniform"], laws["s-weibull"]) == ("Uniform", "Exponential")
    sizes = [slot.draw.law.size for slot in slots.values()]
    assert model.law.size == sum(sizes)


def test_gamma_quantile_against_scipy():
    u, shape = np.meshgrid([1e-4, 0.01, 0.3, 0.5, 0.9, 0.999], [0.05, 0.4, 1.0, 3.0, 40.0])
    got = jax.jit(quantiles.gamma)(jnp.asarray(u), jnp.asarray(shape))
    np.testing.assert_allclose(got, stats.gamma.ppf(u, shape), rtol=2e-3, atol=1e-30)


def test_gamma_quantile_derivatives_against_differences():
    u, shape, h = np.array([0.1, 0.5, 0.9]), np.array([0.6, 1.5, 4.0]), 1e-5
    by_u, by_shape = jax.jit(jax.vmap(jax.grad(quantiles.gamma, (0, 1))))(
        jnp.asarray(u), jnp.asarray(shape)
    )
    exact = stats.gamma.ppf
    np.testing.assert_allclose(
        by_u, (exact(u + h, shape) - exact(u - h, shape)) / (2 * h), rtol=2e-3
    )
    np.testing.assert_allclose(
        by_shape, (exact(u, shape + h) - exact(u, shape - h)) / (2 * h), rtol=5e-3
    )


def check_derivatives(model, fluents):
    noise = np.random.default_rng(0).uniform(0.2, 0.8, model.law.size)
    jacobian = jax.jit(jax.jacfwd(model.transition))(
        jnp.asarray(model.dynamics.initial()), jnp.zeros(1), jnp.asarray(noise)
    )
    assert np.isfinite(jacobian).all()
    names = [f.name for f in model.dynamics.state.fluents]
    for name in fluents:
        assert jacobian[names.index(name), names.index("k")] != 0


def test_state_dependent_draws_have_derivatives(model):
    check_derivatives(model, ("s-normal", "s-weibull"))


VECTORS = """
domain vectors {
    types { axis : {@x, @y}; };
    pvariables {
        M(axis) : { non-fluent, real, default = 1.0 };
        C(axis, axis) : { non-fluent, real, default = 0.5 };
        A(axis) : { non-fluent, real, default = 2.0 };
        DEGREES : { non-fluent, real, default = 5.0 };
        p(axis) : { state-fluent, real, default = 0.0 };
        q(axis) : { state-fluent, real, default = 0.0 };
        d(axis) : { state-fluent, real, default = 0.0 };
        a : { action-fluent, real, default = 0.0 };
    };
    cpfs {
        p'(?i) = MultivariateNormal[?i](M(_), C(_, _));
        q'(?i) = MultivariateStudent[?i](M(_), C(_, _), DEGREES);
        d'(?i) = Dirichlet[?i](A(_));
    };
    reward = p(@x) + a;
}
non-fluents figures {
    domain = vectors;
    non-fluents { C(@x, @x) = 2.0; C(@y, @y) = 1.0; A(@x) = 0.5; };
}
instance i { domain = vectors; non-fluents = figures; horizon = 3; discount = 1.0; }
"""


def test_random_vectors(tmp_path):
    path = tmp_path / "vectors.rddl"
    path.write_text(VECTORS)
    model = rddl.exact_model(locate(str(path), None))
    assert str(model.law) == "Normal × 2 + Student × 2 + Gamma × 2"
    noises = jax.jit(lambda key: model.law.sample(key, (4000,)))(jax.random.key(0))
    step = jax.jit(jax.vmap(lambda xi: model.transition(jnp.zeros(6), jnp.zeros(1), xi)))
    p, q, d = np.split(np.asarray(step(noises)), 3, axis=1)
    np.testing.assert_allclose(p.mean(0), [1, 1], atol=0.1)
    np.testing.assert_allclose(np.cov(p.T), [[2, 0.5], [0.5, 1]], atol=0.15)
    factor = np.linalg.cholesky([[2, 0.5], [0.5, 1]])
    white = np.linalg.solve(factor, (q - 1).T)
    assert stats.kstest(white[1], stats.t(5).cdf).pvalue > 1e-4
    np.testing.assert_allclose(d.sum(1), 1, rtol=1e-5)
    assert stats.kstest(d[:, 0], stats.beta(0.5, 2.0).cdf).pvalue > 1e-4


MULTINOMIAL = """
domain counts {
    types { axis : {@x, @y, @z}; place : {@one, @two}; };
    pvariables {
        P(place, axis) : { non-fluent, real, default = 0.25 };
        k : { state-fluent, int, default = 12 };
        n(place, axis) : { state-fluent, int, default = 0 };
        a : { action-fluent, real, default = 0.0 };
    };
    cpfs { k' = k; n'(?r, ?i) = Multinomial[?i](k, P(?r, _)); };
    reward = a;
}
non-fluents figures { domain = counts; non-fluents { P(@one, @x) = 0.5; P(@two, @z) = 0.5; }; }
instance i { domain = counts; non-fluents = figures; horizon = 3; discount = 1.0; }
"""


@pytest.mark.slow
def test_multinomial_counts(tmp_path):
    path = tmp_path / "counts.rddl"
    path.write_text(MULTINOMIAL)
    model = rddl.exact_model(locate(str(path), None))
    noises = model.law.sample(jax.random.key(0), (4000,))
    state = jnp.asarray(model.dynamics.initial())
    step = jax.jit(jax.vmap(lambda xi: model.transition(state, jnp.zeros(1), xi)))
    counts = np.asarray(step(noises))[:, 1:].reshape(-1, 2, 3)
    assert np.all(counts.sum(axis=-1) == 12)
    for drawn, p in ((counts[:, 0], [0.5, 0.25, 0.25]), (counts[:, 1], [0.25, 0.25, 0.5])):
        law = stats.multinomial(12, p)
        np.testing.assert_allclose(drawn.mean(axis=0), law.mean(), atol=0.15)
        np.testing.assert_allclose(np.cov(drawn.T), law.cov(), atol=0.3)
