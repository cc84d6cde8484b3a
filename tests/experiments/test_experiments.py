"""The experiments: statistics, folders that resume, reports, and the command."""

import csv
import dataclasses
import json

import numpy as np
import pytest
from fake_runs import fake

import ilbo
from ilbo.cli import main as cli
from ilbo.experiments import statistics, sweep
from ilbo.experiments.arms import Arm, Result, perform
from ilbo.experiments.catalogue import NAMES, find
from ilbo.experiments.drawing import round_ticks
from ilbo.experiments.engines import Local, blocks
from ilbo.experiments.folder import ExperimentFolder
from ilbo.experiments.scales import OURS, PAPER, SCALES
from ilbo.experiments.starts import starts_of
from ilbo.experiments.study import limit_cell, markdown_table
from ilbo.mdp.numbers import number

ARM = Arm("tf-mdp", "navigation-3", "through-time", {"layers": [4], "epochs": 8, "batch": 2})
OTHER = dataclasses.replace(ARM, settings={**ARM.settings, "batch": 3})
YARDSTICK = Arm("hand-written", "navigation-3", "heuristic")


def test_interval_covers_the_mean_as_often_as_it_says():
    draw = np.random.default_rng(1)
    covered = 0
    for _ in range(200):
        estimate = statistics.mean(draw.normal(3.0, 2.0, 30))
        covered += estimate.low <= 3.0 <= estimate.high
    assert 178 <= covered <= 199


def test_probability_of_improvement_counts_pairs():
    estimate = statistics.probability_of_improvement([1.0, 2.0, 3.0], [0.0, 2.0])
    assert estimate.value == pytest.approx((1 + 1 + 1 + 0 + 0.5 + 1) / 6)
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
    assert statistics.probability_of_improvement([1.0, 2.0], [-1.0, 0.0]) == (1.0, 1.0, 1.0)
    swapped = statistics.probability_of_improvement([0.0, 2.0], [1.0, 2.0, 3.0])
    assert swapped.value == pytest.approx(1 - estimate.value)


def test_reach_counts_runs_that_never_get_there_as_infinite():
    runs = [([10, 20], [-5.0, -1.0]), ([10, 20], [-2.0, -1.0]), ([10, 20], [-5.0, -4.0])]
    assert statistics.reach(runs, -2.0) == (2, 3, 20.0)
    assert statistics.reach(runs[1:], -2.0) == (1, 2, np.inf)
    assert statistics.reach(runs[:2], -2.0) == (2, 2, 15.0)


def test_largest_drop_of_a_rising_curve_is_none():
    assert statistics.largest_drop([-9.0, -5.0, -5.0, -1.0]) == 0.0
    assert statistics.largest_drop([-9.0, -1.0, -4.0, -6.0, -2.0]) == 5.0


def test_spread_of_one_run_is_none():
    assert statistics.spread([4.0]) == 0.0
    assert statistics.spread([1.0, 3.0]) == pytest.approx(2**0.5)


def test_identity_tells_all_but_the_label():
    assert dataclasses.replace(ARM, label="x").key == ARM.key
    for changes in (
        {"problem": "hvac-6"},
        {"settings": {**ARM.settings, "epochs": 9}},
        {"start": (1.0, 2.0)},
        {"test_starts": ((1.0, 2.0),)},
        {"fresh": 3},
    ):
        assert dataclasses.replace(ARM, **changes).key != ARM.key


def test_identity_tells_settings_that_were_not_given():
    ours, same, other = (
        Arm("ILBO", "navigation-3", "ilbo", settings)
        for settings in ({}, {"depth": ilbo.ILBO().depth}, {"depth": 1})
    )
    assert ours.key == same.key != other.key
    assert ours.identity["settings"]["depth"] == ilbo.ILBO().depth


def test_results_survive_the_folder(tmp_path):
    folder = ExperimentFolder.open(tmp_path / "x", "smoke")
    results = fake(ARM, (0, 1))
    folder.save(ARM, results)
    assert folder.results(ARM, [0, 1]) == results
    assert folder.missing(ARM, [0, 1, 2]) == [2]
    assert folder.missing(OTHER, [0]) == [0]
    held = json.loads(folder.file(ARM, 0).read_text())
    assert held["arm"]["settings"]["batch"] == 2


def test_damaged_run_is_named(tmp_path):
    folder = ExperimentFolder.open(tmp_path, "smoke")
    folder.save(ARM, fake(ARM, [0]))
    for text in ("{", "[]", '{"seed": 0}'):
        folder.file(ARM, 0).write_text(text)
        with pytest.raises(ilbo.UserError, match="damaged") as error:
            folder.results(ARM, [0])
        assert folder.file(ARM, 0).name in str(error.value)


def test_interrupted_sweep_does_only_what_is_missing(tmp_path):
    folder = ExperimentFolder.open(tmp_path, "smoke")
    performed = []

    def interrupted(arm, seeds):
        if len(performed) == 2:
            raise KeyboardInterrupt
        performed.append((arm.key, seeds))
        return fake(arm, seeds)

    def uninterrupted(arm, seeds):
        performed.append((arm.key, seeds))
        return fake(arm, seeds)

    arms = [ARM, OTHER, ARM, YARDSTICK]
    with pytest.raises(KeyboardInterrupt):
        sweep.sweep(arms, 3, folder, perform=interrupted)
    sweep.sweep(arms, 3, folder, perform=uninterrupted)
    done = [(key, seed) for key, seeds in performed for seed in seeds]
    assert len(done) == len(set(done)) == 7
    sweep.sweep(arms, 3, folder, perform=pytest.fail)
    sweep.sweep(arms, 4, folder, perform=uninterrupted)
    assert performed[-2:] == [(ARM.key, (3,)), (OTHER.key, (3,))]


def test_blocks_share_the_cores(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    size = Local().block_size
    assert [block.seeds for block in blocks(ARM, [0, 1, 2], size)] == [(0, 1), (2,)]
    assert [block.seeds for block in blocks(ARM, [0, 1, 2], None)] == [(0, 1, 2)]
    assert str(blocks(ARM, [0, 1], 2)[0]) == "navigation-3, tf-mdp, seeds 0 1"


def test_folder_of_another_scale_is_refused_and_untouched(tmp_path):
    ExperimentFolder.open(tmp_path, "smoke")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ilbo.UserError, match="holds experiments at scale smoke, not at scale sma"):
        sweep.reproduce("grid", "small", tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_experiments_in_one_folder_share_their_runs(tmp_path):
    """What ILBO learns for one experiment serves all others."""
    folder = ExperimentFolder.open(tmp_path, "smoke")
    trained = []

    def performed(arm, seeds):
        trained.extend((arm.label, arm.problem, arm.layers) for _ in seeds)
        return fake(arm, seeds)

    for name in ("learning-curves", "stability", "grid", "generalisation"):
        sweep.sweep(find(name).arms(SCALES["smoke"]), 1, folder, perform=performed)
    ilbo_runs = [run for run in trained if run[0].startswith("ILBO")]
    assert len(ilbo_runs) == len(set(ilbo_runs)) == 4


def test_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(ilbo.UserError, match="not empty and holds no experiment"):
        sweep.reproduce("grid", "smoke", tmp_path)
    with pytest.raises(ilbo.UserError, match="is not a folder"):
        sweep.reproduce("grid", "smoke", tmp_path / "thesis.tex")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_marker_of_a_newer_or_damaged_folder(tmp_path):
    marker = tmp_path / "experiment.json"
    for text, sentence in (
        ('{"format": 99, "scale": "smoke"}', "newer version"),
        ('{"format": 1, "experiment": "grid", "scale": "smoke"}', "older version"),
        ("[]", "damaged"),
        ("{", "damaged"),
    ):
        marker.write_text(text)
        with pytest.raises(ilbo.UserError, match=sentence):
            ExperimentFolder.open(tmp_path, "smoke")


@pytest.fixture(scope="module", params=list(NAMES))
def reported(request, tmp_path_factory):
    """The report of an experiment at scale small, made of fake runs."""
    name = request.param
    path = tmp_path_factory.mktemp(name)
    folder = ExperimentFolder.open(path, "small")
    experiment = find(name)
    for arm in experiment.arms(SCALES["small"]):
        folder.save(arm, fake(arm, sweep.seeds_of(arm, 2)))
    sweep.reproduce(name, "small", path, seeds=2)
    return name, path, (path / f"{name}.md").read_text()


def test_report_has_figure_data_and_table(reported):
    name, path, text = reported
    drawn = (".png", ".pdf", ".csv") if name != "claims" else ()
    for ending in (*drawn, "-runs.csv", ".md"):
        assert (path / f"{name}{ending}").stat().st_size > 200
    assert text.startswith(f"# {find(name).TITLE}\n")
    assert f"`ilbo reproduce {name} --scale small --seeds 2`" in text
    assert "0123456789ab+" in text
    assert "- Machine: 3 cores of another machine; jax 0.10.2, Python 3.11.0\n" in text
    assert (f"]({name}.png)" in text) == bool(drawn)
    for line in text.splitlines():
        if line.startswith("| "):
            assert "nan" not in line
    runs = list(csv.DictReader((path / f"{name}-runs.csv").read_text().splitlines()))
    expected = sum(len(sweep.seeds_of(arm, 2)) for arm in find(name).arms(SCALES["small"]))
    assert len(runs) == expected


@pytest.mark.parametrize("reported", ["learning-curves"], indirect=True)
def test_figures_of_the_learning_curves(reported):
    _, path, text = reported
    # ILBO at −100 and −101 passes tf-mdp's mean, −120.5, in its last test but one.
    for label in (PAPER, OURS):
        there = "tf-mdp | −120.50 | 437 episodes (2 of 2 runs) | 117 |"
        assert f"| navigation-3 | {label}, 4 layers | {there}" in text
        ends = "500 | −100.50 ± 0.71 | −100.50 ± 0.71 |"
        assert f"| navigation-3 | {label}, 4 layers | {ends}" in text
    assert "| 10.50 |" in text  # the gap to the limit of −90
    tests = list(csv.DictReader((path / "learning-curves.csv").read_text().splitlines()))
    assert len(tests) == 3 * 7 * 2 * 8


def test_limit_that_a_policy_passes_is_shown_as_an_error():
    assert limit_cell(-90.0, [-100.0, -90.00001]) == "−90.00"
    assert limit_cell(-90.0, [-100.0, -89.9]) == "−90.00, too low: a policy earns more"


@pytest.mark.parametrize("reported", ["stability"], indirect=True)
def test_figures_of_stability(reported):
    _, _, text = reported
    last = -100.0 * (1 + 9 * 0.5**5) - 30 + 100.0 * (1 + 9 * 0.5**4)
    for label in (PAPER, OURS):
        assert f"| {label}, 4 layers | 0 | {number(-last)} |" in text
        assert f"| {label} | tf-mdp, tuned | 0.00 [0.00, 0.00] |" in text


@pytest.mark.parametrize("reported", ["grid"], indirect=True)
def test_grid_has_a_row_for_each_setting(reported):
    _, path, text = reported
    rows = list(csv.DictReader((path / "grid.csv").read_text().splitlines()))
    settings = {(row["epochs"], row["batch"]) for row in rows if row["planner"] == "tf-mdp"}
    published = {(str(e), str(b)) for e in (50, 100, 200, 300) for b in (64, 128, 256)}
    assert settings == published | {("600", "8"), ("600", "16")}
    assert "tf-mdp, 200 epochs, batch 256 | 51,200 |" in text


@pytest.mark.parametrize("reported", ["generalisation"], indirect=True)
def test_generalisation_says_who_is_ahead(reported):
    _, path, text = reported
    for problem in ("navigation-3", "hvac-6", "reservoir-20"):
        assert f"{problem}, starts where it is ahead of retrained tf-mdp: " in text
    assert text.count(f"{PAPER} on 10 of 10, {OURS} on 10 of 10.") == 3
    rows = list(csv.DictReader((path / "generalisation.csv").read_text().splitlines()))
    assert len(rows) == 3 * 10 * 3 * 2


@pytest.mark.parametrize("reported", ["claims"], indirect=True)
def test_claims_hold_by_what_was_measured(reported):
    """ILBO at −100.5 ± 0.71 is ahead of tf-mdp at −120.5 ± 0.71 in all but the variance."""
    _, _, text = reported
    rows = [line for line in text.splitlines() if line.startswith("| hvac-6 | 4 layers")]
    efficiency, quality, variance = rows
    there = "437, 117.2 times fewer | yes"
    assert efficiency == f"| hvac-6 | 4 layers | −120.50 | 51,200 | {there} | {there} |"
    assert "| −691,739 ± 26,060 | −120.50 ± 0.71 | −100.50 ± 0.71 | yes |" in quality
    assert variance.endswith("| 0.71 | 0.71 | **no** | 0.71 | **no** |")
    assert f"120.50 (300 × 64) |{2 * ' 100.50, less than 12 of 12 | yes |'}" in text
    assert "| reservoir-20 | 10 of 10 | yes | 10 of 10 | yes |" in text


def test_new_starts_are_five_near_and_five_far():
    problem = ilbo.make("reservoir-20")
    starts = np.array(starts_of("reservoir-20", 10))
    low, high = map(np.asarray, problem.region)
    assert ((starts >= low) & (starts <= high)).all()
    away = np.linalg.norm((starts - np.asarray(problem.initial_state)) / (high - low), axis=1)
    assert away[:5].max() < away[5:].min()
    assert starts_of("reservoir-20", 10) == [tuple(start) for start in starts.tolist()]
    problem.check_start(starts)


@pytest.mark.parametrize("name", NAMES)
def test_every_arm_has_settings_that_hold(name):
    """At each scale: the problem is built in and the settings are accepted."""
    from ilbo.baselines import ThroughTime

    for scale in SCALES.values():
        arms = find(name).arms(scale)
        assert len({(arm.key, arm.label) for arm in arms}) == len(arms)
        for arm in arms:
            assert arm.problem in ilbo.problems()
            kind = {"ilbo": ilbo.ILBO, "through-time": ThroughTime}.get(arm.planner, dict)
            kind(**arm.settings)


def test_paper_scale_is_as_published():
    scale = SCALES["paper"]
    arm = scale.through_time_arm("hvac-6", "1 layer")
    assert (arm.settings["epochs"], arm.settings["batch"], arm.layers) == (200, 256, (2048,))
    for ours in (scale.paper_arm("hvac-6", "4 layers"), scale.our_arm("hvac-6", "4 layers")):
        assert ours.settings["episodes"] == 5_000
    assert ilbo.ILBO(**scale.paper_arm("hvac-6", "4 layers").settings) == ilbo.ILBO.paper()
    assert ilbo.ILBO(**scale.our_arm("hvac-6", "4 layers").settings).estimator == "pathwise"
    assert all(find(name).SEEDS["paper"] == 10 for name in NAMES)


def test_performing_plans_evaluates_and_counts():
    start = (2.0, 1.0)
    arm = dataclasses.replace(
        SCALES["smoke"].through_time_arm("navigation-3", "1 layer"),
        start=start,
        test_starts=((8.0, 9.0), start),
    )
    results = perform(arm, (0, 3))
    assert [result.seed for result in results] == [0, 3]
    for result in results:
        assert result.episodes == (8, 16, 24, 32)
        assert result.samples["transitions"] == 32 * 20
        assert result.starts[1] == pytest.approx(result.final)
        assert result.starts[0] > result.final, "one start is the goal itself"
        assert Result.read(json.loads(json.dumps(result.to_dict()))) == result
    assert results[0].final != results[1].final


def test_performing_a_yardstick():
    (result,) = perform(dataclasses.replace(YARDSTICK, fresh=64), [0])
    assert -85 < result.final < -72
    assert result.episodes == ()
    (near,) = perform(dataclasses.replace(YARDSTICK, fresh=64, start=(8.0, 9.0)), [0])
    assert near.final > -15


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["learning-curve"], "no experiment 'learning-curve'; did you mean 'learning-curves'?"),
        (["figure 9"], "no experiment 'figure 9'; choose one of learning-curves"),
        (["grid", "--scale", "huge"], "no scale 'huge'; choose one of smoke, small, paper"),
        (["grid", "--seeds", "0"], "number of seeds must be from 1"),
        (["grid", "--scale", "smoke", "--address", "x:1"], "belongs to --on ray"),
    ],
)
def test_mistakes_are_told_in_one_sentence(arguments, sentence, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out"
    assert cli.main(["reproduce", *arguments, "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert not any(path.is_file() and path.name != "experiment.json" for path in out.rglob("*"))


def test_numbers_as_tables_show_them():
    assert number(-1234.5) == "−1,234"
    assert number(0.5) == "0.50"
    assert number(-float("inf")) == "−∞"
    table = markdown_table(["a", "b"], [["x", "1"], ["y", "−2"]])
    assert table.splitlines()[1] == "| --- | ---: |"


def test_ticks_are_few_and_round():
    for low, high in ((70, 260), (4.8e5, 5e6), (1900, 2600), (1, 60_000), (99, 101)):
        ticks = round_ticks(low, high)
        assert len(ticks) <= 7
        assert all(low <= tick <= high for tick in ticks)
    assert round_ticks(1, 60_000) == [1, 10, 100, 1_000, 10_000]


@pytest.mark.slow
def test_smoke_scale_end_to_end(tmp_path, capsys):
    command = ["reproduce", "all", "--scale", "smoke", "--out", str(tmp_path)]
    assert cli.main(command) == 0
    out = capsys.readouterr().out
    for name in NAMES:
        for ending in ("md", "png") if name != "claims" else ("md",):
            assert f"{name}.{ending}" in out
            assert (tmp_path / f"{name}.{ending}").stat().st_size > 200
    held = sorted((tmp_path / "runs").iterdir())
    times = [path.stat().st_mtime_ns for path in held]
    assert cli.main(command) == 0
    assert [path.stat().st_mtime_ns for path in sorted((tmp_path / "runs").iterdir())] == times
