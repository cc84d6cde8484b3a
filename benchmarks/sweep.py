"""What a sweep of a learning rate compiles: in one process, and in a process for each value.

    python benchmarks/sweep.py [--problem navigation-3] [--episodes 50]

Counted are JAX's own events of compiling, of all programs and small operations, less those that it
found in its cache. The cache is a fresh folder, so that the first run of each kind compiles all it
needs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)


def sweep(problem: str, episodes: int, rates: list[float]) -> list[dict[str, float]]:
    """Trains at each rate; seconds, and programs compiled, of each."""
    import jax

    import ilbo

    compiled: list[float] = []
    in_cache: list[str] = []

    def heard(event: str, seconds: float, **_: object) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(seconds)

    def hit(event: str, **_: object) -> None:
        if event == "/jax/compilation_cache/cache_hits":
            in_cache.append(event)

    jax.monitoring.register_event_duration_secs_listener(heard)
    jax.monitoring.register_event_listener(hit)
    found = []
    for rate in rates:
        compiled.clear()
        in_cache.clear()
        began = time.perf_counter()
        plan = ilbo.plan(problem, ilbo.ILBO(policy_rate=rate), episodes=episodes)
        found.append(
            {
                "rate": rate,
                "seconds": round(time.perf_counter() - began, 2),
                "compiled": len(compiled) - len(in_cache),
                "compiling_s": round(sum(compiled), 2),
                "return": round(plan.history[0][-1].current, 2),
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", default="navigation-3")
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--rates", nargs="*", type=float)
    options = parser.parse_args()
    if options.rates:
        for row in sweep(options.problem, options.episodes, options.rates):
            print(json.dumps(row), flush=True)
        return
    same = [sys.executable, __file__, "--problem", options.problem]
    same += ["--episodes", str(options.episodes), "--rates"]
    for title, groups in (
        ("one process", [RATES]),
        ("a process for each rate", [(rate,) for rate in RATES]),
    ):
        print(title)
        with tempfile.TemporaryDirectory() as cache:
            for rates in groups:
                words = [*same, *map(str, rates)]
                subprocess.run(words, check=True, env={**os.environ, "XDG_CACHE_HOME": cache})


if __name__ == "__main__":
    main()
