"""`ilbo doctor`: what a bug report needs."""

import json

import ilbo
from ilbo.cli import doctor
from ilbo.cli import main as cli


def test_tells_versions_devices_cache_and_extras(capsys):
    assert cli.main(["doctor"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"ilbo {ilbo.__version__}")
    for part in ("python ", "devices ", "cache ", "  jax ", "extras", "  rddl "):
        assert part in told
    assert cli.main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["packages"]["jax"]
    assert "pyrddlgym" in {name.lower() for name in found["extras"]["rddl"]}
    assert not set(doctor.BUNDLES) & set(found["extras"])


def test_says_what_is_missing_and_how_to_add_it(monkeypatch):
    monkeypatch.setattr(doctor, "requirements", lambda: (["jax"], {"moon": ["no-such-package"]}))
    (line,) = (line for line in doctor._lines(doctor.examine()) if "moon" in line)
    assert "no-such-package is missing" in line
    assert "pip install 'ilbo[moon]'" in line
