"""The report: what it says, and how it looks in a browser."""

import html.parser
import math
import re
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest
from browser import chromium, find_chromium
from written_runs import LAYERS, write_run

import ilbo
import ilbo.baselines
from ilbo.baselines import bounding
from ilbo.cli.main import main
from ilbo.errors import UserError
from ilbo.mdp.numbers import number
from ilbo.nn.policy import Layers, Policy
from ilbo.planning.config import ILBO
from ilbo.planning.ilbo import count_samples
from ilbo.planning.records import Record
from ilbo.plots.pictures import draw_learning_curve
from ilbo.report import parts
from ilbo.report.page import write_report
from ilbo.runs.layout import REPORT

FEW = 16


class Text(html.parser.HTMLParser):
    """What a page says, and whether its tags are balanced."""

    VOID = ("meta", "link", "br", "path", "use", "image", "rect")

    def __init__(self, page: str):
        super().__init__()
        self.open: list[str] = []
        self.said: list[str] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_data(self, data):
        if "style" not in self.open and data.strip():
            self.said.append(data.strip())

    def __contains__(self, words: str) -> bool:
        return words in " ".join(self.said)


def report(*runs, **options) -> tuple[str, Text]:
    out = Path(runs[0]).parent / "page.html"
    write_report(runs, out, episodes=FEW, **options)
    page = out.read_text()
    return page, Text(page)


@pytest.fixture(scope="module")
def navigation(tmp_path_factory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "nav", ilbo.make("navigation-3"))


@pytest.fixture(scope="module")
def page_of_one(navigation) -> tuple[str, Text]:
    return report(navigation)


def test_one_run_has_figures_pictures_settings_and_sample_counts(page_of_one):
    page, said = page_of_one
    policy = Policy.init(jax.random.key(0), ilbo.make("navigation-3"), Layers(LAYERS))
    from ilbo.runs.results import evaluate_fresh

    (result,) = evaluate_fresh(ilbo.make("navigation-3"), [policy], FEW)
    assert number(result.mean) in said
    assert "1 min 15 s" in said
    assert "−90.00" in said  # the best tested policy
    assert page.count("<svg") == 4
    assert "Comparison" not in said
    config = ILBO(layers=LAYERS, episodes=30, evaluate_every=5)
    samples = count_samples(config, ilbo.make("navigation-3").horizon, 30)
    assert f"{samples.model_evaluations:,}" in said


def test_settings_other_than_the_default_are_marked(page_of_one):
    page, _ = page_of_one
    marked = re.findall(r'<tr class="changed"><td><code>(\w+)</code>', page)
    assert marked == ["layers", "evaluate_every", "episodes"]


def test_page_asks_for_nothing_outside_itself(page_of_one):
    page, _ = page_of_one
    links = re.findall(r'(?:src|href)="([^"]*)"', page) + re.findall(r"url\(([^)]*)\)", page)
    assert links
    assert all(link.startswith(("#", "data:")) for link in links)
    assert "<script" not in page


def test_ids_are_unique_and_references_lead_to_them(page_of_one):
    page, _ = page_of_one
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(set(ids)) == len(ids)
    targets = re.findall(r'(?:url\(|href=")#([^)"]*)', page)
    assert set(targets) <= set(ids)


def test_runs_of_one_problem_are_compared_on_equal_noise(navigation, tmp_path):
    other = write_run(tmp_path / "other", ilbo.make("navigation-3"), seeds=(3, 4), key=7)
    page, said = report(navigation, other)
    assert "Comparison" in said
    assert "behind the first" in said
    assert page.count("<svg") == 9
    assert "Seeds" in said


@pytest.mark.slow
def test_runs_of_different_problems_are_listed_apart(navigation, tmp_path):
    other = write_run(tmp_path / "hvac", ilbo.make("hvac-3"))
    _, said = report(navigation, other)
    assert "Planning report: navigation-3, hvac-3" in said
    assert "differences are paired" not in said


def test_an_unfinished_run_says_how_to_go_on(tmp_path):
    run = write_run(tmp_path / "half", ilbo.make("navigation-3"), finished=False)
    _, said = report(run)
    assert "This run has not finished" in said
    assert f"ilbo plan --resume {run}" in said


def test_a_run_without_any_test_still_gives_a_page(tmp_path):
    run = write_run(tmp_path / "new", ilbo.make("navigation-3"), finished=False, tests=0)
    page, said = report(run)
    assert "There is no test in this run yet" in said
    assert "<svg" not in page


def test_names_cannot_break_the_page(tmp_path):
    run = write_run(tmp_path / "<script>&x", ilbo.make("navigation-3"), tests=0)
    other = write_run(tmp_path / "b", ilbo.make("navigation-3"), tests=0)
    page, said = report(run, other)
    assert "<script" not in page
    assert "<script>&x" in said


def test_folders_of_equal_names_are_told_apart(tmp_path):
    first = write_run(tmp_path / "one" / "run", ilbo.make("navigation-3"), tests=0)
    second = write_run(tmp_path / "two" / "run", ilbo.make("navigation-3"), tests=0)
    _, said = report(first, second)
    assert str(first) in said
    assert str(second) in said


def own_problem():
    problem = ilbo.make("navigation-3")
    return ilbo.Problem(
        problem.model, name="my own", initial_state=[2.0, 2.0], horizon=5, region=(0.0, 10.0)
    )


def test_a_model_of_the_users_own_has_curves_and_with_the_problem_trajectories_too(tmp_path):
    run = write_run(tmp_path / "own", own_problem())
    page, said = report(run)
    assert "The problem is a model of your own" in said
    assert page.count("<svg") == 2
    page, said = report(run, problem=own_problem())
    assert "The problem is a model of your own" not in said
    assert page.count("<svg") == 4


def test_hindsight_limit_is_computed_once_a_problem_and_shown(navigation, tmp_path, monkeypatch):
    asked = []

    def hindsight(problem, key, episodes, policies):
        asked.append((problem.name, episodes, len(policies)))
        return SimpleNamespace(mean=limit)

    monkeypatch.setattr(ilbo.baselines, "hindsight", hindsight)
    other = write_run(tmp_path / "other", ilbo.make("navigation-3"), tests=0)
    limit = -0.25
    _, said = report(navigation, other, limit=True)
    assert asked == [("navigation-3", FEW, 1)]
    assert "hindsight limit −0.25 perfect information" in said
    limit = -5_000.0
    _, said = report(navigation, limit=True)
    assert "hindsight limit −5,000 too low: a policy earns more" in said


def test_command_writes_into_the_folder_of_the_run(navigation, capsys):
    assert main(["report", str(navigation), "--episodes", str(FEW)]) == 0
    assert REPORT in capsys.readouterr().out
    assert "Planning report" in (navigation / REPORT).read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Name a run folder"),
        (["nowhere"], "There is no run in the folder 'nowhere'"),
    ],
)
def test_command_says_what_is_wrong(arguments, words, capsys):
    assert main(["report", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_one_clear_sentence(navigation, tmp_path):
    with pytest.raises(UserError, match="Cannot write"):
        write_report([navigation], tmp_path / "missing" / "page.html", episodes=FEW)


@pytest.mark.parametrize(
    ("seconds", "words"), [(12.4, "12 s"), (185, "3 min 5 s"), (7500, "2 h 5 min"), (59.7, "1 min")]
)
def test_durations_read_well(seconds, words):
    assert parts.duration(seconds).startswith(words)


def test_a_picture_keeps_its_colours_for_data_and_takes_the_pages_for_text():
    history = [[Record(0, 5 * i, -math.exp(-i), -math.exp(-i), 0, 0, 0, 0, 0) for i in range(1, 9)]]
    svg = parts.picture(draw_learning_curve(history), "x", "curve", "A curve.")
    assert "var(--ink)" in svg
    assert "var(--blue)" in svg
    assert "#23272e" not in svg
    assert "<text" in svg


@pytest.mark.skipif(find_chromium() is None, reason="there is no Chromium on this machine")
def test_report_looks_right_in_a_browser(navigation, tmp_path):
    other = write_run(tmp_path / "other", ilbo.make("navigation-3"), seeds=(3, 4), key=7)
    out = tmp_path / "page.html"
    write_report([navigation, other], out, episodes=FEW)
    with chromium() as browser:
        for width in (1200, 390):
            for scheme in ("light", "dark"):
                browser.open(out, width, 900, scheme)
                assert browser.complaints() == []
                assert browser.requests() == [out.resolve().as_uri()]
                assert browser.evaluate("document.documentElement.scrollWidth") <= width
                page, ink = browser.evaluate(
                    """[getComputedStyle(document.body).backgroundColor,
                        getComputedStyle(document.querySelector("svg text")).fill]"""
                )
                assert (brightness(page) > brightness(ink)) == (scheme == "light")
                browser.evaluate('document.querySelectorAll("details").forEach(d => d.open = true)')
                pictures = browser.evaluate(
                    """[...document.querySelectorAll("svg")].map(svg => {
                        const box = svg.getBoundingClientRect();
                        const drawn = svg.querySelector("path").getBoundingClientRect();
                        return [svg.checkVisibility(), box.width, box.height, drawn.width];
                    })"""
                )
                assert len(pictures) == 9
                for visible, wide, high, drawn in pictures:
                    assert visible
                    assert wide >= 400
                    assert high >= 200
                    assert drawn > 300


def brightness(color: str) -> float:
    return sum(map(float, re.findall(r"\d+", color)[:3]))


def test_distance_to_the_best_possible_is_a_tile(navigation, monkeypatch):
    def bound_of(problem, policies, returns, key):
        mean = float(returns[0].mean())
        return bounding.Bound(mean, -10.0, 1.0, 5.0, (4.0, 6.0), share, "none", 8, 0.0)

    monkeypatch.setattr("ilbo.report.entry.bound_best", bound_of)
    share = 0.04
    _, said = report(navigation, bound=True)
    assert "best possible ≤ −10.00 ± 1.00 at most 4 % from the best possible" in said
    share = None
    _, said = report(navigation, bound=True)
    assert "best possible ≤ −10.00 ± 1.00 no tight bound known" in said
