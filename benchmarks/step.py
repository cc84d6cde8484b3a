"""Time of a training step beside its floor: the same matrix products and nothing else.

    python benchmarks/step.py [--problems reservoir-20 ...] [--json step.json]
    PJRT_NPROC=1 python benchmarks/step.py       # one thread, as `ilbo plan` runs a single seed
    python benchmarks/step.py --seeds 10         # several, each a call of its own, over all cores

A step is one step of the environment (of each episode side by side), one critic update and one
policy update, of each seed. The floor runs, in the same process and in turns with it, the matrix
products of that step: same shapes, same number, same order, computed by the same functions, one
feeding the next, so that the compiler can drop none. As in training, it does not know the weights
of a step beforehand, and cannot lay them out ahead of time. `ratio` is the step over its floor.
With `--parts`, the same for programs of one part each; these need not add up.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import optimization_barrier
from jaxtyping import Array

import ilbo
from ilbo._cpu.products import is_tall, outer, times, times_transposed
from ilbo.experiments.study import markdown_table
from ilbo.nn.critic import ENCODING
from ilbo.planning.acting import explore
from ilbo.planning.ilbo import ILBOTrainer
from ilbo.planning.learning import update_critic, update_policy
from ilbo.planning.planner import Planner
from ilbo.planning.targets import Slow
from ilbo.storage import environment as versions

TIMED = ("step", "floor", "act and store", "critic", "policy")
LAYERS = {"one": (2048,), "four": (256, 128, 64, 32)}


def mild(product):
    """A number near 1 that depends on the product, whatever its size."""
    return 1 + 0.1 * jnp.tanh(jnp.ravel(product)[0])


class Products(eqx.Module):
    """The matrix products of passes through a network, chained by `token` so that all must run."""

    kept: list[Array]
    """The weights, transposed where a network's are."""
    shapes: list[tuple[int, int]] = eqx.field(static=True)

    @classmethod
    def of(cls, sizes: list[int]) -> Products:
        shapes = list(itertools.pairwise(sizes))
        kept = [jnp.full(s[::-1] if is_tall(s) else s, 0.1 / s[0]) for s in shapes]
        return cls(kept, shapes)

    @property
    def weights(self) -> list[Array]:
        pairs = zip(self.kept, self.shapes, strict=True)
        return [weight.T if is_tall(shape) else weight for weight, shape in pairs]

    def forward(self, batch: int, token):
        """One product per layer; returns the layers' inputs, which a backward pass needs."""
        weights = self.weights
        inputs = [jnp.full((batch, len(weights[0])), token)]
        for weight in weights:
            inputs.append(optimization_barrier(times(inputs[-1], weight)))
        return inputs, mild(inputs[-1])

    def backward(self, batch: int, token, into_inputs: bool = True):
        """One product per layer with the transposed weights; returns the slopes at all layers.

        A gradient in the weights alone can do without that in the inputs.
        """
        weights = self.weights
        slopes = [jnp.full((batch, weights[-1].shape[1]), token)]
        for weight in reversed(weights[0 if into_inputs else 1 :]):
            slopes.append(optimization_barrier(times_transposed(slopes[-1], weight)))
        slopes = slopes[::-1]
        return (slopes if into_inputs else [None, *slopes]), mild(slopes[0])

    def gradient(self, inputs, slopes):
        """The gradient in the weights: one product per layer."""
        pairs = zip(inputs[:-1], slopes[1:], strict=True)
        products = optimization_barrier([outer(x, slope) for x, slope in pairs])
        return sum(mild(product) for product in products)


class Floor(eqx.Module):
    """The matrix products of a step."""

    policy: Products
    critic: Products
    of_state: Products
    of_action: Products
    config: ilbo.ILBO = eqx.field(static=True)
    rolled: int = eqx.field(static=True)

    @classmethod
    def of(cls, trainer: ILBOTrainer) -> Floor:
        problem = trainer.problem
        n, m, layers = problem.state_size, problem.action_size, list(trainer.config.layers)
        return cls(
            Products.of([n, *layers, m]),
            Products.of([2 * ENCODING, *layers, 1]),
            Products.of([n + 1, ENCODING]),
            Products.of([m, ENCODING]),
            trainer.config,
            trainer.config.gradient.steps,
        )

    def value(self, batch, token):
        """Q(s, μ(s)), forward."""
        token = self.policy.forward(batch, token)[1]
        return self.critic_forward(batch, token)[1]

    def critic_forward(self, batch, token):
        passes = []
        for network in (self.of_state, self.of_action, self.critic):
            inputs, token = network.forward(batch, token)
            passes.append(inputs)
        return passes, token

    def critic_update(self, token):
        batch = self.config.critic_batch
        token = self.value(batch, token)
        (states, actions, encoded), token = self.critic_forward(batch, token)
        slopes, token = self.critic.backward(batch, token)
        left, right = jnp.split(slopes[0], 2, axis=1)
        return (
            self.critic.gradient(encoded, slopes)
            + self.of_state.gradient(states, [None, left])
            + self.of_action.gradient(actions, [None, right])
            + 0 * token
        )

    def policy_update(self, token):
        config, policy = self.config, self.policy
        batch = config.policy_batch * config.draws

        def forward(token, _):
            return policy.forward(batch, token)[1], None

        def backward(token, _):
            return policy.backward(batch, token)[1], None

        token, _ = jax.lax.scan(forward, token, None, self.rolled)
        token = self.value(batch, token)
        for network in (self.critic, self.of_state, self.of_action):
            token = network.backward(batch, token)[1]
        token, _ = jax.lax.scan(backward, token, None, self.rolled)
        inputs, token = policy.forward(batch * config.window, token)
        slopes, token = policy.backward(batch * config.window, token, into_inputs=False)
        return policy.gradient(inputs, slopes) + 0 * token

    def step(self, token):
        token = self.policy.forward(self.config.parallel, token)[1]
        return mild(self.policy_update(mild(self.critic_update(token))))


def floor(trainer: ILBOTrainer, steps: int) -> Callable:
    """A program of the steps' matrix products alone: token [] → token []."""

    def step(products, token):
        # That the weights stay the same from step to step must remain unknown.
        products, token = optimization_barrier((products, token))
        return products.step(token)

    @jax.jit
    def program(products, token):
        return jax.lax.scan(lambda t, _: (step(products, t), None), token, None, steps)[0]

    products = Floor.of(trainer)
    return lambda token: program(products, token)


def whole(steps: int) -> Callable:
    """A program of a number of steps: trainer, state → state. As in training, it does not know the
    trainer's numbers."""

    def program(trainer, state):
        key, draw_key = jax.random.split(state.key)
        state = eqx.tree_at(lambda s: s.key, state, key)
        return trainer.train(state, trainer.draw(draw_key, steps), steps)[0]

    return eqx.filter_jit(donate="all-except-first")(program)


def parts(steps: int) -> dict[str, Callable]:
    """Programs that run one part of the step over and over: trainer, state → state."""

    start, decay = jnp.zeros(()), jnp.ones(())

    def over_and_over(update):
        def program(trainer, state):
            networks, draws = trainer.networks, trainer.draw(state.key, steps)
            slow = Slow.of(networks, state)

            def one(s, d):
                return update(networks, s, slow, d), None

            return jax.lax.scan(one, state, draws)[0]

        return eqx.filter_jit(donate="all-except-first")(program)

    def act(networks, state, _, draws):
        return explore(networks, state, draws, start)

    def critic(networks, state, slow, draws):
        return update_critic(networks, state, slow, draws.critic_rows[0], decay)[0]

    def policy(networks, state, slow, draws):
        each = tuple(x[0] for x in draws.for_policy)
        return update_policy(networks, state, slow, each, decay)[0]

    updates = {"act and store": act, "critic": critic, "policy": policy}
    return {name: over_and_over(update) for name, update in updates.items()}


def measure(
    problem: ilbo.Problem,
    layers: str,
    depth: int,
    seeds: int,
    steps: int,
    repeats: int,
    with_parts: bool,
) -> dict:
    """Microseconds per step of the step, its floor and its parts, timed in turns."""
    config = ilbo.ILBO(layers=LAYERS[layers], depth=depth)
    trainer = ILBOTrainer.of(problem, config, 500)
    planner = Planner(trainer, tuple(range(seeds)), 500, vectorise=False)
    products = floor(trainer, steps)
    programs = {"step": whole(steps)}
    if with_parts:
        programs |= parts(steps)
    states = {name: [seed.state for seed in planner.start()] for name in programs}
    compiling, compiled = {}, {}
    for name, program in programs.items():
        began = time.perf_counter()
        compiled[name] = program.lower(trainer.as_program(), states[name][0]).compile()
        programs[name] = functools.partial(compiled[name], trainer.as_program())
        compiling[name] = time.perf_counter() - began
        states[name] = of_each(programs[name], states[name])
    programs["floor"] = products
    states["floor"] = of_each(products, [jnp.ones(())] * seeds)
    took: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(repeats):
        for name, program in programs.items():
            began = time.perf_counter()
            states[name] = of_each(program, states[name])
            took[name].append(time.perf_counter() - began)
    micro = {name: float(np.median(t)) / steps * 1e6 for name, t in took.items()}
    ratio = float(np.median(np.array(took["step"]) / np.array(took["floor"])))
    return {
        "problem": problem.name, "layers": layers, "depth": depth, "seeds": seeds, "ratio": ratio,
        "compile_s": compiling["step"], "memory_mib": memory(compiled["step"]),
        "microseconds": micro,
    }  # fmt: skip


def of_each(program: Callable, states: list) -> list:
    """The program's answer for each seed's state, all cores at work where there are several."""
    with ThreadPoolExecutor(os.cpu_count() if len(states) > 1 else 1) as pool:
        return list(pool.map(lambda state: jax.block_until_ready(program(state)), states))


def memory(program) -> float:
    """MiB that a program holds at its peak: what it is given, and what it needs beside that."""
    needs = program.compiled.memory_analysis()
    return (needs.argument_size_in_bytes + needs.temp_size_in_bytes) / 2**20


def table(path: Path) -> str:
    """The table of a file that `--json` wrote."""
    return tabulate(json.loads(path.read_text())["results"])


def tabulate(results: list[dict]) -> str:
    timed = [name for name in TIMED if any(name in r["microseconds"] for r in results)]
    columns = ("problem", "layers", "depth", "seeds", "ratio", *(f"{name} µs" for name in timed))
    columns += ("compile s", "MiB")
    rows = []
    for r in results:
        micro = r["microseconds"]
        each = [f"{micro[name]:,.0f}" for name in timed]
        shown = (r["problem"], r["layers"], r["depth"], r["seeds"], f"{r['ratio']:.2f}")
        rows.append((*shown, *each, f"{r['compile_s']:.1f}", f"{r['memory_mib']:,.0f}"))
    return markdown_table(columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="*", default=["navigation-3", "hvac-6", "reservoir-20"])
    parser.add_argument("--layers", nargs="*", default=list(LAYERS), choices=list(LAYERS))
    parser.add_argument("--depths", nargs="*", type=int, default=[1, 8])
    parser.add_argument("--seeds", nargs="*", type=int, default=[1])
    parser.add_argument("--steps", type=int, default=100, help="of a timed call")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--parts", action="store_true", help="time the parts of a step as well")
    parser.add_argument("--json", type=Path, help="write the results here as well")
    options = parser.parse_args()
    results = []
    rows = (options.problems, options.layers, options.depths, options.seeds)
    for name, layers, depth, seeds in itertools.product(*rows):
        found = measure(
            *(ilbo.make(name), layers, depth, seeds),
            *(options.steps, options.repeats, options.parts),
        )
        results.append(found)
        print(f"{name}, {layers}, depth {depth}, {seeds}: {found['ratio']:.2f}", file=sys.stderr)
    print(tabulate(results))
    where = versions.environment()
    print("; ".join(str(where[name]) for name in ("processor", "device", "packages", "commit")))
    if options.json:
        content = {"environment": where, "results": results}
        options.json.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
