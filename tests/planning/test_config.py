import dataclasses
import inspect
import itertools
import pickle

import numpy as np
import pytest

import ilbo
from ilbo.planning.config import GROUPS, ILBO
from ilbo.planning.estimators import Score
from ilbo.runs.settings import docstrings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("layers", ()),
        ("layers", (0,)),
        ("estimator", "guess"),
        ("depth", 0),
        ("policy_rate", 0.0),
        ("discount", 1.5),
        ("own_start", -0.1),
        ("clip", -1.0),
        ("draws", 1.5),
        ("policy_store", 10_000_000),
    ],
)
def test_a_bad_setting_is_named(name, value):
    with pytest.raises(ilbo.UserError, match=name):
        ILBO(**{name: value})


def test_settings_that_do_not_go_together():
    with pytest.raises(ilbo.UserError, match="stored"):
        ILBO(next_states="stored", baseline="value", draws=2, estimator="score")
    with pytest.raises(ilbo.UserError, match="next_states"):
        ILBO(next_states="stored")
    with pytest.raises(ilbo.UserError, match="leave-one-out"):
        ILBO(estimator="score", draws=1)


def test_the_papers_settings():
    paper = ILBO.paper()
    assert paper.gradient == Score(draws=8, depth=1, baseline="leave-one-out", next_states="replay")
    assert (paper.policy_rate, paper.critic_rate, paper.optimizer) == (1e-4, 1e-3, "rmsprop")
    assert (paper.critic_store, paper.policy_store, paper.critic_batch) == (1_000_000, 1_000, 64)
    assert (paper.own_start, paper.episodes, paper.parallel) == (0.75, 5_000, 1)
    single = Score(draws=1, next_states="stored", baseline="value")
    assert ILBO.paper(estimator=single).gradient == single
    assert ILBO.paper(layers=[2048]).layers == (2048,)


def test_every_field_is_documented():
    assert [field.name for field in dataclasses.fields(ILBO)] == list(docstrings(ILBO))


def test_every_field_is_in_one_group():
    grouped = list(itertools.chain(*GROUPS.values()))
    assert sorted(grouped) == sorted(field.name for field in dataclasses.fields(ILBO))


def test_a_setting_by_another_name_is_answered_with_ours():
    for name, ours in (("lr", "policy_rate"), ("episode", "episodes"), ("gamma", "discount")):
        with pytest.raises(ilbo.UserError, match=f"no setting {name!r}; did you mean {ours!r}"):
            ILBO(**{name: 1})


def test_settings_are_plain_values_and_survive_copies():
    config = ILBO(layers=np.array([3, 4]), draws=np.int64(2), clip=np.float32(2.0))
    assert (config.layers, config.draws, config.clip) == ((3, 4), 2, 2.0)
    assert [type(x) for x in (config.layers[0], config.draws, config.clip)] == [int, int, float]
    assert pickle.loads(pickle.dumps(config)) == config
    assert dataclasses.replace(config, depth=3).depth == 3
    assert list(inspect.signature(ILBO).parameters) == [f.name for f in dataclasses.fields(ILBO)]


@pytest.mark.parametrize(
    "settings", [{"layers": 64}, {"layers": "64"}, {"policy_rate": "0.1"}, {"episodes": "10"}]
)
def test_settings_of_the_wrong_type(settings):
    (name,) = settings
    with pytest.raises(ilbo.UserError, match=f"The setting {name} must be"):
        ILBO(**settings)
