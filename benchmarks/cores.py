"""Work of several processes, each pinned to a core; what each prints goes to a file as it comes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ALONE = {
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "OMP_NUM_THREADS": "1",
    "PJRT_NPROC": "1",
}
"""What keeps a process to one core."""


def work_off(
    script: str, jobs: Sequence[Any], path: Path, cores: Sequence[int], seconds: float
) -> None:
    """Runs `script --worker JOB`, the job as JSON, for each job on the next free core, for so many
    seconds at most. The lines that workers print are appended to the file."""
    queue, free = list(jobs), list(cores)
    running: dict[subprocess.Popen[bytes], tuple[Any, int]] = {}
    deadline = time.time() + seconds
    while (queue or running) and time.time() < deadline:
        while queue and free:
            job, core = queue.pop(0), free.pop()
            process = subprocess.Popen(
                ["taskset", "-c", str(core), sys.executable, script, "--worker", json.dumps(job)],
                env=os.environ | ALONE,
                stdout=subprocess.PIPE,
            )
            assert process.stdout is not None
            os.set_blocking(process.stdout.fileno(), False)
            running[process] = job, core
        for process, (job, core) in list(running.items()):
            ended = process.poll() is not None
            assert process.stdout is not None
            if text := process.stdout.read():
                with path.open("ab") as out:
                    out.write(text)
            if ended:
                free.append(core)
                del running[process]
                if process.returncode:
                    print(f"{job} failed with exit code {process.returncode}.", file=sys.stderr)
        time.sleep(0.2)
    for process in running:
        process.kill()
