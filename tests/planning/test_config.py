import dataclasses
import itertools

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
    assert (paper.own_start, paper.episodes, paper.parallel) == (0.5, 5_000, 1)
    single = Score(draws=1, next_states="stored", baseline="value")
    assert ILBO.paper(estimator=single).gradient == single
    assert ILBO.paper(layers=[2048]).layers == (2048,)


def test_every_field_is_documented():
    assert [field.name for field in dataclasses.fields(ILBO)] == list(docstrings(ILBO))


def test_every_field_is_in_one_group():
    grouped = list(itertools.chain(*GROUPS.values()))
    assert sorted(grouped) == sorted(field.name for field in dataclasses.fields(ILBO))
