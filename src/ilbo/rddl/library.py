"""The one place that touches pyRDDLGym and pyRDDLGym-jax: parsing, and compiling to JAX.

pyRDDLGym's parser and lifted model and pyRDDLGym-jax's compiler do the work. What is changed here:

- nothing is written to disk and nothing is printed;
- an error becomes one sentence with the file and line, as a `UserError`;
- random draws read their noise from an explicit vector: the compiler threads a PRNG key through
  every expression, and here that key *is* the noise vector ξ, of which each draw has its slice;
- derivatives are 0, not infinite or undefined, where a root or a quotient has none.
"""

from __future__ import annotations

import contextlib
import functools
import io
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ilbo.errors import UserError
from ilbo.noise import Law
from ilbo.rddl import draws
from ilbo.rddl.source import Source, missing_extra

Expression = Any
"""An expression of pyRDDLGym's syntax tree."""
Values = dict[str, Any]
"""The tensor of each fluent, by its name."""


@dataclass(frozen=True)
class Slot:
    """One draw of the problem and its slice of the noise vector."""

    distribution: str
    where: str
    """The CPF that draws."""
    start: int
    draw: draws.Draw
    arguments: tuple[Expression, ...]

    def noise(self, xi: Array) -> Array:
        stop = self.start + self.draw.law.size
        return xi[self.start : stop].reshape(self.draw.noise_shape)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Swallows what the libraries print and warn about."""
    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        warnings.simplefilter("ignore")
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        yield


@contextlib.contextmanager
def reading(source: Source) -> Iterator[None]:
    """Turns whatever the libraries raise on bad input into a `UserError`."""
    try:
        with quiet():
            yield
    except UserError:
        raise
    except ImportError as error:
        raise missing_extra(error.name or "pyRDDLGym") from error
    except RecursionError as error:
        raise UserError(f"{source.files}: an expression is nested too deeply.") from error
    except Exception as error:
        raise UserError(_sentence(source, error)) from error


def parse(source: Source) -> Any:
    """The lifted model of a problem, a fresh one at each call."""
    with reading(source):
        from pyRDDLGym.core.compiler.model import RDDLLiftedModel

        tree = _tree(source)
        belongs = _belongs(source, tree)
        try:
            model = RDDLLiftedModel(tree)
        except Exception:
            if belongs is not None:
                raise UserError(belongs) from None
            raise
        # A wrong name alone is forgiven where all that the instance sets is known to the domain.
        sets = [getattr(tree.instance, "init_state", None), tree.non_fluents.objects]
        sets.append(getattr(tree.non_fluents, "init_non_fluent", None))
        if belongs is not None and not any(sets):
            raise UserError(belongs)
        return model


def compiler(source: Source, relaxed: bool = False) -> Any:
    """pyRDDLGym-jax's compiler for the problem, its draws reading explicit noise.

    Args:
        relaxed: With pyRDDLGym-jax's relaxations of what is discrete, for planning.
    """
    model = parse(source)
    with reading(source):
        return _compilers()[relaxed](model)


def text_of(expression: Expression) -> str:
    """The expression as RDDL, on one line."""
    from pyRDDLGym.core.debug.decompiler import RDDLDecompiler

    return " ".join(RDDLDecompiler().decompile_expr(expression).split())


def parts(expression: Any) -> Iterator[Expression]:
    """The expression and all expressions in it, outermost first."""
    if hasattr(expression, "etype"):
        yield expression
        kind, _ = expression.etype
        if kind != "constant":
            yield from parts(expression.args)
    elif isinstance(expression, tuple | list):
        for item in expression:
            yield from parts(item)


def fluents(model: Any, expression: Expression) -> set[str]:
    """Names of the variables that occur in the expression."""
    names = {part.args[0] for part in parts(expression) if part.etype[0] == "pvar"}
    return {name for name in names if name in model.variable_types}


def is_random(expression: Expression) -> bool:
    """Whether it is itself a draw (a Dirac or Kronecker delta is none)."""
    kind, name = expression.etype
    return kind in ("randomvar", "randomvector") and name not in ("KronDelta", "DiracDelta")


class _Syntax(Exception):
    """A syntax error at a line of the source's text."""

    def __init__(self, line: int | None, reason: str):
        super().__init__(reason)
        self.line = line


@functools.cache
def _parser() -> Any:
    from ply import yacc
    from pyRDDLGym.core.parser.parser import RDDLlex, RDDLParser

    class Lexer(RDDLlex):
        def t_error(self, t):
            raise _Syntax(t.lexer.lineno, f"the character {t.value[0]!r} has no place there")

    class Parser(RDDLParser):
        def p_error(self, p):
            if p is None:
                raise _Syntax(None, "the text ends too early; a '}' or ';' may be missing")
            raise _Syntax(p.lineno, f"syntax error at {str(p.value)!r}")

    parser = Parser()
    parser.lexer = Lexer()
    parser.lexer.build()
    parser.build(write_tables=False, debug=False, errorlog=yacc.NullLogger())
    return parser


def _tree(source: Source) -> Any:
    parser = _parser()
    parser.lexer._lexer.lineno = 1
    try:
        tree = parser.parse(source.text)
    except _Syntax as error:
        place = source.files if error.line is None else source.place(error.line)
        raise UserError(f"{place}: {error}.") from None
    except KeyError as error:
        block = str(error.args[0]).replace("_", "-")
        hint = "; give the instance file as well" if len(source.paths) == 1 else ""
        raise UserError(f"{source.files}: there is no {block} block{hint}.") from None
    for name in ("horizon", "discount"):
        if not isinstance(getattr(tree.instance, name, None), int | float):
            raise UserError(f"{source.files}: the instance has no number for its {name}.")
    return tree


def _belongs(source: Source, tree: Any) -> str | None:
    """Why the instance is not one of the domain; None where their names agree."""
    named = getattr(tree.instance, "domain", None)
    if named is not None and named.casefold() == tree.domain.name.casefold():
        return None
    place = source.find(named or "instance") or source.files
    return (
        f"{place}: the instance {tree.instance.name!r} is of domain {named!r}, "
        f"but the domain given is {tree.domain.name!r}."
    )


def _sentence(source: Source, error: Exception) -> str:
    """What a library's exception says, as one sentence that begins with the place."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = lines[0] if lines else type(error).__name__
    place = None
    for name in re.findall(r"<([^<>]+)>", text):
        place = source.find(name.strip("'").lstrip("@?")) or source.find(name)
        if place:
            break
    where = re.search(r"Please check expression for (.+?)\.?$", text)
    if where:
        said = f"{said.rstrip('.')} (in {where[1]})"
    if not type(error).__module__.startswith("pyRDDLGym"):
        said = f"cannot be read as RDDL: {type(error).__name__}: {said}"
    said = said if len(said) <= 300 else said[:297] + "..."
    return f"{place or source.files}: {said.rstrip('.')}."


class ExplicitNoise:
    """Mixed into a compiler of pyRDDLGym-jax, this makes its draws functions of a noise vector."""

    slots: dict[int, Slot]
    law: Law

    def __init__(self, model: Any, **options: Any):
        # The compiler sets JAX's precision for the whole process: let it be what it is.
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

    def bind(self, compiled: Callable) -> Callable[..., Array]:
        this: Any = self

        def evaluate(values: Values, noise: Array | None = None) -> Array:
            return compiled(values, self.constants, this.model_aux["params"], noise)[0]

        return evaluate

    def shape(self, objects: Any) -> tuple[int, ...]:
        this: Any = self
        return tuple(this.rddl.object_counts(kind for _, kind in objects))

    def _allocate(self, model: Any) -> None:
        """Gives each draw its slice, in the order in which the file writes them."""
        self.slots, start = {}, 0
        roots = [(name, expression) for name, (_, expression) in model.cpfs.items()]
        for where, root in [*roots, ("reward", model.reward)]:
            for part in parts(root):
                if is_random(part):
                    self.slots[part.id] = slot = self._slot(model, where, part, start)
                    start += slot.draw.law.size
        for kind in ("invariants", "preconditions", "terminations"):
            for root in getattr(model, kind):
                if any(map(is_random, parts(root))):
                    raise UserError(f"The {kind[:-1]} {text_of(root)!r} is random.")
        self.law = draws.joined([slot.draw.law for slot in self.slots.values()])

    def _slot(self, model: Any, where: str, part: Expression, start: int) -> Slot:
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
        draw = draws.plan(name, shape, constants)
        if draw is None:
            raise UserError(f"{where} draws from {name}, which cannot be drawn from fixed noise.")
        return Slot(name, where, start, draw, tuple(arguments))

    def _jax_random(self, expr, aux):
        if not is_random(expr):
            return super()._jax_random(expr, aux)  # type: ignore[misc]
        slot = self.slots[expr.id]
        sample = self.relaxation(expr, slot) or slot.draw.sample
        arguments = [self._jax(argument, aux) for argument in slot.arguments]  # type: ignore[attr-defined]

        def draw(fls, nfls, params, key):
            values = [argument(fls, nfls, params, key)[0] for argument in arguments]
            return sample(slot.noise(key), *values), key, 0, params

        return draw

    def _jax_random_vector(self, expr, aux):
        draw = self._jax_random(expr, aux)
        (axis,) = self.traced.cached_sim_info(expr)  # type: ignore[attr-defined]

        def moved(fls, nfls, params, key):
            sample, *rest = draw(fls, nfls, params, key)
            return jnp.moveaxis(sample, -1, axis), *rest

        return moved

    def relaxation(self, expr: Expression, slot: Slot) -> Callable[..., Array] | None:
        """A differentiable stand-in for the draw, where the compiler is one that relaxes."""
        return None

    def _jax_sqrt(self, expr, aux):
        return self._jax_unary_helper(expr, aux, draws.safe_sqrt, at_least_int=True)  # type: ignore[attr-defined]

    def _jax_hypot(self, expr, aux):
        def hypot(x, y):
            return draws.safe_sqrt(x**2 + y**2)

        return self._jax_binary_helper(expr, aux, hypot, at_least_int=True)  # type: ignore[attr-defined]

    def _jax_ln(self, expr, aux):
        return self._jax_unary_helper(expr, aux, jnp.log, at_least_int=True)  # type: ignore[attr-defined]

    def _jax_divide(self, expr, aux):
        this: Any = self
        if not this.traced.cached_is_fluent(expr.args[-1]):
            return super()._jax_divide(expr, aux)  # type: ignore[misc]
        return this._jax_binary_helper(expr, aux, _divide, at_least_int=True)

    def _jax_pow(self, expr, aux):
        this: Any = self
        base, exponent = expr.args
        power = exponent.args if exponent.is_constant_expression() else None
        if power is None or power != int(power) or not 0 <= power <= 8:
            return super()._jax_pow(expr, aux)  # type: ignore[misc]
        raised = this._jax(base, aux)
        return this._jax_unary(
            raised, lambda x: jax.lax.integer_pow(x, int(power)), at_least_int=True
        )

    def _jax_function(self, expr, aux):
        # The compiler's method for the function gamma[x] is hidden by the one for Gamma(k, l).
        if expr.etype[1] == "gamma":
            gamma = jax.scipy.special.gamma
            return self._jax_unary_helper(expr, aux, gamma, at_least_int=True)  # type: ignore[attr-defined]
        return super()._jax_function(expr, aux)  # type: ignore[misc]


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
        def __init__(self, model: Any):
            super().__init__(model, print_warnings=False)

        def relaxation(self, expr, slot):
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

                def soft(gumbel, *weights):
                    p = weights[0] if "(p)" in slot.distribution else jnp.stack(weights, axis=-1)
                    return logic.SoftmaxArgmax.soft_argmax(gumbel + jnp.log(p + eps), weight, -1)

                return soft
            return None

    return {False: Exact, True: Relaxed}
