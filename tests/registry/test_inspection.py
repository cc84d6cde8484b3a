"""`ilbo inspect`: what a problem was read as."""

import json

import pytest
from tiny_rddl import INSTANCE, write

import ilbo
from ilbo.cli.main import main
from ilbo.registry.inspection import inspect

WHOLE = dict(
    more="rain(tank) : { interm-fluent, real };\n"
    "        wet : { state-fluent, bool, default = false };",
    cpfs="rain(?t) = Gamma(2.0, SIZE(?t));\n        wet' = rain_total() > 3;",
    water="max[0.0, water(?t) + rain(?t) - release(?t)]",
    preconditions="forall_{?t : tank} [release(?t) >= 0 ^ release(?t) <= water(?t)];"
    " (sum_{?t : tank} [release(?t)]) <= 4;",
    blocks="termination { (sum_{?t : tank} [water(?t)]) > 99; };\n"
    "    state-invariants { forall_{?t : tank} [water(?t) >= 0]; };",
    instance=INSTANCE.replace("pos-inf", "2"),
)
WHOLE["cpfs"] = WHOLE["cpfs"].replace("rain_total()", "(sum_{?t : tank} [rain(?t)])")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return inspect(ilbo.make(write(tmp_path_factory.mktemp("inspect"), **WHOLE)))


def test_fluents_with_their_sizes(report):
    assert [(row["fluent"], row["range"], row["size"]) for row in report["state"]] == [
        ("wet", "bool", 1),
        ("water", "real", 3),
    ]
    assert [(row["fluent"], row["size"]) for row in report["action"]] == [("release", 3)]


def test_bounds_found(report):
    (release,) = report["action"]
    assert release["at_start"] == [0.0, 3.0]
    assert release["depends_on_state"]
    assert release["bounds"] == ["release(?t) >= 0", "release(?t) <= water(?t)"]


def test_noise_and_its_law(report):
    assert report["noise"] == [{"where": "rain", "distribution": "Gamma", "law": "Gamma × 3"}]
    assert report["noise_size"] == 3


def test_components_without_a_density(report):
    assert not report["has_density"]
    assert set(report["no_density"]) == {"wet"}


def test_what_is_not_enforced_and_what_is_relaxed(report):
    budget, changed = report["not_enforced"]
    assert "sum" in budget
    assert changed == "max-nondef-actions = 2"
    assert report["relaxed"] == ["wet (bool)"]
    assert len(report["terminations"]) == len(report["invariants"]) == 1


def test_command_prints_for_a_reader(tmp_path, capsys):
    path = write(tmp_path, **WHOLE)
    assert main(["inspect", path]) == 0
    out = capsys.readouterr().out
    for words in ("release (real × 3)", "Gamma × 3", "not enforced", "relaxed for planning"):
        assert words in out


def test_built_in_problems_can_be_inspected_too_as_json(capsys):
    assert main(["inspect", "navigation-3", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["has_density"]
    assert report["action"][0]["at_start"] == [-1.0, 1.0]


def test_bad_file_gives_one_line_and_exit_code_2(tmp_path, capsys):
    path = tmp_path / "bad.rddl"
    path.write_text("domain x {")
    assert main(["inspect", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
