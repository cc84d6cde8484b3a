"""The paper's experiments by name."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast

from ilbo.errors import UserError, suggest

if TYPE_CHECKING:
    from ilbo.experiments.study import Experiment


NAMES = {
    "learning-curves": "Return against training episodes, ILBO and tf-mdp (figure 2).",
    "stability": "Return of the current policy through training (figure 4).",
    "grid": "Cost at the end for tf-mdp's epochs and batches, against ILBO (figure 3).",
    "generalisation": "New start states: one ILBO policy, tf-mdp retrained (figure 5 and S).",
    "claims": "The paper's claims one by one, from the runs of the four above.",
    "estimators": "Our ablation: estimators of the bound's gradient, baselines and depth.",
}


def find(name: str) -> Experiment:
    """The module of an experiment."""
    if name not in NAMES:
        hint = suggest(name, NAMES, f"choose one of {', '.join(NAMES)}.")
        raise UserError(f"There is no experiment {name!r}; {hint}")
    return cast("Experiment", importlib.import_module(f"{__package__}.{name.replace('-', '_')}"))
