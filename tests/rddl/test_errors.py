"""What is wrong with a file is said in one sentence, never by a traceback."""

import builtins
import re
import subprocess
import sys

import numpy as np
import pytest
from mutants import SOUND, mutate
from tiny_rddl import INSTANCE, text, write

import ilbo
from ilbo import rddl
from ilbo.rddl import region


def line_of(fragment, whole=SOUND):
    return whole[: whole.index(fragment)].count("\n") + 1


def refusal(folder, whole, name="p.rddl"):
    """The sentence with which a text is refused."""
    path = folder / name
    path.write_text(whole)
    with pytest.raises(ilbo.UserError) as caught:
        ilbo.make(path)
    said = str(caught.value)
    assert "\n" not in said
    assert said.endswith(".")
    return said


def test_syntax_error_names_file_line_and_column_and_shows_the_line(tmp_path):
    broken = SOUND.replace("rain(?t) = Gamma", "rain(?t) == Gamma")
    said = refusal(tmp_path, broken)
    assert said == (
        f"p.rddl, line {line_of('rain(?t) = Gamma')}, column 18: syntax error at '==', "
        "expected '=', in `rain(?t) == Gamma(2.0, SIZE(?t));`."
    )


def test_syntax_error_in_the_instance_file_names_that_file(tmp_path):
    domain, instance = tmp_path / "d.rddl", tmp_path / "i.rddl"
    domain.write_text(SOUND.replace(INSTANCE, ""))
    instance.write_text(INSTANCE.replace("horizon = 5", "horizon 5"))
    with pytest.raises(
        ilbo.UserError, match=rf"^i\.rddl, line {line_of('horizon', INSTANCE)}, column 13: syn"
    ):
        ilbo.make(domain, instance)


def test_character_of_no_use_names_its_line(tmp_path):
    broken = SOUND.replace("reward =", "reward § =")
    said = refusal(tmp_path, broken)
    assert f"line {line_of('reward =')}, column 12: the character '§'" in said


def test_characters_in_comments_are_free(tmp_path):
    problem = ilbo.make(write(tmp_path, more="// a § in a comment\n"))
    assert problem.state_size == 3


def test_text_that_ends_early(tmp_path):
    assert "ends too early" in refusal(tmp_path, SOUND.rstrip().rstrip("}"))


def test_undefined_fluent_is_named_with_its_line(tmp_path):
    said = refusal(tmp_path, SOUND.replace("+ flow(?t)]", "+ flaw(?t)]"))
    assert said.startswith(f"p.rddl, line {line_of('+ flow(?t)]')}: ")
    assert "<flaw>" in said


def test_missing_non_fluents(tmp_path):
    block = re.search(r"non-fluents figures \{.*?\n\}\n", SOUND, re.DOTALL).group()
    assert "there is no non-fluents block" in refusal(tmp_path, SOUND.replace(block, ""))


def test_domain_without_instance_asks_for_it(tmp_path):
    said = refusal(tmp_path, SOUND.replace(INSTANCE, ""))
    assert "give the instance file" in said


def test_instance_of_another_domain_names_both(tmp_path):
    packaged = rddl.packaged()
    domain, instance = packaged["hvac-3"][0], packaged["reservoir-10"][1]
    with pytest.raises(ilbo.UserError, match=r"'reservoir'.*but the domain given is 'hvac'"):
        ilbo.make(domain, instance)


def test_empty_instance_of_another_domain_is_refused_too(tmp_path):
    empty = """
    domain one {
        pvariables {
            x : { state-fluent, real, default = 0.0 };
            a : { action-fluent, real, default = 0.0 };
        };
        cpfs { x' = x + a; };
        reward = x;
    }
    non-fluents none { domain = other; }
    instance i { domain = other; non-fluents = none; horizon = 3; discount = 1.0; }
    """
    assert "is of domain 'other'" in refusal(tmp_path, empty)
    assert ilbo.make(write(tmp_path, instance=INSTANCE.replace("= tiny", "= other"))).horizon == 5


def test_purely_discrete_domain_is_refused(tmp_path):
    said = refusal(
        tmp_path,
        SOUND.replace("action-fluent, real, default = 0.0", "action-fluent, bool, default = false"),
    )
    assert "no real-valued action" in said
    assert "release (bool)" in said


def test_partially_observed_domain_is_refused(tmp_path):
    observed = text(more="seen : { observ-fluent, real };", cpfs="seen = 1.0;")
    assert "partially observed" in refusal(tmp_path, observed)


def test_enumerated_action_is_refused_with_its_line(tmp_path):
    chosen = text(more="mode : { action-fluent, colour, default = @red };")
    chosen = chosen.replace("types {", "types { colour : {@red, @blue};")
    said = refusal(tmp_path, chosen)
    assert "the action 'mode'" in said
    assert f"line {line_of('mode :', chosen)}" in said


def test_unsupported_distribution_is_named(tmp_path):
    drawn = text(
        more="n(tank) : { interm-fluent, real }; k : { state-fluent, real, default = 3.0 };"
        " M(tank) : { non-fluent, real, default = 0.5 };"
        " C(tank, tank) : { non-fluent, real, default = 0.0 };",
        cpfs="k' = k; n(?t) = MultivariateStudent[?t](M(_), C(_, _), k);",
    )
    assert "draws from MultivariateStudent, which no noise" in refusal(tmp_path, drawn)


def test_random_constraint_is_refused(tmp_path):
    said = refusal(
        tmp_path, text(preconditions="forall_{?t : tank} [release(?t) <= Uniform(0, 1)];")
    )
    assert "random" in said


@pytest.mark.parametrize("horizon", ["0", "-3", "pos-inf"])
def test_bad_horizon_is_refused(tmp_path, horizon):
    refusal(tmp_path, SOUND.replace("horizon = 5", f"horizon = {horizon}"))


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(ilbo.UserError, match="no file"):
        ilbo.make(tmp_path / "nowhere.rddl")
    with pytest.raises(ilbo.UserError, match="not a plain file"):
        ilbo.make(tmp_path, tmp_path)


def test_unknown_repository_names_suggest_near_ones():
    with pytest.raises(ilbo.UserError, match="did you mean 'Reservoir_Continuous'"):
        ilbo.make("rddl:Reservoir_Continous/0")
    with pytest.raises(ilbo.UserError, match="no instance of HVAC '7'"):
        ilbo.make("rddl:HVAC/7")
    with pytest.raises(ilbo.UserError, match="write 'rddl:hvac-3'"):
        ilbo.make("rddl:hvac-3/1")


def test_missing_extra_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *arguments, **options):
        if name.startswith("pyRDDLGym"):
            raise ModuleNotFoundError(f"No module named {name!r}", name="pyRDDLGym")
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ilbo.UserError, match=r"pip install 'ilbo\[rddl\]'"):
        ilbo.make("rddl:hvac-3")


def check_mutants(folder, seeds):
    outcomes = {"read": 0, "refused": 0}
    path = folder / "p.rddl"
    for seed in seeds:
        whole = mutate(SOUND, np.random.default_rng(seed))
        path.write_text(whole)
        try:
            problem = ilbo.make(path)
        except ilbo.UserError as error:
            outcomes["refused"] += len(str(error).splitlines()) == 1
        else:
            assert problem.horizon >= 1
            outcomes["read"] += 1
    assert sum(outcomes.values()) == len(seeds)
    assert min(outcomes.values()) > len(seeds) / 20, outcomes


def test_mutants_are_read_or_refused_in_one_sentence(tmp_path, monkeypatch, capfd):
    """Without the simulation that finds the start region: it compiles, which takes its time."""
    monkeypatch.setattr(region, "estimate", lambda model, horizon: (-1e9, 1e9))
    check_mutants(tmp_path, range(300))
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_mutants_are_read_whole_or_refused(tmp_path, capfd):
    check_mutants(tmp_path, range(1000, 1150))
    assert capfd.readouterr() == ("", "")


LOAD = """
import sys
sys.dont_write_bytecode = True
import ilbo
ilbo.make("rddl:HVAC/0")
ilbo.make("rddl:navigation-3")
"""


def test_nothing_is_printed_nor_written_beside_the_packages(tmp_path):
    from pathlib import Path

    import pyRDDLGym
    import rddlrepository

    homes = [Path(package.__file__).parent for package in (pyRDDLGym, rddlrepository)]

    def files():
        return {path for home in homes for path in home.rglob("*") if path.suffix != ".pyc"}

    before = files()
    run = subprocess.run([sys.executable, "-c", LOAD], cwd=tmp_path, capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert files() == before
    assert not any(tmp_path.iterdir())
