"""The maximisation step μ^{m+1} = argmax_μ Ĵ(μ; μ^m), for tables and for parametric policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float64, Int
from scipy.optimize import minimize

from ilbo.theory.minoriser import Bound, Together
from ilbo.theory.precision import Doubles, in_float64

Parametric = Callable[[Any, Any], Any]
"""μ_θ as a JAX function: (θ, number of the state s) → action [k]."""

PROBES = 16
NEWTON_STEPS = 40
CONVERGED = 1e-11
"""A Newton step this short is the last."""
STEP_SIZES = 0.5 ** np.array([0, 1, 2, 3, 5, 8, 12, 18, 26])


def _float64(numbers: Any) -> Float64[np.ndarray, "..."]:
    return np.asarray(numbers, np.float64)


class Linear(eqx.Module):
    """A policy linear in features, μ_θ(s) = features(s) · θ, with θ [p, k]."""

    features: Float64[np.ndarray, "n p"] = eqx.field(converter=_float64)

    def __call__(self, theta: Float[Array, "p k"], s: Int[Array, ""]) -> Float[Array, " k"]:
        return jnp.asarray(self.features)[s] @ theta


@in_float64
@eqx.filter_jit
def maximise_table(j_hat: Bound | Together) -> Float[Array, "n k"]:
    """argmax_μ Ĵ over tables μ [n, k], which is one small problem per state.

    Each state starts from the best of μ^m(s) and `PROBES` actions spread over its bounds, and
    climbs by projected Newton steps. No step lowers Ĵ, so the result is at least as good as μ^m
    even where Ĵ has several local maxima.
    """
    mdp = j_hat.mdp
    weight = jnp.asarray(j_hat.dJ_domega) + jnp.sum(j_hat.dJ_dphi, axis=1)
    spread = _spread(PROBES, mdp.action_size)

    def in_state(
        s: Int[Array, ""],
        a_m: Float[Array, " k"],
        low: Float[Array, " k"],
        high: Float[Array, " k"],
        weight: Float[Array, ""],
    ) -> Float[Array, " k"]:
        scale = jnp.where(weight > 0, weight, 1.0)

        def gain(a: Float[Array, " k"]) -> Float[Array, ""]:
            return j_hat.at_state(s, a) / scale

        bottom = jnp.where(jnp.isfinite(low), low, a_m - 1)
        width = jnp.where(jnp.isfinite(high), high, a_m + 1) - bottom
        candidates = jnp.concatenate([a_m[None], bottom + spread * width])
        values = _or_lowest(jax.vmap(gain)(candidates))
        best = jnp.argmax(values)
        top = _climb(gain, candidates[best], values[best], low, high)
        return jnp.where(weight > 0, top, a_m)

    states = jnp.arange(mdp.states)
    mu_m, low, high = map(jnp.asarray, (j_hat.at_m.mu, mdp.low, mdp.high))
    return jax.vmap(in_state)(states, mu_m, low, high, weight)


Climb = tuple[Float[Array, " k"], Float[Array, ""], Bool[Array, ""], Int[Array, ""]]
"""An action, its gain, whether it still moves, and the number of steps."""


def _climb(
    gain: Callable[[Float[Array, " k"]], Float[Array, ""]],
    start: Float[Array, " k"],
    value: Float[Array, ""],
    low: Float[Array, " k"],
    high: Float[Array, " k"],
) -> Float[Array, " k"]:
    """A local maximum of gain [k] → scalar within the bounds, by projected Newton steps.

    `value` is gain(start).
    """

    def gradient_twice(a: Float[Array, " k"]) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
        gradient = jax.grad(gain)(a)
        return gradient, gradient

    def step(carry: Climb) -> Climb:
        a, value, _, count = carry
        hessian, gradient = jax.jacfwd(gradient_twice, has_aux=True)(a)
        held = ((a <= low) & (gradient < 0)) | ((a >= high) & (gradient > 0))
        gradient = jnp.where(held, 0.0, gradient)
        hessian = jnp.where(held[:, None] | held[None, :], 0.0, hessian)
        curvature, axes = jnp.linalg.eigh(hessian)
        # The absolute curvature makes every direction one of ascent, at saddles too.
        curvature = jnp.maximum(jnp.abs(curvature), 1e-8)
        newton = axes @ ((axes.T @ gradient) / curvature)
        trials = jnp.clip(a + jnp.asarray(STEP_SIZES)[:, None] * newton, low, high)
        values = _or_lowest(jax.vmap(gain)(trials))
        best = jnp.argmax(values)
        better = values[best] > value
        a = jnp.where(better, trials[best], a)
        moving = jnp.max(jnp.abs(newton)) > CONVERGED
        return a, jnp.where(better, values[best], value), better & moving, count + 1

    def unfinished(carry: Climb) -> Bool[Array, ""]:
        return carry[2] & (carry[3] < NEWTON_STEPS)

    first = (start, value, jnp.array(True), jnp.array(0))
    return jax.lax.while_loop(unfinished, step, first)[0]


def _or_lowest(values: Float[Array, " n"]) -> Float[Array, " n"]:
    return jnp.where(jnp.isnan(values), -jnp.inf, values)


def _spread(count: int, size: int) -> Float[np.ndarray, "count size"]:
    """Points in the unit cube: the additive recurrence with steps g⁻¹, g⁻², …,
    where g is the root above 1 of g^(size + 1) = g + 1 (the golden ratio for size 1)."""
    g = 2.0
    for _ in range(60):
        g = (1 + g) ** (1 / (size + 1))
    return (0.5 + np.arange(1, count + 1)[:, None] * g ** -np.arange(1.0, size + 1)) % 1.0


def maximise_parameters(
    j_hat: Bound,
    policy: Parametric,
    theta_m: Float[np.ndarray, "*shape"],
    restarts: int = 0,
    seed: int = 0,
) -> Float[np.ndarray, "*shape"]:
    """argmax_θ Ĵ(μ_θ; μ_{θ^m}), Eq. (23), as a nonlinear program with the action bounds.

    Solved by SLSQP from θ^m and from `restarts` points around it, subject to low(s) ≤ μ_θ(s) ≤
    high(s) in every state. The result keeps the bounds and never has a lower Ĵ than θ^m.

    Args:
        j_hat: The bound at μ_{θ^m}.
        policy: μ_θ, (θ, s) → action [k].
        theta_m: θ^m, any shape, keeping the action bounds.
        restarts: Number of further starting points.
        seed: Of the starting points.
    """
    low, high = j_hat.mdp.low.ravel(), j_hat.mdp.high.ravel()
    has_low, has_high = np.isfinite(low), np.isfinite(high)
    known: dict[bytes, tuple[np.ndarray, ...]] = {}

    def at(flat: Float[np.ndarray, " p"]) -> tuple[np.ndarray, ...]:
        """Gain, its gradient, actions and their slopes: what the solver asks for one by one."""
        key = flat.tobytes()
        if key not in known:
            known.clear()
            known[key] = _program(j_hat, policy, flat.reshape(theta_m.shape))
        return known[key]

    def loss(flat: Float[np.ndarray, " p"]) -> tuple[float, Float[np.ndarray, " p"]]:
        value, gradient, _, _ = at(flat)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return 1e12, np.zeros_like(flat)
        return -float(value), -gradient.ravel()

    def margins(flat: Float[np.ndarray, " p"]) -> Float[np.ndarray, " margins"]:
        mu = at(flat)[2].ravel()
        return np.concatenate([(mu - low)[has_low], (high - mu)[has_high]])

    def margins_jacobian(flat: Float[np.ndarray, " p"]) -> Float[np.ndarray, "margins p"]:
        slope = at(flat)[3].reshape(low.size, flat.size)
        return np.concatenate([slope[has_low], -slope[has_high]])

    def kept(flat: Float[np.ndarray, " p"]) -> Float[np.ndarray, " p"]:
        """The point, drawn towards θ^m until it keeps the bounds."""
        for _ in range(60):
            if not len(margins(flat)) or margins(flat).min() >= -1e-12:
                return flat
            flat = home + 0.5 * (flat - home)
        return home

    constraint = {"type": "ineq", "fun": margins, "jac": margins_jacobian}
    constraints = [constraint] if has_low.any() or has_high.any() else []
    home = theta_m.ravel().astype(np.float64)
    draw = np.random.default_rng(seed)
    around = home + draw.normal(size=(restarts, home.size)) * (1 + np.abs(home))
    starts = [home, *map(kept, around)]
    best, lowest = home, loss(home)[0]
    for start in starts:
        found = minimize(
            loss,
            start,
            jac=True,
            method="SLSQP",
            constraints=constraints,
            options={"ftol": 1e-15, "maxiter": 200},
        )
        candidate = kept(np.where(np.isfinite(found.x), found.x, home))
        value = loss(candidate)[0]
        if value < lowest:
            best, lowest = candidate, value
    return best.reshape(theta_m.shape)


def table(policy: Parametric, theta: Any, states: int) -> Float[Doubles, "n k"]:
    """μ_θ(s) for every state."""
    return _table(policy, theta, states)


@in_float64
@eqx.filter_jit
def _table(policy: Parametric, theta: Float[Array, "*shape"], states: int) -> Float[Array, "n k"]:
    return jax.vmap(policy, (None, 0))(theta, jnp.arange(states))


@in_float64
@eqx.filter_jit
def _program(
    j_hat: Bound, policy: Parametric, theta: Float[Array, "*shape"]
) -> tuple[
    Float[Array, ""], Float[Array, "*shape"], Float[Array, "n k"], Float[Array, "n k *shape"]
]:
    """Ĵ − J^m and its gradient in θ; μ_θ and its Jacobian."""

    def actions(theta: Float[Array, "*shape"]) -> Float[Array, "n k"]:
        return jax.vmap(policy, (None, 0))(theta, jnp.arange(j_hat.mdp.states))

    mu, slope = actions(theta), jax.jacfwd(actions)(theta)
    value, in_mu = jax.value_and_grad(j_hat.gain)(mu)
    return value, jnp.tensordot(in_mu, slope, axes=in_mu.ndim), mu, slope
