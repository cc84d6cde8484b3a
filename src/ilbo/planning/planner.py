"""`Planner`: trains seeds side by side, segment by segment, and keeps the best tested policies."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, final, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int, Key, UInt32

from ilbo.errors import UserError
from ilbo.forks import check_not_forked
from ilbo.mdp.compiled import Bounded
from ilbo.mdp.device import on_accelerator
from ilbo.mdp.problem import Problem
from ilbo.mdp.simulate import Trial, draw_noise, returns
from ilbo.nn.policy import Policy
from ilbo.planning.trainer import Metrics, Trainer

OFFERED_EPISODES = 128
"""Episodes on which a plan from outside must earn more than the policy held to take its place."""
TEST_SEED = 0x7E57
"""Seed of the test trajectories: the same for every run, apart from all training noise."""


class SeedState(eqx.Module):
    """One seed between two segments: all that must be saved to go on with it."""

    state: Any
    """The trainer's."""
    held: Any
    """Parameters of the policy selected by now."""
    best_policy: Any
    """Parameters of the best tested policy so far."""
    best: Float[Array, "*seeds"]
    """Its mean return on the test trajectories."""


Seeds = list[SeedState] | SeedState
"""The seeds of a plan: a list, or one stacked state where they run as one vectorised program."""


@runtime_checkable
class Programs(Protocol):
    """Keeps compiled programs from one process to the next."""

    def call(self, function: Callable[..., Any], first: Any, *rest: Any) -> Any:
        """function(first, *rest), where the arrays of all but the first argument are used up."""

    def begin(
        self, function: Callable[..., Any], arguments: Callable[[], tuple[Any, ...]], *whole: int
    ) -> Future[Any]:
        """Loads, or compiles, a program that will be called, beside what goes on."""


class Advanced(NamedTuple):
    """The seeds after a segment, and its figures, [seeds] each."""

    seeds: Seeds
    metrics: Metrics
    current: Float[np.ndarray | Array, " seeds"]
    """Mean test return of the policies selected."""
    best: Float[np.ndarray | Array, " seeds"]


def _start(trainer: Trainer, seed: UInt32[Array, ""]) -> SeedState:
    state, held = trainer.init(jax.random.key(seed))
    worst = jnp.full((), -jnp.inf, jnp.float32)
    return SeedState(state, held, jax.tree.map(jnp.copy, held), worst)


def _advance(
    trainer: Trainer, seed: SeedState, most: int, episodes: Int[Array, ""]
) -> tuple[SeedState, Metrics, Float[Array, ""]]:
    """Trains for a segment, tests the policy selected and keeps the better of it and the best."""
    state, metrics = trainer.segment(seed.state, most, episodes)
    test = make_test(trainer.problem, trainer.config.test_episodes)
    state, held, current = trainer.select(state, seed.held, test)
    current = current.astype(seed.best.dtype)
    better = trainer.is_better(held, current, seed.best_policy, seed.best)
    best_policy = jax.tree.map(lambda new, old: jnp.where(better, new, old), held, seed.best_policy)
    best = jnp.where(better, current, seed.best)
    return SeedState(state, held, best_policy, best), metrics, current


def make_test(problem: Problem, episodes: int) -> Trial:
    """The test trajectories, the same for every run and trainer."""
    noise = draw_noise(problem.exact, jax.random.key(TEST_SEED), (problem.horizon, episodes))
    return Trial(noise, jnp.broadcast_to(problem.initial_state, (episodes, problem.state_size)))


def _advance_all(
    trainer: Trainer, seeds: SeedState, most: int, episodes: Int[Array, ""]
) -> tuple[SeedState, Metrics, Float[Array, " seeds"]]:
    each = eqx.filter_vmap(_advance, in_axes=(None, eqx.if_array(0), None, None))
    return each(trainer, seeds, most, episodes)


MOST_PROGRAMS = 8
"""Of each kind that stay in memory; one takes some 30 MB."""
_start_one = Bounded(_start, MOST_PROGRAMS)
_advance_one = Bounded(_advance, MOST_PROGRAMS, donates=True)
_advance_many = Bounded(_advance_all, MOST_PROGRAMS, donates=True)


@eqx.filter_jit
def _offer(trainer: Trainer, seed: SeedState, offered: Any, key: Key[Array, ""]) -> SeedState:
    """Holds what is offered if it earns more along the same fresh noise."""
    problem = trainer.problem
    noise = draw_noise(problem.exact, key, (problem.horizon, OFFERED_EPISODES))
    starts = jnp.broadcast_to(problem.initial_state, (OFFERED_EPISODES, problem.state_size))
    both = jax.tree.map(lambda *x: jnp.stack(x), seed.held, offered)

    def earn(parameters: Any) -> Float[Array, ""]:
        return jnp.mean(returns(problem, trainer.policy(parameters), Trial(noise, starts)))

    earned = jax.lax.map(earn, both)
    better = (earned[1] > earned[0]).astype(int)
    return eqx.tree_at(lambda s: s.held, seed, jax.tree.map(lambda x: x[better], both))


@final
class Planner:
    """Steps training on, segment by segment; `ilbo.planning.loop.train` is the loop around it.

    On a CPU each seed is its own call of one program, so a seed gives the same bits alone and among
    others, and seeds run on several cores. On accelerators all seeds run in one vectorised program,
    spread over the devices.
    """

    def __init__(
        self,
        trainer: Trainer,
        seeds: Sequence[int],
        episodes: int,
        *,
        vectorise: bool | None = None,
        programs: Programs | None = None,
    ):
        """
        Args:
            trainer: The way of training, and the problem.
            seeds: One run each.
            episodes: Training episodes of each.
            vectorise: Whether all seeds run as one program; by default on accelerators.
            programs: Where compiled programs of single seeds are kept; nowhere if None.
        """
        check_not_forked()
        if episodes < 1:
            raise UserError(f"The number of episodes must be at least 1, got {episodes}.")
        if not seeds or len(set(seeds)) < len(seeds):
            raise UserError(f"Seeds must be different whole numbers, got {list(seeds)}.")
        self.trainer, self.seeds, self.episodes = trainer, tuple(seeds), episodes
        self.problem, self.config = trainer.problem, trainer.config
        self.vectorise = on_accelerator() if vectorise is None else vectorise
        self.programs = None if self.vectorise else programs
        self.scouted = 0
        """Steps of the model that a search for plans has taken, for all seeds together."""
        self._start_one: Callable[..., SeedState] = _start_one
        self._advance_one: Callable[..., tuple[SeedState, Metrics, Array]] = _advance_one
        if self.programs:
            self._start_one = functools.partial(self.programs.call, _start)
            self._advance_one = functools.partial(self.programs.call, _advance)

    @property
    def _program(self) -> Trainer:
        """The trainer as programs take it."""
        return self.trainer.as_program()

    def prepare(self) -> Future[Any] | None:
        """Has the segments' program loaded or compiled beside what comes first.

        Returns its future; None where programs are not kept.
        """
        if not self.programs:
            return None
        most, program = self.trainer.every, self._program

        def arguments() -> tuple[Any, ...]:
            seed, episodes = (jax.ShapeDtypeStruct((), kind) for kind in (jnp.uint32, jnp.int32))
            return program, eqx.filter_eval_shape(_start, program, seed), most, episodes

        return self.programs.begin(_advance, arguments, most)

    def segments_after(self, episode: int) -> Iterator[int]:
        """Episodes of each segment that is left after this many episodes."""
        while episode < self.episodes:
            segment = min(self.trainer.every, self.episodes - episode)
            yield segment
            episode += segment

    def expect(self, episodes: float) -> None:
        """Schedules stretch over so many episodes from now on."""
        self.trainer = self.trainer.lasting(episodes)

    def start(self) -> Seeds:
        """The seeds before training."""
        seeds = jnp.array(self.seeds, jnp.uint32)
        program = self._program
        if not self.vectorise:
            return [self._start_one(program, seed) for seed in seeds]
        stacked = eqx.filter_vmap(_start_one, in_axes=(None, 0))(program, seeds)
        devices = jax.device_count()
        if devices > 1 and len(self.seeds) % devices == 0:
            mesh = jax.make_mesh((devices,), ("seeds",), axis_types=(AxisType.Auto,))
            stacked = jax.device_put(stacked, NamedSharding(mesh, PartitionSpec("seeds")))
        return stacked

    def offer(self, seeds: Seeds, plans: Sequence[Float[Array, "horizon m"]]) -> Seeds:
        """Each seed holds the open-loop plan offered to it if that earns more than what it held."""
        offered = [
            _offer(self._program, seed, self.trainer.from_plan(plan), jax.random.key(number))
            for number, seed, plan in zip(self.seeds, self.split(seeds), plans, strict=True)
        ]
        if isinstance(seeds, SeedState):
            return jax.tree.map(lambda *x: jnp.stack(x), *offered)
        return offered

    def begin_at(self, seeds: Seeds, actions: Sequence[Float[Array, " m"] | None]) -> Seeds:
        """Training of each seed begins at a constant action; None leaves it as it is."""
        begun = [
            seed
            if action is None
            else eqx.tree_at(lambda s: s.state, seed, self.trainer.begin_at(seed.state, action))
            for seed, action in zip(self.split(seeds), actions, strict=True)
        ]
        return jax.tree.map(lambda *x: jnp.stack(x), *begun) if self.vectorise else begun

    def advance(self, seeds: Seeds, episodes: int) -> Advanced:
        """Trains all seeds for a segment; uses up the states given."""
        # The longest segment's program serves the shorter ones too.
        most, count, program = self.trainer.every, np.int32(episodes), self._program
        if isinstance(seeds, SeedState):
            stacked, metrics, current = _advance_many(program, seeds, most, jnp.asarray(count))
            return Advanced(stacked, metrics, current, stacked.best)

        def advance(seed: SeedState) -> tuple[SeedState, Metrics, Array]:
            return self._advance_one(program, seed, most, jnp.asarray(count))

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(advance, seeds))
        advanced = [result[0] for result in results]
        metrics = jax.tree.map(lambda *x: np.stack(x), *(result[1] for result in results))
        tests = np.stack([result[2] for result in results])
        return Advanced(advanced, metrics, tests, np.stack([seed.best for seed in advanced]))

    def split(self, seeds: Seeds) -> Iterator[SeedState]:
        """One seed after another."""
        if isinstance(seeds, SeedState):
            for i in range(len(self.seeds)):
                yield jax.tree.map(lambda x, i=i: x[i], seeds)
        else:
            yield from seeds

    def faults(self, seeds: Seeds) -> list[str | None]:
        """Why each seed cannot go on; None where it can."""
        return [self.trainer.fault(seed.state) for seed in self.split(seeds)]

    def unkept(self, seeds: Seeds) -> list[str | None]:
        """A sentence for each seed whose policy does not keep the limits of the problem."""
        return [self.trainer.unkept(seed.held) for seed in self.split(seeds)]

    def policies(self, seeds: Seeds) -> tuple[list[Policy], list[Policy]]:
        """The policies selected by now and those that tested best, one of each per seed."""
        alone = list(self.split(seeds))
        return [self._policy(seed.held) for seed in alone], [
            self._policy(seed.best_policy) for seed in alone
        ]

    def _policy(self, parameters: Any) -> Policy:
        return self.trainer.policy(jax.tree.map(np.asarray, parameters))  # needs no compiling
