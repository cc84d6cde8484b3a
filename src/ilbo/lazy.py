"""Names that a package offers, loaded from its modules on first use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence


def on_first_use(
    package: str, homes: Mapping[str, Sequence[str]], packages: Sequence[str] = ()
) -> Callable[[str], object]:
    """The `__getattr__` of a package whose modules hold these names; `packages` are inner ones."""
    home = {name: module for module, names in homes.items() for name in names}

    def load(name: str) -> object:
        if name in packages:
            return importlib.import_module(f"{package}.{name}")
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{home[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
