"""Problems whose optimum is known: by Riccati's equation, a closed form, dynamic programming on a
grid or linear programming. Each is an ordinary model; `benchmarks/optima.py` plans on all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ilbo


@dataclass(frozen=True)
class Known:
    """A problem and the truth about it."""

    problem: ilbo.Problem
    """What is planned on."""
    optimum: Callable[[], float]
    """What the best policy earns in the mean, discounted."""
    source: str
    """How that is known."""
    policy: Callable[[], Any] | None = None
    """A best policy, which may see the time (`timed`), where there is one to write down."""
    judged: ilbo.Problem | None = None
    """The same with the horizon that policies are judged on, where it is a longer one: a discounted
    problem without an end is planned on its first steps."""

    @property
    def judge(self) -> ilbo.Problem:
        return self.problem if self.judged is None else self.judged
