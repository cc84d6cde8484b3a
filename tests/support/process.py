"""Python in a process of its own, where a crash is seen and settings of JAX are fresh."""

import os
import subprocess
import sys
from pathlib import Path


def run_python(code: str, *arguments, **environment) -> str:
    """What the code prints; it must not fail. Modules beside this one can be imported."""
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr[-2000:]}"
    return done.stdout
