"""pyRDDLGym-jax's compiler, made to draw from explicit noise.

- Random draws read their noise from a vector: the compiler threads a PRNG key through every
  expression, and here that key *is* the noise vector ξ, of which each draw has its slice.
- Derivatives are 0, not infinite or undefined, where a root or a quotient has none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ilbo.mdp.laws.law import Law
from ilbo.mdp.shapes import Noise
from ilbo.rddl import draws, ranges
from ilbo.rddl.parsing import Expression, Unsupported, is_random, parse, parts, reading, text_of
from ilbo.rddl.source import Source

Values = dict[str, Any]
"""The tensor of each fluent, by its name."""

Weights = dict[int, Any]
"""The weights of relaxations, by the number of the expression."""

Result = tuple[Array, Noise | None, Any, Weights]
"""What a compiled expression gives: its value, and key, error code and parameters unchanged."""

Compiled = Callable[..., Result]
"""An expression as pyRDDLGym-jax compiles it: a function of fluents, constants, parameters and
key, which is the noise ξ, or None where nothing is drawn."""


@dataclass(frozen=True)
class Slot:
    """One draw of the problem and its slice of the noise vector."""

    distribution: str
    where: str
    """The CPF that draws."""
    start: int
    draw: draws.Draw
    arguments: tuple[Expression, ...]
    watched: bool
    """Whether it draws a whole number at every step, with parameters that may leave their range."""

    def noise(self, xi: Noise) -> Array:
        stop = self.start + self.draw.law.size
        return xi[self.start : stop].reshape(self.draw.noise_shape)


def compiler(source: Source, relaxed: bool = False) -> Any:
    """pyRDDLGym-jax's compiler for the problem, its draws reading explicit noise.

    Args:
        relaxed: With pyRDDLGym-jax's relaxations of what is discrete, for planning.
    """
    model = parse(source)
    with reading(source):
        return _compilers()[relaxed](model)


class ExplicitNoise:
    """Mixed into a compiler of pyRDDLGym-jax, this makes its draws functions of a noise vector."""

    relaxes = False
    slots: dict[int, Slot]
    law: Law

    def __init__(self, model: Any, **options: Any):
        # The compiler sets JAX's precision for the whole process: keep the user's.
        double = jax.dtypes.canonicalize_dtype(float) == np.float64
        super().__init__(model, use64bit=double, **options)  # type: ignore[call-arg]
        this: Any = self
        this.model_aux = {"params": {}, "overriden": {}, "exact": set()}
        self.constants: Values = {name: this.init_values[name] for name in model.non_fluents}
        self._allocate(model)
        this.compile()

    def function(self, expression: Expression) -> Callable[..., Array]:
        """The expression as a function of the values of fluents and, if it draws, the noise ξ."""
        this: Any = self
        compiled = this._jax(expression, this.model_aux)
        return self.bind(compiled)

    def bind(self, compiled: Compiled) -> Callable[..., Array]:
        this: Any = self

        def evaluate(values: Values, noise: Noise | None = None) -> Array:
            return compiled(values, self.constants, this.model_aux["params"], noise)[0]

        return evaluate

    def sound(self, values: Values, noise: Array) -> Array | None:
        """Whether the watched draws of a step have parameters in range; None if there are none."""
        checks = []
        for slot in self.slots.values():
            if slot.watched:
                parameters = [self.function(a)(values, noise) for a in slot.arguments]
                checks.append(ranges.sound(slot.distribution, parameters))
        return functools.reduce(jnp.logical_and, checks) if checks else None

    def shape(self, objects: Any) -> tuple[int, ...]:
        this: Any = self
        return tuple(this.rddl.object_counts(kind for _, kind in objects))

    def _allocate(self, model: Any) -> None:
        """Gives each draw its slice, in the order in which the file writes them."""
        self.slots, start = {}, 0
        roots = [(name, expression) for name, (_, expression) in model.cpfs.items()]
        for where, root in [*roots, ("reward", model.reward)]:
            branches = self._branches(model, root)
            for part in parts(root):
                if is_random(part):
                    taken = branches.get(part.id, "always")
                    self.slots[part.id] = slot = self._slot(model, where, part, start, taken)
                    start += slot.draw.law.size
        for kind in ("invariants", "preconditions", "terminations"):
            for root in getattr(model, kind):
                if any(map(is_random, parts(root))):
                    raise Unsupported(f"the {kind[:-1]} {text_of(root)!r} is random")
        self.law = draws.joined([slot.draw.law for slot in self.slots.values()])

    def _branches(self, model: Any, root: Expression) -> dict[int, str]:
        """The expressions that are not always needed: those in branches, and of these, those that a
        constant condition rules out for all objects."""
        taken: dict[int, str] = {}
        for part in parts(root):
            kind, name = part.etype
            if kind != "control":
                continue
            condition, *branches = part.args
            ruled_out = [False] * len(branches)
            if name == "if" and model.is_non_fluent_expression(condition):
                holds = np.asarray(self.function(condition)({}))
                ruled_out = [not holds.any(), bool(holds.all())]
            for branch, out in zip(branches, ruled_out, strict=True):
                for inner in parts(branch):
                    if taken.get(inner.id) != "never":
                        taken[inner.id] = "never" if out else "sometimes"
        return taken

    def _slot(self, model: Any, where: str, part: Expression, start: int, taken: str) -> Slot:
        this: Any = self
        kind, name = part.etype
        objects = this.traced.cached_objects_in_scope(part) or []
        arguments = part.args
        shape = self.shape(objects)
        if kind == "randomvector":
            arguments = part.args[1]
            (axis,) = this.traced.cached_sim_info(part)
            shape = (*shape[:axis], *shape[axis + 1 :], shape[axis])
        elif name in ("Discrete", "UnnormDiscrete"):
            arguments = this.traced.cached_sim_info(part)
        elif name in ("Discrete(p)", "UnnormDiscrete(p)"):
            (_, inner), *_ = part.args[:-1]
            arguments = part.args[-1]
            shape = (*shape, *self.shape([inner]))
        constants = [
            np.asarray(self.function(a)({})) if model.is_non_fluent_expression(a) else None
            for a in arguments
        ]
        if wrong := ranges.fault(name, constants):
            if taken != "never":
                raise Unsupported(f"<{where}> draws from {name}, of which {wrong}")
            constants = [None] * len(constants)
        draw = draws.draw_of(name, shape, constants)
        if draw is None:
            raise Unsupported(
                f"<{where}> draws from {name}, which no noise of a fixed law can be turned into"
            )
        moving = any(value is None for value in constants)
        watched = moving and name in draws.DISCRETE and taken == "always"
        return Slot(name, where, start, draw, tuple(arguments), watched)

    def _jax_random(self, expr: Expression, aux: Values) -> Compiled:
        if not is_random(expr):
            return super()._jax_random(expr, aux)  # type: ignore[misc]
        slot = self.slots[expr.id]
        sample = self.relaxation(expr, slot) or slot.draw.sample
        arguments = [self._jax(argument, aux) for argument in slot.arguments]  # type: ignore[attr-defined]

        def draw(fls: Values, nfls: Values, params: Weights, key: Noise) -> Result:
            values = [argument(fls, nfls, params, key)[0] for argument in arguments]
            return sample(slot.noise(key), *values), key, 0, params

        return draw

    def _jax_random_vector(self, expr: Expression, aux: Values) -> Compiled:
        draw = self._jax_random(expr, aux)
        (axis,) = self.traced.cached_sim_info(expr)  # type: ignore[attr-defined]

        def moved(fls: Values, nfls: Values, params: Weights, key: Noise | None) -> Result:
            sample, key, error, params = draw(fls, nfls, params, key)
            return jnp.moveaxis(sample, -1, axis), key, error, params

        return moved

    def relaxation(self, expr: Expression, slot: Slot) -> Callable[..., Array] | None:
        """A differentiable stand-in for the draw, where the compiler is one that relaxes."""
        return None

    # The compiler's own versions of the next five also flag invalid casts, which costs time and
    # uses what newer versions of JAX refuse.

    def _jax_cast(self, jax_expr: Compiled, dtype: Any) -> Compiled:
        def cast(fls: Values, nfls: Values, params: Weights, key: Noise | None) -> Result:
            value = jax_expr(fls, nfls, params, key)[0]
            return jnp.asarray(value, dtype=dtype), key, 0, params

        return cast

    def _jax_unary(
        self,
        jax_expr: Compiled,
        jax_op: Callable[[Array], Array],
        at_least_int: bool = False,
        check_dtype: Any = None,
    ) -> Compiled:
        def unary(fls: Values, nfls: Values, params: Weights, key: Noise | None) -> Result:
            value = jax_expr(fls, nfls, params, key)[0]
            return jax_op(_at_least_int(value) if at_least_int else value), key, 0, params

        return unary

    def _jax_binary(
        self,
        jax_lhs: Compiled,
        jax_rhs: Compiled,
        jax_op: Callable[[Array, Array], Array],
        at_least_int: bool = False,
        check_dtype: Any = None,
    ) -> Compiled:
        def binary(fls: Values, nfls: Values, params: Weights, key: Noise | None) -> Result:
            both = [side(fls, nfls, params, key)[0] for side in (jax_lhs, jax_rhs)]
            return jax_op(*map(_at_least_int, both) if at_least_int else both), key, 0, params

        return binary

    def _jax_if(self, expr: Expression, aux: Values) -> Compiled:
        this: Any = self
        this._check_num_args(expr, 3)
        soft = self.relaxes and this.traced.cached_is_fluent(expr.args[0])
        condition, yes, no = (this._jax(argument, aux) for argument in expr.args)

        def choose(fls: Values, nfls: Values, params: Weights, key: Noise | None) -> Result:
            test, first, second = (f(fls, nfls, params, key)[0] for f in (condition, yes, no))
            chosen = jnp.where(test > 0.5, first, second)
            if soft:
                # Derivative in the condition as in the compiler's linear relaxation, which however
                # multiplies the branch not taken by 0 and so lets its infinities through.
                gain = jax.lax.stop_gradient(_at_least_int(first) - _at_least_int(second))
                gain = jnp.where(jnp.isfinite(gain), gain, 0.0)
                chosen = chosen + gain * (test - jax.lax.stop_gradient(test))
            return chosen, key, 0, params

        return choose

    def _jax_kron(self, expr: Expression, aux: Values) -> Compiled:
        self._check_num_args(expr, 1)  # type: ignore[attr-defined]
        return self._jax(expr.args[0], aux)  # type: ignore[attr-defined]

    def _jax_sqrt(self, expr: Expression, aux: Values) -> Compiled:
        return self._jax_unary_helper(expr, aux, draws.safe_sqrt, at_least_int=True)  # type: ignore[attr-defined]

    def _jax_hypot(self, expr: Expression, aux: Values) -> Compiled:
        def hypot(x: Array, y: Array) -> Array:
            return draws.safe_sqrt(x**2 + y**2)

        return self._jax_binary_helper(expr, aux, hypot, at_least_int=True)  # type: ignore[attr-defined]

    def _jax_ln(self, expr: Expression, aux: Values) -> Compiled:
        return self._jax_unary_helper(expr, aux, jnp.log, at_least_int=True)  # type: ignore[attr-defined]

    def _jax_divide(self, expr: Expression, aux: Values) -> Compiled:
        this: Any = self
        if not this.traced.cached_is_fluent(expr.args[-1]):
            return super()._jax_divide(expr, aux)  # type: ignore[misc]
        return this._jax_binary_helper(expr, aux, _divide, at_least_int=True)

    def _jax_pow(self, expr: Expression, aux: Values) -> Compiled:
        this: Any = self
        base, exponent = expr.args
        power = exponent.args if exponent.is_constant_expression() else None
        if power is None or power != int(power) or not 0 <= power <= 8:
            return super()._jax_pow(expr, aux)  # type: ignore[misc]
        raised = this._jax(base, aux)
        return this._jax_unary(
            raised, lambda x: jax.lax.integer_pow(x, int(power)), at_least_int=True
        )

    def _jax_function(self, expr: Expression, aux: Values) -> Compiled:
        # The compiler's method for the function gamma[x] is hidden by the one for Gamma(k, l).
        if expr.etype[1] == "gamma":
            gamma = jax.scipy.special.gamma
            return self._jax_unary_helper(expr, aux, gamma, at_least_int=True)  # type: ignore[attr-defined]
        return super()._jax_function(expr, aux)  # type: ignore[misc]


def _at_least_int(value: Any) -> Array:
    value = jnp.asarray(value)
    return value.astype(jnp.int32) if value.dtype == bool else value


def _divide(x: Array, y: Array) -> Array:
    """x / y whose derivatives at y = 0 are 0, so that a branch not taken cannot spoil them."""
    zero = y == 0
    quotient = x / jnp.where(zero, 1, y)
    return jnp.where(zero, jax.lax.stop_gradient(x / y), quotient)


@functools.cache
def _compilers() -> dict[bool, Any]:
    from pyRDDLGym_jax.core import logic
    from pyRDDLGym_jax.core.compiler import JaxRDDLCompiler

    class Exact(ExplicitNoise, JaxRDDLCompiler):
        pass

    class Relaxed(ExplicitNoise, logic.DefaultJaxRDDLCompilerWithGrad):
        relaxes = True

        def __init__(self, model: Any):
            super().__init__(model, print_warnings=False)

        def relaxation(self, expr: Expression, slot: Slot) -> Callable[..., Array] | None:
            if not any(self.traced.cached_is_fluent(a) for a in slot.arguments):
                return None
            if slot.distribution == "Bernoulli":
                weight = self.bernoulli_sigmoid_weight
                return lambda u, p: logic.stable_sigmoid(weight * (p - u))
            if slot.distribution == "Geometric":
                weight, eps = self.geometric_floor_weight, self.geometric_eps
                return lambda u, p: (
                    1 + logic.SoftFloor.soft_floor(jnp.log1p(-u) / jnp.log1p(-p + eps), weight)
                )
            if "Discrete" in slot.distribution:
                weight, eps = self.discrete_softmax_weight, self.discrete_eps

                def soft(gumbel: Array, *weights: Array) -> Array:
                    p = weights[0] if "(p)" in slot.distribution else jnp.stack(weights, axis=-1)
                    return logic.SoftmaxArgmax.soft_argmax(gumbel + jnp.log(p + eps), weight, -1)

                return soft
            return None

    return {False: Exact, True: Relaxed}
