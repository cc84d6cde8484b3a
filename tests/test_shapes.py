"""The tests run with every annotated shape and type checked; a user's own run does not."""

import subprocess
import sys

import jax.numpy as jnp
import jaxtyping
import pytest

import ilbo


def test_a_wrong_shape_is_caught_in_the_tests():
    model = ilbo.make("hvac-3").model
    right, wrong = jnp.zeros(3), jnp.zeros((3, 1))
    model.transition(right, right, jnp.zeros(6))
    with pytest.raises(jaxtyping.TypeCheckError, match="next_state"):
        model.reward(right, right, jnp.zeros(4))
    with pytest.raises(jaxtyping.TypeCheckError, match="noise"):
        model.transition(right, right, wrong)


def test_a_wrong_type_is_caught_in_the_tests():
    model = ilbo.make("hvac-3").model
    with pytest.raises(jaxtyping.TypeCheckError, match="state"):
        model.bounds(jnp.zeros(3, int))


def test_a_users_run_checks_no_shapes():
    script = (
        "import sys, ilbo, numpy\n"
        "ilbo.make('hvac-3').model.bounds(numpy.zeros(3))\n"
        "assert 'beartype' not in sys.modules\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
