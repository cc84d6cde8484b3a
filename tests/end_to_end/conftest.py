"""Fixtures of the tests that run the real command."""

import pytest
from command import PLAN, Command


@pytest.fixture(scope="session")
def command(tmp_path_factory):
    return Command(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def reference(command, tmp_path_factory):
    """The folder of a run that nothing disturbed."""
    path = tmp_path_factory.mktemp("reference") / "run"
    code, _, err = command.run(*PLAN, "--out", path)
    assert code == 0, err
    return path
