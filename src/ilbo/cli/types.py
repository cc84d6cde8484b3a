"""Types of arguments: of those that may be left out, and of those that several commands take.

Written as `Union` with None first because tyro checks `X | None` with typeguard, whose import would
double the time that `--help` takes.
"""

from pathlib import Path
from typing import Annotated, Literal, Union

from tyro.conf import UseAppendAction, arg

MaybeText = Union[None, str]  # noqa: UP007
MaybePath = Union[None, Path]  # noqa: UP007
MaybeNumber = Union[None, int]  # noqa: UP007
MaybeNumbers = Union[None, tuple[float, ...]]  # noqa: UP007

Arguments = Annotated[
    tuple[str, ...],
    UseAppendAction,
    arg(
        name="arg",
        metavar="NAME=VALUE",
        help="Argument of the function that returns the problem, where that is your own, or of an "
        "RDDL problem (relaxation=smooth); may be given several times.",
        help_behavior_hint="",
    ),
]
Changes = Annotated[
    tuple[str, ...],
    UseAppendAction,
    arg(
        name="set",
        metavar="NAME=VALUE",
        help="Another value of a parameter of the model, a field or an RDDL non-fluent, to try the "
        "policy under; may be given several times.",
        help_behavior_hint="",
    ),
]
Keep = Annotated[
    tuple[str, ...],
    UseAppendAction,
    arg(
        name="keep",
        metavar="LIMIT",
        help='A limit on a cost of the model, such as "E(energy) <= 400", "each E(energy) <= 20" '
        'or "P(level > 0) <= 0.05"; may be given several times.',
        help_behavior_hint="",
    ),
]
Place = Literal["local", "ray"]
Address = Annotated[
    MaybeText, arg(metavar="ADDRESS", help_behavior_hint="(default: this machine's)")
]
Trust = Annotated[
    bool,
    arg(
        help="Run the Python file that a run folder names as its problem's source; without it, "
        "only a model named here is run."
    ),
]
