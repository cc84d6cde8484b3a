"""`import ilbo` costs next to nothing, and every public name is there when asked for."""

import subprocess
import sys

import pytest

import ilbo


def test_import_loads_no_heavy_package():
    script = (
        "import sys, ilbo\n"
        "heavy = {'jax', 'numpy', 'equinox', 'matplotlib', 'pyRDDLGym'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


def test_public_names_are_there():
    for name in dir(ilbo):
        assert getattr(ilbo, name) is not None


def test_rooms_of_the_package_are_there_without_importing_them():
    script = "import ilbo; ilbo.plots.learning_curve; ilbo.baselines.hindsight; ilbo.report"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ilbo.nothing
