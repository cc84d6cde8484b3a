"""Settings that all tests share."""

import os

import jaxtyping
import pytest
from hypothesis import settings
from type_checking import CHECKED

# Shapes and types are checked at every call of these functions; comes before their import. Settings
# and what takes them from users check their words themselves, and say what is wrong in a sentence.
jaxtyping.install_import_hook(CHECKED, "type_checking.check")

# Compilation makes the first example slow; the same examples each time make failures repeatable.
settings.register_profile("ilbo", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("ilbo")

os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)  # before JAX reads it


@pytest.fixture(scope="session", autouse=True)
def cache_of_the_tests(tmp_path_factory):
    """Tests share compiled programs with each other, never with the user."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder
