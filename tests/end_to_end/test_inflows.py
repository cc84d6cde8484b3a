"""The example whose noise is data: what is planned on it beats its rule."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "inflows.py"


@pytest.mark.slow
def test_policy_planned_on_records_of_inflows_beats_the_rule():
    run = subprocess.run(
        [sys.executable, EXAMPLE], capture_output=True, text=True, check=True, timeout=900
    )
    low = float(re.search(r"95 % \[(-?[\d.]+),", run.stdout)[1])
    assert low > 1.0, run.stdout


def test_example_is_short():
    assert len(EXAMPLE.read_text().splitlines()) <= 80
