"""ln T: closed forms, normalisation, the score's identities, and what the rule refuses."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from names import EACH
from reference import FACTS, reference
from scipy import integrate, stats

import ilbo
from ilbo.builtin.reservoirs import Reservoir
from ilbo.mdp import density_check


class Toy(ilbo.Model):
    """Affine in the noise with a given matrix, which the action may scale: s' = s + a + J ξ."""

    matrix: Array
    law: ilbo.Law

    def transition(self, state, action, noise):
        return state + action + self.matrix @ noise

    def reward(self, state, action, next_state):
        return -jnp.sum(next_state**2)

    def bounds(self, state):
        return -jnp.ones_like(state), jnp.ones_like(state)


class Changed(Toy):
    """The toy with something done to its next state."""

    change: object

    def transition(self, state, action, noise):
        return self.change(super().transition(state, action, noise), noise)


def toy_problem(model, size):
    return ilbo.Problem(
        model,
        name="toy",
        initial_state=jnp.ones(size),
        horizon=3,
        region=(-2.0, 2.0),
        state_names=("left", "middle", "right")[:size],
    )


@functools.cache
def log_density(name):
    return eqx.filter_jit(ilbo.make(name).model.log_density)


@functools.cache
def inner_step(name, seed=0):
    """A state of the region, an action within bounds, and a next state that the model drew."""
    problem = ilbo.make(name)
    return problem, *draw_step(problem, seed)


@jax.jit
def draw_step(problem, seed):
    keys = jax.random.split(jax.random.key(seed), 3)
    state = problem.starts(keys[0])
    low, high = problem.model.bounds(state)
    action = low + jax.random.uniform(keys[1], low.shape) * (high - low)
    return state, action, problem.model.transition(state, action, problem.model.noise(keys[2]))


def marginals(name, state, action):
    """The law of each component of the next state, from the plain version and SciPy."""
    plain = reference(name)
    facts, size = plain.facts, len(state)
    state, action = np.asarray(state, float), np.asarray(action, float)
    if name.startswith("navigation"):
        mean, _ = plain.step(state, action, np.zeros(2))
        return [stats.norm(m, v**0.5) for m, v in zip(mean, facts["move_variance"], strict=True)]
    if name.startswith("hvac"):
        c = FACTS["hvac"]["constants"]
        mean, _ = plain.step(state, action, np.zeros(2 * size))
        per_heat = c["time_delta"] / c["cap"] * size
        outside, hall = (np.isin(range(size), facts[wall]) for wall in ("adj_outside", "adj_hall"))
        variance = outside * (per_heat / c["r_outside"]) ** 2 * c["temp_outside_variance"]
        variance += hall * (per_heat / c["r_hall"]) ** 2 * c["temp_hall_variance"]
        return [stats.norm(m, v**0.5) for m, v in zip(mean, variance, strict=True)]
    much = np.full(size, 1000.0)  # so much rain that no level is cut off at 0
    shift = plain.step(state, action, much)[0] - np.array(facts["rain_scale"]) * much
    return [
        stats.gamma(k, loc=c, scale=s)
        for k, c, s in zip(facts["rain_shape"], shift, facts["rain_scale"], strict=True)
    ]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", EACH)
def test_density_equals_closed_form(name, seed):
    _, state, action, next_state = inner_step(name, seed)
    if name.startswith("reservoir"):
        next_state = jnp.where(next_state > 0, next_state, 1.0)
    expected = sum(
        law.logpdf(x) for law, x in zip(marginals(name, state, action), next_state, strict=True)
    )
    found = log_density(name)(state, action, next_state)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def test_density_is_zero_below_the_shift_of_the_rain():
    problem, state, action, next_state = inner_step("reservoir-10")
    shift = marginals("reservoir-10", state, action)[3].kwds["loc"]
    below = next_state.at[3].set(shift - 1.0)
    both = jax.jit(jax.value_and_grad(problem.model.log_density, argnums=1))
    value, gradient = both(state, action, below)
    assert value == -jnp.inf
    assert bool(jnp.all(jnp.isfinite(gradient)))


def test_density_holds_where_the_cut_at_zero_binds():
    """Full reservoirs that release all they hold: dry on average, but for heavy rain."""
    problem = ilbo.make("reservoir-10")
    state = problem.model.capacity
    action = jnp.zeros(10).at[0].set(state[0])
    law = marginals("reservoir-10", state, action)[0]
    assert law.mean() < 0
    inner = jnp.array([law.mean() for law in marginals("reservoir-10", state, action)])
    levels = jnp.array([0.5, 5.0, 40.0])
    points = jnp.tile(inner, (3, 1)).at[:, 0].set(levels)
    both = jax.value_and_grad(problem.model.log_density, argnums=1)
    values, scores = jax.jit(jax.vmap(both, (None, None, 0)))(state, action, points)
    np.testing.assert_allclose(jnp.diff(values), np.diff(law.logpdf(levels)), rtol=1e-3)
    # The release shifts the rain's law of the first level, and that of the second the other way.
    noise = (np.asarray(levels) - law.kwds["loc"]) / law.kwds["scale"]
    slope = ((law.args[0] - 1) / noise - 1) / law.kwds["scale"]
    np.testing.assert_allclose(scores[:, 0] - scores[0, 0], slope - slope[0], rtol=1e-2)


def test_density_integrates_to_one_in_the_plane():
    state, action = jnp.array([4.0, 3.0]), jnp.array([0.7, -0.4])
    line = np.linspace(-2, 2, 201)
    x, y = np.meshgrid(line + 4, line + 3, indexing="ij")
    points = jnp.stack([x, y], axis=-1).reshape(-1, 2)
    values = np.exp(jax.vmap(log_density("navigation-3"), (None, None, 0))(state, action, points))
    total = integrate.simpson(integrate.simpson(values.reshape(x.shape), x=line), x=line)
    np.testing.assert_allclose(total, 1, rtol=1e-4)


@pytest.mark.parametrize("component", [0, 2])
@pytest.mark.parametrize("name", ["hvac-3", "reservoir-10"])
def test_slices_of_the_density_integrate_to_the_rest(name, component):
    """One component integrated out leaves the product of the other ones' densities."""
    _, state, action, _ = inner_step(name, seed=1)
    laws = marginals(name, state, action)
    centre = jnp.array([law.mean() for law in laws])
    low, high = (
        laws[component].ppf([0, 1 - 1e-7]) if name[0] == "r" else laws[component].interval(1 - 1e-7)
    )
    edges = low + (high - low) * np.linspace(0, 1, 4001)[1:] ** 2  # finer near the cusp
    points = jnp.tile(centre, (4000, 1)).at[:, component].set(edges)
    values = np.exp(
        np.asarray(jax.vmap(log_density(name), (None, None, 0))(state, action, points))
        - sum(law.logpdf(law.mean()) for i, law in enumerate(laws) if i != component)
    )
    np.testing.assert_allclose(integrate.trapezoid(values, edges), 1, rtol=5e-3)


def test_correlated_gaussian_components_are_jointly_normal():
    matrix = jnp.array([[1.0, 0.0, 0.5], [0.4, 0.8, -0.3]])
    model = Toy(matrix, ilbo.Gaussian(3))
    state, action, point = jnp.array([0.3, -1.0]), jnp.array([0.1, 0.2]), jnp.array([1.0, 0.5])
    expected = stats.multivariate_normal(np.asarray(state + action), np.asarray(matrix @ matrix.T))
    np.testing.assert_allclose(
        eqx.filter_jit(model.log_density)(state, action, point), expected.logpdf(point), rtol=1e-5
    )


def test_gaussian_and_gamma_components_side_by_side():
    law = ilbo.Product([ilbo.Gaussian(2), ilbo.Gamma(jnp.array([2.5]))])
    matrix = jnp.array([[1.0, 0.5, 0.0], [0.0, 0.0, -3.0], [0.2, 0.7, 0.0]])
    model = Toy(matrix, law)
    density_check.check(toy_problem(model, 3))
    state, action = jnp.array([0.0, 1.0, 2.0]), jnp.array([0.5, -0.5, 0.1])
    point = jnp.array([0.8, -5.0, 1.5])
    mean, normal = np.asarray(state + action), np.asarray(matrix)[[0, 2], :2]
    expected = stats.multivariate_normal(mean[[0, 2]], normal @ normal.T).logpdf(
        np.asarray(point)[[0, 2]]
    )
    expected += stats.gamma(2.5, scale=3).logpdf(mean[1] + 5.0)  # a negative scale turns it round
    np.testing.assert_allclose(
        eqx.filter_jit(model.log_density)(state, action, point), expected, rtol=1e-4
    )


def quadratic(size):
    """A quadratic g and its expectation under mean [n] and covariance [n, n]."""
    key_matrix, key_vector = jax.random.split(jax.random.key(9))
    matrix = jax.random.normal(key_matrix, (size, size)) / size
    vector = jax.random.normal(key_vector, (size,))

    def g(x):
        return x @ matrix @ x + vector @ x

    def expected(mean, covariance):
        return g(mean) + jnp.trace(matrix @ covariance)

    return g, expected


def gamma_chain():
    """A chain whose rain has shapes above 2: below, the score has no variance."""
    size = 3
    model = Reservoir(
        rain_scale=jnp.array([2.0, 5.0, 3.0]),
        capacity=jnp.full(size, 100.0),
        lower=jnp.full(size, 10.0),
        upper=jnp.full(size, 80.0),
        law=ilbo.Gamma(jnp.array([5.0, 6.0, 8.0])),
    )
    return model, jnp.array([40.0, 60.0, 55.0]), jnp.array([11.0, 7.0, 20.0]), model.law.shape


def gaussian_case(name):
    problem, state, action, _ = inner_step(name, seed=2)
    return problem.model, state, action, jnp.zeros(problem.model.law.size)


CASES = {
    "navigation-3": functools.partial(gaussian_case, "navigation-3"),
    "hvac-3": functools.partial(gaussian_case, "hvac-3"),
    "gamma chain": gamma_chain,
}


@pytest.mark.parametrize("case", CASES)
def test_score_has_mean_zero_and_gives_the_gradient_of_an_expectation(case):
    """E[∇_a ln T] = 0 and E[g(s') ∇_a ln T] = ∇_a E[g(s')], within Monte-Carlo error."""
    model, state, action, noise_mean = CASES[case]()
    noise_variance = jnp.where(model.law.gaussian, 1.0, noise_mean)
    g, expected = quadratic(len(state))

    def mean_of_g(action):
        mean = model.transition(state, action, noise_mean)
        jacobian = jax.jacfwd(lambda xi: model.transition(state, action, xi))(noise_mean)
        return expected(mean, jacobian @ jnp.diag(noise_variance) @ jacobian.T)

    @jax.jit
    @jax.vmap
    def sample(noise):
        moved = model.transition(state, action, noise)
        score = jax.grad(model.log_density, argnums=1)(state, action, moved)
        # A constant off g changes nothing in expectation and much in variance.
        return score, (g(moved) - g(model.transition(state, action, noise_mean))) * score

    scores, products = sample(model.law.sample(jax.random.key(4), (60_000,)))
    gradient = jax.jit(jax.grad(mean_of_g))(action)
    for found, exact in ((scores, np.zeros(len(action))), (products, gradient)):
        found = np.asarray(found, np.float64)
        error = found.std(axis=0) / len(found) ** 0.5
        np.testing.assert_array_less(np.abs(found.mean(axis=0) - exact), 4 * error)
        assert np.all(error < 0.05 * (found.std(axis=0) + 1e-9))


@pytest.mark.parametrize("shape", [1.3, 1.6, 2.0])
def test_score_identities_by_quadrature_where_its_variance_is_infinite(shape):
    scale, state, action = 3.0, 50.0, 10.0
    model = Reservoir(
        *(jnp.array([x]) for x in (scale, 1e6, 1.0, 1e5)), law=ilbo.Gamma(jnp.array([shape]))
    )
    # x = t^p removes the singularity of the score at the edge of the support.
    power = 4 / (shape - 1)
    t = np.linspace(0, (60 * scale) ** (1 / power), 20_001)[1:]
    x = t**power
    stretch = power * t ** (power - 1)
    edge = state - action - 0.05 * (state / 1e6) ** 2 * state

    with jax.enable_x64(True):
        model = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), model)

        def at(next_state):
            arguments = (jnp.array([state]), jnp.array([action]), next_state[None])
            return (
                model.log_density(*arguments),
                jax.grad(model.log_density, argnums=1)(*arguments)[0],
            )

        log_density, score = (np.asarray(v) for v in jax.jit(jax.vmap(at))(jnp.asarray(edge + x)))
    inside = np.isfinite(log_density) & (x > 1e-9)  # further in, the edge's rounding shows
    weight = np.where(inside, np.exp(log_density) * stretch, 0)
    score = np.where(inside, score, 0)
    np.testing.assert_allclose(integrate.simpson(weight, x=t), 1, atol=1e-3)
    np.testing.assert_allclose(integrate.simpson(weight * score, x=t), 0, atol=5e-3)
    # E[(s' - edge)²] falls by 2 E[s' - edge] per unit of outflow.
    slope = integrate.simpson(weight * score * (x + 7.0) ** 2, x=t)
    np.testing.assert_allclose(slope, -2 * (shape * scale + 7.0), rtol=2e-2)


def refused(model, size):
    return {k: v for k, v in density_check.reasons(toy_problem(model, size)).items() if v}


@pytest.mark.parametrize("name", EACH)
def test_every_built_in_problem_has_a_density(name):
    density_check.check(ilbo.make(name))


def test_refuses_what_is_not_affine():
    model = Changed(jnp.eye(2), ilbo.Gaussian(2), lambda s, xi: s.at[1].add(xi[1] ** 2))
    assert refused(model, 2) == {"middle": "is not affine in the noise"}


def test_refuses_what_is_deterministic():
    model = Toy(jnp.array([[1.0, 0.5], [0.0, 0.0]]), ilbo.Gaussian(2))
    assert refused(model, 2) == {"middle": "is deterministic given the state and the action"}


def test_refuses_a_mixture_of_noises_that_are_not_gaussian():
    model = Toy(jnp.array([[1.0, 0.5], [0.0, 1.0]]), ilbo.Gamma(jnp.array([3.0, 3.0])))
    found = refused(model, 2)
    assert found["left"] == "mixes 2 noises that are not all Gaussian"


def test_refuses_a_shared_noise_that_is_not_gaussian():
    model = Toy(jnp.array([[1.0], [2.0]]), ilbo.Gamma(jnp.array([3.0])))
    assert refused(model, 2)["left"] == "shares a noise that is not Gaussian with 'middle'"


def test_refuses_a_singular_covariance():
    model = Toy(jnp.array([[1.0], [2.0]]), ilbo.Gaussian(1))
    assert "singular" in refused(model, 2)["left"]


def test_accepts_a_level_cut_off_from_below():
    model = Changed(
        5 * jnp.eye(2), ilbo.Gamma(jnp.array([2.0, 3.0])), lambda s, _: jnp.maximum(s, 0.0)
    )
    assert not refused(model, 2)


def test_error_names_the_component_and_the_way_out():
    model = Toy(jnp.array([[1.0, 0.0], [0.0, 0.0]]), ilbo.Gaussian(2))
    with pytest.raises(ilbo.DensityError, match=r"'middle' is deterministic.*pathwise") as caught:
        density_check.check(toy_problem(model, 2))
    assert "\n" not in str(caught.value)


def test_a_model_with_its_own_density_is_not_checked():
    class Own(Toy):
        def log_density(self, state, action, next_state):
            return jnp.array(0.0)

    density_check.check(toy_problem(Own(jnp.zeros((2, 1)), ilbo.Gaussian(1)), 2))
