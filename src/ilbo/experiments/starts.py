"""New start states of a problem, the same in every experiment."""

from __future__ import annotations

import numpy as np

CANDIDATES, TAIL = 1000, 100
"""Start states drawn from the region; near and far ones come from this many at either end."""


def starts_of(problem: str, count: int) -> list[tuple[float, ...]]:
    """Start states of the region, the first half near the problem's own, the others far from it.

    Distances are measured in units of the region's size.
    """
    from ilbo.registry.names import make

    made = make(problem)
    low, high = (np.asarray(bound, float) for bound in made.region)
    draw = np.random.default_rng(0)
    states = draw.uniform(low, high, (CANDIDATES, made.state_size))
    away = np.linalg.norm((states - np.asarray(made.initial_state)) / (high - low), axis=1)
    order = np.argsort(away)
    near = np.sort(draw.choice(TAIL, count // 2, replace=False))
    far = CANDIDATES - TAIL + np.sort(draw.choice(TAIL, count - count // 2, replace=False))
    chosen = states[order[np.concatenate([near, far])]]
    return [tuple(float(f"{x:.5g}") for x in state) for state in chosen]
