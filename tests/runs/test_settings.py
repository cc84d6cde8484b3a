"""Settings as TOML files: they come back as they were, and mistakes are told in a sentence."""

import os

import pytest

import ilbo
from ilbo.errors import UserError
from ilbo.runs import settings


def test_settings_survive_toml_and_back(tmp_path):
    config = ilbo.ILBO.paper(layers=(7,), clip=0.0, prioritised=True)
    path = tmp_path / "c.toml"
    path.write_text(settings.write({"problem": 'a "b" \\ ü', **config.to_dict()}, "a remark"))
    values = settings.read(path)
    assert values["problem"] == 'a "b" \\ ü'
    assert settings.config("default", values) == config


def test_written_settings_stand_in_their_groups():
    values = {"depth": 3, "problem": "x", "layers": (7,), "seed": None}
    blocks = ['# a\n# remark\nproblem = "x"', "# network\nlayers = [7]", "# estimator\ndepth = 3\n"]
    assert settings.write(values, "a\nremark") == "\n\n".join(blocks)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("layer = [3]", "'layer', which is no setting; did you mean 'layers'"),
        ("[layers]\na = 1", "'layers' in .* must be a list of whole numbers"),
        ("layers = [1.5]", "must be a list of whole numbers"),
        ('policy_rate = "fast"', "must be a number"),
        ("depth = true", "must be a whole number"),
        ("prioritised = 1", "must be true or false"),
        ('estimator = "path"', "must be one of pathwise, score, critic"),
        ("x = = 1", "not valid TOML"),
        ("depth = " + "[" * 5000, "not valid TOML: it is nested too deeply"),
        ("depth = " + "9" * 5000, "not valid TOML"),
        ("clip = " + "9" * 400, "must be a number"),
        ("layers = [" + "[[]]," * 5000 + "]", "must be a list of whole numbers"),
    ],
)
def test_bad_settings_files_are_refused_in_one_sentence(tmp_path, text, wanted):
    path = tmp_path / "c.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=wanted) as raised:
        settings.read(path)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 1000


def test_devices_and_pipes_are_no_settings(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero", tmp_path):
        with pytest.raises(UserError, match="not a plain file"):
            settings.read(path)


@pytest.mark.parametrize(
    "values",
    [
        {"episodes": 10**18},
        {"layers": (10**9,)},
        {"layers": (20_000, 20_000)},
        {"layers": (1,) * 101},
        {"policy_batch": 10**12},
        {"test_episodes": 10**12},
        {"critic_store": 10**30},
        {"depth": 10**6},
    ],
)
def test_settings_that_would_take_all_memory_are_refused(values):
    (name,) = values
    with pytest.raises(UserError, match=f"setting {name} must be at most"):
        settings.config("default", values)


def test_later_settings_go_before_earlier_ones_and_the_preset():
    config = settings.config("paper", {"depth": 3, "draws": 8, "problem": "x"}, {"depth": 4})
    assert config == ilbo.ILBO.paper(depth=4)
