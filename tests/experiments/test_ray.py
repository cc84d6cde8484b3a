"""Sweeps on a real Ray cluster of two nodes, one of which dies in the middle."""

import threading

import pytest

import ilbo
from ilbo.experiments.arms import Arm
from ilbo.experiments.engines import Block, Ray
from ilbo.experiments.folder import ExperimentFolder
from ilbo.experiments.scales import SCALES
from ilbo.experiments.sweep import sweep

ray = pytest.importorskip("ray")
from two_nodes import PATIENCE, two_nodes, wait_until  # noqa: E402

# Ray leaves files of its own logs open; early versions do so while its cluster starts.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
ARM = Arm("tf-mdp", "navigation-3", "through-time", {"layers": [4], "epochs": 8, "batch": 2})


@pytest.fixture(scope="module")
def cluster():
    with two_nodes() as made:
        yield made


@pytest.fixture(scope="module")
def engine(cluster):
    return Ray(cluster.address)


def performing(folder):
    """A stand-in for planning that tells where it started and finishes only where it may."""
    marks, allowed = str(folder / "marks"), str(folder)
    (folder / "marks").mkdir()

    def perform(arm, seeds):
        import os
        import time
        import uuid

        import ray

        from ilbo.experiments.arms import Result

        node = ray.get_runtime_context().get_node_id()
        mark = f"{seeds[0]}--{node}--{uuid.uuid4().hex}"
        open(os.path.join(marks, mark), "w").close()
        while not os.path.exists(os.path.join(allowed, node)):
            time.sleep(0.05)
        environment = {"packages": {"jax": ""}, "commit": None, "device": "cpu"}
        numbers = (-1.0 - seeds[0], -1.0, (), 0.0, {}, 0.0, 0.0, 1, None, environment)
        return [Result(seeds[0], (), (), (), *numbers)]

    return perform


@pytest.mark.slow
def test_a_node_that_dies_costs_nothing(cluster, engine, tmp_path):
    folder = ExperimentFolder.open(tmp_path / "sweep", "smoke")
    perform = performing(tmp_path)
    seeds, saved = 6, []
    failures = []

    def work():
        try:
            sweep([ARM], seeds, folder, "ray", perform=perform, say=saved.append)
        except BaseException as error:
            failures.append(error)

    def started():
        return [mark.name.split("--") for mark in (tmp_path / "marks").iterdir()]

    driver = threading.Thread(target=work)
    driver.start()
    wait_until(lambda: len({node for _, node, _ in started()}) == 2, "a task on both nodes")
    doomed = cluster.mortal.node_id
    lost = [seed for seed, node, _ in started() if node == doomed]
    assert len(lost) == 1
    cluster.remove_node(cluster.mortal, allow_graceful=False)
    (tmp_path / cluster.head_node.node_id).touch()  # what ran on the other node never finished
    driver.join(PATIENCE)
    assert not driver.is_alive()
    assert not failures

    results = folder.results(ARM, range(seeds))
    assert [result.final for result in results] == [-1.0 - seed for seed in range(seeds)]
    assert len(list(folder.runs.iterdir())) == len(saved) == seeds
    attempts = [seed for seed, _, _ in started()]
    assert attempts.count(lost[0]) == 2, "the lost task was tried again"
    assert len(attempts) == seeds + 1, "and no other was"


@pytest.mark.slow
def test_planning_on_the_cluster_resumes_and_agrees_with_planning_here(engine, tmp_path):
    folder = ExperimentFolder.open(tmp_path, "smoke")
    arm = SCALES["smoke"].through_time_arm("navigation-3", "1 layer")
    saved = []
    sweep([arm], 1, folder, "local", say=saved.append)
    sweep([arm], 2, folder, "ray", say=saved.append)
    assert len(saved) == 2, "the seed that was there is not run again"
    here = ExperimentFolder.open(tmp_path / "here", "smoke")
    sweep([arm], 2, here, "local")
    for remote, local in zip(folder.results(arm, [0, 1]), here.results(arm, [0, 1]), strict=True):
        assert remote.current == pytest.approx(local.current, rel=1e-5)


def test_failed_tasks_are_told_and_the_others_kept(engine):
    def perform(arm, seeds):
        if seeds == (1,):
            raise ValueError("no such luck")
        return []

    kept = []
    work = [Block(ARM, (seed,)) for seed in range(3)]
    with pytest.raises(ilbo.UserError, match=r"1 of 3 tasks failed.*seed 1: .*no such luck; what"):
        engine.run(work, perform, lambda block, _: kept.append(block.seeds))
    assert sorted(kept) == [(0,), (2,)]


def test_no_cluster_there_is_told_in_a_sentence(monkeypatch):
    class Nowhere:
        def is_initialized(self):
            return False

        def init(self, **_):
            raise ConnectionError("Could not find any running Ray instance.\nAnd more.")

    monkeypatch.setattr("ilbo.experiments.engines._import_ray", Nowhere)
    with pytest.raises(ilbo.UserError, match=r"no Ray cluster at 'x:1' \(Could not .*ray start"):
        Ray("x:1")
