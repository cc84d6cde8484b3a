"""Every kind of expression equals pyRDDLGym's simulator, in values, and folds where constant."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rddl_simulation import Comparison
from tiny_rddl import write

import ilbo
from ilbo import rddl
from ilbo.rddl.source import locate

EXPRESSIONS = {
    "real": [
        "x(?i) + y(?i, @a) - 2 * A(?i) / (1 + x(?i) * x(?i))",
        "-x(?i) + (-3) - (on(?i) + on(@b))",
        "abs[x(?i)] + exp[-x(?i)] + cos[x(?i)] * sin[x(?i)] + tan[x(?i) / 9] + atan[x(?i)]",
        "acos[tanh[x(?i)]] + asin[tanh[x(?i)]] + cosh[x(?i)] - sinh[x(?i)]",
        "sqrt[1 + x(?i) * x(?i)] + ln[1 + abs[x(?i)]] + hypot[x(?i), 3] + log[2 + n(?i), 3]",
        "lngamma[1 + abs[x(?i)]] + gamma[2 + n(?i)]",
        "pow[x(?i), 3] + pow[abs[x(?i)], 1.5] + pow[2, n(?i)] + fmod[x(?i) * 5, 1.5]",
        "min[x(?i), A(?i)] + max[x(?i), 0.0] * 2",
        "(sum_{?j : t} [y(?i, ?j) * A(?j)]) + (avg_{?j : t} [x(?j)])",
        "(sum_{?j : t} [2.5]) + (prod_{?j : t, ?k : t} [y(?j, ?k)])",
        "(max_{?j : t} [y(?j, ?i)]) + (min_{?j : t, ?k : t} [y(?j, ?k) - x(?i)])",
        "if (x(?i) > 0 ^ on(?i)) then y(?i, ?i) else (sum_{?j : t} [y(?j, ?i)])",
        "if (B(?i)) then x(?i) else -x(?i)",
        "if (A(@a) < -5) then x(?i) else A(?i)",
        "switch (who(?i)) { case @a : x(?i), case @b : A(?i), default : n(?i) }",
        "switch (WHO(?i)) { case @a : x(?i), case @b : A(?i), case @c : 2.0, case @d : y(@c, ?i) }",
        "x(who(?i)) + y(who(?i), ?i) + y(@a, who(@b))",
        "A(WHO(?i)) + x(WHO(?i)) + y(?i, who(who(?i)))",
        "x(argmax_{?j : t} [y(?i, ?j)]) + A(argmin_{?j : t} [x(?j)])",
        "(det_{?j : t, ?k : t} [y(?j, ?k) + 3 * (?j == ?k)]) + x(?i)",
        "(?i == @b) * x(?i) + (who(?i) ~= ?i) + (WHO(?i) == who(?i))",
        "DiracDelta(x(?i)) + (sum_{?u : u} [w(?u) * LINK(?i, ?u)])",
        "(sum_{?u : u} [(sum_{?j : t} [LINK(?j, ?u) * x(?i) * w(?u)])]) + w(PORT(?i))",
    ],
    "bool": [
        "x(?i) >= A(?i) | x(?i) < -1",
        "(on(?i) => on(@a)) ^ ~(on(@b) <=> on(?i))",
        "(forall_{?j : t} [x(?j) < 1 | on(?i)]) & (exists_{?j : t} [on(?j) ^ LINK(?j, @one)])",
        "(n(?i) == 2) | (n(?i) ~= n(@a)) | (x(?i) <= x(@a)) ^ (x(?i) > 0)",
        "KronDelta(on(?i))",
        "B(?i) | (exists_{?j : t} [B(?j)]) ^ on(?i)",
    ],
    "int": [
        "round[x(?i)] + floor[x(?i)] - ceil[A(?i)] + sgn[x(?i)]",
        "div[n(?i) + 7, 3] + mod[n(?i) + 7, 3] + n(@d) * 2",
        "(sum_{?j : t} [on(?j)]) + (max_{?j : t} [n(?j)])",
    ],
    "t": [
        "(argmax_{?j : t} [y(?i, ?j)])",
        "(argmin_{?j : t} [abs[x(?j) - x(?i)]])",
        "if (on(?i)) then who(?i) else ?i",
        "WHO(who(?i))",
        "@c",
    ],
}
MATRICES = [
    "inverse[row=?i, col=?j][y(?i, ?j) + 4 * (?i == ?j)]",
    "pinverse[row=?i, col=?j][y(?i, ?j)]",
    "cholesky[row=?i, col=?j][(sum_{?k : t} [y(?i, ?k) * y(?j, ?k)]) + 3 * (?i == ?j)]",
    "inverse[row=?j, col=?i][y(?i, ?j) + 4 * (?i == ?j)]",
    "y(?j, ?i) * x(?i)",
]
DOMAIN = """
domain all {
    types { t : {@a, @b, @c, @d}; u : {@one, @two}; };
    pvariables {
        A(t) : { non-fluent, real, default = 0.3 };
        B(t) : { non-fluent, bool, default = false };
        WHO(t) : { non-fluent, t, default = @b };
        PORT(t) : { non-fluent, u, default = @two };
        LINK(t, u) : { non-fluent, bool, default = false };
        x(t) : { state-fluent, real, default = 0.5 };
        y(t, t) : { state-fluent, real, default = 0.4 };
        w(u) : { state-fluent, real, default = 1.5 };
        n(t) : { state-fluent, int, default = 2 };
        on(t) : { state-fluent, bool, default = false };
        who(t) : { state-fluent, t, default = @c };
        act(t) : { action-fluent, real, default = 0.0 };
VARIABLES    };
    cpfs {
        x'(?i) = x(?i) + act(?i); y'(?i, ?j) = y(?i, ?j) + x(?j) / 9; w'(?u) = w(?u);
        n'(?i) = n(?i); on'(?i) = ~on(?i); who'(?i) = who(?i);
CPFS    };
    reward = sum_{?i : t} [x'(?i)];
}
non-fluents figures {
    domain = all;
    non-fluents {
        A(@b) = -1.2; B(@c); WHO(@c) = @d; PORT(@a) = @one; LINK(@a, @one); LINK(@d, @two);
    };
}
instance i { domain = all; non-fluents = figures; horizon = 3; discount = 1.0; }
"""


def written(folder, expressions, matrices=()):
    """A file with a state fluent for each expression."""
    defaults = {"real": "0.0", "bool": "false", "int": "0", "t": "@a"}
    variables, cpfs = "", ""
    for number, (kind, text) in enumerate(expressions):
        variables += (
            f"        e{number}(t) : {{ state-fluent, {kind}, default = {defaults[kind]} }};\n"
        )
        cpfs += f"        e{number}'(?i) = {text};\n"
    for number, text in enumerate(matrices):
        variables += f"        m{number}(t, t) : {{ state-fluent, real, default = 0.0 }};\n"
        cpfs += f"        m{number}'(?i, ?j) = {text};\n"
    path = folder / "all.rddl"
    path.write_text(DOMAIN.replace("VARIABLES", variables).replace("CPFS", cpfs))
    return locate(str(path), None)


def test_expressions_equal_the_simulator(tmp_path):
    listed = [(kind, text) for kind, texts in EXPRESSIONS.items() for text in texts]
    with jax.enable_x64(True):
        comparison = Comparison(written(tmp_path, listed, MATRICES))
        found = comparison.run(12, 1e-9)
    names = {f"e{i}": text for i, (_, text) in enumerate(listed)}
    names |= {f"m{i}": text for i, text in enumerate(MATRICES)}
    assert {names.get(name.split("(")[0], name) for name in found["differ"]} == set()
    assert found == {"equal": 12, "refused": 0, "differ": []}


def test_terms_that_are_constant_are_folded_and_equal_ones_are_one(tmp_path):
    texts = [
        ("real", "(sum_{?j : t} [A(?j) * (?j ~= ?i)]) + 2"),
        ("real", "exp[x(?i)] * 3"),
        ("real", "1 - exp[x(?i)]"),
        ("real", "if (A(?i) > 9) then x(?i) else WHO(?i) == @d"),
    ]
    compiler = rddl.exact_model(written(tmp_path, texts)).dynamics.compiler
    walk, cpfs = compiler.walk, compiler.rddl.cpfs
    scope, expression = cpfs["e0'"]
    first = walk.term(expression, tuple(scope))
    figures = np.array([0.3, -1.2, 0.3, 0.3])
    np.testing.assert_allclose(first.constant, figures.sum() - figures + 2)
    branch = walk.term(cpfs["e3'"][1], tuple(scope))
    np.testing.assert_array_equal(branch.constant, [False, False, True, False])
    second = walk.term(cpfs["e1'"][1].args[0], tuple(scope))
    third = walk.term(cpfs["e2'"][1].args[1], tuple(scope))
    assert second is third
    assert second.constant is None


CALLING = dict(
    more="shifted(tank) : { interm-fluent, real };\n        total : { interm-fluent, real };",
    cpfs="shifted(?t) = $shift[?t](water(_));\n        total = $mean[](water(_), SIZE(_));",
    water="shifted(?t) - release(?t) + total + $twice[](water(?t))",
)
FUNCTIONS = {
    "shift": lambda x: jnp.roll(x, 1) if isinstance(x, jax.Array) else np.roll(x, 1),
    "mean": lambda x, y: float(np.mean(np.asarray(x) * np.asarray(y))),
    "twice": lambda x: 2 * x,
}


def test_python_functions_are_called_and_differentiated_where_jax_can_trace_them(tmp_path):
    problem = ilbo.make(write(tmp_path, **CALLING), arguments={"functions": FUNCTIONS})
    state, action = jnp.array([1.0, 2.0, 3.0]), jnp.array([0.5, 0.0, 0.0])
    got = problem.exact.transition(state, action, jnp.zeros(0))
    total = (4 * 1 + 6 * 2 + 4 * 3) / 3
    np.testing.assert_allclose(got, np.array([3, 1, 2]) - action + total + 2 * state, rtol=1e-6)
    slopes = jax.jacrev(problem.exact.transition)(state, action, jnp.zeros(0))
    np.testing.assert_allclose(slopes, np.roll(np.eye(3), 1, axis=0) + 2 * np.eye(3))
    both = jax.vmap(problem.exact.transition, (0, None, None))(
        jnp.stack([state, state]), action, jnp.zeros(0)
    )
    np.testing.assert_allclose(both[1], got)


def test_python_function_that_is_missing_or_of_another_shape_is_named(tmp_path):
    path = write(tmp_path, **CALLING)
    with pytest.raises(ilbo.UserError, match=r"calls the Python function \$shift, which was not"):
        ilbo.make(path)
    wrong = FUNCTIONS | {"shift": lambda x: x[:2] * 1}
    with pytest.raises(ilbo.UserError, match=r"\$shift in <shifted> returns .* shape \(2,\)"):
        ilbo.make(path, arguments={"functions": wrong})
