"""Settings that all tests share."""

import jaxtyping
from hypothesis import settings

# Shapes and types are checked at every call of these rooms' functions; comes before their import.
jaxtyping.install_import_hook(
    [
        "ilbo.adapters",
        "ilbo.baselines.limit",
        "ilbo.baselines.open_loop",
        "ilbo.builtin",
        "ilbo.export",
        "ilbo.mdp",
        "ilbo.plots",
        "ilbo.rddl",
        "ilbo.registry",
        "ilbo.report",
        "ilbo.theory",
    ],
    "type_checking.check",
)

# Compilation makes the first example slow; the same examples each time make failures repeatable.
settings.register_profile("ilbo", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("ilbo")
