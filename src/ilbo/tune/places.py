"""Where trials run: here, one after another with their seeds on all cores, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ilbo.errors import UserError
from ilbo.experiments.engines import Ray, make_engine
from ilbo.planning.config import ILBO
from ilbo.planning.loop import Hook, Moment
from ilbo.registry.identity import describe, rebuild
from ilbo.tune.trials import Asked, Asking, Ended, GiveUp, Trials, attempt, tested

Configs = Mapping[str, ILBO]
Earned = dict[str, list[np.ndarray]]


@runtime_checkable
class Place(Protocol):
    """Trains."""

    def check(self, trials: Trials) -> None:
        """Raises where the problem cannot be trained there."""

    def run(self, asking: Asking) -> None:
        """All trials that are asked for."""

    def earned(self, trials: Trials, configs: Configs, seeds: Sequence[int]) -> Earned:
        """What settings earn in fresh episodes, for each seed that they are trained with."""


class Here:
    def check(self, trials: Trials) -> None:
        pass

    def run(self, asking: Asking) -> None:
        while (asked := asking.ask()) is not None:
            asking.done(asked, attempt(asking.trials, asked.chosen, GiveUp(asked.trial)))

    def earned(self, trials: Trials, configs: Configs, seeds: Sequence[int]) -> Earned:
        return {label: trials.earned(config, seeds) for label, config in configs.items()}


class Board:
    """Lies where the study is: trials elsewhere tell it of their tests, and hear of being given
    up at the next one."""

    def __init__(self) -> None:
        self.tests: list[tuple[int, int, float]] = []
        self.given_up: set[int] = set()

    def tell(self, number: int, episode: int, value: float) -> bool:
        self.tests.append((number, episode, value))
        return number in self.given_up

    def take(self) -> list[tuple[int, int, float]]:
        tests, self.tests = self.tests, []
        return tests

    def give_up(self, number: int) -> None:
        self.given_up.add(number)


class TellBoard(Hook):
    """The hook of a trial on the cluster."""

    def __init__(self, board: Any, number: int):
        self.board, self.number, self.told = board, number, 0

    def stop(self, moment: Moment) -> str | None:
        import ray

        if moment.episode > self.told:
            self.told = moment.episode
            if ray.get(self.board.tell.remote(self.number, moment.episode, tested(moment))):
                return "given up"
        return None


class OnRay:
    """A trial is a task, tried again where its machine dies; the study is told here, and once."""

    def __init__(self, engine: Ray):
        self.engine = engine

    def check(self, trials: Trials) -> None:
        if describe(trials.problem)["origin"] == "python":
            raise UserError(
                f"{trials.problem.name!r} is a model in Python, which is not sent to a cluster: "
                "tune it here, without --on ray."
            )

    def run(self, asking: Asking) -> None:
        ray, shared = self.engine.ray, _Sent(asking.trials)
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        board = ray.remote(Board).options(num_cpus=0, scheduling_strategy=here).remote()
        running: dict[int, Asked] = {}
        told: dict[int, int] = {}

        def ask() -> Asked | None:
            if (asked := asking.ask()) is not None:
                running[asked.trial.number] = asked
            return asked

        def hear() -> None:
            for number, episode, value in ray.get(board.take.remote()):
                if number in running and episode > told.get(number, 0):  # else told before it died
                    told[number] = episode
                    trial = running[number].trial
                    trial.report(value, episode)
                    if trial.should_prune():
                        board.give_up.remote(number)

        def done(asked: Asked, ended: Ended) -> None:
            hear()
            del running[asked.trial.number]
            asking.done(asked, ended)

        def arguments(asked: Asked) -> tuple[Any, ...]:
            return shared, asked.chosen, asked.trial.number, board

        self.engine.perform(_attempt, ask, arguments, done, hear)

    def earned(self, trials: Trials, configs: Configs, seeds: Sequence[int]) -> Earned:
        work = [(label, seed) for label in configs for seed in seeds]
        shared, left = _Sent(trials), iter(work)
        found: dict[tuple[str, int], np.ndarray] = {}

        def arguments(task: tuple[str, int]) -> tuple[Any, ...]:
            return shared, configs[task[0]], task[1]

        self.engine.perform(_earned, lambda: next(left, None), arguments, found.__setitem__)
        return {label: [found[label, seed] for seed in seeds] for label in configs}


class _Sent:
    """What trials share, as it travels: the problem as a description."""

    def __init__(self, trials: Trials):
        self.described = describe(trials.problem)
        self.rest = trials.base, trials.space, trials.seeds

    def trials(self) -> Trials:
        from ilbo.storage.cache import keep_compiled_programs

        keep_compiled_programs()
        return Trials(rebuild(self.described), *self.rest)


def _attempt(sent: _Sent, chosen: Mapping[str, Any], number: int, board: Any) -> Ended:
    return attempt(sent.trials(), chosen, TellBoard(board, number))


def _earned(sent: _Sent, config: ILBO, seed: int) -> np.ndarray:
    return np.asarray(sent.trials().earned(config, [seed])[0])


def make_place(name: str, address: str | None = None) -> Place:
    engine = make_engine(name, address)  # type: ignore[arg-type]
    return OnRay(engine) if isinstance(engine, Ray) else Here()
