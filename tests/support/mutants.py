"""An RDDL text with a little of everything, and random damage to such texts."""

import re

from tiny_rddl import text as tiny

SOUND = tiny(
    water="max[0.0, water(?t) - release(?t) + rain(?t) + flow(?t)]",
    more="rain(tank) : { interm-fluent, real };\n        flow(tank) : { interm-fluent, real };",
    cpfs="rain(?t) = Gamma(2.0, SIZE(?t));\n"
    "        flow(?t) = sum_{?u : tank} [LINK(?u, ?t) * release(?u)];",
    preconditions="forall_{?t : tank} [0 <= release(?t) ^ release(?t) <= water(?t)];",
    blocks="termination { (sum_{?t : tank} [water(?t)]) > 1000; };\n"
    "    state-invariants { forall_{?t : tank} [water(?t) >= 0]; };",
)
PIECES = re.compile(r"[A-Za-z][\w'-]*|\d+\.?\d*|\S")


def mutate(text, draw):
    """The text with one or two random edits; `draw` is a NumPy generator."""
    for _ in range(draw.integers(1, 3)):
        edit = EDITS[draw.integers(len(EDITS))]
        text = edit(text, draw)
    return text


def _piece(text, draw):
    found = list(PIECES.finditer(text))
    return found[draw.integers(len(found))]


def drop_character(text, draw):
    i = draw.integers(len(text))
    return text[:i] + text[i + 1 :]


def insert_character(text, draw):
    i = draw.integers(len(text))
    return text[:i] + draw.choice(list("(){}[];,=?'^|~<>@_-+*/.:$#7xé\n")) + text[i:]


def drop_piece(text, draw):
    piece = _piece(text, draw)
    return text[: piece.start()] + text[piece.end() :]


def swap_piece(text, draw):
    one, other = _piece(text, draw), _piece(text, draw)
    return text[: one.start()] + other.group() + text[one.end() :]


def swap_name(text, draw):
    """One name by another: likely to be well formed and wrong."""
    names = list(re.finditer(r"[?@]?[A-Za-z][\w'-]*", text))
    one, other = (names[i] for i in draw.integers(len(names), size=2))
    return text[: one.start()] + other.group() + text[one.end() :]


def swap_operator(text, draw):
    operators = list(re.finditer(r"<=|>=|==|[-+*/^|<>]", text))
    one = operators[draw.integers(len(operators))]
    other = draw.choice(["<=", ">=", "==", "~=", "<", ">", "+", "-", "*", "/", "^", "|", "=>"])
    return text[: one.start()] + other + text[one.end() :]


def change_number(text, draw):
    numbers = list(re.finditer(r"(?<![\w?@-])\d+\.?\d*", text))
    number = numbers[draw.integers(len(numbers))]
    other = draw.choice(["0", "-1", "1e9", "999999999", "0.0", "true", "pos-inf", "0.5"])
    return text[: number.start()] + other + text[number.end() :]


def drop_line(text, draw):
    lines = text.splitlines(keepends=True)
    del lines[draw.integers(len(lines))]
    return "".join(lines)


def repeat_line(text, draw):
    lines = text.splitlines(keepends=True)
    i = draw.integers(len(lines))
    return "".join([*lines[:i], lines[i], *lines[i:]])


def cut(text, draw):
    return text[: draw.integers(len(text) // 2, len(text))]


EDITS = [
    *(drop_character, insert_character, drop_piece, swap_piece, swap_name, swap_name),
    *(swap_operator, change_number, change_number, drop_line, repeat_line, cut),
]
