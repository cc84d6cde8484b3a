"""`ilbo watch`: what it tells of run folders, whom it answers, and the page in a browser."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import equinox as eqx
import jax.numpy as jnp
import model_files
import numpy as np
import pytest
import tiny_runs
from browser import chromium, find_chromium
from command import PLAN, Command
from written_runs import write_run

import ilbo
from ilbo.cli.main import main
from ilbo.errors import UserError
from ilbo.mdp.simulate import simulate
from ilbo.planning.ilbo import count_samples
from ilbo.planning.loop import Clock, Moment, Start
from ilbo.planning.records import Record
from ilbo.runs import checkpoint
from ilbo.runs.folder import RunFolder
from ilbo.runs.layout import CHECKPOINT, CONFIG, METRICS
from ilbo.runs.saved import read_run
from ilbo.watch.folders import Folders, key_of
from ilbo.watch.pictures import Pictures, beliefs, to_go
from ilbo.watch.server import serve


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with a finished run, and one of two seeds that goes on."""
    problem, folder = ilbo.make("navigation-3"), tmp_path_factory.mktemp("runs")
    write_run(folder / "done", problem)
    write_run(folder / "sweep" / "going", problem, (3, 4), finished=False, tests=2)
    return folder


@pytest.fixture
def runs(written, tmp_path):
    return shutil.copytree(written, tmp_path / "runs")


@pytest.fixture
def server(runs):
    with serve([runs]) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.05,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def request(server, path, method="GET", **headers):
    """Status, headers and body; the path is sent as it stands."""
    connection = http.client.HTTPConnection(*server.server_address, timeout=60)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    found = SimpleNamespace(status=answer.status, headers=answer.headers, body=answer.read())
    connection.close()
    return found


def ask(server, path):
    found = request(server, f"/{server.token}/{path}")
    assert found.status == 200, found.body
    return json.loads(found.body)


def append(run, episode, value=-1.0):
    seeds = read_run(run).seeds
    with RunFolder(run) as folder:
        folder.append(
            Record(seed, episode, value, value, 2.0, -3.0, 4.0, 5.0, 6.0) for seed in seeds
        )


def test_runs_are_found_below_a_folder_with_state_settings_and_samples(server, runs):
    told = {run["name"]: run for run in ask(server, "runs")["runs"]}
    assert set(told) == {"done", os.path.join("sweep", "going")}
    done, going = told["done"], told[os.path.join("sweep", "going")]
    assert (done["result"]["mean"], going["result"]) == (0, None)
    assert (done["seeds"], going["seeds"]) == ([0], [3, 4])
    assert done["problem"] == "navigation-3"
    assert done["settings"]["layers"] == [8] != done["usual"]["layers"]
    assert going["settings"]["seeds"] == 2
    assert len(going["policies"]) == 2
    metrics = ask(server, f"metrics/{done['key']}")
    expected = count_samples(read_run(runs / "done").config.settled(), 20, 30)
    assert metrics["samples"]["model_evaluations"] == expected.model_evaluations


def test_metrics_are_read_from_where_the_last_answer_ended(server, runs):
    path = runs / "sweep" / "going"
    place = f"metrics/{key_of(path)}"
    first = ask(server, place)
    assert [r["episode"] for r in first["records"]] == [5, 5, 10, 10]
    where = f"{place}?from={first['next']}&mark={first['mark']}"
    assert ask(server, where)["records"] == []
    append(path, 15, np.nan)
    with open(path / METRICS, "a") as file:
        file.write('{"seed": 3, "epis')  # a line that is being written
    second = ask(server, where)
    assert [(r["seed"], r["episode"], r["current"]) for r in second["records"]] == [
        (3, 15, None),
        (4, 15, None),
    ]
    assert not second["anew"]


def test_a_run_that_goes_back_to_its_checkpoint_is_read_anew(server, runs):
    path = runs / "sweep" / "going"
    first = ask(server, f"metrics/{key_of(path)}")
    with RunFolder(path) as folder:
        folder.cut_metrics(5)
    second = ask(server, f"metrics/{key_of(path)}?from={first['next']}&mark={first['mark']}")
    assert second["anew"]
    assert [r["episode"] for r in second["records"]] == [5, 5]


def test_a_damaged_run_is_told_of_and_the_others_are_shown(server, runs):
    circle = shutil.copytree(runs / "done", runs / "circle")
    (circle / "result.json").unlink()
    (circle / "result.json").symlink_to("result.json")
    with open(runs / "sweep" / "going" / CONFIG, "a") as file:
        file.write("target = inf\n")  # which JSON has no word for
    (runs / "done" / CONFIG).write_text("problem = [")
    told = {run["name"]: run for run in ask(server, "runs")["runs"]}
    assert "is not valid TOML" in told["done"]["error"]
    assert "is a link" in told["circle"]["error"]
    assert "error" not in told[os.path.join("sweep", "going")]
    going = runs / "sweep" / "going"
    with open(going / METRICS, "a") as file:
        file.write("nonsense\n")
    assert "is damaged" in ask(server, f"metrics/{key_of(going)}")["error"]


def test_folders_may_be_copied_and_named_one_by_one(runs, tmp_path):
    copy = shutil.copytree(runs / "done", tmp_path / "elsewhere" / "done")
    told = Folders([runs / "done", copy]).runs()["runs"]
    assert {run["name"] for run in told} == {str(runs / "done"), str(copy)}
    assert len({run["key"] for run in told}) == 2


OUTSIDE = (
    "/../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/..%2f..%2fetc%2fpasswd",
    "//etc/passwd",
    "/page/index.html",
    "/server.py",
    "/metrics/../../../etc/passwd",
    "/metrics/..%2f..%2fetc",
    "/picture/../0",
    "/metrics/0123456789abcdef",
    "/runs?" + "a=1&" * 9,
)


def test_no_address_leads_out_of_the_folders(server):
    for path in OUTSIDE:
        assert request(server, path).status == 403  # without the token
        found = request(server, f"/{server.token}{path}")
        assert (path, found.status) == (path, 404)
        assert b"root:" not in found.body


def test_who_does_not_know_the_token_is_refused(server):
    for token in ("", "x", server.token[:-1], server.token + "x", server.token.swapcase()):
        assert request(server, f"/{token}/runs").status == 403
    assert request(server, f"/{server.token}/runs").status == 200
    with serve(server.folders.roots) as other:
        assert other.token != server.token


def test_pages_of_others_are_refused_even_with_the_token(server):
    names = ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[", "0.0.0.0")
    origins = ("http://evil.example", "http://localhost:1", "null")
    for headers in [{"Host": name} for name in names] + [{"Origin": one} for one in origins]:
        found = request(server, f"/{server.token}/runs", **headers)
        assert (headers, found.status) == (headers, 403)
        assert "Access-Control-Allow-Origin" not in found.headers


def test_only_get_is_answered_and_nothing_lets_other_sites_in(server):
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"):
        assert request(server, f"/{server.token}/runs", method).status == 405
    found = request(server, f"/{server.token}/", Host="localhost:8000")
    assert found.status == 200
    assert "default-src 'none'" in found.headers["Content-Security-Policy"]
    assert "script-src 'self';" in found.headers["Content-Security-Policy"]
    assert "Access-Control-Allow-Origin" not in found.headers
    assert server.server_address[0] == "127.0.0.1"


def test_links_out_of_a_folder_are_not_followed(runs, tmp_path):
    outside = write_run(tmp_path / "outside", ilbo.make("navigation-3"))
    (runs / "linked").symlink_to(outside)
    done = runs / "done"
    for name in (METRICS, "policy.ilbo"):
        (done / name).unlink()
        (done / name).symlink_to(outside / name)
    folders = Folders([runs])
    assert {path.name for path in folders.found().values()} == {"done", "going"}
    with pytest.raises(UserError, match="is a link out of its folder"):
        folders.metrics(done, 0, "")
    with pytest.raises(UserError, match="is a link out of its folder"):
        Pictures().draw(read_run(done), 0)


def test_the_policy_is_drawn_again_when_it_changes(server, runs):
    path = runs / "sweep" / "going"
    first = ask(server, f"picture/{key_of(path)}/4")
    assert "<svg" in first["figure"]
    assert "of seed 4" in first["figure"]
    assert "no checkpoint" in first["beliefs"]["error"]
    assert ask(server, f"picture/{key_of(path)}/4") == first
    shutil.copy(path / "seed-3" / "policy.ilbo", path / "seed-4" / "policy.ilbo")
    assert ask(server, f"picture/{key_of(path)}/4") != first
    assert "has no seed 5" in ask(server, f"picture/{key_of(path)}/5")["error"]


def test_a_model_of_the_users_own_is_run_only_where_it_is_trusted(tmp_path):
    ran = tmp_path / "ran"
    file = model_files.write(tmp_path / "drift.py")
    path = write_run(tmp_path / "own", ilbo.make(f"{file}:problem"))
    model_files.write(file, f"open({str(ran)!r}, 'w').close()\n" + model_files.TEXT)
    run = Folders([path]).run(path)
    with pytest.raises(UserError, match="looking at a folder runs no code"):
        Pictures().draw(run, 0)
    assert not ran.exists()
    assert "<svg" in Pictures(trust=True).draw(run, 0)["figure"]
    assert ran.exists()


def test_the_return_from_a_step_on_is_the_discounted_sum_of_what_follows():
    rewards = np.array([[1.0, 2.0, 4.0], [0.0, -1.0, 8.0]])
    np.testing.assert_allclose(to_go(rewards, 0.5), [[3.0, 4.0, 4.0], [1.5, 3.0, 8.0]])


def test_beliefs_are_those_of_the_critic_in_the_checkpoint(tmp_path):
    problem = ilbo.make("navigation-3")
    run = read_run(write_run(tmp_path / "run", problem))
    planner = tiny_runs.planner(problem, run.config)
    seeds = planner.start()
    checkpoint.save(
        run.path / CHECKPOINT, Moment(planner, seeds, 0, [], [], Clock(Start(seeds), 0.0))
    )
    (policy,) = run.policies(problem)
    simulated = simulate(problem, policy, 7, 5)
    told = beliefs(run, problem, 0, simulated)
    networks, state = planner.trainer.networks, seeds[0].state
    critic = networks.critic(state.slow_critic)

    @eqx.filter_jit
    def last(simulated):
        """The critic on the last step alone: one is left."""
        return critic(simulated.states[:, 19], simulated.actions[:, 19], jnp.full(5, 1 / 20))

    expected = float(jnp.mean(last(simulated)) * state.reward_scale)
    assert told["believed"][19] == pytest.approx(expected, rel=1e-4)
    rewards = np.asarray(simulated.rewards)
    for t in (0, 19):
        assert told["earned"][t] == pytest.approx(rewards[:, t:].sum(axis=1).mean(), rel=1e-4)
    assert told["steps"] == list(range(20))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "There is no folder 'nowhere' to watch"),
        ([".", "--port", "70000"], "A port is a number"),
    ],
)
def test_command_says_what_is_wrong(arguments, words, capsys):
    assert main(["watch", *arguments, "--no-open"]) == 2
    assert words in capsys.readouterr().err


def test_a_port_that_is_taken_is_one_clear_sentence(server, runs):
    with pytest.raises(UserError, match="choose another --port"):
        serve([runs], server.server_address[1])


POINTS = """Number(document.querySelector("#whole path.line:not(.thin)")?.dataset.points)"""


@pytest.mark.skipif(find_chromium() is None, reason="there is no Chromium on this machine")
def test_the_page_follows_a_run_in_a_browser(server, runs):
    going = runs / "sweep" / "going"
    with chromium() as browser:
        browser.open(f"{server.address}#{key_of(going)}", 390, 900, "dark")
        browser.wait_for(f"{POINTS} === 2")
        for i in range(3, 7):
            append(going, 5 * i, -100.0 / i)
            browser.wait_for(f"{POINTS} === {i}")  # the curve grows
        assert browser.evaluate("document.documentElement.scrollWidth") <= 390
        browser.wait_for("document.querySelector('#picture figure svg') !== null")
        browser.evaluate("document.querySelector('#runs input:not(:checked)').click()")
        browser.wait_for("document.querySelectorAll('#whole path.line:not(.thin)').length === 2")
        differ = browser.evaluate(
            "[...document.querySelectorAll('#different code')].map(e => e.textContent)"
        )
        assert differ == ["seed", "seeds", "episodes"]
        assert browser.complaints() == []
        assert all(url.startswith(server.address) for url in browser.requests())


def test_a_page_beside_a_command_ends_with_it(runs):
    code = f"""
import os, pathlib, ilbo.watch.beside as beside
shown = beside.Beside(pathlib.Path({str(runs)!r}))
print(shown.process.pid, shown.address, flush=True)
os._exit(9)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    pid, address = found.stdout.split()
    assert address.startswith("http://127.0.0.1:")
    for _ in range(200):
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return
        if _is_zombie(int(pid)):
            return
        time.sleep(0.1)
    pytest.fail("The server still runs.")


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def test_the_command_prints_the_address_and_ends_with_ctrl_c(runs, tmp_path):
    process = Command(tmp_path / "cache").start("watch", runs, "--no-open", start_new_session=True)
    try:
        assert process.stdout.readline().split()[2].startswith("http://127.0.0.1:")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, err) == (0, "")


@pytest.mark.slow
@pytest.mark.skipif(find_chromium() is None, reason="there is no Chromium on this machine")
def test_plan_shows_its_run_in_a_browser_while_it_trains(tmp_path):
    run = tmp_path / "run"
    command = Command(tmp_path / "cache")
    arguments = [*PLAN[:-2], "--episodes", "100000"]
    process = command.start(*arguments, "--watch", "--out", run, start_new_session=True)
    address = process.stderr.readline().split()[-1]
    with chromium() as browser:
        browser.open(address, 1400, 900)
        first = browser.wait_for(f"{POINTS} > 1 && {POINTS}")
        browser.wait_for(f"{POINTS} > {first}")
        browser.wait_for("document.querySelector('#beliefs path.line') !== null")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
        assert process.returncode == 130
        browser.wait_for("document.getElementById('status').className.includes('lost')")
