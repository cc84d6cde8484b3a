"""Loggers: what they are told, and what the real programs make of it."""

import json
import math
import time

import pytest
import tiny_runs

import ilbo
from ilbo.cli.main import main
from ilbo.errors import UserError
from ilbo.loggers.logger import of_seed
from ilbo.loggers.names import loggers


class Heard(ilbo.loggers.Logger):
    """Keeps what it is told."""

    name, package, extra = "Heard", "json", "heard"

    def __init__(self, deaf_from=math.inf):
        super().__init__()
        self.settings, self.figures, self.ends, self.deaf_from = {}, {}, {}, deaf_from

    def track(self, title, seed, settings):
        self.settings[seed], self.figures[seed] = dict(settings), []
        return _Heard(self, seed)


class _Heard:
    def __init__(self, all, seed):
        self.all, self.seed = all, seed

    def write(self, episode, figures):
        if episode >= self.all.deaf_from:
            raise OSError("no answer")
        self.all.figures[self.seed].append((episode, figures))

    def end(self, final, finished):
        self.all.ends[self.seed] = final, finished


def test_settings_tests_and_final_figures_of_each_seed_are_told():
    log = Heard()
    plan = ilbo.plan(tiny_runs.problem(), tiny_runs.CONFIG, seeds=2, episodes=6, log=log)
    for i, seed in enumerate((0, 1)):
        assert log.settings[seed]["seed"] == seed
        assert log.settings[seed]["problem"] == "drift"
        assert (log.settings[seed]["layers"], log.settings[seed]["episodes"]) == ("4", 6)
        told = [(episode, figures["current"]) for episode, figures in log.figures[seed]]
        assert told == [(record.episode, record.current) for record in plan.history[i]]
        final, finished = log.ends[seed]
        assert finished
        assert final["best"] == plan.history[i][-1].best
        assert final["transitions"] == plan.samples.transitions


@pytest.mark.slow
def test_a_run_folder_brings_its_result_and_its_earlier_tests(tmp_path):
    log = Heard()
    ilbo.plan(ilbo.make("navigation-3"), tiny_runs.CONFIG, seeds=2, out=tmp_path, log=log)
    means = ilbo.Run(tmp_path).result["means"]
    assert [log.ends[seed][0]["mean"] for seed in (0, 1)] == means
    log = Heard()
    ilbo.resume(tmp_path, episodes=12, log=[log])
    assert [episode for episode, _ in log.figures[0]] == [2, 4, 6, 8, 10, 12]


def test_a_logger_that_fails_costs_no_run(capsys):
    log = Heard(deaf_from=4)
    tell(log)
    assert [episode for episode, _ in log.figures[0]] == [2]
    assert log.ends == {}
    said = capsys.readouterr().err
    assert said.count("Heard fails, and training goes on without it: no answer") == 1


def test_a_logger_of_ones_own_needs_to_name_no_package():
    class Own(ilbo.loggers.Logger):
        def track(self, title, seed, settings):
            return None

    Own.check_installed()


def test_what_is_not_finite_is_not_told():
    assert of_seed({"seed": 3, "mean": math.nan, "std": 2, "problem": "x"}, 0) == {"std": 2.0}


def test_what_cannot_be_is_one_clear_sentence(monkeypatch, capsys, tmp_path):
    problem = ilbo.make("navigation-3")
    with pytest.raises(UserError, match="There is no logger 'mlfow'; did you mean 'mlflow'"):
        ilbo.plan(problem, log="mlfow")
    with pytest.raises(UserError, match="go into the run folder"):
        ilbo.plan(problem, log=("tensorboard",))
    for what in (3, Heard, [None]):
        with pytest.raises(UserError, match="A logger is one of tensorboard, mlflow, wandb"):
            ilbo.plan(problem, log=what)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    out = tmp_path / "run"
    for name in ("mlflow", "wandb", "tensorboard"):
        arguments = ["plan", "navigation-3", "--out", str(out), "--log", name]
        assert main(arguments) == 2
        assert f"pip install 'ilbo[{name}]'" in capsys.readouterr().err
    assert not out.exists()


def test_tensorboard_gets_settings_and_final_figures(tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    hparams = pytest.importorskip("tensorboard.plugins.hparams.plugin_data_pb2")
    tell(ilbo.loggers.TensorBoard(tmp_path))
    read = events.EventAccumulator(str(tmp_path / "seed-0")).Reload()
    assert [(e.step, e.value) for e in read.Scalars("ilbo/current")] == [(2, -8.0), (4, -4.0)]
    assert [(e.step, e.value) for e in read.Scalars("final/mean")] == [(4, -3.0)]
    content = read.PluginTagToContent("hparams")["_hparams_/session_start_info"]
    began = hparams.HParamsPluginData.FromString(content).session_start_info.hparams
    assert began["layers"].string_value == "4"
    assert began["depth"].number_value == 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mlflow_gets_settings_tests_and_final_figures(tmp_path):
    mlflow = pytest.importorskip("mlflow")
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    tell(ilbo.loggers.MLflow("tests", uri))
    client = mlflow.MlflowClient(uri)
    experiment = client.get_experiment_by_name("tests").experiment_id
    (run,) = client.search_runs([experiment])
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "navigation-3, seed 0"
    assert run.data.params["layers"] == "4"
    assert run.data.metrics["final/mean"] == -3.0
    history = client.get_metric_history(run.info.run_id, "current")
    assert [(m.step, m.value) for m in history] == [(2, -8.0), (4, -4.0)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_weights_and_biases_gets_settings_tests_and_final_figures(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    tell(ilbo.loggers.WandB("tests", mode="offline", dir=str(tmp_path)))
    from wandb.proto.wandb_internal_pb2 import Record

    (file,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    deadline = time.monotonic() + 60
    while not (records := [Record.FromString(data) for data in records_in(file.read_bytes())]):
        assert time.monotonic() < deadline  # its own process writes the file a moment later
        time.sleep(0.1)
    config, current, summary = {}, [], {}
    for record in records:
        for item in record.run.config.update:
            config[item.key] = json.loads(item.value_json)
        row = {item.key or item.nested_key[0]: item.value_json for item in record.history.item}
        if "current" in row:
            current.append((int(row["_step"]), float(row["current"])))
        for item in record.summary.update:
            summary[item.key or item.nested_key[0]] = json.loads(item.value_json)
    assert config["layers"] == "4"
    assert current == [(2, -8.0), (4, -4.0)]
    assert summary["final/mean"] == -3.0


def records_in(data):
    """The records of a file of Weights & Biases: after 7 bytes, blocks of 32 kB with parts of
    records, each behind its checksum (4 bytes), size (2) and kind (1): 1 is whole, 4 the last."""
    whole, at = b"", 7
    while at + 7 <= len(data):
        if -at % 2**15 < 7 and -at % 2**15:  # too little is left of the block for a part
            at += -at % 2**15
            continue
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        whole += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):
            yield whole
            whole = b""


def tell(log):
    """Has a logger hear of a run of two tests, without training."""
    from ilbo.planning.loop import Clock, Moment, Start
    from ilbo.planning.records import Record

    planner = tiny_runs.planner(ilbo.make("navigation-3"))
    clock = Clock(Start([]), 0.0)
    records = [Record(0, 2 * i, -16.0 / 2**i, -4.0, 1, 1, 1, 1, float(i)) for i in (1, 2)]
    with loggers(log, None) as told:
        log.begin(planner)
        for i, record in enumerate(records):
            ending = "finished" if i == 1 else None
            history = [records[: i + 1]]
            log.after(Moment(planner, [], record.episode, [record], history, clock, ending))
        told.close({"problem": "navigation-3", "seed": 0, "mean": -3.0, "episodes": 4})
