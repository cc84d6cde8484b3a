"""Types of arguments that may be left out.

Written as `Union` with None first because tyro checks `X | None` with typeguard, whose import would
double the time that `--help` takes.
"""

from pathlib import Path
from typing import Union

MaybeText = Union[None, str]  # noqa: UP007
MaybePath = Union[None, Path]  # noqa: UP007
MaybeNumber = Union[None, int]  # noqa: UP007
MaybeNumbers = Union[None, tuple[float, ...]]  # noqa: UP007
