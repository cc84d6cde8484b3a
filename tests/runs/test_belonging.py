"""What lies in a run folder belongs to its problem, or is refused."""

import json
import shutil

import jax
import pytest
import tiny_runs
from tiny_rddl import write

import ilbo
from ilbo.cli.main import main
from ilbo.errors import UserError
from ilbo.nn.policy import Layers, Policy
from ilbo.planning.loop import Clock, Moment, Start
from ilbo.runs import checkpoint
from ilbo.runs.folder import RunFolder
from ilbo.runs.saved import read_run
from ilbo.storage import arrays as arrayfile

BOUNDED = {"preconditions": "forall_{?t : tank} [release(?t) >= 0 ^ release(?t) <= water(?t)];"}


def run_of(path, problem, seeds=(0,)):
    """A run folder with policies that have learnt nothing."""
    with RunFolder.create(path, problem, tiny_runs.CONFIG, seeds) as folder:
        policies = [Policy.init(jax.random.key(seed), problem, Layers((4,))) for seed in seeds]
        folder.save_policies(problem, seeds, policies, policies)
    return path


@pytest.fixture(scope="module")
def twins(tmp_path_factory):
    """Two problems of one name that differ in their reward."""
    folders = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("other")
    rewards = "sum_{?t : tank} [water(?t)]", "0.0"
    pairs = zip(folders, rewards, strict=True)
    return [ilbo.make(write(folder, reward=reward, **BOUNDED)) for folder, reward in pairs]


def test_run_folder_gives_its_problem_and_policies_back(tmp_path, twins):
    run = read_run(run_of(tmp_path / "run", twins[0]))
    assert run.problem().origin.files == twins[0].origin.files
    assert len(run.policies(twins[0])) == 1
    assert ilbo.load_policy(tmp_path / "run")(twins[0].initial_state).shape == (3,)


def test_changed_text_in_a_run_folder_is_refused(tmp_path, twins, capsys):
    path = run_of(tmp_path / "run", twins[0])
    meta = path / "meta.json"
    meta.write_text(meta.read_text().replace("SIZE(b) = 6.0", "SIZE(b) = 7.0"))
    with pytest.raises(UserError, match="not the one that it was written for"):
        read_run(path).problem()
    assert main(["evaluate", str(path), "--episodes", "4"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    content = json.loads(meta.read_text())
    del content["problem"]["digest"]  # the policies still tell
    meta.write_text(json.dumps(content))
    run = read_run(path)
    with pytest.raises(UserError, match="trained for another problem than the run"):
        run.policies(run.problem())


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_policy_of_another_problem_of_the_same_name_is_refused(tmp_path, twins, seeds):
    own, other = (
        run_of(tmp_path / name, twin, seeds)
        for name, twin in zip(("own", "other"), twins, strict=True)
    )
    inner = "policy.ilbo" if len(seeds) == 1 else "seed-1/policy.ilbo"
    shutil.copy(other / inner, own / inner)
    with pytest.raises(UserError, match=r"trained for another problem than the run") as caught:
        read_run(own).policies(twins[0])
    assert str(own / inner) in str(caught.value)
    with pytest.raises(UserError, match="trained for another problem than the run"):
        ilbo.load_policy((own / inner).parent)
    assert read_run(own).policies(twins[0], best=True)


def test_folder_of_an_earlier_version_has_no_digest_and_still_loads(tmp_path):
    problem = ilbo.make("navigation-3")
    path = run_of(tmp_path / "run", problem)
    meta = json.loads((path / "meta.json").read_text())
    del meta["problem"]["digest"]
    (path / "meta.json").write_text(json.dumps(meta))
    header, arrays = arrayfile.read(path / "policy.ilbo", "policy")
    del header["problem"]["digest"]
    content = {name: header[name] for name in ("problem", "bounds", "layers")}
    run = read_run(path)
    assert len(run.policies(run.problem())) == 1
    arrayfile.write(path / "policy.ilbo", "policy", content, arrays)
    assert len(run.policies(run.problem())) == 1
    assert ilbo.load_policy(path)(problem.initial_state).shape == (2,)


def test_checkpoint_of_another_problem_of_the_same_name_is_refused(tmp_path, twins):
    path = tmp_path / "checkpoint.ilbo"
    own, other = (tiny_runs.planner(twin, seeds=(0,)) for twin in twins)
    start = Start(own.start())
    checkpoint.save(path, Moment(own, start.seeds, 0, [], [[]], Clock(start, 0.0)))
    assert checkpoint.restore(path, own).episode == 0
    with pytest.raises(UserError, match=r"another problem of the name 'tiny'.*--overwrite"):
        checkpoint.restore(path, other)


def test_two_problems_of_one_name_are_not_compared_as_one(tmp_path, twins, capsys):
    paths = [str(run_of(tmp_path / name, twin)) for name, twin in zip("ab", twins, strict=True)]
    assert main(["compare", *paths, "--episodes", "4"]) == 2
    assert "name the problem to use them on" in capsys.readouterr().err
