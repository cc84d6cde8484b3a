"""RDDL text into pyRDDLGym's lifted model, and what can be asked of its expressions.

Nothing is written to disk and nothing is printed; an error becomes one sentence with the file and
line, as a `UserError`.
"""

from __future__ import annotations

import contextlib
import functools
import io
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from ilbo.errors import UserError
from ilbo.rddl.source import Source, missing_extra

Expression = Any
"""An expression of pyRDDLGym's syntax tree."""


class Unsupported(Exception):
    """What RDDL allows and this package does not; a name in <> is looked up in the files."""


_ONE_AT_A_TIME = threading.RLock()
"""The streams, the filters of warnings and the parser are those of the whole process."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppresses the libraries' output and warnings; other threads wait for their turn."""
    with _ONE_AT_A_TIME, warnings.catch_warnings(), contextlib.ExitStack() as stack:
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
        # A wrong domain name alone is accepted where the domain knows all that the instance sets.
        sets = [getattr(tree.instance, "init_state", None), tree.non_fluents.objects]
        sets.append(getattr(tree.non_fluents, "init_non_fluent", None))
        if belongs is not None and not any(sets):
            raise UserError(belongs)
        return model


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
    """A syntax error at a place of the source's text, counted in characters; None for its end."""

    def __init__(self, place: int | None, reason: str, expected: tuple[str, ...] = ()):
        super().__init__(reason)
        self.place = place
        self.expected = expected


def _refuse_character(token: Any) -> NoReturn:
    raise _Syntax(token.lexpos, f"the character {token.value[0]!r} has no place there")


def _refuse_word(token: Any, expected: Callable[[], tuple[str, ...]]) -> NoReturn:
    if token is None:
        raise _Syntax(None, "the text ends too early; a '}' or ';' may be missing")
    raise _Syntax(token.lexpos, f"syntax error at {str(token.value)!r}", expected())


_KINDS_OF_WORDS = {
    "IDENT": "a name",
    "VAR": "a parameter such as ?x",
    "ENUM_VAL": "an object such as @x",
    "INTEGER": "a number",
    "DOUBLE": "a number",
}
MOST_EXPECTED = 4
"""More that might stand at a place than these are no help."""


@functools.cache
def _parser() -> Any:
    from ply import yacc
    from pyRDDLGym.core.parser.parser import RDDLlex, RDDLParser

    # ply counts the arguments of handlers, which a wrapper that checks them hides: thus lambdas.
    class Lexer(RDDLlex):
        t_error = lambda self, token: _refuse_character(token)  # noqa: E731

    class Parser(RDDLParser):
        p_error = lambda self, token: _refuse_word(token, self.expected)  # noqa: E731

        def expected(self) -> tuple[str, ...]:
            """What might have stood there, if that is not too much to say."""
            words = {token: repr(word) for word, token in self.lexer.reserved.items()}
            signs = {
                token: repr(re.sub(r"\\(.)", r"\1", getattr(self.lexer, f"t_{token}")))
                for token in self.lexer.tokens
                if isinstance(getattr(self.lexer, f"t_{token}", None), str)
            }
            known = {**words, **signs, **_KINDS_OF_WORDS}
            tokens = self._parser.action[self._parser.state]
            found = sorted({known[token] for token in tokens if token in known})
            return tuple(found) if len(found) <= MOST_EXPECTED else ()

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
        raise UserError(_syntax_error(source, error)) from None
    except KeyError as error:
        block = str(error.args[0]).replace("_", "-")
        alone = block in ("instance", "non-fluents") and len(source.paths) == 1
        hint = "; give the instance file as well" if alone else ""
        raise UserError(f"{source.files}: there is no {block} block{hint}.") from None
    for name in ("horizon", "discount"):
        if not isinstance(getattr(tree.instance, name, None), int | float):
            raise UserError(f"{source.files}: the instance has no number for its {name}.")
    return tree


def _syntax_error(source: Source, error: _Syntax) -> str:
    """One sentence with file, line, column, the line itself, and what was expected."""
    if error.place is None:
        return f"{source.files}: {error}."
    before = source.text[: error.place]
    column = error.place - (before.rfind("\n") + 1) + 1
    line = before.count("\n") + 1
    wanted = f", expected {' or '.join(error.expected)}" if error.expected else ""
    said = f"{error}{wanted}, in `{source.shown(line)}`."
    return f"{source.place(line)}, column {column}: {said}"


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
    line = None
    for name in re.findall(r"<([^<>]+)>", text):
        defined = source.line_that_defines(name) if isinstance(error, Unsupported) else None
        line = defined or source.line_of(name.strip("'").lstrip("@?")) or source.line_of(name)
        if line:
            break
    where = re.search(r"Please check expression for (.+?)\.?$", text)
    if where:
        said = f"{said.rstrip('.')} (in {where[1]})"
    if not type(error).__module__.startswith(("pyRDDLGym", "ilbo")):
        said = f"cannot be read as RDDL: {type(error).__name__}: {said}"
    said = said if len(said) <= 300 else said[:297] + "..."
    if line is None:
        return f"{source.files}: {said.rstrip('.')}."
    return f"{source.place(line)}: {said.rstrip('.')}, in `{source.shown(line)}`."
