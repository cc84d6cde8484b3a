"""Which built-in problems a test runs on."""

import pytest

import ilbo

ALL = ilbo.problems()
QUICK = ("navigation-3", "hvac-3", "reservoir-10")
"""One of each family; what holds for it holds, as a rule, for the larger ones."""
EACH = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in ALL]
"""All of them, the larger ones only among the slow tests."""
