"""A headless Chromium over its debugging pipe: opens a page, looks at it, reports its errors."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE = 120
"""Seconds after which a browser that does not answer is given up."""


def find_chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


class Browser:
    """One page of a headless Chromium."""

    def __init__(self, commands: int, answers: int):
        self.commands, self.answers = commands, answers
        self.count = 0
        self.rest = b""
        self.events: list[dict[str, Any]] = []
        self.session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self.count:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _read(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.answers], [], [], deadline - time.monotonic())
            chunk = os.read(self.answers, 1 << 20) if ready else b""
            if not chunk:
                raise TimeoutError("Chromium does not answer.")
            self.rest += chunk
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def open(self, path: Path | str, width: int, height: int, scheme: str = "light") -> None:
        """Opens a file or an address at a width in pixels, in a light or dark colour scheme."""
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=media)
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        self.events.clear()
        url = path if isinstance(path, str) else path.resolve().as_uri()
        self.call("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._read())

    def wait_for(self, expression: str) -> Any:
        """The value of a JavaScript expression, once it is true."""
        deadline = time.monotonic() + PATIENCE
        while not (value := self.evaluate(expression)):
            assert time.monotonic() < deadline, f"Still false: {expression}"
            time.sleep(0.1)
        return value

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def complaints(self) -> list[Any]:
        """Errors and warnings since the page was opened: console, exceptions, failed requests."""
        self.evaluate("0")  # what was said before has arrived by now
        bad = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [event["params"] for event in self.events if event.get("method") in bad]

    def requests(self) -> list[str]:
        """Addresses that the page asked for, data in the page itself aside."""
        sent = [e["params"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        urls = [event["request"]["url"] for event in sent]
        return [url for url in urls if not url.startswith("data:")]

    def picture(self, whole: bool = True) -> bytes:
        """PNG of the whole page, or of what is in sight."""
        taken = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        return base64.b64decode(taken["data"])

    def screenshot(self, path: Path, whole: bool = True) -> None:
        path.write_bytes(self.picture(whole))


LAUNCHER = """
import os, sys
commands, answers, *line = sys.argv[1:]
os.dup2(int(commands), 3)
os.dup2(int(answers), 4)
os.execv(line[0], line)
"""
"""Starts Chromium with commands on descriptor 3 and answers on 4, where it looks for them."""


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A browser that ends with the block."""
    to_browser, commands = os.pipe()
    answers, from_browser = os.pipe()
    pipes = (high(to_browser), high(from_browser))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        line = [str(find_chromium()), *FLAGS, f"--user-data-dir={profile}"]
        process = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, *map(str, pipes), *line],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=pipes,
        )
        for pipe in pipes:
            os.close(pipe)
        try:
            yield Browser(commands, answers)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(commands)
            os.close(answers)


def high(descriptor: int) -> int:
    """The same pipe under a number above 9, out of the way of 3 and 4."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved
