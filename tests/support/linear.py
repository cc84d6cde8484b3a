"""A linear-Gaussian model with quadratic reward, whose values and gradients have closed forms."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import ilbo

A = np.array([[0.9, 0.2], [-0.1, 0.8]])
B = np.array([[0.5, 0.1], [0.0, 0.7]])
L = np.array([[0.3, 0.0], [0.1, 0.2]])
Q = np.array([[1.0, 0.2], [0.2, 0.5]])
R = np.array([[0.4, 0.0], [0.0, 0.3]])
K = np.array([[-0.4, 0.1], [0.05, -0.5]])


class Linear(ilbo.Model):
    """s' = A s + B a + L ξ, r = −sᵀ Q s − aᵀ R a."""

    law = ilbo.Gaussian(2)

    def transition(self, state, action, noise):
        return jnp.array(A) @ state + jnp.array(B) @ action + jnp.array(L) @ noise

    def reward(self, state, action, next_state):
        return -state @ jnp.array(Q) @ state - action @ jnp.array(R) @ action

    def bounds(self, state):
        return jnp.full(2, -jnp.inf), jnp.full(2, jnp.inf)


class Gain(eqx.Module):
    """a = K s."""

    def __call__(self, state):
        return jnp.array(K) @ state


def values(discount: float, steps: int) -> tuple[np.ndarray, float]:
    """V(s) = −sᵀ P s − p of the policy a = K s over a number of steps."""
    closed = A + B @ K
    P, p = np.zeros((2, 2)), 0.0
    for _ in range(steps):
        p = discount * (p + np.trace(L.T @ P @ L))
        P = Q + K.T @ R @ K + discount * closed.T @ P @ closed
    return P, p


def action_gradient(state, action, discount: float, P) -> np.ndarray:
    """∇_a of r + γ E V(s') for V(s) = −sᵀ P s − p."""
    return -2 * R @ action - 2 * discount * B.T @ P @ (A @ state + B @ action)
