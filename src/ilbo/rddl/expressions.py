"""The expressions of RDDL, walked once and turned into terms.

`Walk.term` takes an expression of pyRDDLGym's syntax tree and the parameters in scope. What an
operator does is in `operators`, how it is relaxed in `relaxing`, what becomes of axes in `terms`;
here is what the language says about scopes: which parameters an expression sees, and which of them
it takes away or adds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ilbo.rddl import functions, operators
from ilbo.rddl.operators import number, truth
from ilbo.rddl.parsing import Expression, Unsupported, is_random
from ilbo.rddl.slots import Slot
from ilbo.rddl.terms import NOWHERE, Parameter, Point, Scope, Term, Terms, Values


class Walk:
    """Turns the expressions of one problem into terms.

    Args:
        model: pyRDDLGym's lifted model.
        constants: The tensor of each non-fluent.
        relaxation: One of `relaxing.WAYS`.
        python: The functions that the text calls by $name.
    """

    def __init__(self, model: Any, constants: Values, relaxation: str, python: functions.Functions):
        self.model = model
        self.constants = {name: np.asarray(value) for name, value in constants.items()}
        self.python = python
        self.terms = Terms(model.type_to_objects, relaxation)
        self.slots: dict[int, Slot] = {}
        """The draws, by the number of their expression."""
        self.where = ""
        """The CPF at hand."""
        self._taken = "always"
        """Whether the branch at hand is taken always, sometimes or never."""

    def term(self, expression: Expression, scope: Scope = ()) -> Term:
        """The expression under the parameters in scope."""
        kind, name = expression.etype
        if kind not in _WALKS:
            raise Unsupported(f"<{self.where}> holds an expression that is not RDDL")
        return _WALKS[kind](self, name, expression, scope)

    # Values.

    def constant(self, name: str, expression: Expression, scope: Scope) -> Term:
        return self.terms.constant(expression.args)

    def variable(self, name: str, expression: Expression, scope: Scope) -> Term:
        """A parameter ?x, an object, or a fluent."""
        _, arguments = expression.args
        if not arguments and (self.model.is_free_object(name) or self.model.is_object(name)):
            return self._objects(name, scope)
        return self._fluent(name, arguments or [], scope)

    def _objects(self, name: str, scope: Scope) -> Term:
        """The place of an object among those of its type; for ?x, of each that it stands for."""
        if not self.model.is_free_object(name):
            return self.terms.constant(self.model.object_to_index[self.model.strip_literal(name)])
        parameter = _parameter(name, scope)
        return self.terms.constant(np.arange(*self.terms.shape([parameter])), (parameter,))

    def _fluent(self, name: str, arguments: Sequence[Any], scope: Scope) -> Term:
        """fluent(?x, @object, other(?y), _): a parameter keeps the axis, an object picks a place on
        it, a nested expression picks one for each of its own objects, and _ is a new parameter."""
        kinds = self.model.variable_params[name]
        blanks = tuple((f"?_{i}", kind) for i, kind in enumerate(kinds, start=1))
        places = [
            self.term(argument, scope)
            if not isinstance(argument, str)
            else self._objects(blank[0] if argument == "_" else argument, (*scope, blank))
            for argument, blank in zip(arguments, blanks, strict=True)
        ]
        axes = tuple(dict.fromkeys(axis for place in places for axis in place.axes))
        constant = self.constants.get(name)
        index: list[Any] = list(map(_slice, places, arguments))
        sliced = None not in index and len(axes) == sum(isinstance(i, slice) for i in index)
        spread = [self.terms.spread(place, axes) for place in places]

        def pick(tensor: Any, at: Point) -> Any:
            if sliced:
                return tensor[tuple(index)]
            found = [value(at) for value in spread]
            xp = np if at is NOWHERE else jnp
            return tensor[
                tuple(x if x.dtype.kind == "i" else xp.round(x).astype(int) for x in found)
            ]

        folded = None
        if constant is not None and all(place.constant is not None for place in places):
            folded = np.asarray(pick(constant, NOWHERE))

        def compute(at: Point) -> Array:
            tensor = jnp.asarray(at.values[name] if constant is None else constant)
            return pick(tensor, at)

        return self.terms.made(("fluent", name, *map(id, places)), axes, compute, folded)

    # Operators.

    def arithmetic(self, name: str, expression: Expression, scope: Scope) -> Term:
        return self._operator(operators.ARITHMETIC, number, name, expression.args, scope)

    def relational(self, name: str, expression: Expression, scope: Scope) -> Term:
        return self._operator(operators.RELATIONAL, number, name, expression.args, scope)

    def boolean(self, name: str, expression: Expression, scope: Scope) -> Term:
        return self._operator(operators.LOGICAL, truth, name, expression.args, scope)

    def func(self, name: str, expression: Expression, scope: Scope) -> Term:
        if name not in operators.FUNCTIONS:
            raise Unsupported(f"<{self.where}> calls {name}[..], which is no function of RDDL")
        wanted = 2 if name in operators.TWO_ARGUMENTS else 1
        if len(expression.args) != wanted:
            raise Unsupported(
                f"<{self.where}> calls {name}[..] with {len(expression.args)} arguments; "
                f"it takes {wanted}"
            )
        return self._operator(operators.FUNCTIONS, number, name, expression.args, scope)

    def _operator(
        self,
        table: dict[str, operators.Operator],
        kind: Callable[[Any, Any], Any],
        name: str,
        arguments: Sequence[Expression],
        scope: Scope,
    ) -> Term:
        # The parser reads a + b + c as (a + b) + c: long sums would be nested too deeply.
        chain: list[Expression] = []
        while name in _CHAINS and len(arguments) == 2 and arguments[0].etype[1] == name:
            chain.append(arguments[1])
            arguments = arguments[0].args
        terms = [self.term(argument, scope) for argument in (*arguments, *reversed(chain))]
        return self.terms.apply(name, _taking(kind, table[name]), terms)

    def aggregation(self, name: str, expression: Expression, scope: Scope) -> Term:
        """sum_{?x : type, ..} [..] and the like."""
        *typed, body = expression.args
        added = tuple(parameter for _, parameter in typed)
        kind = truth if name in operators.OF_TRUTHS else number
        reduce, axes = operators.AGGREGATIONS[name], tuple(range(-len(added), 0))
        exact = _taking(kind, lambda xp, x: reduce(xp, x, axes))
        return self.terms.apply(name, exact, [self.term(body, scope + added)], added)

    def matrix(self, name: str, expression: Expression, scope: Scope) -> Term:
        """det_{?i : type, ?j : type} [..], and inverse[row=?i, col=?j][..] and the like."""
        exact = _taking(number, operators.MATRIX[name])
        if name == "det":
            *typed, body = expression.args
            added = tuple(parameter for _, parameter in typed)
            return self.terms.apply(name, exact, [self.term(body, scope + added)], added)
        names, body = expression.args
        last = tuple(_parameter(each, scope) for each in names)
        rows, columns = self.terms.shape(last)
        if rows != columns:
            raise Unsupported(f"<{self.where}> takes the {name} of a matrix that is not square")
        return self.terms.apply(name, exact, [self.term(body, scope)], last, keep=True)

    def control(self, name: str, expression: Expression, scope: Scope) -> Term:
        """if (..) then .. else .., and switch (..) { case @object : .., default : .. }."""
        first, *rest = expression.args
        condition = self.term(first, scope)
        if name == "if":
            holds = None if condition.constant is None else truth(np, condition.constant)
            always = [holds is not None and holds.all(), holds is not None and not holds.any()]
            branches = []
            for branch, other in zip(rest, reversed(always), strict=True):
                with self._branch("never" if other else "sometimes"):
                    branches.append(self.term(branch, scope))
            if any(always):
                return branches[always.index(True)]
            return self._choice(name, operators.choose, [condition, *branches])
        kind = self.model.variable_ranges[first.args[0]]
        cases = dict(case if word == "case" else (word, case) for word, case in rest)
        cases = {self.model.strip_literal(case): value for case, value in cases.items()}
        with self._branch("sometimes"):
            known = {case: self.term(value, scope) for case, value in cases.items()}
        ordered = [
            known.get(each, known.get("default")) for each in self.model.type_to_objects[kind]
        ]
        return self._choice(name, operators.switch, [condition, *ordered])

    def _choice(self, name: str, exact: operators.Operator, terms: list[Any]) -> Term:
        """There is nothing to relax where the condition is constant."""
        constant = terms[0].constant is not None
        return self.terms.apply(f"constant {name}" if constant else name, exact, terms)

    @contextlib.contextmanager
    def _branch(self, taken: str) -> Iterator[None]:
        before = self._taken
        self._taken = "never" if before == "never" else taken
        yield
        self._taken = before

    # Draws.

    def random(self, name: str, expression: Expression, scope: Scope) -> Term:
        """One draw for each combination of the objects in scope."""
        if not is_random(expression):  # KronDelta(x), DiracDelta(x)
            return self.term(expression.args[0], scope)
        arguments, axes = expression.args, scope
        if name in ("Discrete", "UnnormDiscrete"):
            (_, kind), *cases = arguments
            weights = {self.model.strip_literal(case): value for _, (case, value) in cases}
            arguments = [weights[each] for each in self.model.type_to_objects[kind]]
        elif name in ("Discrete(p)", "UnnormDiscrete(p)"):
            (_, added), arguments = arguments
            axes = (*scope, added)
        values = [(self.term(argument, axes), axes) for argument in arguments]
        return self._draw(name, expression, values, axes, scope)

    def random_vector(self, name: str, expression: Expression, scope: Scope) -> Term:
        """Law[?x](mean(.., _), covariance(.., _, _)): one draw along ?x, for each of the others."""
        (drawn,), arguments = expression.args
        along = _parameter(drawn, scope)
        batch = tuple(parameter for parameter in scope if parameter != along)
        values = []
        for argument in arguments:
            term = self.term(argument, batch)
            values.append((term, batch + tuple(a for a in term.axes if a not in batch)))
        return self._draw(name, expression, values, (*batch, along), (*batch, along))

    def _draw(
        self,
        name: str,
        expression: Expression,
        values: list[tuple[Term, Scope]],
        shape: Scope,
        axes: Scope,
    ) -> Term:
        """A draw of parameters, each over its axes, with noise of the shape, over the axes."""
        parameters = tuple(self.terms.spread(term, over) for term, over in values)
        constants = [
            None if term.constant is None else value(NOWHERE)
            for (term, _), value in zip(values, parameters, strict=True)
        ]
        slot = Slot.planned(
            name, self.where, parameters, constants, self.terms.shape(shape), self._taken
        )
        self.slots[expression.id] = slot
        return Term(axes, slot.sampling(self.terms.relaxation))

    def python_function(self, name: str, expression: Expression, scope: Scope) -> Term:
        """$name[?x, ..](fluent(.., _), ..): see `functions`."""
        if name not in self.python:
            raise Unsupported(
                f"<{self.where}> calls the Python function ${name}, which was not given: "
                "pass it to ilbo.make as arguments={'functions': ...}"
            )
        captured, arguments = expression.args
        along = tuple(_parameter(each, scope) for each in captured)
        batch = tuple(parameter for parameter in scope if parameter not in along)
        terms = [self.term(argument, batch) for argument in arguments]
        outer = tuple(a for a in batch if any(a in term.axes for term in terms))
        own = [tuple(a for a in term.axes if a not in batch) for term in terms]
        values = [
            self.terms.spread(t, outer + blanks) for t, blanks in zip(terms, own, strict=True)
        ]
        shapes = [self.terms.shape(blanks) for blanks in own]
        function, returns = self.python[name], self.terms.shape(along)
        try:
            traced = functions.traceable(function, shapes, returns)
        except ValueError as error:
            raise Unsupported(f"the Python function ${name} in <{self.where}> {error}") from None
        call = functions.calling(function, traced, self.terms.shape(outer), returns)
        return Term(
            outer + along, lambda at: call(*(jnp.asarray(value(at), float) for value in values))
        )


_WALKS: dict[str, Callable[[Walk, str, Expression, Scope], Term]] = {
    "constant": Walk.constant,
    "pvar": Walk.variable,
    "arithmetic": Walk.arithmetic,
    "relational": Walk.relational,
    "boolean": Walk.boolean,
    "func": Walk.func,
    "aggregation": Walk.aggregation,
    "matrix": Walk.matrix,
    "control": Walk.control,
    "randomvar": Walk.random,
    "randomvector": Walk.random_vector,
    "pyfunc": Walk.python_function,
}
"""The kinds of expressions that pyRDDLGym's parser knows."""


_CHAINS = {"+", "*", "^", "&", "|"}
"""The operators that may be written in chains."""


def _parameter(name: str, scope: Scope) -> Parameter:
    return next(parameter for parameter in scope if parameter[0] == name)


def _taking(kind: Callable[[Any, Any], Any], operator: operators.Operator) -> operators.Operator:
    """The operator, given numbers or truth values."""
    return lambda xp, *values: operator(xp, *(kind(xp, value) for value in values))


def _slice(place: Term, argument: Any) -> Any:
    """How to index by a parameter or a known object; None for what is known only at a point."""
    if isinstance(argument, str) and place.axes:
        return slice(None)
    return int(place.constant) if place.constant is not None and not place.axes else None
