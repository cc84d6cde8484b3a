"""What checks arguments and results against their annotations in the tests."""

from pathlib import Path

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
"""As mypy does, takes an int where a float is asked for."""

SOURCE = Path(__file__).parents[2] / "src"
UNCHECKED = (
    "ilbo.api",
    "ilbo.cli",
    "ilbo.experiments",
    "ilbo.mdp.laws.product",
    "ilbo.mdp.problem",
    "ilbo.baselines.config",
    "ilbo.planning.config",
    "ilbo.planning.loop",
    "ilbo.planning.stopping",
    "ilbo.runs.further",
    *(f"ilbo.planning.estimators.{name}" for name in ("estimator", "pathwise", "score")),
    "ilbo.planning.estimators.critic_only",
)
"""Settings, and what takes them from users: these check the values themselves."""


def _name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


CHECKED = [
    name
    for name in map(_name, sorted(SOURCE.rglob("*.py")))
    if not name.endswith("__init__") and not name.startswith(UNCHECKED)
]
"""The modules whose functions are checked: all others."""
