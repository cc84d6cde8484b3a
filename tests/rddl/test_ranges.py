"""Parameters that a distribution cannot have: refused where constant, NaN where they move."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_draws import problem_text

import ilbo
from ilbo import rddl
from ilbo.rddl.source import locate

WRONG = [
    ("real", "Normal(0.0, -1.0)", "the variance must not be negative, got -1"),
    ("real", "Normal(1.0 / 0.0, 1.0)", "the mean must be finite, got inf"),
    ("real", "Uniform(2.0, 1.0)", "the lower bound must not lie above the upper, got 2 and 1"),
    ("real", "Exponential(0.0)", "the scale must be positive, got 0"),
    ("real", "Laplace(0.0, -2.0)", "the scale must be positive, got -2"),
    ("real", "Gumbel(0.0, 0.0)", "the scale must be positive, got 0"),
    ("real", "Cauchy(0.0, -1.0)", "the scale must be positive, got -1"),
    ("real", "Gompertz(-1.0, 1.0)", "the shape must be positive, got -1"),
    ("real", "Pareto(1.0, 0.0)", "the scale must be positive, got 0"),
    ("real", "Kumaraswamy(1.0, -1.0)", "the second shape must be positive, got -1"),
    ("real", "Weibull(0.0, 1.0)", "the shape must be positive, got 0"),
    ("real", "Gamma(-1.0, 1.0)", "the shape must be positive, got -1"),
    ("real", "Gamma(0.0, 1.0)", "the shape must be positive, got 0"),
    ("real", "Gamma(2.0, -1.0)", "the scale must be positive, got -1"),
    ("real", "Gamma(k, -1.0)", "the scale must be positive, got -1"),
    ("real", "ChiSquare(-3.0)", "the number of degrees of freedom must be positive, got -3"),
    ("real", "Beta(1.0, 0.0)", "the second shape must be positive, got 0"),
    ("real", "Student(-1.0)", "the number of degrees of freedom must be positive, got -1"),
    ("bool", "Bernoulli(1.5)", "the probability must be from 0 to 1, got 1.5"),
    ("int", "Geometric(0.0)", "the probability must be above 0 and at most 1, got 0"),
    ("int", "Poisson(-2.0)", "the rate must not be negative, got -2"),
    ("int", "Binomial(-3, 0.5)", "the number of trials must not be negative, got -3"),
    ("int", "Binomial(3, -0.5)", "the probability must be from 0 to 1, got -0.5"),
    ("int", "NegativeBinomial(0.0, 0.5)", "the number of successes must be positive, got 0"),
    (
        "colour",
        "Discrete(colour, @red : 0.2, @green : 0.5, @blue : 0.2)",
        "the probabilities must sum to 1, got 0.9",
    ),
    (
        "colour",
        "Discrete(colour, @red : -0.2, @green : 0.9, @blue : 0.3)",
        "the weight must not be negative, got -0.2",
    ),
    (
        "colour",
        "UnnormDiscrete(colour, @red : 0, @green : 0, @blue : 0)",
        "one of the weights must be positive, got none",
    ),
]


def written(folder, kind, law):
    path = folder / "draws.rddl"
    path.write_text(problem_text({"drawn": (kind, law)}))
    return path


@pytest.mark.parametrize(("kind", "law", "words"), WRONG, ids=[law for _, law, _ in WRONG])
def test_constant_parameter_out_of_range_is_refused_with_its_line(tmp_path, kind, law, words):
    path = written(tmp_path, kind, law)
    rows = path.read_text().splitlines()
    line = next(i for i, row in enumerate(rows, 1) if law in row)
    with pytest.raises(ilbo.UserError) as caught:
        ilbo.make(path)
    name = law.split("(")[0]
    said = f"draws.rddl, line {line}: <drawn'> draws from {name}, of which {words}"
    assert str(caught.value) == f"{said}, in `{rows[line - 1].strip()}`."


VECTORS = """
domain vectors {
    types { axis : {@x, @y}; };
    pvariables {
        M(axis) : { non-fluent, real, default = 1.0 };
        C(axis, axis) : { non-fluent, real, default = 3.0 };
        A(axis) : { non-fluent, real, default = 2.0 };
        DEGREES : { non-fluent, real, default = 5.0 };
        BAD : { non-fluent, real, default = -5.0 };
        p(axis) : { state-fluent, real, default = 0.0 };
        a : { action-fluent, real, default = 0.0 };
    };
    cpfs { p'(?i) = LAW; };
    reward = p(@x) + a;
}
non-fluents figures {
    domain = vectors;
    non-fluents { C(@x, @x) = 2.0; C(@y, @y) = 1.0; A(@x) = -0.5; };
}
instance i { domain = vectors; non-fluents = figures; horizon = 3; discount = 1.0; }
"""


@pytest.mark.parametrize(
    ("law", "words"),
    [
        ("MultivariateNormal[?i](M(_), C(_, _))", "symmetric and positive definite"),
        ("MultivariateStudent[?i](M(_), C(_, _), DEGREES)", "symmetric and positive definite"),
        ("MultivariateStudent[?i](M(_), C(_, _), BAD)", "degrees of freedom must be positive"),
        ("Dirichlet[?i](A(_))", "the weight must be positive, got -0.5"),
    ],
)
def test_constant_parameters_of_random_vectors_are_checked(tmp_path, law, words):
    path = tmp_path / "vectors.rddl"
    path.write_text(VECTORS.replace("LAW", law))
    with pytest.raises(ilbo.UserError, match=words):
        ilbo.make(path)


def test_branch_that_is_never_taken_may_hold_anything(tmp_path):
    path = written(tmp_path, "real", "if (1.0 > 2.0) then Gamma(-1.0, 1.0) else Normal(0.0, 1.0)")
    model = rddl.exact_model(locate(str(path), None))
    noise = model.law.sample(jax.random.key(0), (100,))
    state = jnp.asarray(model.dynamics.initial())
    moved = jax.vmap(lambda xi: model.transition(state, jnp.zeros(1), xi))(noise)
    assert np.isfinite(moved).all()
    taken = written(tmp_path, "real", "if (1.0 < 2.0) then Gamma(-1.0, 1.0) else 0.0")
    with pytest.raises(ilbo.UserError, match="the shape must be positive"):
        ilbo.make(taken)


MOVING = {
    "uniform": ("real", "Uniform(0.0, k)"),
    "exponential": ("real", "Exponential(k)"),
    "weibull": ("real", "Weibull(k, 1.0)"),
    "pareto": ("real", "Pareto(2.0, k)"),
    "gam": ("real", "Gamma(k, 1.0)"),
    "scaled": ("real", "Gamma(2.0, k)"),
    "normal": ("real", "Normal(0.0, k)"),
    "bet": ("real", "Beta(k, 1.0)"),
    "chosen": ("real", "if (k > 0) then Exponential(k) else 0.0"),
}


def test_moving_parameter_out_of_range_gives_nan_and_only_where_it_is_drawn_from(tmp_path):
    path = tmp_path / "draws.rddl"
    path.write_text(problem_text(MOVING))
    model = rddl.exact_model(locate(str(path), None))
    noise = model.law.sample(jax.random.key(0))
    names = [fluent.name for fluent in model.dynamics.state.fluents]
    start = np.asarray(model.dynamics.initial())
    move = jax.jit(lambda state: model.transition(state, jnp.zeros(1), noise))
    sound = move(jnp.asarray(start))
    assert np.isfinite(sound).all()
    moved = np.asarray(move(jnp.asarray(start).at[names.index("k")].set(-1.5)))
    wrong = {name for name, value in zip(names, moved, strict=True) if np.isnan(value)}
    assert wrong == set(MOVING) - {"chosen"}


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        ("bool", "Bernoulli(k)"),
        ("int", "Geometric(k)"),
        ("int", "Poisson(k)"),
        ("int", "Binomial(10, k)"),
        ("int", "NegativeBinomial(k, 0.5)"),
        ("colour", "Discrete(colour, @red : k, @green : 0.5, @blue : 0.5 - k)"),
        ("colour", "UnnormDiscrete(colour, @red : k, @green : 0.5, @blue : 0.5)"),
    ],
)
def test_whole_numbers_with_a_moving_parameter_out_of_range_spoil_the_step(tmp_path, kind, law):
    model = rddl.exact_model(locate(str(written(tmp_path, kind, law)), None))
    noise = model.law.sample(jax.random.key(0))
    move = jax.jit(lambda k: model.transition(jnp.array([0.0, k]), jnp.zeros(1), noise))
    assert np.isfinite(move(0.2)).all()
    assert np.isnan(move(-0.2)).all()
    otherwise = {"bool": "false", "int": "0", "colour": "@red"}[kind]
    chosen = f"if (k > 0) then {law} else {otherwise}"
    model = rddl.exact_model(locate(str(written(tmp_path, kind, chosen)), None))
    noise = model.law.sample(jax.random.key(0))
    assert np.isfinite(model.transition(jnp.array([0.0, -0.2]), jnp.zeros(1), noise)).all()


def test_evaluation_tells_of_a_moving_parameter_that_went_wrong(tmp_path):
    problem = ilbo.make(written(tmp_path, "real", "Gamma(k, 1.0)"))
    with pytest.raises(ilbo.UserError, match=r"model's next state 'drawn' is nan at step 1"):
        ilbo.evaluate(problem, lambda state: jnp.array([-2.0]), 0, 4)
