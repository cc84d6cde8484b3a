"""Many random draws at once, quickly on a CPU: what the laws of noise are sampled with.

The generator is Threefry-2x32, the one behind JAX's keys, written out as one elementwise expression
that compiles to a single vectorised loop (`jax.random` runs its 20 rounds as a loop over arrays,
over ten times slower on a CPU), with both of its output words put to use. Equal keys give equal
draws, alone, compiled or under `jax.vmap`.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Integer, Key, UInt32

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)
_FEW = 2**14
"""Rows that are quicker to propose for as a whole than to gather from."""
_ROUNDS = 64
"""Proposals for an element: one in 20 is refused at most, so that a sound shape never needs all."""

Proposed = tuple[Float[Array, "rows 8"], Bool[Array, "rows 8"], UInt32[Array, ""]]
"""Draws, which of them are accepted, and the next unused stream."""


def words(
    key: Key[Array, ""], count: int, stream: int | Integer[Array, ""] = 0
) -> tuple[UInt32[Array, " count"], UInt32[Array, " count"]]:
    """Two independent words of 32 random bits for each element of a numbered stream of the key."""
    data = jax.random.key_data(key)
    keys = (data[0], data[-1], data[0] ^ data[-1] ^ _PARITY)
    b = jax.lax.iota(jnp.uint32, count)
    a = jnp.full_like(b, jnp.asarray(stream, jnp.uint32))
    a, b = a + keys[0], b + keys[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            a = a + b
            b = a ^ ((b << np.uint32(rotation)) | (b >> np.uint32(32 - rotation)))
        a, b = a + keys[(group + 1) % 3], b + keys[(group + 2) % 3] + np.uint32(group + 1)
    return a, b


@partial(jax.jit, static_argnums=1)
def uniform(key: Key[Array, ""], shape: tuple[int, ...]) -> Float[Array, "*shape"]:
    """Uniform in the open interval (0, 1)."""
    return _uniform(words(key, int(np.prod(shape)))[0]).reshape(shape)


@partial(jax.jit, static_argnums=1)
def normal(key: Key[Array, ""], shape: tuple[int, ...]) -> Float[Array, "*shape"]:
    """Standard normal."""
    return _normal(words(key, int(np.prod(shape)))[0]).reshape(shape)


@jax.jit
def standard_gamma(key: Key[Array, ""], shape: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Exact Gamma(shape, 1) draws by Marsaglia and Tsang's rejection, in vector code.

    One proposal for every element is accepted for over 95 % of them. The rest are proposed again,
    gathered in rows of 8 so that a few per cent are not paid for as if they were all. A shape that
    is not positive and finite gives NaN.
    """
    wanted = shape.ravel()
    boosted = jnp.where(wanted < 1, wanted + 1, wanted)
    boosted = jnp.where(wanted > 0, boosted, jnp.nan)
    rows = jnp.pad(boosted, (0, -wanted.size % 8), constant_values=1.0).reshape(-1, 8)
    if len(rows) <= _FEW:
        draw, accepted = jnp.zeros_like(rows), jnp.zeros(rows.shape, bool)
    else:
        draw, accepted = _propose_gamma(key, rows, 1)
    draw = _redraw(key, rows, draw, accepted, jnp.uint32(2))[0].ravel()[: wanted.size]

    def shrink(draw: Float[Array, " n"]) -> Float[Array, " n"]:
        # Gamma(k) is Gamma(k + 1) U^(1/k).
        return jnp.where(
            wanted < 1, draw * uniform(key, wanted.shape) ** (1 / jnp.minimum(wanted, 1.0)), draw
        )

    return jax.lax.cond(jnp.any(wanted < 1), shrink, lambda draw: draw, draw).reshape(shape.shape)


def _redraw(
    key: Key[Array, ""],
    shape: Float[Array, "rows 8"],
    draw: Float[Array, "rows 8"],
    accepted: Bool[Array, "rows 8"],
    stream: UInt32[Array, ""],
    share: int = 4,
) -> tuple[Float[Array, "rows 8"], UInt32[Array, ""]]:
    """Proposes again where nothing is accepted yet; also returns the next unused stream.

    What has not been accepted after so many rounds never will be, and is NaN. Where there are many
    rows, one in `share` is gathered at a time: enough, as a rule, for all that have something left
    to draw.
    """
    rows = len(shape)
    gathered = rows if rows <= _FEW else max(rows // share, _FEW // 4)

    def propose(
        shape: Float[Array, "part 8"],
        draw: Float[Array, "part 8"],
        accepted: Bool[Array, "part 8"],
        stream: UInt32[Array, ""],
    ) -> Proposed:
        proposal, good = _propose_gamma(key, shape, stream)
        return jnp.where(accepted, draw, proposal), accepted | good, stream + 1

    def again(carry: Proposed) -> Proposed:
        draw, accepted, stream = carry
        if gathered == rows:
            return propose(shape, draw, accepted, stream)
        (index,) = jnp.nonzero(~jnp.all(accepted, axis=1), size=gathered, fill_value=rows)
        shape_part = shape.at[index].get(mode="clip")
        draw_part = draw.at[index].get(mode="clip")
        accepted_part = accepted.at[index].get(mode="fill", fill_value=True)
        draw_part, accepted_part, stream = propose(shape_part, draw_part, accepted_part, stream)
        draw_part, stream = _redraw(key, shape_part, draw_part, accepted_part, stream, share=32)
        draw = draw.at[index].set(draw_part, mode="drop")
        return draw, accepted.at[index].set(True, mode="drop"), stream

    def open_rows(carry: tuple[Array, Array, Array]) -> Bool[Array, ""]:
        _, accepted, now = carry
        left = ~jnp.all(accepted)
        # Each gathering completes its rows: only the proposals themselves need a limit.
        return left & (now < stream + _ROUNDS) if gathered == rows else left

    draw, accepted, last = jax.lax.while_loop(open_rows, again, (draw, accepted, stream))
    return jnp.where(accepted, draw, jnp.nan), last


def _propose_gamma(
    key: Key[Array, ""], shape: Float[Array, "*n"], stream: int | Integer[Array, ""]
) -> tuple[Float[Array, "*n"], Bool[Array, "*n"]]:
    """One proposal for each shape >= 1, and whether it is accepted."""
    a, b = (word.reshape(shape.shape) for word in words(key, shape.size, stream))
    x, u = _normal(a), _uniform(b)
    d = shape - 1 / 3
    v = (1 + x * jax.lax.rsqrt(9 * d)) ** 3
    safe = jnp.where(v > 0, v, 1.0)
    accepted = (v > 0) & (jnp.log(u) < 0.5 * x**2 + d * (1 - safe + jnp.log(safe)))
    return d * v, accepted


def _uniform(word: UInt32[Array, "*n"]) -> Float[Array, "*n"]:
    """The middles of 2²³ equal cells of (0, 1), so that neither end is reached in 32 bits."""
    return (word >> np.uint32(9)).astype(jnp.float32) * np.float32(2**-23) + np.float32(2**-24)


def _normal(word: UInt32[Array, "*n"]) -> Float[Array, "*n"]:
    return np.float32(2**0.5) * jax.lax.erf_inv(2 * _uniform(word) - 1)
