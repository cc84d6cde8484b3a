"""`ilbo tune`: what is tried, how trials are judged and given up, and going on after a kill."""

import errno
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import tiny_runs

import ilbo
from ilbo.cli.main import main
from ilbo.errors import UserError
from ilbo.planning.loop import Moment
from ilbo.planning.records import Record
from ilbo.tune.outcome import check, sentence
from ilbo.tune.space import read_space
from ilbo.tune.trials import GiveUp, Trials, counted, open_study
from ilbo.tune.tuning import tune

optuna = pytest.importorskip("optuna")


def test_the_default_space_holds_the_default_settings():
    space, _ = read_space(None)
    for name, setting in space.items():
        default = getattr(ilbo.ILBO(), name)
        assert setting.value(setting.parameter(default)) == default


def test_lists_and_whole_numbers_go_through_optuna(tmp_path):
    file = tmp_path / "space.toml"
    file.write_text("layers = {choices = [[8], [4, 4]]}\ndepth = {low = 1, high = 9, log = true}")
    space, _ = read_space(file)
    trial = optuna.create_study().ask()
    assert space["layers"].suggest(trial) in ([8], [4, 4])
    depth = space["depth"].suggest(trial)
    assert isinstance(depth, int)
    assert 1 <= depth <= 9
    assert space["layers"].parameter((4, 4)) == "[4, 4]"
    assert space["layers"].parameter((256, 128)) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no setting"),
        ("x = ", "not valid TOML"),
        ("polcy_rate = {low = 1, high = 2}", "did you mean 'policy_rate'"),
        ("episodes = {low = 1, high = 2}", "the same for all trials"),
        ("depth = 3", "is told by `low` and `high`"),
        ("depth = {low = 3}", "is told by `low` and `high`"),
        ("depth = {low = 3, high = 2}", "`low` below `high`"),
        ("depth = {low = 1.5, high = 2.5}", "a whole number"),
        ("depth = {low = 0, high = 3}", "depth must be a whole number of at least 1"),
        ("inward = {low = 0, high = 1, log = true}", "for numbers above 0"),
        ("layers = {low = 1, high = 2}", "needs numbers"),
        ("depth = {choices = []}", "are not a list"),
        ("depth = {choices = ['x']}", "depth"),
    ],
)
def test_a_space_that_makes_no_sense_is_one_clear_sentence(text, words, tmp_path):
    file = tmp_path / "space.toml"
    file.write_text(text)
    with pytest.raises(UserError, match=words):
        read_space(file)


def test_a_trial_that_falls_behind_is_given_up():
    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.MedianPruner(1))
    for values in ((1.0, 2.0), (-5.0, -5.0)):
        trial = study.ask()
        hook, reasons = GiveUp(trial), []
        for i, value in enumerate(values, start=1):
            record = Record(0, 5 * i, value, value, 0, 0, 0, 0, 0)
            moment = Moment(None, [], 5 * i, [record], [[record]], None)
            reasons += [hook.stop(moment), hook.stop(moment)]  # asked twice, told once
        if values[0] > 0:
            assert reasons == [None] * 4
            study.tell(trial, 2.0)
        else:
            assert reasons[0] == "given up"


@pytest.fixture
def untrained(monkeypatch):
    """Trials that take no time: a policy rate of 0.01 is best, and one seed is as another."""

    def train(self, config, seeds, hooks=()):
        return SimpleNamespace(ending="finished", episode=config.episodes, config=config)

    monkeypatch.setattr(Trials, "train", train)
    judged = []

    def judge(self, plan):
        judged.append(plan.config.policy_rate)
        return -abs(math.log(plan.config.policy_rate / 0.01))

    monkeypatch.setattr(Trials, "judge", judge)
    comparison = {"fresh_seeds": [1], "tuned_mean": 2.0, "untuned_mean": 1.0}
    comparison |= {"difference": 1.0, "ci95": [0.5, 1.5], "handed_out": "tuned"}
    monkeypatch.setattr("ilbo.tune.tuning.check", lambda *_: comparison)
    return judged


def study_of(path, count, **options):
    problem = ilbo.make("navigation-3")
    given = {"trials": count, "seeds": (0, 1), "fresh_seeds": 1, **options}
    return tune(problem, ilbo.ILBO(episodes=20), path, **given)


def test_the_default_is_tried_first_and_the_best_is_written(untrained, tmp_path):
    result = study_of(tmp_path, 12)
    assert untrained[0] == ilbo.ILBO().policy_rate
    assert result["trials"] == len(untrained) == 12
    assert result["best"]["policy_rate"] == min(untrained, key=lambda x: abs(math.log(x / 0.01)))
    from ilbo.runs import settings

    values = settings.read(tmp_path / "best.toml")
    assert values["policy_rate"] == result["best"]["policy_rate"]
    assert values["problem"] == "navigation-3"
    page = (tmp_path / "tuning.html").read_text()
    assert page.count("<svg") == 2
    assert "the tuned settings are better" in page


def test_a_study_that_was_killed_goes_on_and_tries_again_what_it_was_at(
    untrained, monkeypatch, tmp_path
):
    judge = Trials.judge

    def killed(self, plan):
        value = judge(self, plan)
        if len(untrained) == 3:
            raise KeyboardInterrupt
        return value

    monkeypatch.setattr(Trials, "judge", killed)
    with pytest.raises(KeyboardInterrupt):
        study_of(tmp_path, 5)
    monkeypatch.setattr(Trials, "judge", judge)
    result = study_of(tmp_path, 5)
    assert result["trials"] == 5
    assert len(untrained) == 6
    assert untrained[3] == untrained[2]  # nothing is lost
    assert len(set(untrained)) == 5
    assert study_of(tmp_path, 5)["trials"] == 5
    assert len(untrained) == 6  # nothing is done twice


def test_what_a_killed_write_has_left_is_taken_away(untrained, tmp_path):
    study_of(tmp_path, 3)
    with (tmp_path / "study.journal").open("ab") as file:
        file.write(b'{"op_code":4,"worker_id":"0')
    (tmp_path / "study.journal.lock").symlink_to(tmp_path / "not" / "there")
    (tmp_path / f".ilbo-{'0' * 16}.tmp").write_text("half")
    assert study_of(tmp_path, 5)["trials"] == len(untrained) == 5
    names = {path.name for path in tmp_path.iterdir()}
    told = {"study.journal", "study.json", "space.toml", "best.toml", "result.json", "tuning.html"}
    assert names == {*told, ".lock"}


def test_a_full_disk_is_told_and_the_trials_are_kept(untrained, tmp_path, monkeypatch, capsys):
    from optuna.storages.journal import JournalFileBackend as Backend

    write, passed = Backend.append_logs, []

    def fills(self, logs):
        passed.append(logs)
        if len(passed) == 12:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(self, logs)

    command = ["tune", "navigation-3", "--episodes", "20", "--trials", "9", "--out", str(tmp_path)]
    with monkeypatch.context() as patched:
        patched.setattr(Backend, "append_logs", fills)
        assert main(command) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert "study.journal': no space left on device. Trials so far are kept" in said
    assert main(command) == 0
    assert json.loads((tmp_path / "result.json").read_text())["trials"] == 9


def test_a_damaged_line_among_the_trials_is_named(untrained, tmp_path):
    study_of(tmp_path, 1)
    journal = tmp_path / "study.journal"
    journal.write_bytes(journal.read_bytes().replace(b'{"op_code":4', b'{op_code":4', 1))
    with pytest.raises(UserError, match=r"study.journal' is damaged: line \d+ is no JSON"):
        study_of(tmp_path, 3)


def test_another_study_in_the_folder_is_refused(untrained, tmp_path):
    study_of(tmp_path, 1)
    with pytest.raises(UserError, match="begun with another seeds"):
        study_of(tmp_path, 2, seeds=(1, 2))
    with pytest.raises(UserError, match="nothing to tune"):
        study_of(tmp_path, 2, fixed=dict.fromkeys(read_space(None)[0], 1))
    (tmp_path / "study.journal").write_text("{}\n{}\n")
    with pytest.raises(UserError, match="cannot be read as trials"):
        study_of(tmp_path, 2)


def test_settings_that_fail_are_given_up_and_a_problem_that_fails_is_told(
    untrained, monkeypatch, tmp_path
):
    def fails(self, plan):
        if plan.config.policy_rate != ilbo.ILBO().policy_rate:
            raise UserError("Not finite.")
        return 0.0

    monkeypatch.setattr(Trials, "judge", fails)
    said = []
    result = study_of(tmp_path / "a", 3, say=said.append)
    assert (result["trials"], result["best_trial"]) == (3, 0)
    assert (
        sentence(result)
        == "No trial was better than the settings without tuning: those are handed out."
    )
    assert sum("Not finite." in line for line in said) == 2
    monkeypatch.setattr(Trials, "judge", lambda *_: fails(None, SimpleNamespace(config=None)))
    monkeypatch.setattr(Trials, "train", lambda *_: (_ for _ in ()).throw(UserError("Broken.")))
    with pytest.raises(UserError, match="Broken"):
        study_of(tmp_path / "b", 3)


@pytest.mark.parametrize(
    ("ci95", "words"),
    [
        ((0.5, 1.5), "the tuned settings are better."),
        ((-1.5, -0.5), "better. Those without tuning are handed out."),
        ((-1.0, 1.1), "may be chance."),
        ((-1.1, 1.0), "may be chance. Those without tuning are handed out."),
    ],
)
def test_the_last_line_is_honest(ci95, words):
    told = {"fresh_seeds": [1, 2], "tuned_mean": 1.0, "untuned_mean": 0.5}
    difference = sum(ci95) / 2
    told["handed_out"] = "tuned" if difference > 0 else "untuned"
    said = sentence({**told, "difference": difference, "ci95": ci95})
    assert said.endswith(words)
    assert "2 fresh seeds" in said


def test_best_and_default_are_compared_on_seeds_and_noise_that_no_trial_saw(monkeypatch):
    problem = ilbo.make("navigation-3")
    trained = []

    def train(self, config, seeds, hooks=()):
        trained.append((config.depth, tuple(seeds)))
        return SimpleNamespace(policies=[config.depth] * len(seeds))

    def earn(problem, policies):
        base = np.linspace(-1.0, 1.0, 50)
        return [SimpleNamespace(discounted_returns=base - policy) for policy in policies]

    monkeypatch.setattr(Trials, "train", train)
    monkeypatch.setattr("ilbo.tune.trials.evaluate_fresh", earn)
    space, _ = read_space(None)
    found = check(Trials(problem, ilbo.ILBO(), space, (0, 1)), {"depth": 5}, 3)
    assert trained == [(5, (10_000, 10_001, 10_002)), (10, (10_000, 10_001, 10_002))]
    assert found["difference"] == pytest.approx(5.0)  # each setting earns minus its depth
    assert found["ci95"] == pytest.approx([5.0, 5.0])
    worse = check(Trials(problem, ilbo.ILBO(), space, (0, 1)), {"depth": 20}, 3)
    assert worse["ci95"] == pytest.approx([-10.0, -10.0])
    assert (found["handed_out"], worse["handed_out"]) == ("tuned", "untuned")


def test_where_the_best_is_no_better_on_fresh_seeds_the_default_is_handed_out(
    untrained, monkeypatch, tmp_path
):
    comparison = {"fresh_seeds": [1], "tuned_mean": 1.0, "untuned_mean": 2.0, "difference": -1.0}
    comparison |= {"ci95": [-2.0, 0.5], "handed_out": "untuned"}
    monkeypatch.setattr("ilbo.tune.tuning.check", lambda *_: comparison)
    result = study_of(tmp_path, 4)
    assert result["best"]["policy_rate"] != ilbo.ILBO().policy_rate
    from ilbo.runs import settings

    values = settings.read(tmp_path / "best.toml")
    assert values["policy_rate"] == ilbo.ILBO().policy_rate
    assert "without tuning" in (tmp_path / "best.toml").read_text().splitlines()[0]


@pytest.mark.slow
def test_a_small_study_on_the_command_line(tmp_path, capsys):
    space = tmp_path / "space.toml"
    space.write_text("policy_rate = {low = 1e-4, high = 1e-1, log = true}")
    arguments = ["tune", "navigation-3", *tiny_runs.FLAGS, "--trials", "3", "--fresh-seeds", "2"]
    arguments += ["--space", str(space), "--out", str(tmp_path / "study"), "--json"]
    assert main(arguments) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["trials"] == 3
    study = open_study(tmp_path / "study", 0, 0)
    assert len(counted(study)) == 3
    assert (tmp_path / "study" / "best.toml").exists()
    assert main(["tune", "navigation-3", "--trials", "0", "--out", str(tmp_path / "x")]) == 2
    assert "number of trials" in capsys.readouterr().err


@pytest.mark.slow
def test_twenty_trials_of_rates_alone_compile_once(tmp_path):
    import jax

    space = tmp_path / "space.toml"
    rate = "{low = 1e-4, high = 1e-2, log = true}"
    names = ("policy_rate", "critic_rate", "final_rate", "target_rate")
    space.write_text("".join(f"{name} = {rate}\n" for name in names))
    compiled, by_trial = [], []

    def heard(event, seconds, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(event)

    def ended(line):
        if line.startswith("trial "):
            by_trial.append(len(compiled))
            compiled.clear()

    jax.clear_caches()
    jax.monitoring.register_event_duration_secs_listener(heard)
    problem = ilbo.make("navigation-3")
    given = {"trials": 20, "seeds": (0,), "fresh_seeds": 1, "space": space, "say": ended}
    tune(problem, tiny_runs.CONFIG, tmp_path / "study", **given)
    assert by_trial[0] > 0
    assert by_trial[1:] == [0] * 19
