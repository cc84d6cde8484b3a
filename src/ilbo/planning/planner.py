"""`plan`: trains a policy for a problem, tests it on the way and keeps the best."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Array, Float

from ilbo.errors import UserError
from ilbo.mdp import density_check
from ilbo.mdp.problem import Problem
from ilbo.mdp.simulate import Trial, draw_noise
from ilbo.nn.policy import Policy
from ilbo.planning.config import ILBO
from ilbo.planning.state import FAULTS, Metrics
from ilbo.planning.training import SCALE_PROBES, Trainer

if TYPE_CHECKING:
    from ilbo.storage.programs import Programs

TEST_SEED = 0x7E57
"""Seed of the test trajectories: the same for every run, apart from all training noise."""


class Run(eqx.Module):
    """One training run between two segments: all that must be saved to go on with it."""

    state: Any
    best_policy: Any
    """Parameters of the best tested policy so far."""
    best: Float[Array, ""]
    """Its mean return on the test trajectories."""


@dataclass(frozen=True)
class Record:
    """One test of one run, and the means of the training before it."""

    seed: int
    episode: int
    """Training episodes so far."""
    current: float
    """Mean return, on the test trajectories, of the policy that would be handed out now."""
    best: float
    """The best of these so far."""
    critic_loss: float
    bound: float
    policy_gradient: float
    critic_gradient: float
    seconds: float
    """Since the start of this call, compilation included."""


Progress = Callable[[Record], None]


@dataclass(frozen=True)
class Samples:
    """Everything that one run consumed."""

    episodes: int
    transitions: int
    """Steps of training episodes."""
    model_evaluations: int
    """Further evaluations of the model: rolled windows, episodes that settle which policy is handed
    out, and probes of the reward's scale."""
    random_draws: int
    """Noise vectors drawn for training."""
    gradient_steps: int
    """Updates of the policy and of the critic together."""
    test_transitions: int
    """Steps of the test episodes; training does not see them."""


@dataclass(frozen=True)
class Plan:
    """What planning returns. Lists have one entry a seed."""

    problem: Problem
    config: ILBO
    seeds: tuple[int, ...]
    policies: list[Policy]
    """The policy that training hands out at its end."""
    best_policies: list[Policy]
    """The policy that tested best on the way."""
    history: list[list[Record]]
    samples: Samples
    """Of each run: all runs of one plan consume the same."""
    seconds: float
    compile_seconds: float
    """Part of `seconds` spent compiling (or loading compiled programs)."""
    faults: list[str | None]
    """Why a run stopped early, with the last good policy kept; None where it did not."""

    @property
    def policy(self) -> Policy:
        """The final policy of the first seed."""
        return self.policies[0]

    @property
    def best_policy(self) -> Policy:
        """The best tested policy of the first seed."""
        return self.best_policies[0]


def _start(trainer: Trainer, seed: Array) -> Run:
    state = trainer.init(jax.random.key(seed))
    worst = jnp.full((), -jnp.inf, jnp.float32)
    return Run(state, jax.tree.map(jnp.copy, trainer.found(state)), worst)


def _advance(trainer: Trainer, run: Run, most: int, steps: Array) -> tuple[Run, Metrics, Array]:
    """Trains for a segment, tests the policy and keeps the better of it and the best."""
    state, metrics = trainer.segment(run.state, most, steps)
    state, current = trainer.settle(state, make_test(trainer.problem, trainer.config.test_episodes))
    found, better = trainer.found(state), current > run.best
    best_policy = jax.tree.map(lambda new, old: jnp.where(better, new, old), found, run.best_policy)
    return Run(state, best_policy, jnp.maximum(run.best, current)), metrics, current


def make_test(problem: Problem, episodes: int) -> Trial:
    """The test trajectories, the same for every run and planner."""
    noise = draw_noise(problem.exact, jax.random.key(TEST_SEED), (problem.horizon, episodes))
    return Trial(noise, jnp.broadcast_to(problem.initial_state, (episodes, problem.state_size)))


_start_one = eqx.filter_jit(_start)
_advance_one = eqx.filter_jit(donate="all-except-first")(_advance)


@eqx.filter_jit(donate="all-except-first")
def _advance_many(trainer: Trainer, runs: Run, most: int, steps: Array):
    each = eqx.filter_vmap(_advance, in_axes=(None, eqx.if_array(0), None, None))
    return each(trainer, runs, most, steps)


class Planner:
    """Steps training on, segment by segment; `plan` is the loop around it.

    On a CPU each seed is its own call of one program, so a seed gives the same bits alone and among
    others, and seeds run on several cores. On accelerators all seeds run in one vectorised program,
    spread over the devices.
    """

    def __init__(
        self,
        problem: Problem,
        config: Any,
        seeds: Sequence[int],
        episodes: int | None = None,
        vectorise: bool | None = None,
        programs: Path | None = None,
    ):
        """Arguments as of `plan`; `config` holds the settings of this kind of planner, `programs`
        is a folder to keep programs of single runs in."""
        self.problem, self.config, self.seeds = problem, config, tuple(seeds)
        self.episodes = config.episodes if episodes is None else episodes
        if self.episodes < 1:
            raise UserError(f"The number of episodes must be at least 1, got {self.episodes}.")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise UserError(f"Seeds must be different whole numbers, got {list(self.seeds)}.")
        self.trainer = self.make_trainer()
        self.vectorise = jax.default_backend() != "cpu" if vectorise is None else vectorise
        self.start_one: Callable[..., Run] = _start_one
        self.advance_one: Callable[..., tuple[Run, Metrics, Array]] = _advance_one
        self.programs: Programs | None = None
        if programs and not self.vectorise:
            from ilbo.storage.programs import Programs

            self.programs = Programs.of(programs, self.trainer)
        if self.programs:
            self.start_one = functools.partial(self.programs.call, _start)
            self.advance_one = functools.partial(self.programs.call, _advance)

    def get_ready(self) -> Future | None:
        """Has the segments' program loaded or made beside what comes first, and gives its future.

        None where programs are not kept.
        """
        if not self.programs:
            return None
        most = self.steps(self.every)

        def arguments():
            seed, steps = (jax.ShapeDtypeStruct((), kind) for kind in (jnp.uint32, jnp.int32))
            return self.trainer, eqx.filter_eval_shape(_start, self.trainer, seed), most, steps

        return self.programs.begin(_advance, arguments, most)

    def make_trainer(self) -> Any:
        """What starts runs, trains them for a segment and tells the policy that they have found."""
        if self.config.estimator == "score":
            density_check.check(self.problem)
        return Trainer.of(self.problem, self.config, self.episodes)

    @property
    def every(self) -> int:
        """Episodes between two tests."""
        return self.config.evaluate_every

    @property
    def segments(self) -> list[int]:
        """Episodes of each segment between two tests."""
        full, rest = divmod(self.episodes, self.every)
        return [self.every] * full + [rest] * bool(rest)

    def steps(self, episodes: int) -> int:
        """Steps of the program for this many episodes."""
        return -(-episodes * self.problem.horizon // self.config.parallel)

    def start(self) -> list[Run] | Run:
        """The runs before training: a list, or one stacked run where vectorised."""
        seeds = jnp.array(self.seeds, jnp.uint32)
        if not self.vectorise:
            return [self.start_one(self.trainer, seed) for seed in seeds]
        runs = eqx.filter_vmap(_start_one, in_axes=(None, 0))(self.trainer, seeds)
        devices = jax.device_count()
        if devices > 1 and len(self.seeds) % devices == 0:
            mesh = jax.make_mesh((devices,), ("seeds",))
            runs = jax.device_put(runs, NamedSharding(mesh, PartitionSpec("seeds")))
        return runs

    def advance(self, runs: list[Run] | Run, episodes: int):
        """Trains all runs for a segment; returns them and metrics, current, best as [seeds]."""
        # The longest segment's program serves the shorter ones too.
        most, steps = self.steps(self.every), np.int32(self.steps(episodes))
        if isinstance(runs, Run):
            stacked, metrics, current = _advance_many(self.trainer, runs, most, jnp.asarray(steps))
            return stacked, metrics, current, stacked.best

        def advance(run: Run):
            return self.advance_one(self.trainer, run, most, jnp.asarray(steps))

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(advance, runs))
        advanced, metrics, current = map(list, zip(*results, strict=True))
        metrics = jax.tree.map(lambda *x: np.stack(x), *metrics)
        return advanced, metrics, np.stack(current), np.stack([run.best for run in advanced])

    def split(self, runs: list[Run] | Run) -> Iterator[Run]:
        """One run after another."""
        if isinstance(runs, Run):
            for i in range(len(self.seeds)):
                yield jax.tree.map(lambda x, i=i: x[i], runs)
        else:
            yield from runs

    def final(self, run: Run) -> Any:
        """Parameters of the policy that a run would hand out now."""
        return self.trainer.found(run.state)

    def policy(self, parameters: Any) -> Policy:
        return self.trainer.policy(jax.tree.map(np.asarray, parameters))  # needs no compiling

    def fault(self, run: Run) -> str | None:
        code = int(run.state.fault)
        if code == 0:
            return None
        return (
            f"The {FAULTS[code]} is not finite at training step {int(run.state.fault_step)} of "
            f"{self.problem.name}: training stopped and the last good policy is kept."
        )

    def samples(self, episodes: int) -> Samples:
        """What each run has consumed after this many episodes."""
        config, horizon = self.config, self.problem.horizon
        steps = sum(map(self.steps, self._segments_until(episodes)))
        updates = steps * config.updates
        rolled = 0 if config.estimator == "critic" else self.trainer.rolled
        if config.next_states == "stored":
            rolled -= 1  # the first step is the stored one
        tests = len(self._segments_until(episodes))
        evaluations = updates * config.policy_batch * config.draws * rolled + SCALE_PROBES
        evaluations += tests * 2 * config.guard * horizon
        fresh = updates * config.policy_batch * config.draws * self.trainer.rolled
        return Samples(
            episodes=episodes,
            transitions=steps * config.parallel,
            model_evaluations=evaluations,
            random_draws=steps * config.parallel
            + SCALE_PROBES
            + (fresh if config.next_states == "fresh" else 0),
            gradient_steps=2 * updates,
            test_transitions=tests * config.test_episodes * horizon,
        )

    def _segments_until(self, episodes: int) -> list[int]:
        done, taken = 0, []
        for segment in self.segments:
            if done >= episodes:
                break
            taken.append(segment)
            done += segment
        return taken


def plan(
    problem: Problem,
    config: ILBO | None = None,
    *,
    seed: int = 0,
    seeds: int | Sequence[int] | None = None,
    episodes: int | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Trains a deep reactive policy by iterative lower bound optimisation.

    Args:
        problem: What to plan for.
        config: Settings; the defaults if None.
        seed: Seed of the run, or of the first of several.
        seeds: How many runs, with seeds `seed`, `seed` + 1, ...; or their seeds.
        episodes: Training episodes of each run; the config's if None.
        progress: Called with each test's `Record` as training goes on.

    >>> problem = ilbo.make("navigation-3")
    >>> plan = ilbo.plan(problem, ilbo.ILBO(layers=(32,)), episodes=5)
    >>> plan.policy(problem.initial_state).shape
    (2,)
    """
    if seeds is None:
        seeds = 1
    if isinstance(seeds, int):
        seeds = range(seed, seed + seeds)
    return carry_out(Planner(problem, config or ILBO(), tuple(seeds), episodes), progress)


def carry_out(planner: Planner, progress: Progress | None = None) -> Plan:
    """Trains all runs of a planner from the start to the end."""
    began = time.perf_counter()
    runs = planner.start()
    history: list[list[Record]] = [[] for _ in planner.seeds]
    done, times = 0, []
    for segment in planner.segments:
        before = time.perf_counter()
        runs, metrics, current, best = planner.advance(runs, segment)
        done += segment
        records = make_records(planner, done, metrics, current, best, began)
        times.append((segment, time.perf_counter() - before))
        for past, record in zip(history, records, strict=True):
            past.append(record)
            if progress:
                progress(record)
        if any(planner.fault(run) for run in planner.split(runs)):
            break
    return make_plan(planner, runs, history, done, time.perf_counter() - began, compile_time(times))


def make_plan(
    planner, runs, history: list[list[Record]], episodes: int, seconds: float, compiling: float
) -> Plan:
    """What planning returns, from the runs after so many episodes."""
    finished = list(planner.split(runs))
    return Plan(
        problem=planner.problem,
        config=planner.config,
        seeds=planner.seeds,
        policies=[planner.policy(planner.final(run)) for run in finished],
        best_policies=[planner.policy(run.best_policy) for run in finished],
        history=history,
        samples=planner.samples(episodes),
        seconds=seconds,
        compile_seconds=compiling,
        faults=[planner.fault(run) for run in finished],
    )


def make_records(planner: Planner, episode: int, metrics, current, best, began) -> list[Record]:
    seconds = time.perf_counter() - began
    columns = [np.asarray(x, np.float64) for x in (current, best, *metrics)]
    return [
        Record(seed, episode, *(float(column[i]) for column in columns), seconds)  # type: ignore
        for i, seed in enumerate(planner.seeds)
    ]


def compile_time(times: list[tuple[int, float]]) -> float:
    """What the first segment took longer than the others of its length."""
    first, took = times[0]
    others = [t for segment, t in times[1:] if segment == first]
    return max(0.0, took - float(np.median(others))) if others else took
