"""Linear systems with quadratic costs; the optimum follows from Riccati's equation."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import ilbo
from known import Known, Truth

HORIZON, SPREAD = 20, 0.1


class Linear(ilbo.Model):
    """s' = F (s, a) + SPREAD ξ at the cost (s, a)ᵀ M (s, a) + s'ᵀ Q s'; actions are free."""

    law: ilbo.Gaussian
    F: np.ndarray
    M: np.ndarray
    Q: np.ndarray
    noisy: np.ndarray
    """[n], 1 for the components that noise moves."""

    def transition(self, state, action, noise):
        return self.F @ jnp.concatenate([state, action]) + SPREAD * self.noisy * noise

    def reward(self, state, action, next_state):
        both = jnp.concatenate([state, action])
        return -both @ self.M @ both - next_state @ self.Q @ next_state

    def bounds(self, state):
        free = jnp.full(self.F.shape[1] - self.F.shape[0], jnp.inf)
        return -free, free


class Gains(eqx.Module):
    """a = −K_t s, with its own K at each time."""

    K: np.ndarray
    timed = True

    def __call__(self, state, time):
        return -jnp.asarray(self.K, jnp.float32)[time] @ state


def riccati(model: Linear, horizon: int) -> tuple[np.ndarray, np.ndarray, float]:
    """P, the gains [horizon, m, n] and c: the least cost from s is sᵀ P s + c."""
    F, M, Q = (np.asarray(x, float) for x in (model.F, model.M, model.Q))
    n, W = len(F), SPREAD**2 * np.diag(np.asarray(model.noisy, float))
    P, c, gains = np.zeros((n, n)), 0.0, []
    for _ in range(horizon):
        c += np.trace((Q + P) @ W)
        S = M + F.T @ (Q + P) @ F
        K = np.linalg.solve(S[n:, n:], S[n:, :n])
        P = S[:n, :n] - S[:n, n:] @ K
        gains.append(K)
    return P, np.stack(gains[::-1]), c


def _known(model: Linear, name: str, start: np.ndarray) -> Known:
    P, gains, c = riccati(model, HORIZON)
    problem = ilbo.Problem(
        model, name=name, initial_state=start, horizon=HORIZON, region=(-2.0, 2.0)
    )
    truth = Truth(float(-start @ P @ start - c), "Riccati's equation", Gains(gains))
    return Known(problem, lambda: truth)


def lqg(n: int) -> Known:
    """n states that an orthogonal matrix turns, pushed by n / 2 actions."""
    draw = np.random.default_rng(n)
    turn, _ = np.linalg.qr(draw.normal(size=(n, n)))
    m = n // 2
    push = draw.normal(size=(n, m)) / np.sqrt(n)
    M = np.diag([0.0] * n + [0.1] * m)
    F = np.concatenate([turn, push], axis=1)
    model = Linear(ilbo.Gaussian(n), *_32(F, M, np.eye(n), np.ones(n)))
    return _known(model, f"lqg-{n}", np.ones(n))


def change() -> Known:
    """A mass that is pushed, where it is the change of the force that costs. The state is the
    place, the speed and the last force."""
    F = np.array([[1, 0.2, 0, 0.02], [0, 1, 0, 0.2], [0, 0, 0, 1]])
    difference = np.array([0, 0, 1, -1.0])
    M = np.outer(difference, difference)
    Q = np.diag([1, 0.1, 0.01])
    model = Linear(ilbo.Gaussian(3), *_32(F, M, Q, np.array([1.0, 1.0, 0.0])))
    return _known(model, "lqg-change", np.array([1.0, 0.0, 0.0]))


def _32(*arrays: np.ndarray) -> list[np.ndarray]:
    return [np.asarray(array, np.float32) for array in arrays]
