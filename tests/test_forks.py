"""Children forked after JAX was used: a sentence in place of waiting for ever."""

import pytest
from process import run_python

FORK = """
import multiprocessing, sys, warnings
import ilbo

warnings.simplefilter("ignore")
problem = ilbo.make("navigation-3")

def work(what, answers):
    try:
        if what == "simulate":
            ilbo.simulate(problem, problem.model.heuristic, 0, 2)
        elif what == "evaluate":
            ilbo.evaluate(problem, problem.model.heuristic, 0, 2)
        elif what == "plan":
            ilbo.plan(problem, episodes=1)
        else:
            ilbo.make("hvac-3")
        answers.put("went on")
    except ilbo.UserError as error:
        answers.put(str(error))

fork = multiprocessing.get_context("fork")
for what in ("simulate", "evaluate", "plan", "make"):
    answers = fork.Queue()
    child = fork.Process(target=work, args=(what, answers), daemon=True)
    child.start()
    print(what, answers.get(timeout=60))
    child.join()
"""


def test_a_child_forked_after_jax_was_used_says_what_to_do():
    said = run_python(FORK).splitlines()
    assert [line.split()[0] for line in said] == ["simulate", "evaluate", "plan", "make"]
    for line in said:
        assert "forked after its parent had used JAX" in line
        assert "spawn" in line


BEFORE = """
import os
import ilbo
from ilbo.planning import loop  # JAX is loaded, but has not started

child = os.fork()
if not child:
    problem = ilbo.make("navigation-3")
    print(ilbo.simulate(problem, problem.model.heuristic, 0, 2).rewards.shape, flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_child_forked_before_goes_on():
    assert run_python(BEFORE).strip() == "(2, 20)"


def test_processes_that_were_not_forked_are_left_alone(monkeypatch):
    from ilbo import UserError, forks

    forks.check_not_forked()
    monkeypatch.setattr(forks, "_forked_too_late", True)
    with pytest.raises(UserError, match="forked"):
        forks.check_not_forked()
