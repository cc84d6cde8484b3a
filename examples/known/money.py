"""Eating a cake, and Merton's choice of what to consume and what to invest: closed forms."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize_scalar

import ilbo
from known import Known, Truth

DISCOUNT, STEPS, JUDGED = 0.9, 50, 200
"""Planned on 50 steps, judged on 200, of which the last counts 1e-9."""
BOND, GROWTH, RISK = 1.02, 0.07, 0.2
"""Return of the bond; the share's is exp(GROWTH − RISK² / 2 + RISK ξ)."""


class Cake(ilbo.Model):
    """What is left of a cake; the action is the piece eaten, worth its logarithm."""

    law = ilbo.Gaussian(0)

    def transition(self, state, action, noise):
        return state - action

    def reward(self, state, action, next_state):
        return jnp.log(jnp.maximum(action[0], 1e-6))

    def bounds(self, state):
        return jnp.zeros(1), state


class Eat(eqx.Module):
    def __call__(self, state):
        return (1 - DISCOUNT) * state


def cake() -> Known:
    """The best piece is the same share of what is left, 1 − γ, always."""

    def make(horizon: int) -> ilbo.Problem:
        return ilbo.Problem(
            Cake(), name="cake", initial_state=[1.0], horizon=horizon, discount=DISCOUNT,
            region=(0.0, 1.0),
        )  # fmt: skip

    share = 1 - DISCOUNT
    optimum = float(np.log(share) + DISCOUNT / share * np.log(DISCOUNT)) / share
    return Known(make(STEPS), lambda: Truth(optimum, "closed form", Eat()), make(JUDGED), 16)


class Merton(ilbo.Model):
    """Wealth; the actions are the share of it consumed, worth −1 over the amount (a relative risk
    aversion of 2), and the part of the rest that is in shares, not in bonds."""

    law = ilbo.Gaussian(1)

    def transition(self, state, action, noise):
        share = jnp.exp(GROWTH - RISK**2 / 2 + RISK * noise)
        return state * (1 - action[:1]) * (BOND + action[1:] * (share - BOND))

    def reward(self, state, action, next_state):
        return -1 / (action[0] * state[0])

    def bounds(self, state):
        return jnp.array([0.02, 0.0]), jnp.array([0.2, 1.0])


class Best(eqx.Module):
    """What to consume at each time, and the part to invest, which is always the same."""

    consume: np.ndarray
    part: float
    timed = True

    def __call__(self, state, time):
        return jnp.stack([jnp.asarray(self.consume, jnp.float32)[time], self.part])


def best_of_merton() -> tuple[float, Best]:
    """The optimum from a wealth of 1, and the best policy: shares that are the same at every
    wealth. With h steps left V(w) = −k_h / w, where k_h is the least 1 / c + φ k_{h−1} / (1 − c)
    and φ the discounted mean of 1 over the return of the portfolio."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    returns, weights = np.exp(GROWTH - RISK**2 / 2 + RISK * nodes), weights / weights.sum()

    def burden(part: float) -> float:
        return float(weights @ (1 / (BOND + part * (returns - BOND))))

    part = minimize_scalar(burden, bounds=(0, 1), method="bounded", options={"xatol": 1e-9}).x
    k, consume = 0.0, []
    for _ in range(STEPS):
        later = DISCOUNT * burden(part) * k
        c = float(np.clip(1 / (1 + np.sqrt(later)), 0.02, 0.2))
        k = 1 / c + later / (1 - c)
        consume.append(c)
    return -k, Best(np.array(consume[::-1]), float(part))


def merton() -> Known:
    problem = ilbo.Problem(
        Merton(), name="merton", initial_state=[1.0], horizon=STEPS, discount=DISCOUNT,
        region=(0.2, 2.0), domain=(0.0, np.inf),
    )  # fmt: skip
    value, policy = best_of_merton()
    return Known(problem, lambda: Truth(value, "closed form", policy))
