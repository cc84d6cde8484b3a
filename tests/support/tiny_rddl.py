"""Small RDDL problems, written to files on demand."""

from pathlib import Path

DOMAIN = """
domain tiny {{
    types {{ tank : object; }};
    pvariables {{
        SIZE(tank)    : {{ non-fluent, real, default = 4.0 }};
        LINK(tank, tank) : {{ non-fluent, bool, default = false }};
        {more}
        water(tank)   : {{ state-fluent, real, default = 1.0 }};
        release(tank) : {{ action-fluent, real, default = 0.0 }};
    }};
    cpfs {{
        {cpfs}
        water'(?t) = {water};
    }};
    reward = {reward};
    {blocks}
}}
"""
INSTANCE = """
non-fluents figures {
    domain = tiny;
    objects { tank : {a, b, c}; };
    non-fluents { SIZE(b) = 6.0; LINK(a, b); LINK(b, c); };
}
instance tiny_1 {
    domain = tiny;
    non-fluents = figures;
    init-state { water(c) = 3.0; };
    max-nondef-actions = pos-inf;
    horizon = 5;
    discount = 0.9;
}
"""


def text(
    water="water(?t) - release(?t)",
    reward="sum_{?t : tank} [water(?t)]",
    preconditions="",
    more="",
    cpfs="",
    blocks="",
    instance=INSTANCE,
):
    if preconditions:
        blocks += f"\n    action-preconditions {{ {preconditions} }};"
    return DOMAIN.format(more=more, cpfs=cpfs, water=water, reward=reward, blocks=blocks) + instance


def write(folder: Path, name="tiny.rddl", **parts) -> str:
    """The path of a file with a whole problem: domain, non-fluents and instance."""
    path = Path(folder) / name
    path.write_text(text(**parts))
    return str(path)
