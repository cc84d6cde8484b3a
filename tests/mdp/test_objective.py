"""Objectives of the return: their figures, and the utilities that they are maxima over."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

import ilbo
from ilbo.mdp.evaluate import paired
from ilbo.mdp.objective import CVaR, Entropic, MeanStd, objective_of

RETURNS = np.random.default_rng(0).gamma(2.0, 30.0, 1000) - 100


@pytest.mark.parametrize("objective", [CVaR(0.1), CVaR(1.0), Entropic(0.03), MeanStd(0.7)])
def test_an_objective_is_the_most_of_an_expected_utility(objective):
    value, numbers = objective.value(RETURNS), objective.numbers(RETURNS)

    def expected(numbers):
        return -float(np.mean([objective.utility(x, numbers) for x in RETURNS]))

    assert -expected(numbers) == pytest.approx(value, rel=1e-6)
    best = optimize.minimize(expected, numbers + 0.1, method="Nelder-Mead", options={"xatol": 1e-9})
    assert -best.fun == pytest.approx(value, rel=1e-5)
    assert float(objective.value(jnp.asarray(RETURNS))) == pytest.approx(value, rel=1e-5)


def test_figures_are_those_of_closed_forms():
    normal = np.random.default_rng(1).normal(3.0, 2.0, 400_000)
    assert Entropic(0.5).value(normal) == pytest.approx(3 - 0.5 * 4 / 2, abs=0.02)
    assert CVaR(0.1).value(normal) == pytest.approx(3 - 2 * 1.754983, abs=0.02)
    assert MeanStd(1.5).value(normal) == pytest.approx(0.0, abs=0.02)
    few = np.array([4.0, 1.0, 3.0])
    assert CVaR(0.5).value(few) == pytest.approx((1 + 0.5 * 3) / 1.5)  # half of the second counts


def test_an_exponential_utility_does_not_overflow():
    objective, returns = Entropic(10.0), jnp.array([-1e4, 0.0, 1e4])
    assert objective.value(returns) == pytest.approx(-1e4 + np.log(3) / 10, rel=1e-5)
    assert np.isfinite(objective.utility(jnp.array(-1e6), objective.numbers(returns)))


@pytest.mark.parametrize("text", ["cvar", "cvar:0", "cvar:2", "cvar:x", "best", "entropic:0", ""])
def test_what_is_no_objective_is_said_so(text):
    with pytest.raises(ilbo.UserError):
        objective_of(text)
    with pytest.raises(ilbo.UserError):
        ilbo.ILBO(objective=text)


def test_objectives_are_compared_on_equal_noise():
    safe = RETURNS.copy()
    safe[np.quantile(RETURNS, 0.1) > RETURNS] += 5.0
    difference, (low, high) = paired("cvar:0.1", safe, RETURNS)
    assert low > 0
    assert low <= difference <= high
    assert difference == pytest.approx(CVaR(0.1).value(safe) - CVaR(0.1).value(RETURNS))
