"""Takes pictures of `ilbo watch` on three runs that go on: `python docs/figures/watch.py [FOLDER]`.

Writes watch.png, the documentation's, here; with a folder, pictures of the whole page at 1,400 and
390 pixels, light and dark, there as well. Needs Chromium.
"""

import io
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "support"))
from browser import Browser, chromium  # noqa: E402

RUNS = {
    "usual": ["--seeds", "2"],
    "deep": ["--seeds", "2", "--depth", "20"],
    "slow": ["--policy-rate", "3e-4"],
}
COMMON = ["--layers", "64", "64", "--episodes", "20000", "--evaluate-every", "10"]
TESTS = 30
"""Of each run before the pictures are taken."""


def main(extra: Path | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        started = [
            start("plan", "navigation-3", *COMMON, *flags, "--out", str(runs / name))
            for name, flags in RUNS.items()
        ]
        while not all(lines(runs / name) >= TESTS for name in RUNS):
            time.sleep(0.5)
        watch = start("watch", str(runs), "--no-open", stdout=subprocess.PIPE, text=True)
        try:
            address = watch.stdout.readline().split()[2]
            with chromium() as browser:
                take(browser, address, extra)
        finally:
            for process in (watch, *started):
                process.kill()
                process.wait()


def take(browser: Browser, address: str, extra: Path | None) -> None:
    for width in (1400, 390) if extra else ():
        for scheme in ("light", "dark"):
            browser.open(address, width, 900, scheme)
            browser.wait_for("document.querySelector('#picture figure, #beliefs svg') !== null")
            time.sleep(2)
            browser.screenshot(extra / f"watch-{width}-{scheme}.png")
    browser.open(address, 1400, 1310)
    browser.wait_for("document.querySelector('#picture figure') !== null")
    shot = io.BytesIO(browser.picture(whole=False))
    from PIL import Image

    reduced = Image.open(shot).convert("RGB").quantize(256, method=Image.Quantize.FASTOCTREE)
    reduced.save(HERE / "watch.png", optimize=True)


def start(*arguments: str, **options: object) -> subprocess.Popen:
    command = [sys.executable, "-m", "ilbo", *arguments]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, **{**quiet, **options})


def lines(run: Path) -> int:
    metrics = run / "metrics.jsonl"
    return metrics.read_bytes().count(b"\n") if metrics.exists() else 0


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
