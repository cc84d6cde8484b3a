"""Engines that run blocks of seeds: here, one after another, or on a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ilbo.errors import UserError
from ilbo.experiments.arms import Arm, Result

Engine = Literal["local", "ray"]
Perform = Callable[[Arm, Sequence[int]], list[Result]]
Done = Callable[["Block", list[Result]], None]

RETRIES = 5
"""How often a block whose machine or process died is tried again."""


@dataclass(frozen=True)
class Block:
    """Seeds of an arm that run together."""

    arm: Arm
    seeds: tuple[int, ...]

    def __str__(self) -> str:
        seeds = " ".join(map(str, self.seeds))
        which = f", seed{'s' * (len(self.seeds) > 1)} {seeds}" if self.arm.seeded else ""
        return f"{self.arm.problem}, {self.arm.label}{which}"


def blocks(arm: Arm, seeds: Sequence[int], size: int | None) -> list[Block]:
    """The seeds in blocks of at most a size; all together if it is None."""
    size = size or max(1, len(seeds))
    return [Block(arm, tuple(seeds[i : i + size])) for i in range(0, len(seeds), size)]


class Local:
    """This process, one block after another: a block's seeds share the cores, or a vectorised
    program where there is an accelerator."""

    @property
    def block_size(self) -> int | None:
        from ilbo.mdp.device import on_accelerator

        return None if on_accelerator() else os.cpu_count()

    def run(self, work: Sequence[Block], perform: Perform, done: Done) -> None:
        import jax

        last = None
        for block in work:
            made_of = (block.arm.problem, block.arm.planner, block.arm.settings)
            if last not in (None, made_of):
                jax.clear_caches()  # hundreds of programs at once are more than LLVM can hold
            last = made_of
            done(block, perform(block.arm, block.seeds))


class Ray:
    """A Ray cluster that is up already: each block is a task, tried again where its machine dies.

    The package itself is sent along, so that all machines run the same code; they need its
    dependencies only. On machines with accelerators a task takes one and all seeds of an arm;
    elsewhere one core and one seed.
    """

    def __init__(self, address: str | None = None):
        self.ray = _import_ray()
        if not self.ray.is_initialized():
            self._connect(address or os.environ.get("RAY_ADDRESS") or "auto")

    def _connect(self, address: str) -> None:
        try:
            self.ray.init(
                address=address,
                runtime_env={"py_modules": [str(Path(__file__).parents[1])]},
                log_to_driver=False,
                logging_level="ERROR",
            )
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
            where = "on this machine" if address == "auto" else f"at {address!r}"
            reason = str(error).strip().splitlines()[0].rstrip(".")
            raise UserError(
                f"There is no Ray cluster {where} ({reason}); start one with `ray start --head` "
                "or give its --address."
            ) from error

    @property
    def _accelerators(self) -> bool:
        return self.ray.cluster_resources().get("GPU", 0) > 0

    @property
    def block_size(self) -> int | None:
        return None if self._accelerators else 1

    @property
    def room(self) -> int:
        """Tasks that run at once on the machines that are there now: they may come and go."""
        resources = self.ray.cluster_resources()
        return max(1, int(resources.get("GPU" if self._accelerators else "CPU", 0)))

    def run(self, work: Sequence[Block], perform: Perform, done: Done) -> None:
        left = iter(work)

        def each(block: Block) -> tuple[Any, ...]:
            return block.arm, block.seeds

        self.perform(perform, lambda: next(left, None), each, done)

    def perform(
        self,
        function: Callable[..., Any],
        ask: Callable[[], Any | None],
        arguments: Callable[[Any], tuple[Any, ...]],
        done: Callable[[Any, Any], None],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        """Runs tasks as there is room for them. Of each, whatever dies, `done` is told once.

        Args:
            function: Run there; without effects, as it is called again where a machine dies.
            ask: Gives the next task; None where there is none for now. It is asked again as others
                end, and over once it has none and all have ended.
            arguments: The function's, for a task.
            done: Called here with a task and what the function returned.
            meanwhile: Called here every second or so.
        """
        task = self.ray.remote(function).options(
            max_retries=RETRIES, num_cpus=1, num_gpus=1 if self._accelerators else 0
        )
        pending: dict[Any, Any] = {}
        failed: list[tuple[Any, str]] = []
        asked = 0
        try:
            while True:
                while len(pending) < self.room and (next_one := ask()) is not None:
                    pending[task.remote(*arguments(next_one))] = next_one
                    asked += 1
                if not pending:
                    break
                for reference in self.ray.wait(list(pending), num_returns=1, timeout=1.0)[0]:
                    ended = pending.pop(reference)
                    try:
                        result = self.ray.get(reference)
                    except self.ray.exceptions.RayError as error:
                        failed.append((ended, _reason(error)))
                    else:
                        done(ended, result)
                meanwhile()
        finally:
            for reference in pending:
                self.ray.cancel(reference, force=True)
        if failed:
            first, reason = failed[0]
            raise UserError(
                f"{len(failed)} of {asked} tasks failed, the first being {first}: {reason}; "
                "what finished is kept, and the same command does the rest."
            )


def _import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise UserError(
            "`--on ray` needs the extra of that name: pip install 'ilbo[ray]'."
        ) from None
    return ray


def _reason(error: Exception) -> str:
    cause = getattr(error, "cause", None) or error
    lines = str(cause).strip().splitlines() or [type(cause).__name__]
    return lines[-1].rstrip(".")


def make_engine(name: Engine, address: str | None = None) -> Local | Ray:
    if name == "ray":
        return Ray(address)
    if address is not None:
        raise UserError("An --address belongs to --on ray.")
    return Local()
