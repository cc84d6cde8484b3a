"""Fixtures of the tests that run the real command."""

import pytest
from command import PLAN, Command


@pytest.fixture(scope="session")
def command(cache_of_the_tests):
    return Command(cache_of_the_tests)


@pytest.fixture(scope="session")
def undisturbed(command, tmp_path_factory):
    """The folder of a run that nothing disturbed, and what it printed."""
    path = tmp_path_factory.mktemp("reference") / "run"
    code, out, err = command.run(*PLAN, "--out", path, "--json")
    assert code == 0, err
    return path, out, err


@pytest.fixture(scope="session")
def reference(undisturbed):
    return undisturbed[0]
