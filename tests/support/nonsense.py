"""Random nonsense: command lines, and damage to settings, run folders and binary files."""

import json

from ilbo.cli.main import COMMANDS
from ilbo.runs.settings import FIELDS
from ilbo.storage import arrays

WORDS = [
    "navigation-3", "hvac-3", "reservoir(3, 0)", "reservoir(0, 0)", "nothing", "rddl:nothing/1",
    "no.rddl", "", " ", "-", "--", "-1", "0", "3", "1e3", "nan", "inf", "x" * 300, "ü\u2028",
    "10000000000000000000000000000000", "../..", "/proc/self/mem", "/dev/null", "random",
    "heuristic", "pathwise", "score", "None", "True", "{", "[1]", "'", "policy.ilbo", ".",
]  # fmt: skip
FLAGS = [
    "--json", "--episodes", "--seed", "--seeds", "--start", "--config", "--resume", "--policy",
    "--overwrite", "--best", "--problem", "--instance", "--onnx", "--preset", "--help", "--nothing",
    "--arg", "--trust", "--bound", "--space", "--trials", "--fresh-seeds", "--port", "--log",
    "--warm-start",
]  # fmt: skip
HEAVY = {"report", "check", "reproduce", "inspect", "completion"}
"""Commands that others test."""


def leave_out_work(replace):
    """Has commands end where training, trials and serving would begin.

    `replace(object, name, value)` sets an attribute, as `monkeypatch.setattr` does.
    """
    from ilbo.cli import plan
    from ilbo.tune.places import Here
    from ilbo.watch.server import Server

    replace(plan.Command, "_train", lambda *_: 0)
    replace(Here, "run", lambda *_: None)
    replace(Server, "serve_forever", lambda *_: None)


def command_line(draw):
    """A command with a few arguments that may well make no sense."""
    names = sorted(set(COMMANDS) - HEAVY)
    name = draw.choice(names) if draw.random() < 0.95 else draw.choice(WORDS)
    flags = FLAGS + [f"--{flag.replace('_', '-')}" for flag in FIELDS] * (name == "plan")
    rest = [draw.choice(WORDS if draw.random() < 0.6 else flags) for _ in range(draw.randrange(7))]
    return [name, *rest]


VALUES = [
    None, True, 0, -1, 3, 10**18, 10**400, 0.5, 1e300, float("nan"), "", "x", "$\\badcmd$", "a[/b]",
    "\x1b[2J", "\udce4", [], {}, [[]], [None, "x"], {"a": {}}, "rddl", "built-in", "python",
]  # fmt: skip
TOML = [
    "0", "-1", "100000000", "9" * 5000, "1e999", "nan", "true", "[]", "[0]", "[1.5]", '"x"', "{}",
    "[" * 3000, "1979-05-27", '"\\u001b[2J"', "[9999999999]", "=", "",
]  # fmt: skip


def alter(draw, value):
    """The value with one place of it, however deep, altered, removed or added to."""
    inside = isinstance(value, dict | list) and value and draw.random() < 0.85
    if not inside:
        return draw.choice(VALUES)
    at = draw.choice(list(value) if isinstance(value, dict) else range(len(value)))
    value = value.copy()
    if draw.random() < 0.15:
        del value[at]
    else:
        value[at] = alter(draw, value[at])
    return value


def alter_file(draw, path):
    """Alters a value of a JSON or TOML file, or of a line of JSON; now and then cuts it short."""
    text = path.read_text()
    if path.suffix == ".json":
        text = json.dumps(alter(draw, json.loads(text)))
    else:
        lines = text.splitlines()
        at = draw.choice([i for i, line in enumerate(lines) if line and line[0] != "#"])
        if path.suffix == ".toml":
            lines[at] = f"{lines[at].split(' = ')[0]} = {draw.choice(TOML)}"
        else:
            lines[at] = json.dumps(alter(draw, json.loads(lines[at])))
        text = "\n".join(lines) + "\n"
    if draw.random() < 0.05:
        text = text[: draw.randrange(len(text))]
    path.write_text(text)


def injure(data, draw):
    """One random injury: flipped, cut, inserted, removed or replaced bytes."""
    at, size = draw.randrange(len(data)), draw.randrange(1, 9)
    kind = draw.randrange(5)
    if kind == 0:
        return data[:at] + bytes([data[at] ^ (1 << draw.randrange(8))]) + data[at + 1 :]
    if kind == 1:
        return data[:at]
    if kind == 2:
        return data[:at] + draw.randbytes(size) + data[at:]
    if kind == 3:
        return data[:at] + data[at + size :]
    return data[:at] + draw.randbytes(size) + data[at + size :]


def injure_header(value, draw):
    """The header of a policy with one value, somewhere in it, replaced by nonsense."""
    nonsense = [None, -1, 0, 10**30, 1e308, "x", "", [], {}, True, [[]], {"a": []}, "../../x"]
    if isinstance(value, dict) and value and draw.random() < 0.8:
        key = draw.choice(sorted(value))
        return {**value, key: injure_header(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.7:
        at = draw.randrange(len(value))
        return [*value[:at], injure_header(value[at], draw), *value[at + 1 :]]
    return draw.choice(nonsense)


def header_and_payload(path):
    """The header of a file of arrays and the bytes after it."""
    data = path.read_bytes()
    start = len(arrays.MAGIC) + 8
    end = start + int.from_bytes(data[len(arrays.MAGIC) : start], "little")
    return json.loads(data[start:end]), data[end:]


def sign(path, header, payload):
    """Writes a file of arrays whose checksum fits, whatever it says."""
    header = {k: v for k, v in header.items() if k != "sha256"}
    header["sha256"] = arrays._digest(header, [memoryview(payload)])
    encoded = json.dumps(header).encode()
    path.write_bytes(arrays.MAGIC + len(encoded).to_bytes(8, "little") + encoded + payload)
