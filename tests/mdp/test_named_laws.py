"""The laws that users name: moments and densities, noise from data, chains and seasons."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import ilbo
from ilbo.mdp import density_check
from ilbo.mdp.simulate import draw_noise

KNOWN = {
    "uniform": (ilbo.Uniform([0.0, -2.0], (800, 3)), [stats.uniform(0, 800), stats.uniform(-2, 5)]),
    "exponential": (ilbo.Exponential((2.0, 0.5)), [stats.expon(scale=2), stats.expon(scale=0.5)]),
    "log-normal": (
        ilbo.LogNormal([0.5, -1.0], 0.4),
        [stats.lognorm(0.4, scale=np.exp(0.5)), stats.lognorm(0.4, scale=np.exp(-1))],
    ),
    "student": (ilbo.StudentT([5, 8], loc=1.0, scale=2.0), [stats.t(k, 1, 2) for k in (5, 8)]),
    "weibull": (ilbo.Weibull([1.5, 3.0], 2.0), [stats.weibull_min(k, scale=2) for k in (1.5, 3)]),
    "beta": (ilbo.Beta([2.0, 0.8], [3.0, 1.5]), [stats.beta(2, 3), stats.beta(0.8, 1.5)]),
    "gamma": (ilbo.Gamma((2.0, 0.7)), [stats.gamma(2), stats.gamma(0.7)]),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_draws_have_the_moments_and_the_distribution(name):
    law, known = KNOWN[name]
    draws = np.asarray(law.sample(jax.random.key(2), (40_000,)), float)
    assert draws.shape == (40_000, 2)
    for column, reference in zip(draws.T, known, strict=True):
        spread = reference.std()
        assert abs(column.mean() - reference.mean()) < 5 * spread / 200
        assert column.std() == pytest.approx(spread, rel=0.05)
        assert stats.kstest(column[:4000], reference.cdf).pvalue > 1e-4


@pytest.mark.parametrize("name", KNOWN)
def test_density_is_the_known_one_and_its_integral_is_one(name):
    law, known = KNOWN[name]
    for i, reference in enumerate(known):
        x = reference.ppf(np.linspace(0.01, 0.99, 2001)).astype(np.float32)
        points = np.repeat(x[:, None], 2, axis=1)
        density = np.exp(np.asarray(jax.vmap(law.log_prob)(jnp.asarray(points)))[:, i])
        np.testing.assert_allclose(density, reference.pdf(x), rtol=2e-4)
        assert integrate.trapezoid(density, x) == pytest.approx(0.98, abs=2e-3)


@pytest.mark.parametrize("name", KNOWN)
def test_quadrature_of_each_law(name):
    law, known = KNOWN[name]
    nodes, weights = law.quadrature(15)
    assert weights.sum() == pytest.approx(1, abs=1e-6)
    for i, reference in enumerate(known):
        # Their rules are not Gauss's own: they converge, but not as fast.
        rough = {"student": 0.15, "weibull": 0.01}.get(name, 1e-3)
        assert weights @ nodes[:, i] == pytest.approx(reference.mean(), rel=rough)
        wanted = reference.var() + reference.mean() ** 2
        assert weights @ nodes[:, i] ** 2 == pytest.approx(wanted, rel=rough)


def test_rows_of_data_stay_together_and_are_drawn_by_weight():
    rows = [[1, 10], [2, 20], [3, 30]]
    law = ilbo.Empirical(rows, weights=(1, 0, 3))
    draws = np.asarray(law.sample(jax.random.key(0), (4000,)))
    np.testing.assert_array_equal(draws[:, 1], 10 * draws[:, 0])
    assert set(draws[:, 0]) == {1.0, 3.0}
    assert (draws[:, 0] == 3).mean() == pytest.approx(0.75, abs=0.03)
    nodes, weights = law.quadrature(3)
    np.testing.assert_array_equal(nodes, rows)
    np.testing.assert_allclose(weights, [0.25, 0, 0.75], atol=1e-6)


def test_discrete_values_have_their_probabilities():
    law = ilbo.Discrete(np.array([0, 5, 7]), [0.2, 0.5, 0.3])
    draws = np.asarray(law.sample(jax.random.key(0), (20_000,)))[:, 0]
    for value, probability in ((0, 0.2), (5, 0.5), (7, 0.3)):
        assert (draws == value).mean() == pytest.approx(probability, abs=0.015)


class Store(ilbo.Model):
    """A stock that noise drives in one component, whatever its law."""

    law: ilbo.Law

    def transition(self, state, action, noise):
        return state + action - noise[:1]

    def reward(self, state, action, next_state):
        return -jnp.sum(next_state**2)

    def bounds(self, state):
        return jnp.zeros(1), jnp.full(1, 5.0)


def store(law):
    return ilbo.Problem(
        Store(law), name="store", initial_state=[1.0], horizon=3, region=(-5.0, 5.0)
    )


@pytest.mark.parametrize("name", ["uniform", "log-normal"])
def test_density_of_a_model_follows_from_each_law(name):
    law, known = KNOWN[name]
    problem = store(law)
    density_check.check(problem)
    for value in known[0].ppf([0.2, 0.7]):
        moved = jnp.array([1.5 - value], jnp.float32)
        found = problem.model.log_density(jnp.array([1.0]), jnp.array([0.5]), moved)
        assert float(found) == pytest.approx(known[0].logpdf(value), abs=2e-3)


@pytest.mark.parametrize("law", [ilbo.Discrete([1.0, 2.0]), ilbo.Empirical([[1.0, 2.0]] * 3)])
def test_density_is_refused_with_a_reason_where_there_is_none(law):
    with pytest.raises(ilbo.DensityError, match="noise with finitely many values; the pathwise"):
        density_check.check(store(law))
    with pytest.raises(ilbo.DensityError, match="finitely many values"):
        store(law).model.log_density(jnp.zeros(1), jnp.zeros(1), jnp.zeros(1))


@pytest.mark.slow
def test_planning_and_hindsight_take_noise_from_data():
    from ilbo.baselines import hindsight

    problem = store(ilbo.Empirical([[1.0], [2.0], [4.0]]))
    tiny = ilbo.ILBO(layers=(8,), episodes=4, test_episodes=4)
    plan = ilbo.plan(problem, tiny)
    assert plan.fault is None
    earned = ilbo.evaluate(problem, plan.policy, 0, episodes=8).returns
    limit = hindsight(problem, 0, 8, steps=100, rounds=0, policies=[plan.policy])
    assert (limit.returns >= earned - 1e-4).all()


def test_chain_moves_as_its_matrix_says():
    chain = ilbo.MarkovChain([[0.9, 0.1], [0.3, 0.7]], values=[20.0, 60.0])
    noise = chain.law.sample(jax.random.key(0), (20_000,))[:, 0]
    for place, wanted in ((0.0, 0.1), (1.0, 0.7)):
        moved = jax.vmap(lambda u, at=place: chain.step(jnp.array(at), u))(noise)
        assert float(moved.mean()) == pytest.approx(wanted, abs=0.015)
    assert float(chain.value(jnp.array(1.0))) == 60.0
    turn = ilbo.MarkovChain([[[1, 0], [1, 0]], [[0, 1], [0, 1]]])
    for season, wanted in ((0, 0.0), (1, 1.0), (2, 0.0)):
        assert float(turn.step(jnp.array(1.0), jnp.array(0.5), season)) == wanted


def test_quadrature_of_a_chain_has_the_chances_of_its_matrix():
    matrices = np.array([[[0.9, 0.1], [0.3, 0.7]], [[0.2, 0.8], [0.5, 0.5]]])
    chain = ilbo.MarkovChain(matrices)
    nodes, weights = ilbo.Product([chain.law, ilbo.Discrete([1.0, 2.0])]).quadrature(3)
    for season in (0, 1):
        for place in (0, 1):
            step = jax.vmap(lambda u, s=season, p=place: chain.step(jnp.array(float(p)), u, s))
            moved = np.asarray(step(jnp.asarray(nodes[:, 0], jnp.float32)))
            np.testing.assert_allclose(weights @ moved, matrices[season, place, 1], atol=1e-6)


def test_quadrature_of_too_many_rows_is_refused():
    law = ilbo.Seasonal([ilbo.Empirical(np.arange(30.0)[:, None])] * 12)
    with pytest.raises(ilbo.UserError, match="too many nodes"):
        law.quadrature(3)


def test_each_season_has_its_own_law():
    law = ilbo.Seasonal([ilbo.Empirical([[i, 10 * i]]) for i in range(4)])
    noise = law.sample(jax.random.key(0), (3,))
    assert noise.shape == (3, 8)
    for season, wanted in ((0, 0), (3, 3), (4, 0), (jnp.array(6.0), 2)):
        np.testing.assert_array_equal(law.of(noise[0], season), [wanted, 10 * wanted])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ilbo.Uniform(3, 1), "low of Uniform must be below its high, got 3.0, 1.0"),
        (lambda: ilbo.Uniform([0, 0], [1, 1, 1]), "must be as many, got 2 of low, 3 of high"),
        (lambda: ilbo.Exponential(-1), "scale of Exponential must be positive, got -1.0"),
        (lambda: ilbo.Exponential("two"), "scale of Exponential must be a number or a list"),
        (lambda: ilbo.LogNormal(0, 0), "scale of LogNormal must be positive, got 0.0"),
        (lambda: ilbo.LogNormal(np.nan), "loc of LogNormal must be finite, got nan"),
        (lambda: ilbo.StudentT([[5.0]]), r"df of StudentT must be a number .* shape \(1, 1\)"),
        (lambda: ilbo.StudentT(0), "df of StudentT must be positive, got 0.0"),
        (lambda: ilbo.Weibull([]), r"shape of Weibull must be a number .* shape \(0,\)"),
        (lambda: ilbo.Discrete([[1.0]]), r"values of Discrete must be a list of numbers"),
        (lambda: ilbo.Discrete([1, 2], [0.5, 0.6]), "must add up to 1, not 1.1"),
        (lambda: ilbo.Discrete([1, 2], [1.5, -0.5]), "probabilities of Discrete must be at least"),
        (lambda: ilbo.Discrete([1, 2], [1.0]), "one for each of its 2 rows"),
        (lambda: ilbo.Empirical([[1, 2], [3]]), "rows of equal length"),
        (lambda: ilbo.Empirical([]), "rows of Empirical must be a table"),
        (lambda: ilbo.Empirical([[1.0, np.inf]]), "rows of Empirical must be finite, got inf"),
        (lambda: ilbo.Empirical([1, 2], [0, 0]), "weights of Empirical must be at least 0"),
        (lambda: ilbo.MarkovChain([[1.0, 0.0]]), "must be square"),
        (lambda: ilbo.MarkovChain([[0.5, 0.4], [0, 1]]), "probabilities that add up to 1"),
        (lambda: ilbo.MarkovChain(np.eye(2), [1.0]), "one for each of its 2 places"),
        (lambda: ilbo.Seasonal([ilbo.Gaussian(1), ilbo.Gaussian(2)]), r"got sizes \[1, 2\]"),
    ],
)  # fmt: skip
def test_wrong_parameters_are_told_in_one_sentence(make, words):
    with pytest.raises(ilbo.UserError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_noise_of_many_steps_is_drawn_at_once():
    law = ilbo.Product([ilbo.Uniform(0, 2), ilbo.Empirical([[1.0, 2.0]]), ilbo.Discrete([4.0])])
    noise = draw_noise(Store(law), jax.random.key(0), (5, 7))
    assert noise.shape == (5, 7, 4)
    np.testing.assert_array_equal(noise[..., 1:], np.broadcast_to([1.0, 2.0, 4.0], (5, 7, 3)))
