"""`ilbo completion`: what a shell needs to complete the command line."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

from tyro.conf import Positional


@dataclass(frozen=True)
class Command:
    """Print the completion script for a shell.

    bash: source <(ilbo completion bash)
    zsh:  ilbo completion zsh > a file _ilbo in a folder of $fpath
    """

    shell: Positional[Literal["bash", "zsh"]]
    """The shell."""

    def run(self) -> int:
        import tyro

        from ilbo.cli.main import COMMANDS, command, tyro_config

        commands: Any = reduce(
            or_, (Annotated[command(name), tyro.conf.subcommand(name)] for name in COMMANDS)
        )
        try:
            tyro.cli(
                commands,
                prog="ilbo",
                args=["--tyro-print-completion", self.shell],
                config=tyro_config(),
            )
        except SystemExit as finished:
            return int(finished.code or 0)
        return 0
