"""A traced JAX function as an ONNX graph.

Only what policies are made of: dense layers, norms, and the arithmetic of action bounds. Whatever
does not depend on the input is computed here and becomes a constant of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, SupportsIndex

import jax
import numpy as np

from ilbo.errors import UserError

OPSET, IR_VERSION = 18, 10
"""Old enough for the runtimes in use."""
_TO_THE_END = np.iinfo(np.int64).max

_DIRECT = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "max": "Max", "min": "Min",
    "pow": "Pow", "neg": "Neg", "abs": "Abs", "sign": "Sign", "floor": "Floor", "ceil": "Ceil",
    "round": "Round",  # to the nearest even number, as jnp.round
    "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "tanh": "Tanh", "sin": "Sin", "cos": "Cos",
    "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh",
    "logistic": "Sigmoid", "erf": "Erf", "lt": "Less", "le": "LessOrEqual", "gt": "Greater",
    "ge": "GreaterOrEqual", "eq": "Equal", "and": "And", "or": "Or", "xor": "Xor", "not": "Not",
    "copy": "Identity", "stop_gradient": "Identity",
}  # fmt: skip
_REDUCTIONS = {
    "reduce_sum": "ReduceSum",
    "reduce_prod": "ReduceProd",
    "reduce_max": "ReduceMax",
    "reduce_min": "ReduceMin",
}

Value = Any
"""The name of a tensor of the graph, or an array that is known already."""


def convert(
    function: Callable,
    inputs: int,
    name: str,
    properties: Mapping[str, str] | None = None,
    timed: bool = False,
) -> Any:
    """The ONNX model of a function of a batch of vectors, [batch, inputs] → [batch, outputs].

    `properties` are words about it that the file carries. A function that is timed takes the time
    [batch] as well.
    """
    from jax import export

    (batch,) = export.symbolic_shape("batch")
    shapes = {"state": (batch, inputs), **({"time": (batch,)} if timed else {})}
    given = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes.values()]
    closed = jax.make_jaxpr(function)(*given)
    model = _Converter(batch).model(closed, shapes, name)
    for key, value in (properties or {}).items():
        model.metadata_props.add(key=key, value=value)
    return model


class _Converter:
    """Builds the nodes of a graph from the equations of a jaxpr."""

    def __init__(self, batch: Any):
        self.batch = batch
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}
        self.names = 0

    def model(self, closed: Any, shapes: Mapping[str, tuple[Any, ...]], name: str) -> Any:
        import onnx
        from onnx import TensorProto, helper, numpy_helper

        size = self.emit("Shape", "state", start=0, end=1)
        self.batch_size = size
        (result,) = self.jaxpr(closed.jaxpr, closed.consts, list(shapes))
        self.nodes.append(helper.make_node("Identity", [self.named(result)], ["action"]))
        (outputs,) = closed.out_avals[0].shape[1:]
        graph = helper.make_graph(
            self.nodes,
            name,
            [
                helper.make_tensor_value_info(key, TensorProto.FLOAT, ["batch", *shape[1:]])
                for key, shape in shapes.items()
            ],
            [helper.make_tensor_value_info("action", TensorProto.FLOAT, ["batch", outputs])],
            [numpy_helper.from_array(array, key) for key, array in self.constants.items()],
        )
        opset = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, producer_name="ilbo", opset_imports=opset)
        model.ir_version = IR_VERSION
        onnx.checker.check_model(model, full_check=True)
        return model

    def emit(self, operator: str, *inputs: Value, **attributes: Any) -> str:
        """Adds a node; returns the name of its output."""
        from onnx import helper

        names = [self.named(value) for value in inputs]
        output = self.new()
        self.nodes.append(helper.make_node(operator, names, [output], **attributes))
        return output

    def named(self, value: Value) -> str:
        if isinstance(value, str):
            return value
        name = self.new()
        self.constants[name] = np.ascontiguousarray(value).reshape(np.shape(value))
        return name

    def new(self) -> str:
        self.names += 1
        return f"t{self.names}"

    def jaxpr(self, jaxpr: Any, constants: Sequence[Any], inputs: Sequence[Value]) -> list[Value]:
        known: dict[Any, Value] = dict(zip(jaxpr.invars, inputs, strict=True))
        known |= {v: np.asarray(c) for v, c in zip(jaxpr.constvars, constants, strict=True)}

        def value(atom: Any) -> Value:
            return np.asarray(atom.val, atom.aval.dtype) if hasattr(atom, "val") else known[atom]

        for equation in jaxpr.eqns:
            outputs = self.equation(equation, [value(atom) for atom in equation.invars])
            known |= dict(zip(equation.outvars, outputs, strict=True))
        return [value(atom) for atom in jaxpr.outvars]

    def equation(self, equation: Any, inputs: list[Value]) -> list[Value]:
        params = equation.params
        inner = params.get("jaxpr", params.get("call_jaxpr", params.get("call")))
        if inner is not None:
            if hasattr(inner, "jaxpr"):
                return self.jaxpr(inner.jaxpr, inner.consts, inputs)
            return self.jaxpr(inner, (), inputs)
        static = all(isinstance(d, int) for v in equation.outvars for d in v.aval.shape)
        if static and not any(isinstance(value, str) for value in inputs):
            found = equation.primitive.bind(*inputs, **equation.params)
            found = found if equation.primitive.multiple_results else [found]
            return [np.asarray(array) for array in found]
        return [self.primitive(equation, inputs)]

    def primitive(self, equation: Any, inputs: list[Value]) -> Value:
        name, params = equation.primitive.name, equation.params
        if name in _DIRECT:
            return self.emit(_DIRECT[name], *inputs)
        if name in _REDUCTIONS:
            return self.reduced(_REDUCTIONS[name], inputs[0], params["axes"])
        rule = getattr(self, f"_{name}", None)
        if rule is None:
            raise UserError(
                f"ONNX export cannot express `{name}`, which the action bounds use: "
                "export without --onnx."
            )
        return rule(equation, *inputs)

    def reduced(self, operator: str, x: Value, axes: Sequence[SupportsIndex]) -> Value:
        if not axes:  # ONNX takes an empty list for all axes
            return x
        return self.emit(operator, x, np.array(axes, np.int64), keepdims=0)

    def shape(self, dimensions: Sequence[Any]) -> Value:
        """A shape as a tensor."""
        if all(isinstance(d, int) for d in dimensions):
            return np.array(dimensions, np.int64)
        parts: list[Value] = []
        for dimension in dimensions:
            if isinstance(dimension, int):
                parts.append(np.array([dimension], np.int64))
            elif dimension == self.batch:
                parts.append(self.batch_size)
            else:
                raise UserError(f"ONNX export cannot express the shape {tuple(dimensions)}.")
        return self.emit("Concat", *parts, axis=0)

    def reshaped(self, x: Value, dimensions: Sequence[Any]) -> Value:
        sizes = [d if isinstance(d, int) else -1 for d in dimensions]
        return self.emit("Reshape", x, np.array(sizes, np.int64))

    def cast(self, x: Value, dtype: Any) -> Value:
        from onnx import helper

        return self.emit("Cast", x, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def _broadcast_in_dim(self, equation: Any, x: Value, *_: Value) -> Value:
        shape = equation.params["shape"]
        own = equation.invars[0].aval.shape
        places = [int(place) for place in equation.params["broadcast_dimensions"]]
        aligned = [own[places.index(i)] if i in places else 1 for i in range(len(shape))]
        y = x if list(own) == aligned else self.reshaped(x, aligned)
        return y if aligned == list(shape) else self.emit("Expand", y, self.shape(shape))

    def _reshape(self, equation: Any, x: Value, *_: Value) -> Value:
        return self.reshaped(x, equation.params["new_sizes"])

    def _squeeze(self, equation: Any, x: Value) -> Value:
        return self.reshaped(x, equation.outvars[0].aval.shape)

    def _expand_dims(self, equation: Any, x: Value) -> Value:
        return self.reshaped(x, equation.outvars[0].aval.shape)

    def _transpose(self, equation: Any, x: Value) -> Value:
        return self.emit("Transpose", x, perm=[int(i) for i in equation.params["permutation"]])

    def _concatenate(self, equation: Any, *parts: Value) -> Value:
        return self.emit("Concat", *parts, axis=int(equation.params["dimension"]))

    def _stack(self, equation: Any, *parts: Value) -> Value:
        axis, shape = int(equation.params["axis"]), equation.outvars[0].aval.shape
        one = [*shape[:axis], 1, *shape[axis + 1 :]]
        return self.emit("Concat", *(self.reshaped(part, one) for part in parts), axis=axis)

    def _slice(self, equation: Any, x: Value) -> Value:
        params, shape = equation.params, equation.invars[0].aval.shape
        strides = params["strides"] or [1] * len(shape)
        ends = [
            limit if isinstance(limit, int) else _TO_THE_END for limit in params["limit_indices"]
        ]
        numbers = (params["start_indices"], ends, range(len(shape)), strides)
        return self.emit("Slice", x, *(np.array(list(n), np.int64) for n in numbers))

    def _gather(self, equation: Any, x: Value, indices: Value) -> Value:
        """Entries along one axis, at places that are known or computed."""
        how, sizes = equation.params["dimension_numbers"], equation.params["slice_sizes"]
        own, out = equation.invars[0].aval.shape, equation.outvars[0].aval.shape
        (axis, *others) = how.start_index_map
        keeps = not how.collapsed_slice_dims and (axis, sizes[axis]) == (0, 1)
        simple = (
            not others
            and (tuple(how.collapsed_slice_dims) == (axis,) or keeps)
            and not getattr(how, "operand_batching_dims", ())
            and all(size == own[i] for i, size in enumerate(sizes) if i != axis)
        )
        if not simple:
            raise UserError("ONNX export cannot express this indexing: export without --onnx.")
        shape = equation.invars[1].aval.shape[:-1]
        batch = [i for i in range(len(out)) if i not in how.offset_dims]
        if batch != list(range(axis, axis + len(shape))):
            raise UserError("ONNX export cannot express this indexing: export without --onnx.")
        if isinstance(indices, str):
            at = self.reshaped(self.cast(indices, np.int64), shape)
            places: Value = self.emit("Max", at, np.int64(0))
            places = self.emit("Min", places, np.int64(own[axis] - 1))
        else:
            places = np.asarray(indices)[..., 0].astype(np.int64).clip(0, own[axis] - 1)
        found = self.emit("Gather", x, places, axis=int(axis))
        return self.reshaped(found, out) if keeps else found

    def _rem(self, equation: Any, x: Value, y: Value) -> Value:
        return self.emit("Mod", x, y, fmod=1)  # with the sign of x, as C's

    def _dot_general(self, equation: Any, x: Value, y: Value) -> Value:
        (contract, batch) = equation.params["dimension_numbers"]
        left, right = (len(v.aval.shape) for v in equation.invars)
        plain = not batch[0] and (left, right) == (2, 2)
        if plain and [list(c) for c in contract] == [[1], [0]]:
            return self.emit("MatMul", x, y)
        letters = iter("abcdefghijklmnopqrstuvwxyz")
        first = [next(letters) for _ in range(left)]
        second = [next(letters) for _ in range(right)]
        for i, j in (*zip(*contract, strict=True), *zip(*batch, strict=True)):
            second[j] = first[i]
        taken = {*(first[i] for i in contract[0]), *(first[i] for i in batch[0])}
        free = [c for c in (*first, *second) if c not in taken]
        result = [*(first[i] for i in batch[0]), *free]
        expression = f"{''.join(first)},{''.join(second)}->{''.join(result)}"
        return self.emit("Einsum", x, y, equation=expression)

    def _select_n(self, equation: Any, which: Value, *cases: Value) -> Value:
        if len(cases) != 2:
            raise UserError("ONNX export cannot choose between more than two values.")
        condition = self.cast(which, np.bool_)
        return self.emit("Where", condition, cases[1], cases[0])

    def _convert_element_type(self, equation: Any, x: Value, *_: Value) -> Value:
        return self.cast(x, equation.params["new_dtype"])

    def _integer_pow(self, equation: Any, x: Value) -> Value:
        power = equation.params["y"]
        dtype = equation.invars[0].aval.dtype
        return self.emit("Mul", x, x) if power == 2 else self.emit("Pow", x, dtype.type(power))

    def _square(self, equation: Any, x: Value) -> Value:
        return self.emit("Mul", x, x)

    def _rsqrt(self, equation: Any, x: Value) -> Value:
        return self.emit("Reciprocal", self.emit("Sqrt", x))

    def _log1p(self, equation: Any, x: Value) -> Value:
        return self.emit("Log", self.emit("Add", x, np.float32(1)))

    def _expm1(self, equation: Any, x: Value) -> Value:
        return self.emit("Sub", self.emit("Exp", x), np.float32(1))

    def _ne(self, equation: Any, x: Value, y: Value) -> Value:
        return self.emit("Not", self.emit("Equal", x, y))

    def _is_finite(self, equation: Any, x: Value) -> Value:
        return self.emit("Not", self.emit("Or", self.emit("IsInf", x), self.emit("IsNaN", x)))

    def _clamp(self, equation: Any, low: Value, x: Value, high: Value) -> Value:
        return self.emit("Min", self.emit("Max", x, low), high)

    def _reduce_and(self, equation: Any, x: Value) -> Value:
        whole = self.reduced("ReduceMin", self.cast(x, np.int32), equation.params["axes"])
        return self.cast(whole, np.bool_)

    def _reduce_or(self, equation: Any, x: Value) -> Value:
        whole = self.reduced("ReduceMax", self.cast(x, np.int32), equation.params["axes"])
        return self.cast(whole, np.bool_)
