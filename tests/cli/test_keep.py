"""Limits on the command line: flags, what is said of them, and files."""

import json

import pytest
import tiny_runs

from ilbo.cli.main import main
from ilbo.runs.saved import read_run


def test_what_a_policy_costs_is_told_with_intervals(capsys):
    arguments = ["evaluate", "midpoint", "hvac-3", "--episodes", "32"]
    keep = ["--keep", "E(energy) <= 100", "--keep", "P(discomfort > 1e6) <= 0.2"]
    assert main([*arguments, *keep]) == 0
    said = capsys.readouterr().out
    assert "cost        energy 600.00 in an episode" in said
    assert "limit       E(energy) <= 100: broken, 600.00" in said
    assert "limit       P(discomfort > 1000000) <= 0.2: kept, 0.00" in said
    assert main([*arguments, *keep, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [cost["cost"] for cost in found["costs"]] == ["energy", "discomfort"]
    assert [limit["kept"] for limit in found["limits"]] == [False, True]


@pytest.mark.parametrize(
    ("problem", "limit", "words"),
    [
        ("hvac-3", "E(energie) <= 1", "no cost 'energie'; did you mean 'energy'?"),
        ("hvac-3", "P(energy > 1) <= 2", "it must be in (0, 1)"),
        ("hvac-3", "energy", "'energy' is no limit"),
        ("navigation-3", "E(energy) <= 1", "the model has no costs"),
    ],
)
def test_a_limit_that_makes_no_sense_is_one_sentence(capsys, problem, limit, words):
    assert main(["plan", problem, "--keep", limit]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.slow
def test_a_run_keeps_its_limits_in_its_folder(capsys, tmp_path):
    out, keep = tmp_path / "run", "E(energy) <= 1"
    flags = [*tiny_runs.FLAGS, "--out", str(out)]
    assert main(["plan", "hvac-3", "--keep", keep, *flags, "--json"]) == 0
    said = capsys.readouterr()
    result = json.loads(said.out)
    assert result["limits"][0]["limit"] == keep
    assert not result["limits"][0]["kept"]
    assert "No policy for hvac-3 was found that surely keeps E(energy) <= 1: the least" in said.err
    assert read_run(out).run_keys["keep"] == [keep]
    assert [str(limit) for limit in read_run(out).problem().limits] == [keep]
    assert main(["evaluate", str(out), "--episodes", "16"]) == 0
    assert "limit       E(energy) <= 1: broken" in capsys.readouterr().out
    again = tmp_path / "again"
    config = ["--config", str(out / "config.toml"), "--out", str(again)]
    assert main(["plan", *config, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mean"] == result["mean"]
    assert main(["plan", "--resume", str(out)]) == 0
    assert "limit: E(energy) <= 1: broken" in capsys.readouterr().out
