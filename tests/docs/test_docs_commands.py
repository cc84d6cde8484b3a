"""Commands, code and links of the README and the documentation are right."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest
import tiny_runs

from ilbo.cli.main import COMMANDS, main, parse
from ilbo.planning.config import ILBO

ROOT = Path(__file__).parents[2]
QUICK = ILBO(layers=(8,), depth=1, window=1)
"""Settings that compile fast."""
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    pattern = rf"^```{language}\n(.*?)^```$"
    return re.findall(pattern, page.read_text(), re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[list[str]]:
    """The command lines of a page that begin with `ilbo`, in words."""
    lines = "".join(blocks(page, "console")).replace("$ ", "").splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.startswith("ilbo ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_shown_are_such_as_the_command_line_takes(page):
    for _, name, *arguments in commands(page):
        parse(name, arguments)


SMALL = {
    "plan": tiny_runs.FLAGS,
    "tune": [*tiny_runs.FLAGS, "--trials", "2", "--fresh-seeds", "1"],
}
"""What makes a command quick; the last of two equal flags counts."""
LONG = ("reproduce", "watch")
"""What serves until it is stopped, or takes hours; both have tests of their own."""
FIRST = [page for page in PAGES if commands(page) and page.name != "commands.md"]
"""Pages with examples; that one is a list of all there is."""


@pytest.mark.slow
@pytest.mark.parametrize("page", FIRST, ids=lambda page: page.name)
def test_first_commands_of_a_page_run_as_pasted(page, tmp_path, monkeypatch, capfd):
    """In the order shown, with what earlier ones wrote, in a folder that holds the examples."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    block = next(block for block in blocks(page, "console") if "$ ilbo " in block)
    for line in block.replace("$ ", "").splitlines():
        _, name, *arguments = shlex.split(line, comments=True) or ["", "pip"]
        if name in COMMANDS and name not in LONG:
            given = [word for word in arguments if word != "--watch"]
            small = SMALL.get(name, []) if "--resume" not in given else []
            assert main([name, *given, *small]) == 0, capfd.readouterr().err


def test_a_page_shows_every_command():
    shown = {words[1] for words in commands(ROOT / "docs" / "commands.md")}
    assert shown == set(COMMANDS) - {"completion"}


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def test_the_first_code_of_the_readme_runs(capsys):
    code = blocks(ROOT / "README.md", "python")[0]
    quick = code.replace("episodes=2048", "episodes=64")
    quick = re.sub(r"episodes=\d00\)", "config=QUICK, episodes=4)", quick)
    assert quick.count("config=QUICK") == 1
    exec(compile(quick, "README.md", "exec"), {"QUICK": QUICK})
    said = capsys.readouterr().out
    assert re.search(r"earns -\d+\.\d, 95 % -\d+\.\d to -\d+\.\d\n", said)
    assert "better than the hand-written" in said


@pytest.mark.slow
def test_the_model_of_the_readme_is_planned_for_as_a_file(tmp_path):
    (tmp_path / "tank.py").write_text(blocks(ROOT / "README.md", "python")[1])
    name, out = f"{tmp_path / 'tank.py'}:tank", str(tmp_path / "run")
    assert main(["plan", name, *tiny_runs.FLAGS, "--out", out]) == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_lead_somewhere(page):
    text = page.read_text()
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) + re.findall(r"```{image} (\S+)", text)
    for link in links:
        if "://" not in link:
            assert (page.parent / link).exists(), link


@pytest.mark.slow
def test_site_builds_without_a_warning(tmp_path):
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html",
         str(ROOT / "docs"), str(tmp_path)],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    page = (tmp_path / "index.html").read_text()
    loaded = re.findall(r'<(?:script|link)[^>]*(?:src|href)="([^"]*)"', page)
    assert loaded
    assert not [address for address in loaded if "//" in address]  # nothing from elsewhere
    assert broken_links(tmp_path) == []


def broken_links(site: Path) -> list[str]:
    """Links inside a site, of all its pages, whose file or place in a page is not there."""
    pages = {path: path.read_text() for path in sorted(site.rglob("*.html"))}
    name = re.compile(r'\b(?:id|name)="([^"]+)"')
    places = {path: set(name.findall(text)) for path, text in pages.items()}
    broken = []
    for path, text in pages.items():
        for link in map(unquote, re.findall(r'\bhref="([^"]*)"', text)):
            if re.match(r"\w+:", link):
                continue
            file, _, place = link.partition("#")
            target = (path.parent / file.split("?")[0]).resolve() if file else path
            if not target.exists() or (place and place not in places.get(target, {place})):
                broken.append(f"{path.relative_to(site)}: {link}")
    return broken


def test_a_broken_link_is_found(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html#here">, <a href="https://x.org">')
    (tmp_path / "b.html").write_text('<p id="here"><a href="a.html#there"> <a href="c.html">')
    assert broken_links(tmp_path) == ["b.html: a.html#there", "b.html: c.html"]
