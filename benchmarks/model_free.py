"""ILBO and SHAC, which differentiate the model, beside SAC, TD3 and PPO, which learn without it.

    pip install 'ilbo[gym]' stable-baselines3     # for the three last
    PJRT_NPROC=1 python benchmarks/model_free.py --out model_free.jsonl
    python benchmarks/model_free.py --table model_free.jsonl

Each finished run is a line of the output file; one that is there already is not run again. The
model-free ones are Stable-Baselines3's, on `ilbo.adapters.gym`'s environments side by side, helped
as people would: states scaled by the problem's region, actions by their bounds at the state,
rewards by a running scale, and the time seen by actor and critic, so that an episode's end is no
surprise. What is not its default is in `SETTINGS`. Returns on the way are of the newest policy on
the 64 test trajectories of all planners; at the end on the 2,048 fresh ones.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import ilbo
from ilbo.experiments.study import grouped, markdown_table, mean_and_spread
from ilbo.mdp.bounds import within
from ilbo.mdp.numbers import number
from ilbo.mdp.simulate import returns
from ilbo.planning.planner import make_test
from ilbo.runs.results import evaluate_fresh
from ilbo.storage.environment import environment

PROBLEMS = ("navigation-3", "hvac-6", "reservoir-20")
ARMS = ("ILBO", "SHAC", "SAC", "TD3", "PPO")
ON_THE_WAY = (10_000, 50_000)
"""Transitions after which the table tells the return."""
TEST_EPISODES = 64
TESTS = 20
"""Of a model-free run."""
SIDE_BY_SIDE = {"SAC": 8, "TD3": 8, "PPO": 16}
OFF_POLICY = {
    # One update for every 8 transitions, where 1 is usual, of smaller networks: it saves hours.
    "train_freq": 1,
    "gradient_steps": 1,
    "learning_starts": 1_000,
    "batch_size": 128,
    "policy_kwargs": {"net_arch": [128, 128]},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "SAC": OFF_POLICY,
    "TD3": OFF_POLICY,
    "PPO": {"n_steps": 128},
}


class Actor(eqx.Module):
    """The deterministic action of an agent's network, as a policy that sees the time."""

    layers: list[tuple[Any, Any]]
    between: str = eqx.field(static=True)
    squashed: bool = eqx.field(static=True)
    problem: ilbo.Problem
    timed: bool = eqx.field(static=True, default=True)

    @classmethod
    def of(cls, agent: Any, problem: ilbo.Problem) -> Actor:
        """Of an agent of Stable-Baselines3."""
        import torch

        policy = agent.policy
        if hasattr(policy, "action_net"):  # PPO
            modules = [*policy.mlp_extractor.policy_net, policy.action_net]
        elif hasattr(policy.actor, "latent_pi"):  # SAC
            modules = [*policy.actor.latent_pi, policy.actor.mu]
        else:  # TD3
            modules = list(policy.actor.mu)
        linear = [module for module in modules if isinstance(module, torch.nn.Linear)]
        layers = [
            tuple(jnp.asarray(part.detach().cpu().numpy()) for part in (module.weight, module.bias))
            for module in linear
        ]
        between = type(modules[1]).__name__.lower()
        return cls(layers, between, not hasattr(policy, "action_net"), problem)

    def raw(self, seen: Any) -> Any:
        """The action in [−1, 1] for what the agent sees."""
        for weight, bias in self.layers[:-1]:
            seen = getattr(jax.nn, self.between)(weight @ seen + bias)
        weight, bias = self.layers[-1]
        action = weight @ seen + bias
        return jnp.tanh(action) if self.squashed else jnp.clip(action, -1.0, 1.0)

    def __call__(self, state: Any, time: Any) -> Any:
        action = self.raw(seen(self.problem, state, time / self.problem.horizon))
        low, high = self.problem.exact.bounds(state)
        return within(low, high, (action + 1) / 2)


def seen(problem: ilbo.Problem, state: Any, gone: Any) -> Any:
    """The state with the region mapped onto [−1, 1], and the share of the episode that is gone."""
    low, high = problem.region
    half = jnp.where(high > low, (high - low) / 2, 1.0)
    return jnp.concatenate([(state - (low + high) / 2) / half, jnp.asarray(gone)[None]])


def vector_environment(problem: ilbo.Problem, count: int) -> Any:
    """`VectorEnvironment` as Stable-Baselines3 takes it. Its episodes end all at once."""
    from gymnasium import spaces
    from stable_baselines3.common.vec_env import VecEnv, VecNormalize

    from ilbo.adapters.gym import VectorEnvironment

    inner = VectorEnvironment(problem, count)
    see = jax.jit(jax.vmap(lambda state, gone: seen(problem, state, gone), in_axes=(0, None)))

    class SideBySide(VecEnv):
        def __init__(self) -> None:
            shape = (problem.state_size + 1,)
            observed = spaces.Box(-np.inf, np.inf, shape, np.float32)
            super().__init__(count, observed, inner.single_action_space)

        def observed(self, states: Any) -> Any:
            return np.array(see(states, self.steps / problem.horizon))

        def reset(self) -> Any:
            self.steps = 0
            return self.observed(inner.reset(seed=self._seeds[0])[0])

        def step_async(self, actions: Any) -> None:
            self.actions = actions

        def step_wait(self) -> Any:
            states, rewards, terminated, truncated, _ = inner.step(self.actions)
            assert not terminated.any()
            self.steps += 1
            observed = self.observed(states)
            infos: list[dict[str, Any]] = [{} for _ in range(count)]
            if truncated.all():
                infos = [{"terminal_observation": row} for row in observed]
                self.steps = 0
                observed = self.observed(inner.reset()[0])
            return observed, rewards.astype(np.float32), truncated, infos

        def close(self) -> None: ...

        def seed(self, seed: int | None = None) -> Any:
            self._seeds = [seed] * count
            return self._seeds

        def get_attr(self, name: str, indices: Any = None) -> Any:
            return [None] * count

        def set_attr(self, name: str, value: Any, indices: Any = None) -> None: ...

        def env_method(self, name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
            raise NotImplementedError(name)

        def env_is_wrapped(self, wrapper: Any, indices: Any = None) -> Any:
            return [False] * count

    return VecNormalize(SideBySide(), norm_obs=False, clip_reward=np.inf)


def model_free(problem: ilbo.Problem, arm: str, seed: int, transitions: int) -> dict[str, Any]:
    """Trains an agent of Stable-Baselines3."""
    import stable_baselines3
    import torch
    from stable_baselines3.common.callbacks import BaseCallback

    torch.set_num_threads(1)
    test = make_test(problem, TEST_EPISODES)
    earned = eqx.filter_jit(lambda actor: jnp.mean(returns(problem, actor, test)))
    began = time.perf_counter()
    curve: list[list[float]] = []

    class Watch(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps >= (len(curve) + 1) * transitions / TESTS:
                value = float(earned(Actor.of(self.model, problem)))
                seconds = time.perf_counter() - began
                curve.append([self.num_timesteps, round(seconds, 1), round(value, 2)])
                print(problem.name, arm, seed, curve[-1], flush=True)
            return True

    environments = vector_environment(problem, SIDE_BY_SIDE[arm])
    agent = getattr(stable_baselines3, arm)(
        "MlpPolicy", environments, seed=seed, device="cpu", **copy.deepcopy(SETTINGS[arm])
    )
    agent.learn(transitions, callback=Watch())
    return {"policy": Actor.of(agent, problem), "curve": curve, "model_evaluations": 0}


def by_model(problem: ilbo.Problem, arm: str, seed: int, transitions: int) -> dict[str, Any]:
    """Trains by a planner of ours, on its default settings."""
    if arm == "ILBO":
        plan = ilbo.plan(problem, seed=seed)
    else:
        from ilbo.baselines import SHAC, plan_shac

        episodes = -(-transitions // problem.horizon)
        plan = plan_shac(problem, SHAC(episodes=episodes), seed=seed)
    curve = [
        [record.episode * problem.horizon, round(record.seconds, 1), round(record.current, 2)]
        for record in plan.history[0]
    ]
    evaluations = plan.samples.model_evaluations
    return {"policy": plan.policy, "curve": curve, "model_evaluations": evaluations}


def run(name: str, arm: str, seed: int, transitions: int) -> dict[str, Any]:
    """One line of the output."""
    problem = ilbo.make(name)
    train = model_free if arm in SETTINGS else by_model
    result = train(problem, arm, seed, transitions)
    (final,) = evaluate_fresh(problem, [result.pop("policy")])
    line = {"problem": name, "arm": arm, "seed": seed, "transitions": int(result["curve"][-1][0])}
    return {**line, "final": final.mean, **result, "environment": environment()}


def finished(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def after(run: dict[str, Any], transitions: int) -> str:
    """The test return after so many transitions; nothing where the run was over by then."""
    if run["transitions"] < transitions:
        return "–"
    return number(next(point[2] for point in run["curve"] if point[0] >= transitions))


def table(path: Path) -> str:
    """Problem by problem: returns on the way, of the first seed, and final ones."""
    runs = grouped(finished(path), "problem", "arm")
    rows = []
    for problem in PROBLEMS:
        for arm in ARMS:
            if found := runs.get((problem, arm)):
                evaluations = np.mean([run["model_evaluations"] for run in found])
                seconds = np.mean([run["curve"][-1][1] for run in found])
                rows.append(
                    [
                        *(problem, arm, str(len(found)), f"{found[0]['transitions']:,}"),
                        f"{evaluations:,.0f}" if evaluations else "–",
                        *(after(found[0], most) for most in ON_THE_WAY),
                        mean_and_spread([run["final"] for run in found]),
                        f"{seconds / 60:,.0f}",
                    ]
                )
    columns = [
        *("problem", "planner", "seeds", "transitions", "further evaluations of the model"),
        *(f"after {most:,}" for most in ON_THE_WAY),
        *("final policy", "minutes"),
    ]
    return markdown_table(columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS))
    parser.add_argument("--arms", nargs="+", default=list(ARMS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--transitions", type=int, default=200_000, help="but for ILBO's")
    parser.add_argument("--out", type=Path, default=Path("model_free.jsonl"))
    parser.add_argument("--table", type=Path, help="only print the table of this file")
    options = parser.parse_args()
    if options.table:
        return print(table(options.table))
    for seed in range(options.seeds):
        for arm in options.arms:
            for name in options.problems:
                lines = finished(options.out)
                if any((x["problem"], x["arm"], x["seed"]) == (name, arm, seed) for x in lines):
                    continue
                line = run(name, arm, seed, options.transitions)
                print(f"{name}, {arm}, seed {seed}: {line['final']:,.2f}", flush=True)
                with options.out.open("a") as out:
                    out.write(json.dumps(line) + "\n")
    print(table(options.out))


if __name__ == "__main__":
    main()
