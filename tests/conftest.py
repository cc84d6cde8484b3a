"""Settings that all tests share."""

import os
import signal

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


def pytest_configure(config):
    """The quick tests spend most of their time on compiling what runs for moments: LLVM optimises
    nothing there. With the slow ones, and in processes that set their own flags, it does."""
    if config.option.markexpr == "not slow":
        flags = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{flags} --xla_backend_optimization_level=0".strip()


if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as of a job in the background of a script
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def cache_of_the_tests(tmp_path_factory, request):
    """Tests share compiled programs with each other, whatever process runs them, never with the
    user."""
    folder = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):  # of pytest-xdist: each has a folder in that one
        folder = folder.parent
    folder = folder / "cache"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder
