"""The compiler's flag against wrong sums: set where the fault is, in time, and never over a user's.

Each test is a process of its own, since XLA reads its flags once.
"""

import importlib.metadata
import os
import subprocess
import sys

import pytest

from ilbo.xla import FLAG

AT_FAULT = importlib.metadata.version("jaxlib").startswith("0.10.")
WRONG_IN = 40_000
"""Results of the sum; the fault is in those beyond 2¹⁵."""
SUM = f"""
import jax, numpy as np
x = np.arange({WRONG_IN} * 3, dtype=np.float32).reshape({WRONG_IN}, 3) % 7
turn = np.eye(3, dtype=np.float32)
found = jax.jit(lambda x: jax.vmap(lambda row: ((turn @ row) ** 2).sum())(x))(x)
print((np.asarray(found) != (x**2).sum(axis=1)).sum())
"""
OTHER_VERSION = "import importlib.metadata; importlib.metadata.version = lambda name: '0.9.1'"
SHOW_FLAGS = "import os; print(os.environ.get('XLA_FLAGS', ''))"


def run(*lines: str, flags: str | None = None) -> subprocess.CompletedProcess:
    env = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    env |= {"JAX_PLATFORMS": "cpu"} | ({} if flags is None else {"XLA_FLAGS": flags})
    command = [sys.executable, "-W", "always", "-c", "\n".join(lines)]
    found = subprocess.run(command, env=env, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return found


def test_large_sums_are_right():
    assert int(run("import ilbo", SUM).stdout) == 0


@pytest.mark.skipif(not AT_FAULT, reason="this jaxlib is not known to have the fault")
def test_large_sums_are_wrong_without_the_flag():
    """Where this fails, the flag has become needless."""
    assert int(run(SUM).stdout) > 0


@pytest.mark.skipif(not AT_FAULT, reason="this jaxlib is not known to have the fault")
def test_flag_comes_beside_the_users_other_flags():
    other = "--xla_cpu_multi_thread_eigen=false"
    assert run("import ilbo", SHOW_FLAGS, flags=other).stdout.split() == [other, f"{FLAG}=-reduce"]


def test_a_users_own_choice_stays():
    own = f"{FLAG}=-individual_dot"
    assert run("import ilbo", SHOW_FLAGS, flags=own).stdout.strip() == own


def test_another_version_of_jaxlib_is_left_alone():
    found = run(OTHER_VERSION, "import jax; jax.devices()", "import ilbo", SHOW_FLAGS)
    assert found.stdout.strip() == ""
    assert "RuntimeWarning" not in found.stderr


@pytest.mark.skipif(not AT_FAULT, reason="this jaxlib is not known to have the fault")
def test_warns_where_jax_has_already_started():
    late = run("import jax; jax.devices()", "import ilbo").stderr
    assert "RuntimeWarning: JAX computed before `import ilbo`" in late
    assert "RuntimeWarning" not in run("import jax", "import ilbo; ilbo.make('hvac-3')").stderr
    chosen = run("import jax; jax.devices()", "import ilbo", flags=f"{FLAG}=-reduce").stderr
    assert "RuntimeWarning" not in chosen
