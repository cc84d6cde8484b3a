"""How long RDDL takes to build, to compile, and for a step.

    python benchmarks/rddl_times.py                    # the league's first instances
    python benchmarks/rddl_times.py --beside ../other  # in turns with another checkout
    python benchmarks/rddl_times.py --sizes            # generated problems of growing size

Building is from the text to the models, exact and, where planning uses one, relaxed; compiling is
that of 256 steps side by side (next state, reward, end, violations) and of the gradient of a step
in state and action. Both are in seconds of the processor, so that other work on the machine does
not count; a step is the shortest of 400 such batches. `--sizes` builds chains of cells in which
each looks at one other; their time should grow no faster than they do.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
BATCH, REPEATS = 256, 400

CHAIN = """
domain chain {
    types { cell : object; };
    pvariables {
        NEXT(cell) : { non-fluent, cell };
        GAIN(cell) : { non-fluent, real, default = 0.5 };
        height(cell) : { state-fluent, real, default = 1.0 };
        wet(cell) : { state-fluent, bool, default = false };
        open(cell) : { action-fluent, real, default = 0.0 };
    };
    cpfs {
        height'(?c) = height(?c) + GAIN(?c) * height(NEXT(?c)) - open(?c) + Normal(0.0, 1.0);
        wet'(?c) = height(?c) > 2.0 ^ (exists_{?d : cell} [open(?d) > 1.0]);
    };
    reward = sum_{?c : cell} [height(?c) * wet(?c)];
    action-preconditions { forall_{?c : cell} [open(?c) >= 0.0 ^ open(?c) <= height(?c)]; };
}
"""


def chain(cells: int) -> str:
    """A problem of two state fluents for each cell."""
    names = [f"c{i}" for i in range(cells)]
    links = "".join(f"NEXT({a}) = {b};" for a, b in zip(names, names[1:] + names[:1], strict=True))
    return (
        f"{CHAIN}non-fluents figures {{ domain = chain; "
        f"objects {{ cell : {{{', '.join(names)}}}; }};"
        f" non-fluents {{ {links} }}; }}\n"
        "instance i { domain = chain; non-fluents = figures; horizon = 10; discount = 1.0; }\n"
    )


def measure(name: str) -> dict:
    import jax
    import jax.numpy as jnp
    import numpy as np

    from ilbo.mdp.model import Model
    from ilbo.rddl import build
    from ilbo.rddl.source import locate

    began = time.process_time()
    source = locate(f"rddl:{name}", None)
    exact = build.exact_model(source)
    soft: Model = exact
    if build.discrete_parts(exact):
        soft = build.relaxed_model(source, exact)
    built = time.process_time() - began
    draw = np.random.default_rng(0)
    n, m = exact.dynamics.state.size, exact.dynamics.action.size
    starts = exact.dynamics.initial() + 0.1 * draw.normal(size=(BATCH, n))
    actions = draw.uniform(size=(BATCH, m))
    noise = exact.law.sample(jax.random.key(0), (BATCH,))
    given = jnp.asarray(starts, float), jnp.asarray(actions, float), noise

    def step(s, a, xi):
        low, high = exact.bounds(s)
        action = jnp.clip(a, low, high)
        following = exact.transition(s, action, xi)
        reward = exact.reward(s, action, following)
        return following, reward, exact.terminal(following), exact.violations(s, action)

    def value(s, a, xi):
        following = soft.transition(s, a, xi)
        return soft.reward(s, a, following) + jnp.sum(following)

    programs = [jax.jit(jax.vmap(step)), jax.jit(jax.vmap(jax.grad(value, (0, 1))))]
    began = time.process_time()
    for program in programs:
        jax.block_until_ready(program(*given))
    compiled = time.process_time() - began
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        for program in programs:
            jax.block_until_ready(program(*given))
        times.append(time.perf_counter() - began)
    return {"build": built, "compile": compiled, "step": 1e6 * min(times)}


def run(checkout: Path) -> dict[str, dict]:
    """All problems with the sources of a checkout, in a process of its own."""
    command = [sys.executable, __file__, "--one"]
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def sizes() -> None:
    from ilbo.rddl import build
    from ilbo.rddl.source import locate

    with tempfile.TemporaryDirectory() as folder:
        for cells in (250, 250, 500, 1_000, 2_000, 4_000):
            path = Path(folder) / "chain.rddl"
            path.write_text(chain(cells))
            began = time.process_time()
            build.exact_model(locate(str(path), None))
            took = time.process_time() - began
            print(f"{2 * cells:,} ground state fluents: {took:.2f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT")
    parser.add_argument("--rounds", type=int, default=2, help="the best of these is taken")
    parser.add_argument("--sizes", action="store_true")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path.insert(0, str(HERE))
    from league import FIRST

    if options.sizes:
        return sizes()
    if options.one:
        measure("HVAC/0")  # what is loaded and compiled once
        print(json.dumps({name: measure(name) for name in FIRST}))
        return None
    checkouts = [HERE.parent] + ([options.beside.resolve()] if options.beside else [])
    found: list[list[dict]] = [[] for _ in checkouts]
    for _ in range(options.rounds):
        for i, checkout in enumerate(checkouts):
            found[i].append(run(checkout))
    print(f"{len(FIRST)} problems, in all:")
    for what, unit in (("build", "s"), ("compile", "s"), ("step", "µs")):
        sums = [sum(min(each[name][what] for each in rounds) for name in FIRST) for rounds in found]
        beside = f"; {sums[1]:.2f} {unit} beside" if len(sums) > 1 else ""
        print(f"  {what}: {sums[0]:.2f} {unit}{beside}")
    return None


if __name__ == "__main__":
    main()
